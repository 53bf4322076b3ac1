"""What a search draws for mlx-lm: servers, request fields, lengths of a system text."""

from __future__ import annotations

import pytest

from cachesim.engines.capabilities import DrawnServer
from cachesim.engines.mlx_lm.manual import MANUAL, draw, draw_fields, draw_system
from tests.unit.engines.fixed_draws import FixedDraws


def server(**more):
    return {"prefill_step_size": 2048, "template": "plain", "thinking": False, **more}


THINKS = {"thinking": True, "prompt_cache_size": 1}
DRAFTS = {"draft_model": "A", "num_draft_tokens": 1}
PAIRS = {"prompt_concurrency": 1, "decode_concurrency": 1}


@pytest.mark.parametrize(("model", "least", "drawn"), [
    ("AA", 41, server()), ("AA", 40, server(**THINKS, **DRAFTS)), ("GA", 40, server(**THINKS)),
    ("AA", 30, server(**THINKS, **PAIRS, **DRAFTS)),
    ("GA", 20, server(**THINKS, prompt_cache_bytes=20_000, **PAIRS, snapshot_interval=8)),
    ("GA", 5, server(**THINKS, prompt_cache_bytes=20_000, **PAIRS, snapshot_interval=8)),
    ("GA", 4, server(**THINKS, prompt_cache_bytes=20_000, **PAIRS, **DRAFTS, snapshot_interval=8)),
])  # fmt: skip
def test_an_option_is_drawn_with_its_chance(model, least, drawn):
    rng = FixedDraws(least)
    assert draw(rng, model) == DrawnServer("mlx_lm", model, drawn, (1, 2, 3, 8, 11, 2048), 400)
    assert rng.asked == [40, 40, 20, 30, 40 if model == "AA" else 4, 20] and MANUAL.draw is draw


def test_the_last_of_all_values():
    drawn = {"prefill_step_size": 1, "template": "terse", "thinking": False}
    assert draw(FixedDraws(41, 9), "A") == DrawnServer("mlx_lm", "A", drawn, (1, 2, 3, 8, 11, 1), 48)
    drawn |= {"thinking": True, "prompt_cache_size": 4, "prompt_cache_bytes": 200_000, "prompt_concurrency": 2,
              "decode_concurrency": 4, "draft_model": "A", "num_draft_tokens": 3, "snapshot_interval": 32}
    assert draw(FixedDraws(0, 9), "A") == DrawnServer("mlx_lm", "A", drawn, (1, 2, 3, 8, 11, 1), 48)


def test_the_values_that_an_option_is_drawn_from():
    rng = FixedDraws(0)
    draw(rng, "A")
    assert rng.offered == [
        (2048, 2048, 64, 8, 7, 4, 3, 2, 2, 1), ("plain", "reasoning", "terse", "terse"), (1, 2, 4), (20_000, 200_000),
        (1, 2), (1, 2, 4), (1, 2, 3), (8, 32)]


@pytest.mark.parametrize(("least", "given", "fields"), [
    (6, {}, {"seed": True}), (7, {}, {}), (7, {"draft_model": "A", "num_draft_tokens": 3}, {"draft_else": 3}),
    (6, {"draft_model": "A", "num_draft_tokens": 1}, {"seed": True, "draft_else": 1}),
])  # fmt: skip
def test_fields_of_a_request(least, given, fields):
    assert draw_fields(FixedDraws(least), given) == fields


@pytest.mark.parametrize(("step", "template", "least", "place", "n"), [
    (8, "plain", 50, 0, 1 + 8 * 2 - 8), (8, "plain", 50, 1, 1 + 8 * 6 - 8), (8, "plain", 51, 0, 1),
    (9, "plain", 0, 0, 1),
    (9, "plain", 0, 1, 12), (9, "plain", 0, 9, 40), (2, "terse", 50, 0, 1 + 2 * 2 - 3),
    (4, "terse", 50, 1, 1 + 4 * 5 - 3),
    (3, "plain", 50, 0, 1 + 3 * 3 - 8),
])  # fmt: skip
def test_a_system_text_often_exceeds_a_multiple_of_the_step_by_a_token(step, template, least, place, n):
    assert draw_system(FixedDraws(least, place), {"prefill_step_size": step, "template": template}) == n


def test_a_template_thinks_unless_it_is_plain():
    assert [MANUAL.chats.thinks({"template": name}) for name in ("plain", "terse")] == [False, True]
