"""Events that no real server prints: decisions and memory operations, kept for the judge and for `why`."""

from __future__ import annotations

from typing import Any, Mapping

from cachesim.events.base import Event, frozen


@frozen
class Decided(Event, ev="decided", logged=False):
    """A rule was asked and answered. ``rule`` is its id, ``because`` the numbers it looked at, ``case`` the kind of
    situation where the rule named one."""

    slot: int | None
    rule: str
    value: Any
    because: Mapping[str, Any]
    case: str = ""


@frozen
class Decoded(Event, ev="decode", logged=False):
    """A batch of ``n_tokens`` tokens is about to be evaluated. Some recordings have the batches of a server."""

    n_tokens: int


@frozen
class SeqRm(Event, ev="seq_rm", logged=False):
    """Rows of a sequence were asked to go: positions p0 .. p1-1; ``ok`` False = refused, nothing changed."""

    seq: int
    p0: int
    p1: int
    ok: bool


@frozen
class RowsPurged(Event, ev="rows_purged", logged=False):
    """A window buffer reused cells and dropped what lay before them: positions p0 .. p1 inclusive."""

    seq: int
    p0: int
    p1: int


@frozen
class PointEvent(Event, logged=False):
    """A restore point has come: ``point``, a ``cachesim.engines.inspection.Point``. If a point with the same key
    existed, its lengths are gone. ``cause`` is stored, evaluated, truncated, overwritten, cleared or consumed; ``rule``
    is the id of the rule behind it, "" = none."""

    slot: int | None
    point: Any
    cause: str
    rule: str

    def record(self, one_slot: bool = False, tasks: Mapping[int, int] | None = None) -> dict[str, Any]:
        return {"ev": self.ev, "of": self.point.key[0], "slot": self.slot, "n_tokens": self.point.n,
                "cause": self.cause, "rule": self.rule}  # fmt: skip


@frozen
class Gained(PointEvent, ev="gained"):
    """A kept copy has come: a checkpoint, a stored conversation, a block."""


@frozen
class Advanced(PointEvent, ev="advanced"):
    """A running slot's own state has changed. It is a restore point as long as the slot does not go on, and no kept
    copy."""


    def record(self, one_slot: bool = False, tasks: Mapping[int, int] | None = None) -> dict[str, Any]:
        return {"ev": self.ev, "slot": self.slot}


@frozen
class Lost(Event, ev="lost", logged=False):
    """The restore point with this key has gone. ``cause`` is erased, evicted, consumed, overwritten, cleared or
    truncated; ``rule`` the id of the rule behind it, "" = none."""

    slot: int | None
    key: tuple[str, int, int]
    cause: str
    rule: str

    def record(self, one_slot: bool = False, tasks: Mapping[int, int] | None = None) -> dict[str, Any]:
        return {"ev": self.ev, "of": self.key[0], "slot": self.slot, "cause": self.cause, "rule": self.rule}


@frozen
class Declined(Event, ev="declined", logged=False):
    """A rule made no restore point after the first ``n_tokens`` tokens of a slot."""

    slot: int
    n_tokens: int
    rule: str


@frozen
class Settled(Event, ev="settled", logged=False):
    """The memory of a slot is cut back to the ``n_tokens`` tokens that a request reuses; evaluation comes next."""

    slot: int
    n_tokens: int


@frozen
class Compared(Event, ev="compared", logged=False):
    """A number that nobody wrote decided something: do ``held`` tokens exceed the number called ``unset``?"""

    slot: int
    unset: tuple[int, int]
    held: int


@frozen
class Aborted(Event, ev="aborted", logged=False):
    """The simulated server process ended itself."""

    text: str
