"""Recorder of the memory at every event, with a server whose contents are given."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from cachesim.engines.base import Answer
from cachesim.engines.inspection import RestorePoint, RowsPart, StatePart
from cachesim.engines.shared.slot_events import PcLoad
from cachesim.events import Gained, Lost
from cachesim.events.unlogged import Decided, Decoded
from cachesim.tools.picture.event_stream import SlotContents
from cachesim.tools.picture.walk_recorder import MOST, WalkRecorder, held, with_points


class GivenServer:
    """Server whose slots have given tokens, checkpoints, spans and requests in progress."""

    def __init__(self, slots=1):
        self.tokens, self.points, self.spans = [0] * slots, [()] * slots, [()] * slots
        self.requests = [None] * slots
        self.reads = []
        self.events, self.listeners = [], []
        self.inspection = self.sequences = self.log = self
        self.add_listener = self.listeners.append
        self.checkpoint_spans = self.spans.__getitem__

    @property
    def n_slots(self):
        return len(self.tokens)

    def occupied_slots(self):
        return [slot for slot, request in enumerate(self.requests) if request is not None]

    def checkpoints(self, slot):
        return self.points[slot]

    def live(self, slot):
        self.reads.append(slot)
        return SimpleNamespace(tokens=range(self.tokens[slot]), rows=(), state=None)

    def answer_at(self, slot):
        return None if self.requests[slot] is None else Answer(self.requests[slot])

    def log_event(self, event=None):
        """Log an event, and return the slots that the listener read."""
        self.reads = []
        self.events.append(event or Decoded(1))
        for listener in self.listeners:
            listener(self.events[-1])
        return self.reads


def recording(server, shared=False):
    recorder = WalkRecorder(shared)
    recorder.started(server)
    return recorder


def rows(*pos, window=0, every=1, layer=0):
    return RowsPart(window, np.array(pos, dtype=int), {layer: None} if pos else {}, every)


def contents(*parts, tokens=9, state=None, points=(), spans=(), shared=False):
    server = GivenServer()
    server.points, server.spans[0] = [points], spans
    server.live = lambda slot: SimpleNamespace(tokens=range(tokens), rows=parts, state=state)
    return held(server, 0, shared)


def test_an_empty_slot_holds_nothing():
    assert contents(tokens=0) == contents(rows(), tokens=0) == SlotContents()


def test_rows_are_ranges_by_their_kind():
    found = contents(rows(0, 1, 2, 5), rows(3, 4, window=4), rows(4, 3, window=4, layer=1), rows(7, 8, layer=-1))
    assert found == SlotContents(9, ((0, 3), (5, 6)), ((3, 5),), ((7, 9),))
    assert contents(rows(0, 1), rows(1, 2, 9, layer=1)).rows == ((0, 3), (9, 10))
    assert contents(rows(0, 1), rows(layer=1)).rows == ((0, 2),)
    assert contents(rows(0, 2, 2)).rows == ((0, 1), (2, 3)), "tokens of an image share a position"


def test_many_ranges_are_joined_from_the_last_allowed_on():
    assert contents(rows(*range(0, 2 * MOST, 2))).rows == tuple((n, n + 1) for n in range(0, 2 * MOST, 2))
    assert contents(rows(*range(0, 2 * MOST + 2, 2))).rows == ((0, 1), (2, 3), (4, 5), (6, 9))


def test_compressed_rows_are_counted_up_to_the_state():
    table = RowsPart(0, np.array([0, 1]), {}, 1)
    parts = rows(0, 1, 2, every=4), rows(0, every=8)
    assert contents(*parts, table, state=StatePart(12, {})).compressed == ((4, 3), (8, 1))
    assert contents(*parts, table, state=StatePart(6, {})).compressed == ((4, 1),)
    assert contents(*parts, table).compressed == ()
    assert contents(*parts, table).rows == () and contents(table).rows == ((0, 2),)
    assert contents(*parts, rows(3)).rows == ((3, 4),)


def test_a_state_is_named_by_the_position_after_it():
    states = [contents(state=state).state for state in (None, StatePart(-1, {}), StatePart(0, {}), StatePart(7, {}))]
    assert states == [None, None, 1, 8]


def test_checkpoints_have_spans_if_the_engine_records_them():
    assert contents(points=(4, 9)).checkpoints == ((4,), (9,))
    assert contents(points=(4, 9), spans=((1, 3), (0, 8))).checkpoints == ((4, 1, 3), (9, 0, 8))
    assert contents(points=(4, 9), shared=True).checkpoints == ()


def test_the_changes_of_a_slot_are_those_of_its_events():
    server = GivenServer()
    recorder = recording(server)
    server.log_event()
    recorder.begins(0, None)
    server.tokens[0] = 3
    server.log_event()
    recorder.answered(0, None, None)
    recorder.begins(1, None)
    server.tokens[0] = 5
    recorder.acted(1, None, {})
    found = recorder.walk()
    assert found.held == {0: [(0, SlotContents()), (1, SlotContents(3)), (2, SlotContents(5))]}
    assert (found.events, found.rows) == (server.events, [-1, 0])
    assert (found.begins, found.ends, found.owners, found.entries) == ([1, 2], [2, 2], {0: []}, [(0, ())])


def test_an_event_belongs_to_the_request_in_its_slot_else_to_the_last_step():
    server = GivenServer(2)
    recorder = recording(server)
    recorder.begins(0, None)
    server.requests = [0, None]
    recorder.begins(1, None)
    for slot in (0, 1, None):
        server.log_event(Decided(slot, "R", 1, {}))
    assert recorder.walk().rows == [0, 1, 1]


def test_events_before_the_listener_and_unlogged_steps_belong_to_the_present_step():
    server = GivenServer()
    server.events += [Decoded(1), Decoded(1)]
    recorder = recording(server)
    recorder.begins(0, None)
    server.events.append(Decoded(1))                        # not heard
    server.log_event()
    server.events.append(Decoded(1))
    assert recorder.walk().rows == [-1, -1, 0, 0, 0]


def test_a_slot_is_read_until_it_stays_as_it_is():
    server = GivenServer(2)
    recording(server)
    assert [server.log_event() for _ in range(3)] == [[0, 1], [0, 1], []]
    server.tokens = [5, 5]
    assert server.log_event() == []                         # a slot without a task does not change
    server.requests[1] = 0
    assert [server.log_event() for _ in range(2)] == [[1], [1]]
    server.requests[1] = None
    assert [server.log_event() for _ in range(2)] == [[1], []]


def test_new_slots_are_read_once():
    server = GivenServer(1)
    recorder = recording(server, shared=True)
    server.log_event()
    server.log_event()
    for each in (server.tokens, server.points, server.spans, server.requests):
        each.append(each[0])
    server.tokens[1] = 4
    assert server.log_event() == [1]
    assert recorder.walk().held[1] == [(2, SlotContents(4))]


def test_an_answered_request_is_settled():
    server = GivenServer(1)
    recorder = recording(server)
    server.requests[0] = 0
    recorder.begins(0, None)
    assert [server.log_event() for _ in range(3)] == [[0]] * 3
    recorder.answered(0, None, None)
    server.occupied_slots = lambda: []
    assert [server.log_event() for _ in range(2)] == [[0], []]


def test_the_owner_of_a_slot_is_the_newest_request_that_was_launched():
    server = GivenServer()
    recorder = recording(server)
    for request in (1, 0, 2):                               # a request that came back is older
        server.requests[0] = request
        server.log_event()
    assert recorder.walk().owners == {0: [(0, 1), (2, 2)]}


def test_a_slot_that_loads_an_entry_belongs_to_the_request_of_the_step():
    server = GivenServer()
    recorder = recording(server)
    server.log_event()
    recorder.begins(4, None)
    server.tokens[0] = 8
    server.log_event(PcLoad(0.1, 0.2))
    server.tokens[0], server.requests[0] = 9, 5
    server.log_event()                                      # the request is not launched yet
    server.tokens[0] = 10
    server.log_event(Decided(None, "R", 1, {}))
    assert recorder.walk().owners == {0: [(1, 4), (3, 5)]}


def gained(kind, number, n):
    point = RestorePoint((kind, -1, number), n, (), 0, None, *[0] * (len(RestorePoint._fields) - 5))
    return Gained(None, point, "", "")


def test_the_prompt_cache_changes_with_its_entries():
    server = GivenServer()
    recorder = recording(server)
    for event in (gained("entry", 1, 10), gained("checkpoint", 2, 7), gained("entry", 3, 10),
                  Lost(None, ("entry", -1, 1), "evicted", ""), Lost(None, ("checkpoint", -1, 2), "erased", ""),
                  gained("entry", 4, 6), gained("entry", 4, 8)):  # fmt: skip
        server.log_event(event)
    assert recorder.walk().entries == [
        (0, ()), (0, [(0, 10)]), (2, [(0, 10), (1, 10)]), (3, [(1, 10)]), (5, [(0, 6), (1, 10)]),
        (6, [(0, 8), (1, 10)])]  # fmt: skip


def test_after_a_restart_the_log_goes_on_and_slots_and_entries_are_new():
    server = GivenServer()
    recorder = recording(server)
    server.tokens[0] = 4
    server.log_event(gained("entry", 1, 10))
    server.tokens[0] = 0
    recorder.started(server)
    assert len(server.listeners) == 1
    assert server.log_event() == [0]
    found = recorder.walk()
    assert found.held == {0: [(0, SlotContents(4)), (1, SlotContents())]}
    assert found.entries == [(0, ()), (0, [(0, 10)]), (1, [])]


def test_shared_restore_points_are_read_once_for_all_requests():
    server = GivenServer(2)
    recorder = recording(server, shared=True)
    server.tokens = [3, 4]
    server.log_event()
    server.points[0] = (2,)
    server.log_event()
    server.log_event()
    found = recorder.walk()
    assert found.held == {slot: [(0, SlotContents(slot + 3)), (1, SlotContents(slot + 3, checkpoints=((2,),)))]
                          for slot in (0, 1)}  # fmt: skip


@pytest.mark.parametrize(("points", "changes"), [
    ([], [(5, ()), (9, ())]), ([(0, "a"), (5, "b")], [(5, "b"), (9, "b")]),
    ([(6, "a")], [(5, ()), (6, "a"), (9, "a")]), ([(4, "a"), (9, "b"), (12, "c")], [(5, "a"), (9, "b"), (12, "c")]),
])  # fmt: skip
def test_the_points_of_all_requests_are_known_from_the_first_event_of_a_request_on(points, changes):
    own = [(5, SlotContents(1)), (9, SlotContents(2))]
    found = [*with_points(own, points)]
    assert [(k, each.checkpoints) for k, each in found] == changes
    assert [each.tokens for k, each in found] == [1 if k < 9 else 2 for k, _ in found]


@pytest.mark.parametrize(("pos", "ranges"), [
    ((5,), ((5, 6),)), ((3, 1, 2), ((1, 4),)), ((0, 1, 1), ((0, 2),)), ((0, 2, 1, 1, 5), ((0, 3), (5, 6))),
    ((0, 2), ((0, 1), (2, 3))),
])  # fmt: skip
def test_positions_are_ranges_also_where_tokens_share_one(pos, ranges):
    """The tokens of an image with 2-D positions have equal ones."""
    assert contents(rows(*pos)).rows == ranges


def test_an_event_that_was_not_heard_comes_before_the_next_that_is():
    server = GivenServer()
    recorder = recording(server)
    recorder.begins(0, None)
    server.requests[0] = 0
    recorder.begins(1, None)
    server.events.append(Decoded(1))                        # not heard
    server.log_event(Decided(0, "R", 1, {}))
    assert recorder.walk().rows == [1, 0]
