"""Rules at the boundaries of their arguments: the value of each decision, written out."""

from __future__ import annotations

import pytest

from cachesim.base.media_items import image_items
from cachesim.engines.llama_cpp.rules import (
    adapter_repairs,
    before_checkpoints,
    checkpoint_restore,
    media,
    older_checkpoint_create,
    older_media,
    prompt_lifecycle,
    seq_rm_and_state,
    server_of_2023,
    startup,
)
from cachesim.engines.llama_cpp.rules.before_checkpoints import SlotFacts
from cachesim.engines.llama_cpp.rules.checkpoint_facts import FROM_FILE, Ckpt, ResumePlace
from cachesim.engines.llama_cpp.rules.context_shift import Shift

CAT, DOG = image_items("cat", 4, 4), image_items("dog", 4, 4)
TEXT = tuple(range(6))
WITH_CAT = TEXT + CAT + TEXT                       # the image: tokens 6 .. 9
TWO = TEXT + CAT + DOG
LAST = "got exception: Chunk not found"


@pytest.mark.parametrize(("index", "lcp", "cut", "between"), [
    (0, 0, "", ""), (5, 5, "", ""), (6, 6, "", ""), (7, 6, LAST, LAST), (9, 6, LAST, LAST), (10, 10, "", ""),
])  # fmt: skip
def test_an_image_is_common_as_a_whole_and_is_not_cut(index, lcp, cut, between):
    assert media.whole_images(WITH_CAT, index).value == lcp
    assert media.cut_inside(WITH_CAT, index).value == cut
    assert older_media.cut_between(WITH_CAT, index).value == between


def test_an_older_build_does_not_cut_between_two_images():
    assert (media.cut_inside(TWO, 10).value, older_media.cut_between(TWO, 10).value) == ("", LAST)
    one = TEXT + image_items("dot", 1, 1) + DOG    # an image of one token looks like text before the cut
    assert older_media.cut_between(one, 7).value == ""
    assert older_media.cut_between(CAT, 0).value == ""


@pytest.mark.parametrize(("pos_next", "n_tokens", "n_past"), [
    (4, 20, 4), (6, 20, 6), (7, 20, 10), (7, 8, 8), (4, 3, 3),
])  # fmt: skip
def test_evaluation_continues_after_the_token_or_image_that_reaches_the_position(pos_next, n_tokens, n_past):
    ckpt, resume = Ckpt(n_tokens, n_tokens - 1, n_tokens - 1, 1, 100), ResumePlace(pos_next, 0)
    assert media.resume_at(WITH_CAT, ckpt, resume, False).value == ResumePlace(pos_next, n_past)


@pytest.mark.parametrize(("decision", "value"), [
    (media.null_at_image(CAT, (-1,), 0), "Chunk not found"), (media.null_at_image(CAT, (1,), 0), ""),
    (media.null_at_image(TEXT, (-1,), 0), ""), (media.null_at_image(CAT, (-1,), 1), ""),
    (media.text_end(WITH_CAT, 0, 16), 6), (media.text_end(WITH_CAT, 0, 5), 5), (media.text_end(WITH_CAT, 10, 16), 16),
    (media.none_after_image(True, 0), True), (media.none_after_image(True, 1), False),
    (media.none_after_image(False, 0), False),
    (media.fits_micro_batch(16, 16, True), ""), (media.fits_micro_batch(17, 16, False), ""),
    (media.fits_micro_batch(17, 16, True), "non-causal attention requires n_ubatch >= n_tokens"),
    (media.moves_positions(True, False), True), (media.moves_positions(True, True), False),
    (media.moves_positions(False, False), False),
    (media.restorable(True, True), ""), (media.restorable(False, False), ""),
    (media.restorable(True, False), "Cannot restore media tokens without an mmproj"),
    (media.adapters_of_image([1.0], [2.0]), (1.0,)), (media.stays_inside(CAT, 3), 3), (media.tried_once(1), False),
    (media.no_reason(True, 5), False), (media.image_fails(1), "failed to process mtmd chunk"),
])  # fmt: skip
def test_images_in_batches_and_files(decision, value):
    assert decision.value == value


