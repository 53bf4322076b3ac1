"""State of a server that works in rounds: decisions, tasks, slots, and reports of changed slots."""

from types import SimpleNamespace

import numpy as np

from cachesim.engines.base import Answer
from cachesim.engines.rule import Decision
from cachesim.engines.server_parts import Removal
from cachesim.engines.shared.conversation_points import ALL_TOKENS
from cachesim.engines.shared.server_loop import (
    CoreServer,
    SlotCore,
    SlotInspection,
    SlotTasks,
    observe_seq_rm,
    text_of,
)
from cachesim.events import Advanced, Decided, Declined, Log, Settled


def slot(number, tokens=(), busy=False, task=None, child=False):
    return SimpleNamespace(id=number, tokens=list(tokens), busy=busy, task=task, child=child)


class Points:
    """Records the changes that are reported to it. Slots end at these lengths."""

    def __init__(self, **ends):
        self.changes, self.touched, self.ends = [], set(), ends

    def changed(self, held, cause, rule, kept, grown=False):
        self.changes.append((held.id, cause, rule, kept, grown))

    def ends_at(self, number, n):
        return self.ends.get(f"slot{number}") == n

    def conversation(self, key):
        return SimpleNamespace(tokens=("conversation", key))


class Shared(SlotCore):
    """State whose windows idle slots share."""

    window_is_shared = True


def core(*slots, kind=SlotCore, listens=True, **ends):
    found = kind()
    found.slots, found.points, found.log = slots, Points(**ends), Log()
    if listens:
        found.log.listener, found.log.kinds = lambda event: None, frozenset({Advanced})
    return found


def test_a_decision_is_logged_and_its_value_returned():
    state, decision = core(), Decision(3, {"n": 1}, "R", "rare")
    assert state.decide(decision, slot(2)) == 3 and state.decide(decision, None) == 3
    assert state.log.events == [Decided(2, "R", 3, {"n": 1}, "rare"), Decided(None, "R", 3, {"n": 1}, "rare")]


def test_a_restore_point_that_is_not_created_is_declined_at_its_place():
    state = core()
    assert state.capture(Decision(False, {"start": 7}, "R"), slot(1)) is False
    assert state.capture(Decision(True, {"start": 8}, "R"), slot(1)) is True
    assert state.capture(Decision(False, {}, "R"), slot(1)) is False
    assert state.log.events == [Decided(1, "R", False, {"start": 7}), Declined(1, 7, "R"),
                                Decided(1, "R", True, {"start": 8}), Decided(1, "R", False, {})]  # fmt: skip


def test_the_clock_returns_the_time_before_it_advances():
    state = core()
    assert [state.next_tick(), state.next_tick(), state.tick] == [0, 1, 2]


def test_a_removal_is_observed_with_the_positions_before_and_after():
    held, seen = {0: [0, 1, 2, 3]}, []

    def remove(seq, p0, p1):
        if p0 == 1:
            return 0
        held[seq] = [pos for pos in held[seq] if not p0 <= pos < p1]
        return 1

    observed = observe_seq_rm(remove, lambda seq: np.array(held[seq]), seen.append)
    assert observed(0, 2) is True and observed(0, 1, 2) is False
    first, second = (one._replace(before=one.before.tolist(), after=one.after.tolist()) for one in seen)
    assert (first.seq, first.p0, first.ok, first.before, first.after) == (0, 2, True, [0, 1, 2, 3], [0, 1])
    assert second == Removal(0, 1, 2, False, [0, 1], [0, 1]) and first.p1 > 2**30


def test_a_server_is_idle_without_queue_and_busy_slots():
    def server(queue, *busy):
        state = core(*(slot(0, busy=one) for one in busy))
        state.queue = queue
        return SimpleNamespace(core=state)

    assert CoreServer.idle.fget(server([], False))
    assert not CoreServer.idle.fget(server([1], False))
    assert not CoreServer.idle.fget(server([], False, True))
    dead = server([])
    assert not CoreServer.dead.fget(dead)
    dead.core.dead = True
    assert CoreServer.dead.fget(dead)


def test_tasks_are_those_of_busy_slots_and_those_that_wait():
    slots = [slot(0, busy=True, task=SimpleNamespace(id=5)), slot(1, task=SimpleNamespace(id=6)), slot(2, busy=True)]
    tasks = SlotTasks([1, 2, 3], slots, [SimpleNamespace(id=8), SimpleNamespace(id=9)])
    assert (tasks.queued, tasks.at_work(), tasks.waiting()) == (3, [5], [8, 9])
    assert SlotTasks([], slots).waiting() == []


def test_slots_are_inspected_by_number():
    answer = Answer(4)
    plain = type("Plain", (SlotInspection,), dict.fromkeys(("kept", "stored")))
    inspection = plain([slot(0, [1, 2]), slot(1, task=SimpleNamespace(answer=answer), child=True)])
    assert (inspection.n_slots, inspection.tokens_of(0), inspection.tokens_of(1)) == (2, (1, 2), ())
    assert inspection.answer_at(0) is None and inspection.answer_at(1) is answer
    assert [inspection.is_further(number) for number in (0, 1)] == [False, True]


def test_a_changed_slot_may_change_the_windows_of_idle_slots():
    slots = slot(0, [1]), slot(1, [1]), slot(2, [1], busy=True), slot(3)
    alone, shared = core(*slots), core(*slots, kind=Shared)
    alone.changed(slots[0], "restored", "R", 3)
    assert alone.points.changes == [(0, "restored", "R", 3, False)]
    shared.changed(slots[0], "restored", "R")
    assert shared.points.changes == [(0, "restored", "R", 0, False), (1, "overwritten", "R", ALL_TOKENS, True)]
    unheard = core(*slots, kind=Shared, listens=False)
    unheard.changed(slots[0], "restored", "R")
    assert len(unheard.points.changes) == 1


def test_a_batch_changes_busy_and_touched_slots():
    slots = slot(0, [1]), slot(1, [1], busy=True), slot(2), slot(3)
    state, shared, unheard = core(*slots), core(*slots, kind=Shared), core(*slots, listens=False)
    state.points.touched.add(2)
    for one in (state, shared, unheard):
        one.evaluated("R")
    assert state.points.changes == [(1, "evaluated", "R", ALL_TOKENS, True), (2, "evaluated", "R", ALL_TOKENS, True)]
    assert [number for number, *_ in shared.points.changes] == [0, 1]
    assert unheard.points.changes == []


def test_a_slot_is_trimmed_and_settled_where_its_prompt_is_evaluated_from():
    answer = Answer(0, reused={"slot": 2})
    slots = slot(0, [1, 2], task=SimpleNamespace(answer=answer)), slot(1, [1, 2, 3])
    state = core(*slots, slot0=2)
    state.trimmed(slots[0], "R")
    state.trimmed(slots[1], "R")
    assert state.log.events == [Settled(0, 2)]
    assert state.points.changes == [(1, "truncated", "R", 3, False)]
    slots[0].tokens.append(3)
    state.trimmed(slots[0], "R")
    assert state.log.events == [Settled(0, 2)] and state.points.changes[1:] == [(0, "truncated", "R", 3, False)]


def test_a_checkpoint_belongs_to_the_tokens_of_its_slot():
    state = core(slot(0, [1]), slot(1, [2, 3]))
    assert text_of(state, ("checkpoint", 1, 7)) == ([2, 3], 1)
    assert text_of(state, ("entry", 1, 7)) == (("conversation", ("entry", 1, 7)), -1)
