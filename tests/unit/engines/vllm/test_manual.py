"""What a search draws for vLLM beside its servers."""

from __future__ import annotations

import pytest

from cachesim.engines.capabilities import DrawnServer
from cachesim.engines.vllm.manual import MANUAL, draw, draw_chunks, draw_drafts
from cachesim.model.hash_mixing import Rng
from tests.unit.engines.fixed_draws import FixedDraws

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


FIRST = {
    "block_size": 16, "num_gpu_blocks": 63, "max_num_batched_tokens": 2048, "max_num_seqs": 128,
    "scheduling_policy": "fcfs", "watermark": 0.0, "scheduler_reserve_full_isl": False,
}  # fmt: skip
LAST = {
    "block_size": 2, "num_gpu_blocks": 707, "max_num_batched_tokens": 2, "max_num_seqs": 1,
    "scheduling_policy": "priority", "watermark": 0.1, "scheduler_reserve_full_isl": True,
    "long_prefill_token_threshold": 5, "async_scheduling": False,
}  # fmt: skip
CHUNKS = {"num_cpu_chunks": 2, "blocks_per_chunk": 3, "eviction_policy": "arc", "store_threshold": 2,
          "offload_prompt_only": True}  # fmt: skip
DRAFTS = {"speculative_method": "mtp", "num_speculative_tokens": 1, "multi_module_mtp": True,
          "disable_lookahead_block_hashes": True, "disable_eagle_block_drop": False}  # fmt: skip
INTERVAL = "prefix_cache_retention_interval"
GRID = "mamba_prefill_checkpoint_alignment"


@pytest.mark.parametrize(("model", "more"), [
    ("A", {}), ("K8 A", {}), ("W8 A", {INTERVAL: 0}), ("GA", {INTERVAL: 0, GRID: 0}),
    ("S", {INTERVAL: 0, GRID: 0, "enable_prefix_caching": True}),
])  # fmt: skip
def test_a_server_without_chances_has_the_first_value_of_each_option(model, more):
    assert draw(FixedDraws(101), model) == DrawnServer("vllm", model, {**FIRST, **more}, (1, 15, 16, 17, 32), 400)


@pytest.mark.parametrize(("model", "more"), [
    ("A", DRAFTS), ("K8 A", {}), ("W8 A", {**DRAFTS, INTERVAL: 6}),
    ("GA", {**DRAFTS, "num_speculative_tokens": 3, INTERVAL: 24, GRID: 2, "mamba_block_size": 8}),
    ("S", {**DRAFTS, INTERVAL: 6, GRID: 2, "enable_prefix_caching": True}),
])  # fmt: skip
def test_a_server_with_every_chance_has_the_last_value_of_each_option(model, more):
    drawn = {**LAST, **CHUNKS, **more}
    assert draw(FixedDraws(0, 9), model) == DrawnServer("vllm", model, drawn, (1, 1, 2, 3, 4), 96)


def test_the_chances_and_values_that_a_server_is_drawn_from():
    rng = FixedDraws(0, 9)
    draw(rng, "GA")
    assert rng.asked == [70, 20, 40, 30, 30, 50, 30, 30, 50]
    assert rng.offered == [
        (16, 16, 8, 4, 4, 2), (2, 2, 3, 8), (2048, 2048, 64, 8, 2), (128, 128, 2, 1), ("fcfs", "fcfs", "priority"),
        (0.0, 0.0, 0.1), (2, 5), (2, 2, 4), (0, 0, 1, 2), (0, 0, -1, 16),
        ("ngram", "draft_model", "eagle", "eagle3", "mtp"), (1, 2, 3), (1, 1, 2, 3), (64, 16, 6, 2), ("lru", "arc"),
        (0, 0, 2), (0, 24)]
    for place, chances in ((0, []), (1, []), (2, [30, 20]), (3, [30, 20]), (4, [50, 30])):
        rng = FixedDraws(0, place)
        draw_drafts(rng, 8)
        assert rng.asked == chances, "a drafter of EAGLE's kind alone may drop blocks"


def test_images_are_sent_to_models_that_take_them():
    assert MANUAL.image_sizes({}) == () and MANUAL.image_sizes({"multimodal": True}) == ("2x2", "4x2", "1x6", "4x4")
