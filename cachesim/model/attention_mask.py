"""Visible rows of a memory for each token of a run.

A mask is computed once per run and part of the memory, and shared by all layers of that part within a micro-batch.
``View`` masks by position alone: key <= query and query - key < window. A window below 0 is a chunk: a token sees the
tokens of its own chunk of -window positions. ``MaskView`` uses the ranges of an engine's own
mask.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Iterable, NamedTuple

import numpy as np
import numpy.typing as npt

from cachesim.model.grid import Digests, Positions

Bounds = npt.NDArray[np.int64]


class VisibleRows(NamedTuple):
    """Half-open ranges into the rows of a view: token i sees rows lo[i] .. hi[i]-1."""

    lo: Bounds                # (t,)
    hi: Bounds                # (t,)


class View:
    """Rows of a sequence as a run sees them. ``tail``: True if the run's own rows are the last rows, complete and
    unique."""

    def __init__(self, positions: Positions, asked: Positions) -> None:
        self.positions, self.asked = positions, asked
        self.n, self.t = len(positions), len(asked)
        first = self.n - self.t
        self.tail = (
            first >= 0
            and bool(positions[first] == asked[0] if self.t == 1 else positions[first:].tobytes() == asked.tobytes())
            and (first == 0 or bool(positions[first - 1] < asked[0]))
        )
        self._visible: dict[int, VisibleRows] = {}

    def visible(self, window: int) -> VisibleRows:
        """Return the range of rows that each token sees; ``window`` 0 = no window."""
        found = self._visible.get(window)
        if found is None:
            found = self._visible[window] = VisibleRows(self._low(window), self._high())
        return found

    def ranges(self, window: int) -> Iterable[tuple[int, int]]:
        """Return the range of rows (first, stop) that each token sees, for a few tokens."""
        seen = self.visible(window)
        return zip(seen.lo.tolist(), seen.hi.tolist(), strict=True)

    def visible_sum(self, digest: Digests, window: int) -> Digests:
        """Return for each token the sum of the digests of the rows that it sees, (t,)."""
        if self.tail and not window:
            first = self.n - self.t
            total: Digests = np.add.accumulate(digest[first:])
            total += np.add.reduce(digest[:first])
            return total
        lo, hi = self.visible(window)
        total = np.zeros(self.n + 1, np.uint64)
        np.add.accumulate(digest, out=total[1:])
        return total[hi] - total[lo]

    def places(self, asked: Positions) -> Positions:
        """Return the positions of the rows, (n,), for the run's own at ``asked``."""
        return self.positions

    def _low(self, window: int) -> Bounds:
        if window < 0:
            return np.searchsorted(self.positions, self.asked // -window * -window, side="left")
        if not window:
            return np.zeros(self.t, np.int64)
        return np.searchsorted(self.positions, self.asked - window, side="right")

    def _high(self) -> Bounds:
        if self.tail:
            return np.arange(self.n - self.t + 1, self.n + 1)
        return np.searchsorted(self.positions, self.asked, side="right")


class StretchView(View):
    """Rows at consecutive positions, the last ``t`` of which are the run's own; of a model with chunked attention they
    begin at position 0."""

    def __init__(self, n: int, t: int) -> None:
        self.n = n
        self.t = t
        self.tail = True
        self._visible = {}

    def places(self, asked: Positions) -> Positions:
        """Return the positions of the rows, (n,)."""
        last = int(asked[-1])
        return np.arange(last + 1 - self.n, last + 1)

    def ranges(self, window: int) -> Iterable[tuple[int, int]]:
        """Return the range of rows (first, stop) that each token sees, for a few tokens."""
        own = range(self.n - self.t, self.n)
        if window > 0:
            return [(max(row + 1 - window, 0), row + 1) for row in own]
        return [(row // -window * -window if window else 0, row + 1) for row in own]

    def _low(self, window: int) -> Bounds:
        if not window:
            return np.zeros(self.t, np.int64)
        own = np.arange(self.n - self.t, self.n)
        return own // -window * -window if window < 0 else np.maximum(own + 1 - window, 0)


class MaskView(View):
    """Rows as an engine's own mask shows them. Token i sees rows lo[i] .. hi[i]-1 of the n rows, independent of
    positions and windows. Both bounds ascend."""

    def __init__(self, lo: Bounds, hi: Bounds, n: int) -> None:
        self.n = n
        self.t = len(lo)
        self.tail = False
        self._seen = VisibleRows(lo, hi)

    def visible(self, window: int) -> VisibleRows:
        """Return the given ranges; ``window`` is ignored."""
        return self._seen


class ByPosition(ABC):
    """A store that returns positions, so that the model masks by them."""

    @abstractmethod
    def positions(self, part: str, run: int) -> Positions:
        """Return the positions of every row of the run's sequence in this part, including the run's own new rows: (n,),
        ascending."""

    def view(self, part: str, run: int, asked: Positions) -> View:
        """Return the rows that each token sees (see ``Store``)."""
        return View(self.positions(part, run), asked)
