"""Events that no real server prints: decisions and memory operations, kept for the judge and for `why`."""

from __future__ import annotations

from typing import Any, Mapping

from cachesim.events.base import Event, frozen


@frozen
class Decided(Event):
    """A rule was asked and answered. ``rule`` is its id, ``because`` the numbers it looked at, ``case`` the kind of
    situation where the rule named one."""

    ev = "decided"
    logged = False
    slot: int | None
    rule: str
    value: Any
    because: Mapping[str, Any]
    case: str = ""


@frozen
class Decoded(Event):
    """A batch of ``n_tokens`` tokens is about to be evaluated. Some recordings have the batches of a server."""

    ev = "decode"
    logged = False
    n_tokens: int


@frozen
class SeqRm(Event):
    """Rows of a sequence were asked to go: positions p0 .. p1-1; ``ok`` False = refused, nothing changed."""

    ev = "seq_rm"
    logged = False
    seq: int
    p0: int
    p1: int
    ok: bool


@frozen
class RowsPurged(Event):
    """A window buffer reused cells and dropped what lay before them: positions p0 .. p1 inclusive."""

    ev = "rows_purged"
    logged = False
    seq: int
    p0: int
    p1: int


@frozen
class Changed(Event):
    """Restore points may have come or gone. ``cause`` is erased, evicted, consumed, overwritten, cleared, truncated,
    stored or evaluated; ``rule`` the id of the rule behind it, "" = none."""

    ev = "changed"
    logged = False
    slot: int | None
    cause: str
    rule: str


@frozen
class Compared(Event):
    """A number that nobody wrote decided something: do ``held`` tokens exceed the number called ``unset``?"""

    ev = "compared"
    logged = False
    slot: int
    unset: tuple[int, int]
    held: int


@frozen
class Aborted(Event):
    """The simulated server process ended itself."""

    ev = "aborted"
    logged = False
    text: str