@pytest.mark.parametrize(("decision", "value"), [
    (startup.n_swa_unless_full(8, True), 0), (startup.n_swa_unless_full(8, False), 8),
    (startup.n_swa_of_model(8, True), 8), (startup.n_swa_at_least_one(0, False), 1),
    (startup.n_swa_at_least_one(1, False), 1), (startup.n_swa_at_least_one(2, False), 2),
    (startup.slot_ctx_whole(256, 512, 2, 64, 1000), 256), (startup.slot_ctx_share(512, 512, 3, 64, 1000), 170),
    (startup.slot_ctx_capped(256, 512, 2, 0, 1000), 256), (startup.slot_ctx_capped(256, 512, 2, 64, 1000), 64),
    (startup.slot_ctx_capped(256, 512, 2, 300, 1000), 256), (startup.slot_ctx_capped(256, 512, 2, 256, 1000), 256),
    (adapter_repairs.chunks_without_start(-1, -1), True), (adapter_repairs.chunks_without_start(0, -1), False),
    (adapter_repairs.chunks_without_start(-1, 0), False),
    (adapter_repairs.cap_at_rows(9, -1), 9), (adapter_repairs.cap_at_rows(9, 0), 0),
    (adapter_repairs.cap_at_rows(9, 4), 4), (adapter_repairs.cap_at_rows(9, 12), 9),
    (checkpoint_restore.unread_aborts(1), "checkpoint size mismatch"),
    (checkpoint_restore.unread_resets(1), ""), (checkpoint_restore.unread_of_file_resets(FROM_FILE), ""),
    (checkpoint_restore.unread_of_file_resets(1), "failed to restore context checkpoint"),
    (older_checkpoint_create.told_newest(3, [0]), (2,)), (older_checkpoint_create.told_newest(3, [0, 1]), (2, 2)),
    (older_checkpoint_create.told_newest(3, []), ()),
    (prompt_lifecycle.no_decisions([(1,), (2,)]), None),
    (prompt_lifecycle.completions_only("completion"), True), (prompt_lifecycle.completions_only("infill"), False),
    (prompt_lifecycle.shared_prefix([(1, 2, 3), (1, 2, 4)]), 2), (prompt_lifecycle.shared_prefix([(1, 2), (1, 2)]), 1),
    (prompt_lifecycle.shared_prefix([(1, 2, 3), (1, 2)]), 1), (prompt_lifecycle.shared_prefix([(1, 2, 3)]), 0),
    (prompt_lifecycle.shared_prefix([(1, 2, 3), (1, 2, 4), (1, 5, 6)]), 1),
    (prompt_lifecycle.shared_prefix([(1, 5, 6), (1, 2, 3), (1, 2, 4)]), 1),
    (prompt_lifecycle.whole_prompt("completion", 9, 8, ""), ""),
    (prompt_lifecycle.whole_prompt("rerank", 9, 8, "last"), ""),
    (prompt_lifecycle.whole_prompt("embedding", 8, 8, ""), "whole"),
    (prompt_lifecycle.whole_prompt("embedding", 9, 8, "mean"), "too large"),
    (seq_rm_and_state.back_any(0, 2, 0, 1), False), (seq_rm_and_state.back_any(1, 2, 0, 1), True),
    (seq_rm_and_state.back_any(2, 2, 1, 1), True), (seq_rm_and_state.back_any(3, 2, 0, 1), False),
    (seq_rm_and_state.back_once(1, 2, 0, 1), True), (seq_rm_and_state.back_once(1, 2, 1, 1), False),
    (seq_rm_and_state.back_once(2, 2, 0, 1), True), (seq_rm_and_state.back_once(3, 2, 0, 1), False),
    (seq_rm_and_state.rs_rm_0(5, 5, -1, True), True), (seq_rm_and_state.rs_rm_0(5, 6, -1, True), False),
    (seq_rm_and_state.rs_rm_0(5, 0, 5, True), True), (seq_rm_and_state.rs_rm_0(5, 0, 6, True), False),
    (seq_rm_and_state.rs_rm_0(5, 0, 0, True), False),
])  # fmt: skip
def test_values_at_startup_and_of_single_numbers(decision, value):
    assert decision.value == value


@pytest.mark.parametrize(("held", "n_prompt", "n_keep", "shift"), [
    (62, 20, 0, None), (63, 20, 0, Shift(1, 62, 31)), (64, 20, 4, Shift(5, 59, 29)), (64, 20, -1, Shift(21, 43, 21)),
    (64, 90, -1, Shift(61, 3, 1)), (64, 90, 100, Shift(61, 3, 1)),
])  # fmt: skip
def test_the_server_of_2023_keeps_a_token_more_than_asked_for(held, n_prompt, n_keep, shift):
    assert server_of_2023.shift_after_one(held, n_prompt, n_keep, 7, 64).value == shift


@pytest.mark.parametrize(("n_gen", "n_predict", "stop"), [
    (3, 2, ""), (4, 2, ""), (4, 3, "limit"), (4, 4, ""), (5, 4, "limit"), (5, -1, ""), (2, 1, ""), (4, 1, "limit"),
])  # fmt: skip
def test_the_server_of_2023_ends_after_three_tokens_at_least(n_gen, n_predict, stop):
    assert server_of_2023.end_after_three(n_gen, n_predict, 9, 64, False).value == (stop, False)
    assert server_of_2023.end_after_three(1, n_predict, 9, 64, False, "a stop", ("stop",)).value == ("word", False)
    assert server_of_2023.end_after_three(1, n_predict, 9, 64, False, "", (), True).value == ("eos", False)


def slot(number, held, lcp, busy=False, t_last=0):
    return SlotFacts(id=number, busy=busy, held=held, lcp=lcp, t_last=t_last)


@pytest.mark.parametrize(("slots", "asked", "chosen"), [
    ([slot(0, 10, 5), slot(1, 10, 6)], -1, (1, "lcp", 0.6000000238418579)),
    ([slot(0, 10, 6), slot(1, 8, 6)], -1, (0, "lcp", 0.6000000238418579)),      # the first of equal prefixes
    ([slot(0, 10, 5, t_last=2), slot(1, 0, 0, t_last=1)], -1, (1, "lru", 0.0)),  # half is not more than half
    ([slot(0, 1, 1, busy=True), slot(1, 0, 0)], -1, (1, "lru", 0.0)),
    ([slot(0, 1, 1, busy=True)], -1, None), ([slot(0, 4, 0), slot(1, 4, 4)], 0, (0, "name", 0.0)),
    ([slot(0, 4, 0)], 1, None), ([slot(0, 1, 1)], -1, (0, "lcp", 1.0)),
])  # fmt: skip
def test_an_older_server_selects_the_longest_prefix_that_is_more_than_half_of_a_slot(slots, asked, chosen):
    found = before_checkpoints.slot_select_00(slots, 20, asked, 0.5).value
    assert (found and (found.slot, found.by, found.f_sim)) == chosen
    assert found is None or (found.f_keep, found.update) == (found.f_sim, False)
