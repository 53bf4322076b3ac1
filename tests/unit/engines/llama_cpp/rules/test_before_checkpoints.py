"""Rules of builds before b6160: cuts of a long prompt, lists of tokens, shifts and moved blocks, slots, ends."""

from __future__ import annotations

import pytest

from cachesim.engines.llama_cpp.memory.ubatch import BatchSplit
from cachesim.engines.llama_cpp.rules import before_checkpoints as rules
from cachesim.engines.llama_cpp.rules.before_checkpoints import PromptCut
from cachesim.engines.llama_cpp.rules.checkpoint_facts import PromptInputs
from cachesim.engines.llama_cpp.rules.context_shift import MovedBlock, Shift
from cachesim.engines.llama_cpp.rules.slot_selection import SlotFacts

TOO_LONG = "the request exceeds the available context size. try increasing the context size or enable context shift"


@pytest.mark.parametrize(("n_tokens", "n_keep", "shift", "cut"), [
    (63, 0, True, None), (63, 0, False, None), (64, 0, False, TOO_LONG),
    (64, 0, True, PromptCut(0, 32)), (95, 0, True, PromptCut(0, 32)), (96, 0, True, PromptCut(0, 64)),
    (100, 4, True, PromptCut(4, 60)), (100, -1, True, PromptCut(60, 38)), (100, 90, True, PromptCut(60, 38)),
    (100, 60, True, PromptCut(60, 38)),
])  # fmt: skip
def test_a_long_prompt_loses_blocks_of_half_the_rest_of_the_context(n_tokens, n_keep, shift, cut):
    """Kept 4 of 64: blocks of 30 tokens; 100 - 4 - 30 = 66 are two blocks and 6 more tokens."""
    assert rules.cut_long(n_tokens, 64, n_keep, shift).value == cut


@pytest.mark.parametrize(("cache_prompt", "before", "asserts", "zeros"), [
    (True, 0, None, None), (True, 9, None, None), (False, 0, 0, 0), (False, 9, -1, 9),
])  # fmt: skip
def test_the_list_of_a_slot_without_prompt_cache(cache_prompt, before, asserts, zeros):
    assert rules.list_asserts(cache_prompt, before).value == asserts
    assert rules.list_zeros(cache_prompt, before).value == zeros


def test_a_failed_batch_keeps_the_lists_and_there_are_no_checkpoints():
    assert (rules.failure_keeps(2).value, rules.never_on(8, True, 8).value) == (False, False)
    assert [rules.shift_busy(generating).value for generating in (True, False)] == [True, True]


@pytest.mark.parametrize(("n_past", "pos_min", "held", "need"), [
    (20, 13, 30, (12, True)), (20, 12, 30, (12, False)), (20, 13, 20, (12, False)), (4, 0, 30, (-4, True)),
    (0, 0, 30, (-8, False)), (1, 0, 2, (-7, True)),
])  # fmt: skip
def test_a_threshold_below_zero_holds_for_every_short_conversation(n_past, pos_min, held, need):
    assert tuple(rules.need_below_zero(PromptInputs(n_past, n_past, held, 40, pos_min, 8, False)).value) == need


@pytest.mark.parametrize(("held", "n_prompt", "n_keep", "n_discard", "positive", "unchecked"), [
    (62, 20, 0, 0, None, None), (63, 20, 0, 0, Shift(0, 63, 31), Shift(0, 63, 31)),
    (63, 20, -1, 0, Shift(20, 43, 21), Shift(20, 43, 21)), (63, 20, 61, 0, Shift(60, 3, 1), Shift(60, 3, 1)),
    (63, 20, 3, 99, Shift(3, 60, 99), Shift(3, 60, 99)), (63, 20, 3, -7, Shift(3, 60, 30), Shift(3, 60, -7)),
    (63, 20, 3, 1, Shift(3, 60, 1), Shift(3, 60, 1)),
])  # fmt: skip
def test_a_request_may_discard_any_number_of_tokens(held, n_prompt, n_keep, n_discard, positive, unchecked):
    assert rules.shift_up_to_any(held, n_prompt, n_keep, n_discard, 64).value == positive
    assert rules.shift_unchecked(held, n_prompt, n_keep, n_discard, 64).value == unchecked


HELD = (1, 2, 9, 3, 4, 5, 9, 9, 6, 7, 8)


