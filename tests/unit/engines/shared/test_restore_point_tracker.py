"""Tests of the events that the tracker derives, and of the usable lengths."""

from __future__ import annotations

import pytest

from cachesim.engines.inspection import RestorePoint
from cachesim.engines.shared.restore_point_tracker import (
    UNUSABLE,
    LengthCounter,
    RestorePointTracker,
    RowRange,
    usable_lengths,
)
from cachesim.events import Advanced, Gained, Log, Lost

BLOCK = "block", -1, 7
SLOT = "slot", 2, 0


def block(n, lo, hi):
    return RestorePoint(BLOCK, n, (), n, None, lo, hi)


def tracked():
    tracker = RestorePointTracker(Log())
    return tracker, tracker.log.events


def test_a_copy_is_gained_when_it_is_new_and_when_its_lengths_change():
    tracker, events = tracked()
    for point in (block(8, 8, 8), block(8, 8, 8), block(8, *UNUSABLE), block(9, *UNUSABLE)):
        tracker.hold(point, "stored", "R", 1)
    assert events == [Gained(1, block(*lengths), "stored", "R") for lengths in ((8, 8, 8), (8, 1, 0), (9, 1, 0))]


def test_a_copy_with_other_content_is_gained_again():
    tracker, events = tracked()
    tracker.hold(block(8, 8, 8), "stored")
    tracker.hold(block(8, 8, 8), "overwritten", "R", anew=True)
    assert [event.cause for event in events] == ["stored", "overwritten"]


def test_a_lost_copy_is_gained_when_it_comes_back():
    tracker, events = tracked()
    tracker.hold(block(8, 8, 8), "stored")
    assert tracker.kept() == [BLOCK]
    tracker.lose(BLOCK, "evicted", "R")
    assert tracker.kept() == []
    tracker.hold(block(8, 8, 8), "stored")
    assert events[1:] == [Lost(None, BLOCK, "evicted", "R"), Gained(None, block(8, 8, 8), "stored", "")]


def test_a_running_state_advances_with_new_tokens_or_lengths():
    tracker, events = tracked()
    empty, grown = RestorePoint(SLOT, 0, (), 0, None, *UNUSABLE), RestorePoint(SLOT, 2, (5, 6), 0, None, 1, 2)
    same, cut = RestorePoint(SLOT, 2, (), 2, SLOT, 1, 2), RestorePoint(SLOT, 1, (), 1, SLOT, 1, 1)
    for point in (empty, grown, same, cut):
        tracker.advance(2, point, "evaluated", "R")
    tracker.advance(2, cut, "truncated", "R", anew=True)
    assert events == [Advanced(2, grown, "evaluated", "R"), Advanced(2, cut, "evaluated", "R"),
                      Advanced(2, cut, "truncated", "R")]  # fmt: skip


def test_keys_are_given_out_once():
    tracker, _ = tracked()
    assert [tracker.new_key("entry"), tracker.new_key("checkpoint", 3)] == [("entry", -1, 1), ("checkpoint", 3, 2)]


@pytest.mark.parametrize(("rows", "state", "lengths"), [
    ([], None, (1, 10)),                              # full attention
    ([(0, 9, 4)], None, (1, 10)),                     # a whole window
    ([(6, 9, 4)], None, (9, 10)),                     # three rows before position 9
    ([(8, 9, 4)], None, (11, 10)),                    # too few rows
    ([(0, 6, 4)], None, (1, 7)),                      # the last rows are missing
    ([(0, -1, 4)], None, (1, 0)),                     # no rows
    ([(6, 9, 4), (5, 9, 2)], None, (9, 10)),          # two windows
    ([], 10, (10, 10)), ([], 4, (4, 4)), ([], 12, (12, 10)), ([], 0, (1, 0)),
    ([(0, 9, 4)], 6, (6, 6)), ([(6, 9, 4)], 6, (9, 6)),
])  # fmt: skip
def test_lengths_need_the_rows_of_a_window_and_the_end_of_a_state(rows, state, lengths):
    assert usable_lengths(10, [RowRange(*one) for one in rows], state) == lengths


def test_lengths_are_counted_until_their_last_point_is_gone():
    lengths = LengthCounter()
    for n, step in ((8, 1), (4, 1), (8, 1), (4, -1), (8, -1)):
        lengths.count(n, step)
    assert lengths.in_order() == [8]
    lengths.count(8, -1)
    assert lengths.in_order() == []
