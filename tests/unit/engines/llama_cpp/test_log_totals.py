"""Conclusions from lines of the prompt cache, and verdicts on single lines."""

from __future__ import annotations

import pytest

from cachesim.engines.llama_cpp import log_verdicts as verdicts
from cachesim.engines.llama_cpp.log_totals import totals
from cachesim.engines.shared.log_totals import LoggedNumbers, LogTotal


def load(line, f_keep):
    return LoggedNumbers(line, "pc_load", {"f_keep": f_keep})


def state(line, prompts):
    return LoggedNumbers(line, "pc_state", {"prompts": prompts})


OF, ENTRY = "of the prompt cache", "an entry of the prompt cache"
REST = ": the rest is lost for the conversation that stored it"
RELEASED = f" of the tokens (released builds then remove it){REST}"


def total(lines, entries, f_keep, says):
    numbers = {"entries_loaded_in_part": entries, "f_keep": f_keep, "rule": "LC-PC-LOAD.TAKE"}
    return LogTotal(lines, numbers, says)


@pytest.mark.parametrize(("lines", "expected"), [
    ([load(4, 0.25)], total((4,), 1, [0.25, 0.25], f"{ENTRY} was loaded for 25.0 %{RELEASED}")),
    ([load(4, 0.5), load(6, 0.25)],
     total((4, 6), 2, [0.25, 0.5], f"2 entries {OF} were loaded for 25.0 % to 50.0 %{RELEASED}")),
    ([state(3, 0), load(4, 0.5), state(5, 0), state(6, 0)],
     total((4, 5), 1, [0.5, 0.5], f"{ENTRY} was loaded for 50.0 % of the tokens and removed{REST}")),
    ([state(3, 0), load(4, 0.5), state(5, 1)], total((4,), 1, [0.5, 0.5], f"{ENTRY} was loaded for 50.0 %{RELEASED}")),
])  # fmt: skip
def test_entries_that_were_loaded_in_part_are_lost(lines, expected):
    assert [*totals(lines)] == [expected]


@pytest.mark.parametrize("lines", [
    [], [load(4, 1.0)], [load(4, 1)], [load(4, 0.0)], [load(4, None)], [load(4, "x")],
    [load(4, 0.5), LoggedNumbers(5, "pc_load_failed", {})],
])  # fmt: skip
def test_nothing_is_lost_by_whole_or_failed_loads(lines):
    assert [*totals(lines)] == []


def test_evicted_entries_are_counted():
    one, two = LoggedNumbers(3, "pc_evict", {}), LoggedNumbers(9, "pc_evict_tokens", {})
    left = "left the prompt cache to keep its limit (-cram)"
    assert [*totals([one])] == [LogTotal((3,), {"entries_evicted": 1}, f"1 entry {left}")]
    assert [*totals([one, two])] == [LogTotal((3, 9), {"entries_evicted": 2}, f"2 entries {left}")]
    assert len([*totals([load(1, 0.5), one])]) == 2


BELOW, NOT_BELOW = "pos_min = 3 is below the threshold 5", "pos_min = 5 is not below the threshold 5"


@pytest.mark.parametrize(("numbers", "text"), [
    ({"pos_min": 3, "pos_max": 5, "thold": 5}, f"{BELOW}: can be restored"),
    ({"pos_min": 3, "pos_max": 6, "thold": 5},
     f"{BELOW}: can be restored before b9593; later builds also need pos_max = 6 <= pos_next"),
    ({"pos_min": 5, "pos_max": 9, "thold": 5}, f"{NOT_BELOW}: cannot be restored"),
    ({"pos_min": 0, "pos_max": 9, "thold": 0},
     "pos_min = 0 is not below the threshold 0, but position 0 is accepted since b8693"),
    ({"pos_min": 3, "thold": 5}, ""), ({}, ""),
])  # fmt: skip
def test_a_checkpoint_is_compared_with_the_threshold(numbers, text):
    assert verdicts.checkpoint_check(numbers) == text


@pytest.mark.parametrize(("verdict", "numbers", "text"), [
    (verdicts.refused_trim, {"p0": 1234}, "up to 1,234 tokens of a common prefix are evaluated again"),
    (verdicts.refused_trim, {}, ""),
    (verdicts.too_long, {"n_tokens": 5000, "n_ctx": 4096}, "5,000 tokens do not fit into 4,096"),
    (verdicts.too_long, {"n_tokens": 5000}, ""),
    (verdicts.drafted, {"accepted": 1, "drafted": 4}, "25 % of the draft accepted"),
    (verdicts.drafted, {"accepted": 0, "drafted": 1}, "0 % of the draft accepted"),
    (verdicts.drafted, {"accepted": 0, "drafted": 0}, ""), (verdicts.drafted, {"accepted": 0}, ""),
])  # fmt: skip
def test_the_numbers_of_a_line_amount_to_a_sentence(verdict, numbers, text):
    assert verdict(numbers) == text


def test_a_state_on_the_line_of_the_load_is_not_after_it():
    [found] = totals([state(4, 0), load(4, 0.5)])
    assert found.lines == (4,) and "(released builds then remove it)" in found.says


def test_a_state_between_two_loads_shows_nothing_of_the_last():
    [found] = totals([load(4, 0.5), state(5, 0), load(6, 0.25)])
    assert found.lines == (4, 6) and "(released builds then remove it)" in found.says
