"""Proposed rules: each differs from the rule of b11549 in one case, and agrees with it in the others."""

from __future__ import annotations

import pytest

from cachesim.engines.llama_cpp.rules import repaired
from cachesim.engines.llama_cpp.rules.checkpoint_create import break_cr10
from cachesim.engines.llama_cpp.rules.checkpoint_facts import Chunk, Ckpt, PromptInputs, ResumePlace
from cachesim.engines.llama_cpp.rules.slot_selection import ANY_SLOT, SlotFacts


def ckpt(n_tokens, pos_max, pos_min=0):
    return Ckpt(n_tokens, pos_min, pos_max, 1, 100)


def ask(pos_next=20, held=30, n_past=20, n_tokens=40):
    return PromptInputs(n_past, pos_next, held, n_tokens, 0, 8, False)


def chunk(start=0, n_tokens=200, n_batch=512, n_ubatch=64, do=True, tail=4):
    return Chunk(start, n_tokens, n_batch, n_batch, n_ubatch, (), 8192, do, -1, tail)


def test_a_checkpoint_whose_last_token_is_replaced_is_erased():
    resume = ResumePlace(12, 12)
    assert repaired.erase_rewritten([ckpt(12, 11), ckpt(13, 12), ckpt(20, 19)], ask(), resume).value == (1, 2)


@pytest.mark.parametrize(("checkpoint", "inputs", "place"), [
    (ckpt(12, 11), ask(), ResumePlace(12, 12)),
    (ckpt(12, 25), ask(), ResumePlace(20, 12)),                          # positions of an image
    (ckpt(12, 11), ask(held=10), ResumePlace(12, 10)),
    (ckpt(30, 25), ask(pos_next=18), ResumePlace(18, 18)),
])  # fmt: skip
def test_evaluation_continues_behind_the_last_token_of_a_checkpoint(checkpoint, inputs, place):
    found = repaired.resume_behind(checkpoint, inputs)
    assert found.value == place
    assert found.because == {"n_tokens": checkpoint.n_tokens, "pos_max": checkpoint.pos_max}


def test_the_last_token_of_a_prompt_without_new_tokens_needs_an_earlier_checkpoint():
    checkpoints = [ckpt(19, 18, 9), ckpt(21, 20, 9)]
    assert repaired.pick_whole(checkpoints, ask(n_past=20, n_tokens=40), 12).value == 1
    found = repaired.pick_whole(checkpoints, ask(n_past=20, n_tokens=20), 12)
    assert (found.value, found.because["last"]) == (0, 19)
    assert [repaired.pick_whole([ckpt(10, 9, first)], ask(), 0).value for first in (0, 1)] == [0, None]
    assert [repaired.pick_whole([ckpt(10, 9, first)], ask(), 5).value for first in (4, 5)] == [0, None]


@pytest.mark.parametrize(("busy", "update"), [(False, True), (True, False)])
def test_a_busy_slot_does_not_use_the_prompt_cache(busy, update):
    slots = [SlotFacts(0, busy, 100, 5, 1), SlotFacts(1, busy, 100, 3, 2)]
    choice = repaired.slot_select_idle(slots, 50, 0, 0.5).value
    assert (choice.slot, choice.by, choice.update) == (0, "id", update)
    assert repaired.slot_select_idle([slots[0]._replace(busy=True)], 50, ANY_SLOT, 0.5).value is None


@pytest.mark.parametrize(("usable", "by", "f_keep", "update"), [
    (100, "lcp", 1.0, False), (60, "lcp", 0.6, True), (0, "lru", 0.0, True), (-1, "lru", 0.0, True),
])  # fmt: skip
def test_a_common_prefix_counts_as_far_as_it_can_be_reused(usable, by, f_keep, update):
    slot = SlotFacts(0, False, 100, 100, 1, usable)
    choice = repaired.slot_select_usable([slot], 110, ANY_SLOT, 0.5).value
    assert (choice.by, round(choice.f_keep, 3), choice.update) == (by, f_keep, update)
    short = repaired.slot_select_usable([slot._replace(held=2, lcp=2, usable=min(usable, 2))], 2, ANY_SLOT, 0.1).value
    assert short.by == by


def test_a_named_slot_uses_the_prompt_cache_if_less_than_half_of_it_is_kept():
    for usable, f_keep, update in ((60, 0.6, False), (40, 0.4, True)):
        slot = SlotFacts(0, False, 100, 100, 1, usable)
        choice = repaired.slot_select_usable([slot], 110, 0, 0.3).value
        assert (choice.by, round(choice.f_keep, 3), choice.update) == ("id", f_keep, update)
    assert repaired.slot_select_usable([slot._replace(busy=True)], 110, ANY_SLOT, 0.5).value is None


def test_a_batch_also_ends_quarters_of_a_micro_batch_before_the_end():
    whole = repaired.break_quarters(chunk(n_ubatch=256, n_tokens=1000, n_batch=2000), [])
    assert whole.because["breaks"] == [740, 996, 932, 980]                # 256, 0, 64 and 16 tokens before the mark
    assert whole.value == 740
    assert repaired.break_quarters(chunk(start=932, n_ubatch=256, n_tokens=1000), []).value == 980


@pytest.mark.parametrize(("change", "breaks"), [
    ({"n_ubatch": 16}, [180, 196]), ({"n_ubatch": 20}, [176, 196, 191]), ({"do": False}, []),
    ({"n_ubatch": 64, "n_batch": 12}, [188, 196, 188]), ({"n_ubatch": 64, "tail": 16}, [120, 184]),
])  # fmt: skip
def test_quarters_that_are_no_longer_than_the_tail_end_no_batch(change, breaks):
    found = repaired.break_quarters(chunk(**change), [])
    assert found.because["breaks"] == breaks
    usual = break_cr10(chunk(**change), [])
    assert found.because["breaks"][:2] == usual.because["breaks"]


@pytest.mark.parametrize(("output", "stop", "copied"), [(3, 4, True), (4, 4, False), (5, 4, False), (0, 1, True)])
def test_a_prompt_is_copied_after_the_view_with_its_last_token(output, stop, copied):
    assert repaired.copied_after_output(output, stop).value is copied


@pytest.mark.parametrize("rule", [
    repaired.undo_all, repaired.copy_at_once, repaired.full_keeps, repaired.shared_reused, repaired.shift_skips,
], ids=lambda rule: rule.rule)  # fmt: skip
def test_faults_of_the_memory_are_switched_off(rule):
    assert rule().value is False


def test_a_waiting_slot_is_cleared():
    assert repaired.waiting_is_cleared(7).value is True


def test_blocks_are_reused_only_in_a_memory_that_can_be_cut():
    held, asked = (1, 2, 3, 9, 4, 5, 6, 7), (1, 2, 3, 4, 5, 6, 7, 8)
    refused = repaired.reuse_if_cuttable(held, asked, 3, 2, True)
    assert (refused.value, refused.because) == (None, {"n_past": 3, "least": 2, "found": 0, "exact": True})
    assert repaired.reuse_if_cuttable(held, asked, 3, 2).value is not None


@pytest.mark.parametrize(("share", "most"), [(64, 8), (9, 8), (8, 7), (1, 0)])
def test_drafts_fit_into_a_slots_share_of_a_batch(share, most):
    found = repaired.draft_max_in_batch(90, 100, -1, 0, share)
    assert (found.value, found.because["share"]) == (most, share)
