"""What a search draws for vLLM beside its servers."""

from __future__ import annotations

import pytest

from cachesim.engines.vllm.manual import MANUAL, draw_chunks, draw_drafts
from cachesim.model.hash_mixing import Rng

SEEDS = range(40)


def drawn(draw):
    return {str(draw(Rng(seed))) for seed in SEEDS}


@pytest.mark.parametrize(("server", "fields"), [
    ({}, [{}]), ({"num_speculative_tokens": 0}, [{}]),
    ({"num_speculative_tokens": 2}, [{"draft_else": right} for right in range(3)]),
])  # fmt: skip
def test_a_request_accepts_up_to_all_drafts(server, fields):
    assert drawn(lambda rng: MANUAL.draw_fields(rng, server)) == {str(one) for one in fields}


@pytest.mark.parametrize(("step", "most"), [(2, 1), (3, 2), (4, 3), (16, 3)])
def test_a_draft_is_shorter_than_a_block(step, most):
    found = [draw_drafts(Rng(seed), step) for seed in SEEDS]
    assert {one["num_speculative_tokens"] for one in found} == {*range(1, most + 1)}
    assert {one["speculative_method"] for one in found if one["multi_module_mtp"]} == {"mtp"}
    plain = [one for one in found if one["speculative_method"] in ("ngram", "draft_model")]
    assert plain and not any(one["disable_lookahead_block_hashes"] or one["disable_eagle_block_drop"] for one in plain)
    assert not any(one["disable_eagle_block_drop"] and one["multi_module_mtp"] for one in found)


def test_the_interval_of_kept_blocks_fits_the_chunks():
    found = [draw_chunks(Rng(seed), {"prefix_cache_retention_interval": -1}, 8) for seed in SEEDS]
    assert {one["prefix_cache_retention_interval"] // 8 for one in found
            if one["prefix_cache_retention_interval"]} == {1, 2, 3}
    assert all(one["prefix_cache_retention_interval"] in (0, 8 * one["blocks_per_chunk"]) for one in found)
    assert not any("prefix_cache_retention_interval" in draw_chunks(Rng(seed), {}, 8) for seed in SEEDS)


def test_images_are_sent_to_models_that_take_them():
    assert MANUAL.image_sizes({}) == () and MANUAL.image_sizes({"multimodal": True}) == ("2x2", "4x2", "1x6", "4x4")