@pytest.mark.parametrize(("asked", "least", "moved"), [
    ((1, 2, 3, 4, 5, 6, 7, 8), 3, (MovedBlock(3, 3, 2, True), MovedBlock(3, 8, 5, True))),
    ((1, 2, 3, 4, 5, 6, 7, 8), 4, ()), ((1, 2, 3, 4), 2, (MovedBlock(2, 3, 2, True),)), ((1, 2), 1, ()),
    ((1, 2, 3, 4, 5, 0), 3, (MovedBlock(3, 3, 2, True),)), ((1, 2, 0, 3, 4, 5), 3, ()),
    ((1, 2, 6, 7, 8, 9), 3, (MovedBlock(3, 8, 2, True),)),
])  # fmt: skip
def test_blocks_move_with_all_tokens_after_them(asked, least, moved):
    found = rules.reuse_open(HELD, asked, 2, least)
    assert (found.value, found.because) == (moved, {"n_past": 2, "least": least, "found": len(moved)})
    assert rules.reuse_none(HELD, asked, 2, least).value == ()


def test_a_moved_block_overwrites_the_list_in_which_the_next_one_is_searched():
    """The block of 3 and 4 is moved to the place of the 9. Its old place still has them: from there on is searched."""
    assert rules.reuse_open((1, 9, 3, 4, 3, 5), (1, 3, 4, 3, 5), 1, 2).value == (MovedBlock(4, 2, 1, True),)
    assert rules.reuse_open((9, 1, 2, 3, 1, 2), (1, 2, 1, 2), 0, 2).value == (
        MovedBlock(2, 1, 0, True), MovedBlock(2, 4, 2, True))  # fmt: skip


def test_slots_were_compared_by_their_longest_common_stretch():
    assert rules.like_by_substring([1, 2, 3, 4, 5], [9, 3, 4, 5, 1, 2]).value == 3
    assert rules.like_by_substring([1, 2], [3]).value == 0


def slot(number, t_last=0, busy=False, held=4, lcp=0):
    return SlotFacts(number, busy, held, lcp, t_last)


@pytest.mark.parametrize(("slots", "id_slot", "chosen"), [
    ([slot(0, 3), slot(1, 2), slot(2, 2)], -1, (1, "lru", 0.0, 0.0, False)),
    ([slot(0, 3), slot(1, 2)], 0, (0, "name", 0.0, 0.0, False)),
    ([slot(0, 3, True), slot(1, 4)], 0, (1, "lru", 0.0, 0.0, False)),
    ([slot(0, 3), slot(1, 4)], 7, (0, "lru", 0.0, 0.0, False)),
    ([slot(0, 3, True), slot(1, 4, True)], -1, None),
])  # fmt: skip
def test_the_first_servers_take_the_named_slot_or_that_which_was_released_first(slots, id_slot, chosen):
    found = rules.slot_select_named(slots, 20, id_slot, 0.5).value
    assert (None if found is None else tuple(found)) == chosen


def test_a_model_without_attention_loses_a_batch():
    assert rules.split_lost(0, True, True).value == BatchSplit(False, False, 0, False)
    assert rules.split_lost(0, False, True).value == BatchSplit(False, False, 0, True)


@pytest.mark.parametrize(("n_gen", "n_predict", "n_slot", "shift", "said", "eog", "late", "untold"), [
    (1, 5, 20, False, "", False, "", ""), (5, 5, 20, False, "", False, "limit", "limit"),
    (4, 5, 20, False, "", False, "", ""), (1, 0, 20, False, "", False, "limit", "limit"),
    (9, -1, 20, False, "", False, "", ""), (0, 0, 20, False, "", False, "", ""),
    (1, 5, 63, False, "", False, "", "limit"),
    (1, 5, 62, False, "", False, "", ""), (1, 5, 63, True, "", False, "", ""),
    (1, 5, 20, False, "a stop", False, "word", "word"), (1, 5, 63, False, "a stop", False, "word", "limit"),
    (5, 5, 20, False, "a stop", True, "eos", "eos"),
])  # fmt: skip
def test_an_older_end_of_generation(n_gen, n_predict, n_slot, shift, said, eog, late, untold):
    """No build of these says that an answer is truncated."""
    args = n_gen, n_predict, n_slot, 64, shift, said, ("stop",), eog
    assert rules.end_late(*args).value == (late, False)
    assert rules.end_untold(*args).value == (untold, False)
    for end in (rules.end_late, rules.end_untold):
        assert end(*args).because.get("word") == ("stop" if said else None)
