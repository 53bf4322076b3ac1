"""Core and parts of servers that work in rounds: log of decisions, clock, reports of changed restore points."""

from __future__ import annotations

from collections import deque
from typing import Any, Callable, Iterable, Protocol, Sequence, Sized

import numpy as np

from cachesim.base.tokens import POS_INF, Tokens
from cachesim.engines.base import Answer
from cachesim.engines.contract import Server
from cachesim.engines.inspection import Key
from cachesim.engines.point_kinds import CHECKPOINT
from cachesim.engines.rule import Decision
from cachesim.engines.server_parts import Inspection, Removal, Tasks
from cachesim.engines.shared.conversation_points import ALL_TOKENS, ConversationPoints
from cachesim.events import Advanced, Decided, Declined, Log, Settled
from cachesim.model import Model


class AnyTask(Protocol):
    """A request in progress."""

    id: int
    answer: Answer


class AnySlot(Protocol):
    """A slot with the tokens recorded for it; ``child``: its task is a second or later completion."""

    @property
    def id(self) -> int:
        """Number of the slot."""
        ...

    @property
    def child(self) -> bool:
        """True if its task is a second or later completion."""
        ...

    @property
    def tokens(self) -> list[int]:
        """The recorded tokens."""
        ...

    @property
    def busy(self) -> bool:
        """True if the slot processes a task."""
        ...

    @property
    def task(self) -> AnyTask | None:
        """The task in progress, None without a task."""
        ...


def log_decision(log: Log, decision: Decision, slot: AnySlot | None) -> Any:
    """Log a decision, if the log keeps decisions, and return its value."""
    if log.keeps_decisions:
        log.emit(Decided(slot.id if slot else None, decision.rule, decision.value, decision.because, decision.case))
    else:
        log.n_not_kept += 1
    return decision.value


def observe_seq_rm(seq_rm: Callable[..., bool], held: Callable[[int], np.ndarray],
                   observer: Callable[[Removal], None]) -> Callable[..., bool]:
    """Wrap a memory's ``seq_rm(seq, p0, p1)`` so that ``observer`` gets every removal with the positions before and
    after it."""

    def observed(seq: int, p0: int, p1: int = POS_INF) -> bool:
        before = held(seq)
        ok = bool(seq_rm(seq, p0, p1))
        observer(Removal(seq, p0, p1=p1, ok=ok, before=before, after=held(seq)))
        return ok

    return observed


def log_capture(log: Log, decision: Decision, slot: AnySlot) -> Any:
    """Log whether a restore point is created here and return the decision's value. If a user-defined rule does not
    state the position ("start"), no ``Declined`` event is logged."""
    log_decision(log, decision, slot)
    if not decision.value and "start" in decision.because:
        log.emit(Declined(slot.id, decision.because["start"], decision.rule))
    return decision.value


class Core:
    """State of a server that decides by rules and works in rounds. ``queue`` holds tasks that no round has processed
    yet, ``deferred`` tasks that wait for a slot."""

    log: Log
    model: Model | None
    queue: deque[Any]
    deferred: Sequence[AnyTask] = ()
    slots: Sequence[AnySlot]
    tick = 0
    dead = False

    def decide(self, decision: Decision, slot: AnySlot | None) -> Any:
        """Log a decision and return its value."""
        return log_decision(self.log, decision, slot)

    def holds(self, decision: Decision, slot: AnySlot | None) -> bool:
        """Return a decision as a truth value. Only a decision that does not hold is logged."""
        if decision.value:
            return True
        self.decide(decision, slot)
        return False

    def capture(self, decision: Decision, slot: AnySlot) -> Any:
        """Log whether a restore point is created here and return the decision's value, see ``log_capture``."""
        return log_capture(self.log, decision, slot)

    def next_tick(self) -> int:
        """Return the time of the server's logical clock and advance it."""
        self.tick += 1
        return self.tick - 1


class CoreServer(Server):
    """A server of which all parts share a ``core``."""

    core: Core

    @property
    def dead(self) -> bool:
        """True if the process has ended."""
        return self.core.dead

    @property
    def idle(self) -> bool:
        """True if no further round changes anything."""
        return not self.core.queue and not any(slot.busy for slot in self.core.slots)


class SlotTasks(Tasks):
    """Tasks of a server with slots."""

    def __init__(self, queue: Sized, slots: Iterable[AnySlot], deferred: Sequence[AnyTask] = ()) -> None:
        self.queue = queue
        self.slots = slots
        self.deferred = deferred

    @property
    def queued(self) -> int:
        """Number of received tasks that no round has processed yet."""
        return len(self.queue)

    def at_work(self) -> Sequence[int]:
        """Return the ids of the tasks in busy slots."""
        return [slot.task.id for slot in self.slots if slot.busy and slot.task is not None]

    def waiting(self) -> Sequence[int]:
        """Return the ids of the tasks that wait for a slot."""
        return [task.id for task in self.deferred]


class SlotInspection(Inspection):
    """Inspection of slots, or of numbered requests."""

    def __init__(self, slots: Sequence[AnySlot]) -> None:
        self.slots = slots

    @property
    def n_slots(self) -> int:
        """Number of slots."""
        return len(self.slots)

    def tokens_of(self, slot: int) -> Tokens:
        """Return the tokens recorded for a slot."""
        return tuple(self.slots[slot].tokens)

    def answer_at(self, slot: int) -> Answer | None:
        """Return the answer in progress in a slot, None if the slot has no task."""
        task = self.slots[slot].task
        return None if task is None else task.answer

    def is_further(self, slot: int) -> bool:
        """True if the task of a slot is a second or later completion of another slot's prompt."""
        return self.slots[slot].child


class SlotCore(Core):
    """State of a server whose restore points are slots, their checkpoints, and stored conversations."""

    points: ConversationPoints

    @property
    def window_is_shared(self) -> bool:
        """True if a batch may take cells from the windows of idle slots."""
        return False

    def changed(self, slot: AnySlot, cause: str, rule: str = "", kept: int = 0) -> None:
        """Report a change of a slot, made by this rule. Its tokens before ``kept``, and their rows, are unchanged. A
        state that it read may have overwritten windows of idle slots."""
        self.points.changed(slot, cause, rule, kept)
        if self.window_is_shared and self.log.listens_to(Advanced):
            for other in self.slots:
                if other.tokens and not other.busy and other is not slot:
                    self.points.changed(other, "overwritten", rule, ALL_TOKENS, grown=True)

    def evaluated(self, rule: str) -> None:
        """Report that a batch was evaluated: the busy slots have more tokens, the touched slots other rows."""
        if self.log.listens_to(Advanced):
            for slot in self.slots:
                if slot.busy or slot.id in self.points.touched or (self.window_is_shared and slot.tokens):
                    self.points.changed(slot, "evaluated", rule, ALL_TOKENS, grown=True)

    def trimmed(self, slot: AnySlot, rule: str) -> None:
        """Report that the memory holds nothing after the tokens of a slot; its prompt is evaluated from there."""
        n = len(slot.tokens)
        if self.log.listens_to(Advanced) and not self.points.ends_at(slot.id, n):
            self.points.changed(slot, "truncated", rule, n)
        if slot.task is not None and n == slot.task.answer.cache_n:
            self.log.emit(Settled(slot.id, n))


def text_of(core: SlotCore, key: Key) -> tuple[Sequence[int], int]:
    """Return the tokens of the conversation that owns a checkpoint, and its slot; slot -1 = a stored conversation."""
    if key[0] == CHECKPOINT:
        return core.slots[key[1]].tokens, key[1]
    return core.points.conversation(key).tokens, -1
