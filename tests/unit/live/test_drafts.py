"""What a drafter did, where the log does not say it."""

from __future__ import annotations

import pytest

from cachesim.engines.base import Draft
from cachesim.live.drafts import ANY_LENGTH, last_of_child, read_drafts

STEP = {"ev": "spec_step", "accepted": 1, "drafted": 2, "n_tokens": 12}
CKPT = {"ev": "spec_ckpt", "pos_min": 14, "pos_max": 14, "n_tokens": 15}
ROOM = 'GGML_ASSERT(add_ok && "batch must be large enough to hold the sampled and draft tokens") failed'


@pytest.mark.parametrize("events, died, last", [
    ([STEP], ROOM, 12), ([], ROOM, 10), ([STEP, CKPT], ROOM, 15), ([STEP, CKPT], "[]", 15),
])
def test_a_process_without_room_for_a_draft_ended_where_the_slot_was_last_seen(events, died, last):
    assert read_drafts(events, {}, 10, died)[-1] == Draft(last, ANY_LENGTH, 0)


def test_a_rejection_that_ended_the_process_is_told_by_its_position():
    assert read_drafts([CKPT], {}, 10, "failed to remove (p0=13, p1=-1)") == (Draft(10, 3, 2),)


@pytest.mark.parametrize("end, drafts", [(13, ()), (16, (Draft(12, 3, 3),))])
def test_what_a_further_completion_drafted_last_is_what_its_slot_has_beyond(end, drafts):
    events = [STEP, {"ev": "release", "n_tokens": end}]
    assert last_of_child(events, read_drafts(events, {}, 10), 10) == drafts


@pytest.mark.parametrize("lengths, drafted", [({}, 1), ({15: 4}, 4), ({16: 4}, 1)])
def test_a_rejected_draft_is_as_long_as_the_recording_says(lengths, drafted):
    """It takes room in the batch, whatever becomes of it."""
    events = [CKPT, {"ev": "spec_restore"}, {"ev": "spec_step", "accepted": 0, "drafted": 1, "n_tokens": 17}]
    assert read_drafts(events, {}, 10, lengths=lengths) == (Draft(15, drafted, 0),)
