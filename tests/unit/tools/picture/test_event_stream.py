"""Event log with the memory: which event lost tokens, where a slot was cut back, and events as text."""

from __future__ import annotations

import pytest

from cachesim.events import Lost, Settled
from cachesim.events.unlogged import Decided, Decoded
from cachesim.tools.picture.event_stream import END, EventWalk, event_text
from cachesim.tools.picture.scene import TokenStretch


def decided(rule):
    return Decided(0, rule, 1, {})


def lost(rule, cause):
    return Lost(0, ("checkpoint", 0, 1), cause, rule)


def settled():
    return Settled.__new__(Settled)


def walk(*requests):
    """Return the walk of requests with these events."""
    rows = [number for number, events in enumerate(requests) for _ in events]
    begins = [rows.index(number) if number in rows else len(rows) for number in range(len(requests))]
    return EventWalk([event for events in requests for event in events], rows, begins, begins, {}, {}, [])


WALK = walk([decided("A"), lost("A", "erased"), decided("B"), lost("A", "evicted")], [decided("A"), Decoded(1)],
            [decided("C"), lost("C", "evaluated")])  # fmt: skip


@pytest.mark.parametrize(("request_", "rule", "cause", "event"), [
    (0, "A", "erased", 1), (0, "A", "evicted", 3), (0, "A", "cleared", 0), (0, "B", "erased", 2),
    (0, "C", "erased", None), (1, "A", "erased", 4), (1, "B", "erased", None), (2, "C", "advanced", 7),
    (2, "C", "evaluated", 7),
    (2, "C", "erased", 6),
])  # fmt: skip
def test_the_last_event_of_a_rule_that_changed_the_memory_so_or_decided(request_, rule, cause, event):
    assert WALK.behind(request_, rule, cause) == event


def test_lost_tokens_lead_to_the_request_that_lost_them():
    def part(at, rule="A", event="erased"):
        return TokenStretch(0, 5, "again", "", at, rule, (event, "checkpoint"))

    assert WALK.lost(2, part(0)) == 1 and WALK.lost(1, part(-1)) == 4 and WALK.lost(2, part(0, event="evicted")) == 3
    assert WALK.lost(2, part(0, "")) is None and WALK.lost(0, part(-1, "C")) is None


def test_a_slot_is_cut_back_at_the_last_such_event_of_a_request_else_at_its_first():
    one = walk([decided("A"), settled(), decided("A"), settled(), Decoded(1)], [decided("A")], [settled()])
    assert one.settled() == [3, 5, 6]


@pytest.mark.parametrize(("record", "text"), [
    ({"ev": "x"}, "x"), ({"ev": "x", "a": None, "b": ""}, "x"), ({"ev": "x", "a": 0, "b": False}, "x: a 0, b false"),
    ({"ev": "x", "p1": END}, "x: p1 end"), ({"ev": "x", "p1": END - 1}, f"x: p1 {END - 1}"),
    ({"slot": 3, "ev": "x", "rule": "R"}, "x: slot 3, rule R"),
])  # fmt: skip
def test_an_event_is_its_name_and_its_numbers(record, text):
    assert event_text(record) == text
