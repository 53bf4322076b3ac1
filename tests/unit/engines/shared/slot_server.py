"""A minimal server with tokens, rows and lengths only, for the tests of restore points."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cachesim.engines.inspection import RestorePoint
from cachesim.engines.shared.conversation_points import ALL_TOKENS, CheckpointRange, Conversation, ConversationPoints
from cachesim.events import Advanced, Gained, Log, Lost
from tests.unit.engines.restore_points import Reported

SLOT = "slot", 0, 0


@dataclass(frozen=True)
class Checkpoint:
    """Its state is known by identity."""

    n: int
    lo: int = 1
    hi: int = ALL_TOKENS
    blob: Any = field(default_factory=list)


@dataclass
class Held:
    """A slot, or a stored conversation. ``rows`` None = as many as there are tokens."""

    tokens: Any = ()
    id: int = 0
    rows: int | None = None
    lo: int = 1
    hi: int = ALL_TOKENS
    checkpoints: Any = ()


class Server:
    """Counts how often a checkpoint is looked into."""

    def __init__(self, *kinds):
        self.log, self.told, self.looked = Log(), Reported(), 0
        self.log.listener, self.log.kinds = self.told, frozenset(kinds)
        self.points = ConversationPoints(self, self.log)

    def of_slot(self, held):
        rows = len(held.tokens) if held.rows is None else held.rows
        return Conversation(held.tokens, rows, held.lo, held.hi, held.checkpoints)

    of_entry = of_slot

    def of_checkpoint(self, checkpoint):
        self.looked += 1
        return CheckpointRange(checkpoint.n, checkpoint.lo, checkpoint.hi)

    def changed(self, slot, kept=0, **more):
        """The events of a change."""
        before = len(self.log.events)
        self.points.changed(slot, "cause", "RULE", kept, **more)
        return self.log.events[before:]

    def stored(self, *args, **more):
        before = len(self.log.events)
        self.points.stored(*args, **more)
        return self.log.events[before:]


def text(n, first=0):
    return list(range(first, first + n))


def advanced(*point):
    return Advanced(0, RestorePoint(SLOT, *point), "cause", "RULE")


def gained(key, n, lo, hi, after=SLOT):
    """A checkpoint: its tokens are the first n of its conversation."""
    slot, why = (0, ("cause", "RULE")) if after == SLOT else (None, ("stored", ""))
    return Gained(slot, RestorePoint(key, n, (), n, after, lo, hi), *why)


def lost(key):
    return Lost(0, key, "cause", "RULE")
