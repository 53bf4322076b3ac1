"""Tests of the recorded form of events that no real server prints."""

from __future__ import annotations

import pytest

from cachesim.engines.inspection import RestorePoint
from cachesim.events import unlogged
from cachesim.events.base import Event
from cachesim.events.unlogged import Aborted, Advanced, Decided, Decoded, Gained, Lost

POINT = RestorePoint(("checkpoint", 3, 40), 40, tuple(range(40)), 0, None, 40, 40)


@pytest.mark.parametrize(("event", "record"), [
    (Gained(2, POINT, "stored", "LC-X"), {"ev": "gained", "of": "checkpoint", "slot": 2, "n_tokens": 40,
                                          "cause": "stored", "rule": "LC-X"}),
    (Advanced(2, POINT, "evaluated", ""), {"ev": "advanced", "slot": 2}),
    (Lost(None, POINT.key, "evicted", "LC-Y"), {"ev": "lost", "of": "checkpoint", "slot": None, "cause": "evicted",
                                                "rule": "LC-Y"}),
    (Decoded(5), {"ev": "decode", "n_tokens": 5}), (Aborted("no room"), {"ev": "aborted", "text": "no room"}),
])  # fmt: skip
def test_an_event_is_recorded_without_the_point_itself(event, record):
    assert event.record() == event.record(one_slot=True, tasks={}) == record


def test_they_are_not_logged_and_only_the_end_of_the_process_is_printed():
    kinds = [kind for kind in vars(unlogged).values() if isinstance(kind, type) and issubclass(kind, Event)]
    assert [kind for kind in kinds if kind.logged] == [Event]
    assert [kind for kind in kinds if kind.printed] == [Event, Aborted]


def test_a_decision_names_no_case_by_default():
    assert Decided(0, "LC-X", 3, {"n": 1}) == Decided(0, "LC-X", 3, {"n": 1}, "")
