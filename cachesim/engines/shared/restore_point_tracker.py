"""Tracker of the restore points of a server, whatever holds them: slots, conversations, blocks, or nodes of a tree.

An engine states the points that its memory has. The tracker knows the last report of each point and derives the events:
``Gained`` for a copy that is new or changed, ``Advanced`` for a running state that changed, ``Lost`` for a point that
is gone. ``usable_lengths`` derives the lengths of a point from its rows and its state.
"""

from __future__ import annotations

from itertools import chain, repeat
from typing import Iterable, NamedTuple

from cachesim.engines.inspection import Key, RestorePoint
from cachesim.events import Advanced, Gained, Log, Lost

UNUSABLE = 1, 0
"""Usable lengths of a point from which evaluation can resume after no length."""
EMPTY = 0, *UNUSABLE
"""Tokens and usable lengths of a running state that was never reported."""


class RowRange(NamedTuple):
    """Rows of layers at the positions ``first`` .. ``last``; ``last`` < 0 = none. ``window``: tokens that a token
    reads, itself included."""

    first: int
    last: int
    window: int


def usable_lengths(n: int, rows: Iterable[RowRange] = (), state: int | None = None) -> tuple[int, int]:
    """Return the smallest and largest length after which evaluation of ``n`` tokens can resume, as far as windows and
    states decide it. The last window - 1 rows before a length must exist. A state is usable only after the ``state``
    tokens that it has absorbed; None = the model has no such layers."""
    lo, hi = 1, n
    for first, last, window in rows:
        lo = max(lo, first + window - 1 if first and window else 1)
        hi = min(hi, last + 1)
    return (lo, hi) if state is None else (max(lo, state), min(hi, state))


class LengthCounter:
    """Number of restore points of each length [tokens]."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}

    def count(self, n: int, step: int) -> None:
        """Add ``step`` to the number of restore points of n tokens."""
        now = self._counts.get(n, 0) + step
        if now:
            self._counts[n] = now
        else:
            del self._counts[n]

    def in_order(self) -> list[int]:
        """Return the lengths of all restore points, ascending."""
        return list(chain.from_iterable(repeat(n, self._counts[n]) for n in sorted(self._counts)))


class RestorePointTracker:
    """Restore points of a server. ``reported``: number of tokens and usable lengths of each point that exists, as in
    its last report; ``count``: keys given out so far."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.reported: dict[Key, tuple[int, int, int]] = {}
        self.count = 0

    def new_key(self, kind: str, owner: int = -1) -> Key:
        """Return a key that no point of this server has had."""
        self.count += 1
        return kind, owner, self.count

    def kept(self) -> list[Key]:
        """Return the keys of all copies that were reported and are not lost."""
        return list(self.reported)

    def hold(
        self, point: RestorePoint, cause: str, rule: str = "", slot: int | None = None, anew: bool = False
    ) -> None:
        """Report a copy if it is new or has other lengths than in its last report. ``anew``: its content changed, too,
        so that it is reported in any case."""
        now = point.n, point.lo, point.hi
        if anew or self.reported.get(point.key) != now:
            self.reported[point.key] = now
            self.log.emit(Gained(slot, point, cause, rule))

    def advance(self, slot: int, point: RestorePoint, cause: str, rule: str, anew: bool = False) -> None:
        """Report the running state of a slot if it has other tokens or lengths than in its last report. ``anew``: its
        tokens are others although their number is the same."""
        now = point.n, point.lo, point.hi
        if anew or point.start < point.n or self.reported.get(point.key, EMPTY) != now:
            self.reported[point.key] = now
            self.log.emit(Advanced(slot, point, cause, rule))

    def lose(self, key: Key, cause: str, rule: str = "", slot: int | None = None) -> None:
        """Report that a point is gone."""
        self.reported.pop(key, None)
        self.log.emit(Lost(slot, key, cause, rule))
