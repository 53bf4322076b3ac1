"""What drivers have in common: decisions are written down, changes are told, work goes on in rounds.

A driver asks a rule, acts, and tells. Whoever listens to the log hears of every decision, and of every moment at which
restore points may have come or gone.
"""

from __future__ import annotations

from typing import Any, Protocol

from cachesim.engines.base import Answer, Decision, Request
from cachesim.events import Changed, Decided, Log


class HasId(Protocol):
    """A slot."""

    id: int


def write_down(log: Log, decision: Decision, slot: HasId | None) -> Any:
    """Write a decision down; returns its value."""
    log.emit(Decided(slot.id if slot else None, decision.rule, decision.value, decision.because))
    return decision.value


def tell_change(log: Log, slot: HasId | None, cause: str, rule: str = "") -> None:
    """Restore points may have come or gone, because of this rule."""
    log.emit(Changed(slot.id if slot else None, cause, rule))


class Driver:
    """A server that decides by rules and works in rounds."""

    log: Log
    tick = 0

    def decide(self, decision: Decision, slot: HasId | None) -> Any:
        """Write a decision down; returns its value."""
        return write_down(self.log, decision, slot)

    def changed(self, slot: HasId | None, cause: str, rule: str = "") -> None:
        """Restore points may have come or gone, because of this rule."""
        tell_change(self.log, slot, cause, rule)

    def next_tick(self) -> int:
        """The server's clock."""
        self.tick += 1
        return self.tick - 1

    def submit(self, request: Request) -> Answer:
        """Queue a request; the answer fills as the server works."""
        raise NotImplementedError

    @property
    def working(self) -> bool:
        """Is there anything left to do?"""
        raise NotImplementedError

    def take_tasks(self) -> None:
        """First half of a round: what clients want."""
        raise NotImplementedError

    def update(self) -> None:
        """Second half of a round: one batch for all busy slots."""
        raise NotImplementedError

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
