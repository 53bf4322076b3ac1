"""Context shift and reuse of moved blocks: whole results at the borders."""

from __future__ import annotations

import pytest

from cachesim.engines.llama_cpp.rules import context_shift as rules
from cachesim.engines.llama_cpp.rules.context_shift import MovedBlock, Shift


@pytest.mark.parametrize(("held", "n_prompt", "n_keep", "n_discard", "shift"), [
    (62, 20, 0, 0, None), (63, 20, 0, 0, Shift(0, 63, 31)), (64, 20, 4, 0, Shift(4, 60, 30)),
    (63, 20, -1, 0, Shift(20, 43, 21)), (63, 90, -1, 0, Shift(60, 3, 1)), (63, 20, 61, 0, Shift(60, 3, 1)),
    (63, 20, 3, 7, Shift(3, 60, 7)), (63, 20, 3, 1, Shift(3, 60, 1)), (63, 20, 3, -7, Shift(3, 60, 0)),
    (63, 20, 3, 59, Shift(3, 60, 59)), (63, 20, 3, 60, Shift(3, 60, 59)), (60, 20, 60, 0, None),
])  # fmt: skip
def test_a_full_context_discards_half_of_the_rest_or_what_is_asked_for(held, n_prompt, n_keep, n_discard, shift):
    assert rules.context_shift(held, n_prompt, n_keep, n_discard, 64).value == shift


def test_a_context_of_the_kept_tokens_discards_nothing():
    assert rules.context_shift(60, 60, -1, 5, 61).value == Shift(57, 3, 2)
    assert rules.context_shift(4, 9, -1, 0, 5).value == Shift(1, 3, 1)
    assert rules.context_shift(3, 9, -1, 0, 4).value == Shift(0, 3, 1)


def test_a_shared_prompt_is_not_shifted():
    assert [rules.shift_of_shared(shared).value for shared in (True, False)] == [
        "context shift cannot be used for shared prompt", ""]  # fmt: skip
    assert [rules.shift_generating(one).value for one in (True, False)] == [True, False]
    assert (rules.refusal_ends(3, -1).value, rules.refusal_ignored(3, -1).value) == (True, False)


HELD = (1, 2, 9, 3, 4, 5, 9, 9, 6, 7, 8)


@pytest.mark.parametrize(("asked", "n_past", "least", "moved"), [
    ((1, 2, 3, 4, 5, 6, 7, 8), 2, 3, (MovedBlock(3, 3, 2), MovedBlock(3, 8, 5))),
    ((1, 2, 3, 4, 5, 6, 7, 8), 2, 4, ()), ((1, 2, 3, 4), 2, 2, (MovedBlock(2, 3, 2),)),
    ((1, 2, 3, 4), 2, 3, ()), ((1, 2), 2, 1, ()), ((1, 2, 0, 3, 4, 5), 2, 3, ()),
    ((9, 9), 0, 1, (MovedBlock(1, 2, 0), MovedBlock(1, 6, 1))), ((9, 9), 0, 2, (MovedBlock(2, 6, 0),)),
    ((8,), 0, 1, (MovedBlock(1, 10, 0),)), ((), 0, 1, ()), ((1, 2, 6, 7, 8, 9), 2, 3, (MovedBlock(3, 8, 2),)),
])  # fmt: skip
def test_blocks_follow_each_other_in_the_prompt(asked, n_past, least, moved):
    found = rules.reuse_chunks(HELD, asked, n_past, least)
    assert (found.value, found.because) == (moved, {"n_past": n_past, "least": least, "found": len(moved)})
