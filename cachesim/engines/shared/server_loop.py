"""What drivers have in common: decisions are written down, work goes on in rounds."""

from __future__ import annotations

from collections import deque
from typing import Any, Callable, Protocol, Self, Sequence

import numpy as np

from cachesim.base.tokens import POS_INF, Tokens
from cachesim.engines.base import Answer
from cachesim.engines.contract import Removal, Server, copy_server
from cachesim.engines.inspection import Key
from cachesim.engines.rule import Decision
from cachesim.engines.shared.restore_point_tracker import ALL_TOKENS, RestorePoints, RestorePointSource
from cachesim.events import Advanced, Decided, Declined, Log, Settled


class AnyTask(Protocol):
    """A request on its way through the server."""

    id: int
    answer: Answer


class AnySlot(Protocol):
    """A slot, with the tokens that it is believed to hold; ``child``: its task is a further completion."""

    id: int
    tokens: list[int]
    child: bool

    @property
    def busy(self) -> bool:
        """Is a task at work here?"""
        ...

    @property
    def task(self) -> AnyTask | None:
        """The task at work here."""
        ...


def log_decision(log: Log, decision: Decision, slot: AnySlot | None) -> Any:
    """Write a decision down; returns its value."""
    log.emit(Decided(slot.id if slot else None, decision.rule, decision.value, decision.because, decision.case))
    return decision.value


def observe_seq_rm(seq_rm: Callable[..., bool], held: Callable[[int], np.ndarray],
            hear: Callable[[Removal], None]) -> Callable[..., bool]:
    """A memory's ``seq_rm(seq, p0, p1)``, which tells of every removal what was there before and after."""

    def told(seq: int, p0: int, p1: int = POS_INF) -> bool:
        before = held(seq)
        ok = bool(seq_rm(seq, p0, p1))
        hear(Removal(seq, p0, p1, ok, before, held(seq)))
        return ok

    return told


class Driver(Server):
    """A server that decides by rules and works in rounds. ``queue`` holds tasks that no round has looked at,
    ``deferred`` those that wait for a slot; the attributes named in ``FIXED`` never change."""

    FIXED = ("rules", "kind")
    queue: deque[Any]
    deferred: Sequence[AnyTask] = ()
    slots: Sequence[AnySlot]
    tick = 0

    def decide(self, decision: Decision, slot: AnySlot | None) -> Any:
        """Write a decision down; returns its value."""
        return log_decision(self.log, decision, slot)

    def capture(self, decision: Decision, slot: AnySlot) -> Any:
        """Write down whether a restore point is made here; returns the decision's value. A rule from outside that does
        not say where ("start") is charged with nothing."""
        self.decide(decision, slot)
        if not decision.value and "start" in decision.because:
            self.log.emit(Declined(slot.id, decision.because["start"], decision.rule))
        return decision.value

    def next_tick(self) -> int:
        """The server's clock."""
        self.tick += 1
        return self.tick - 1

    @property
    def idle(self) -> bool:
        """Would a round change nothing, and all that follow it?"""
        return not self.queue and not any(slot.busy for slot in self.slots)

    @property
    def working(self) -> bool:
        """Is there anything left to do, that can be done?"""
        return bool(self.queue) or (any(slot.busy for slot in self.slots) and not self.stuck)

    @property
    def queued(self) -> int:
        """Tasks that have come and that no round has looked at yet."""
        return len(self.queue)

    def busy(self) -> Sequence[int]:
        """The slots in which a request is being worked on."""
        return [slot.id for slot in self.slots if slot.busy]

    def tasks(self) -> tuple[Sequence[int], Sequence[int]]:
        """Ids of the tasks in slots, one for each busy slot, and of those that wait for one."""
        at_work = [slot.task.id for slot in self.slots if slot.busy and slot.task is not None]
        return at_work, [task.id for task in self.deferred]

    def fork(self) -> Self:
        """A copy that can go its own way; what never changes is shared."""
        twin: Self = copy_server(self, *(getattr(self, name) for name in self.FIXED))
        return twin

    @property
    def n_slots(self) -> int:
        """How many slots there are."""
        return len(self.slots)

    def tokens_of(self, slot: int) -> Tokens:
        """The tokens that a slot is believed to hold."""
        return tuple(self.slots[slot].tokens)

    def answer_at(self, slot: int) -> Answer | None:
        """The answer that is being worked on in a slot, None = no task is there."""
        task = self.slots[slot].task
        return None if task is None else task.answer

    def is_further(self, slot: int) -> bool:
        """Is the task of a slot a further completion of another slot's prompt?"""
        return self.slots[slot].child


class SlotDriver(Driver, RestorePointSource):
    """A driver whose restore points are slots, their checkpoints, and stored conversations."""

    points: RestorePoints

    @property
    def window_is_shared(self) -> bool:
        """May a batch take cells that the windows of idle slots have?"""
        return False

    def changed(self, slot: AnySlot, cause: str, rule: str = "", kept: int = 0) -> None:
        """A slot has changed, because of this rule; its tokens, and their rows, before ``kept`` are as they were."""
        self.points.changed(slot, cause, rule, kept)

    def evaluated(self, rule: str) -> None:
        """A batch is evaluated: the slots at work have gone on."""
        if self.log.heard(Advanced):
            for slot in self.slots:
                if slot.busy or (self.window_is_shared and slot.tokens):
                    self.points.changed(slot, "evaluated", rule, ALL_TOKENS, grown=True)

    def trimmed(self, slot: AnySlot, rule: str) -> None:
        """Behind the tokens of a slot there is nothing in the memory any more; its prompt is evaluated from there."""
        n = len(slot.tokens)
        if self.log.heard(Advanced) and not self.points.ends_at(slot.id, n):
            self.points.changed(slot, "truncated", rule, n)
        if slot.task is not None and n == slot.task.answer.cache_n:
            self.log.emit(Settled(slot.id, n))

    def text_of(self, key: Key) -> tuple[Sequence[int], int]:
        """The tokens of the conversation that a checkpoint belongs to, and its slot, -1 = it is stored."""
        if key[0] == "checkpoint":
            return self.slots[key[1]].tokens, key[1]
        return self.points.conversation(key).tokens, -1

    def kept(self) -> list[Key]:
        """Every checkpoint and every stored conversation."""
        return self.points.kept()
