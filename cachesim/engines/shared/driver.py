"""What drivers have in common: decisions are written down, changes are told, work goes on in rounds.

A driver asks a rule, acts, and tells. Whoever listens to the log hears of every decision, and of every moment at which
restore points may have come or gone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from typing import Any, Protocol, Sequence

from cachesim.engines.base import Answer, Request
from cachesim.engines.rule import Decision
from cachesim.events import Changed, Decided, Log


class AnySlot(Protocol):
    """A slot."""

    id: int

    @property
    def busy(self) -> bool:
        """Is a task at work here?"""
        ...


def write_down(log: Log, decision: Decision, slot: AnySlot | None) -> Any:
    """Write a decision down; returns its value."""
    log.emit(Decided(slot.id if slot else None, decision.rule, decision.value, decision.because))
    return decision.value


def tell_change(log: Log, slot: AnySlot | None, cause: str, rule: str = "") -> None:
    """Restore points may have come or gone, because of this rule."""
    log.emit(Changed(slot.id if slot else None, cause, rule))


class Driver(ABC):
    """A server that decides by rules and works in rounds. ``queue`` holds tasks that no slot has yet."""

    log: Log
    queue: deque[Any]
    slots: Sequence[AnySlot]
    tick = 0

    def decide(self, decision: Decision, slot: AnySlot | None) -> Any:
        """Write a decision down; returns its value."""
        return write_down(self.log, decision, slot)

    def changed(self, slot: AnySlot | None, cause: str, rule: str = "") -> None:
        """Restore points may have come or gone, because of this rule."""
        tell_change(self.log, slot, cause, rule)

    def next_tick(self) -> int:
        """The server's clock."""
        self.tick += 1
        return self.tick - 1

    @abstractmethod
    def submit(self, request: Request) -> Answer:
        """Queue a request; the answer fills as the server works."""

    @abstractmethod
    def take_tasks(self) -> None:
        """First half of a round: what clients want."""

    def take_queue(self) -> None:
        """The same, before any hang-up of this round."""
        self.take_tasks()

    @property
    def leaving(self) -> bool:
        """Will the next ``take_tasks`` begin with a hang-up?"""
        return False

    @abstractmethod
    def update(self) -> None:
        """Second half of a round: one batch for all busy slots."""

    @property
    def stuck(self) -> bool:
        """Will nothing happen any more until somebody sends something?"""
        return False

    @property
    def idle(self) -> bool:
        """Would a round change nothing, and all that follow it?"""
        return not self.queue and not any(slot.busy for slot in self.slots)

    @property
    def working(self) -> bool:
        """Is there anything left to do, that can be done?"""
        return bool(self.queue) or (any(slot.busy for slot in self.slots) and not self.stuck)

    def complete(self, request: Request) -> Answer:
        """Work on one request until nothing is left to do."""
        answer = self.submit(request)
        while self.working:
            self.iterate()
        return answer

    def iterate(self) -> None:
        """One round of the main loop."""
        self.take_tasks()
        self.update()
