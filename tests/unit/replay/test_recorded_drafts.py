"""Tests of drafts that the log does not state."""

from __future__ import annotations

import pytest

from cachesim.engines.base import Draft
from cachesim.replay.recorded_requests import ANY_LENGTH, last_of_child, read_drafts

STEP = {"ev": "spec_step", "accepted": 1, "drafted": 2, "n_tokens": 12}
CKPT = {"ev": "spec_ckpt", "pos_min": 14, "pos_max": 14, "n_tokens": 15}
ROOM = 'GGML_ASSERT(add_ok && "batch must be large enough to hold the sampled and draft tokens") failed'


@pytest.mark.parametrize("events, died, last", [
    ([STEP], ROOM, 12), ([], ROOM, 10), ([STEP, CKPT], ROOM, 15), ([STEP, CKPT], "[]", 15),
])
def test_a_process_without_room_for_a_draft_ended_where_the_slot_was_last_seen(events, died, last):
    assert read_drafts(events, {}, 10, died)[-1] == Draft(last, ANY_LENGTH, 0)


def test_a_rejection_that_ended_the_process_is_told_by_its_position():
    assert read_drafts([], {}, 10, "failed to remove (p0=13, p1=-1)") == (Draft(10, 3, 2),)
    assert read_drafts([CKPT], {}, 10, "failed to remove (p0=18, p1=-1)") == (Draft(15, 3, 2),)
    found = read_drafts([STEP], {}, 10, "failed to remove (p0=13, p1=-1)")
    assert found == (Draft(10, 2, 1), Draft(12, 1, 0))


@pytest.mark.parametrize("end, drafts", [(13, ()), (16, (Draft(12, 3, 3),))])
def test_what_a_further_completion_drafted_last_is_what_its_slot_has_beyond(end, drafts):
    events = [STEP, {"ev": "release", "n_tokens": end}]
    assert last_of_child(events, read_drafts(events, {}, 10), 10) == drafts


@pytest.mark.parametrize("lengths, drafted", [({}, 1), ({15: 4}, 4), ({16: 4}, 1)])
def test_a_rejected_draft_is_as_long_as_the_recording_says(lengths, drafted):
    """It takes room in the batch, whatever becomes of it."""
    events = [CKPT, {"ev": "spec_restore"}, {"ev": "spec_step", "accepted": 0, "drafted": 1, "n_tokens": 17}]
    assert read_drafts(events, {}, 10, lengths=lengths) == (Draft(15, drafted, 0),)


@pytest.mark.parametrize(("end", "right"), [(19, 3), (18, 2), (17, 1), (16, 1)])
def test_a_draft_in_which_the_answer_ended_was_right_as_far_as_the_slot_goes(end, right):
    """The last token of an answer is not in the slot; a draft has at least a single token."""
    events = [CKPT, {"ev": "release", "n_tokens": end}]
    assert read_drafts(events, {}, 10) == (Draft(15, right, right),)


@pytest.mark.parametrize(("behind", "draft"), [
    ([STEP], Draft(15, 2, 1)),
    ([{"ev": "spec_restore"}, {"ev": "release", "n_tokens": 19}], Draft(15, 3, 2)),
    ([{"ev": "spec_restore"}, {**STEP, "drafted": 3}], Draft(15, 3, 2)),
    ([{"ev": "spec_restore"}], Draft(15, 1, 0)),
])  # fmt: skip
def test_a_draft_behind_a_saved_memory_is_told_by_what_follows(behind, draft):
    """After a rejection the number of accepted tokens is that of the replayed tokens minus 1."""
    assert read_drafts([CKPT, *behind], {}, 10) == (draft,)


@pytest.mark.parametrize(("events", "drafts"), [
    ([STEP], (Draft(10, 2, 1), Draft(14, 3, 0))),
    ([STEP, {"ev": "release", "n_tokens": 18}], (Draft(10, 2, 1), Draft(14, 3, 3))),
    ([{"ev": "release", "n_tokens": 16}], (Draft(14, 3, 1),)),
    ([{"ev": "release", "n_tokens": 25}], (Draft(14, 3, 3),)),
])
def test_a_draft_that_no_step_verified_has_its_recorded_length(events, drafts):
    """The batch with it failed, or the generation ended in it."""
    assert read_drafts(events, {}, 10, lengths={10: 2, 14: 3}) == drafts


def test_recorded_lengths_add_no_draft_behind_the_last_one_that_is_known():
    lengths = {10: 2, 11: 4}
    ended = {"ev": "release", "n_tokens": 14}
    assert read_drafts([STEP], {}, 10, lengths={10: 2}) == (Draft(10, 2, 1),)
    assert read_drafts([ended], {"draft_n": 2}, 10, lengths=lengths) == (Draft(11, 2, 2),)
