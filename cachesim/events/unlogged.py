"""Events that no real server prints: decisions and memory operations, kept for the judge and for `why`."""

from __future__ import annotations

from typing import Any, Mapping

from cachesim.events.base import Event, frozen


@frozen
class Decided(Event, ev="decided", logged=False):
    """A rule decided. ``rule``: its id; ``because``: the numbers that it used; ``case``: the kind of situation, if the
    rule named it."""

    slot: int | None
    rule: str
    value: Any
    because: Mapping[str, Any]
    case: str = ""


@frozen
class Decoded(Event, ev="decode", logged=False):
    """A batch of ``n_tokens`` tokens is about to be evaluated. Some recordings contain the batches of a server."""

    n_tokens: int


@frozen
class MicroBatch(Event, ev="micro_batch", logged=False):
    """Tokens that are evaluated together: for each run of tokens its sequence (slot), first position and number of
    tokens; of mlx-lm for each row of the batch, with its padding. ``model``: "target" or "draft"."""

    model: str
    runs: tuple[tuple[int, int, int], ...]


@frozen
class SeqRm(Event, ev="seq_rm", logged=False):
    """The removal of rows of a sequence was requested: positions p0 .. p1-1; ``ok`` False = refused, nothing
    changed."""

    seq: int
    p0: int
    p1: int
    ok: bool


@frozen
class PointEvent(Event, logged=False):
    """A restore point appeared: ``point``, a ``cachesim.engines.inspection.RestorePoint``. It replaces a point with the
    same key. ``cause``: stored, evaluated, truncated, overwritten, cleared or consumed. ``rule``: id of the deciding
    rule, "" = none."""

    slot: int | None
    point: Any
    cause: str
    rule: str

    def record(self, one_slot: bool = False, tasks: Mapping[int, int] | None = None) -> dict[str, Any]:
        return {"ev": self.ev, "of": self.point.key[0], "slot": self.slot, "n_tokens": self.point.n,
                "cause": self.cause, "rule": self.rule}  # fmt: skip


@frozen
class Gained(PointEvent, ev="gained"):
    """A kept copy appeared: a checkpoint, a stored conversation, a block."""


@frozen
class Advanced(PointEvent, ev="advanced"):
    """The state of a running slot changed. The state is a restore point until the slot evaluates further tokens; it is
    not a kept copy."""


    def record(self, one_slot: bool = False, tasks: Mapping[int, int] | None = None) -> dict[str, Any]:
        return {"ev": self.ev, "slot": self.slot}


@frozen
class Lost(Event, ev="lost", logged=False):
    """The restore point with this key was removed. ``cause``: erased, evicted, consumed, overwritten, cleared or
    truncated. ``rule``: id of the deciding rule, "" = none."""

    slot: int | None
    key: tuple[str, int, int]
    cause: str
    rule: str

    def record(self, one_slot: bool = False, tasks: Mapping[int, int] | None = None) -> dict[str, Any]:
        return {"ev": self.ev, "of": self.key[0], "slot": self.slot, "cause": self.cause, "rule": self.rule}


@frozen
class Declined(Event, ev="declined", logged=False):
    """A rule created no restore point after the first ``n_tokens`` tokens of a slot."""

    slot: int
    n_tokens: int
    rule: str


@frozen
class Settled(Event, ev="settled", logged=False):
    """The memory of a slot was cut back to the ``n_tokens`` tokens that a request reuses; evaluation comes next."""

    slot: int
    n_tokens: int


@frozen
class Compared(Event, ev="compared", logged=False):
    """An unset number decided something: whether ``held`` tokens exceed the number named by ``unset``."""

    slot: int
    unset: tuple[int, int]
    held: int


@frozen
class Aborted(Event, ev="aborted", logged=False, printed=True):
    """The simulated server process ended itself."""

    text: str
