"""Which cell of an attention cache holds which position, and for whom?

pos      position of the token in a cell, -1 = empty
seqs     who uses the cell: seqs[s, i] is true when sequence s can see cell i
head     where the search for free cells begins
used     number of cells that are not empty

The arrays are as long as the cells that were ever used need: every cell beyond their end is empty.
Source: llama.cpp src/llama-kv-cells.h, src/llama-kv-cache.cpp (3f545be).
"""

from __future__ import annotations

from typing import Callable, NamedTuple

import numpy as np

from cachesim.engines.shared.growing_table import longer, room
from cachesim.errors import Crash

Masked = Callable[[np.ndarray, int], np.ndarray]
"""(key positions, query position) -> which keys the query cannot see."""


class Saved(NamedTuple):
    """A table as it was: what ``prepare`` puts back after trying."""

    pos: np.ndarray
    shift: np.ndarray
    seqs: np.ndarray
    used: int
    head: int
    span: list[tuple[int, int] | None]


class SavedCells(NamedTuple):
    """Some cells of a table, and its head, as they were."""

    pos: np.ndarray
    shift: np.ndarray
    seqs: np.ndarray
    head: int


class Cells:
    """The cell table of one stream: ``size`` cells, ``n_seq`` sequences."""

    def __init__(self, size: int, n_seq: int) -> None:
        self.size, self.n_seq = size, n_seq
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self.pos = np.zeros(0, dtype=np.int64)                         # (n,) of the first n cells
        self.shift = np.zeros(0, dtype=np.int64)                       # (n,) positions moved, not yet rotated
        self.seqs = np.zeros((self.n_seq, 0), dtype=bool)              # (n_seq, n)
        self.used, self.head, self.has_shift = 0, 0, False
        self._span: list[tuple[int, int] | None] = [(-1, -1)] * self.n_seq

    def reach(self, stop: int) -> None:
        """Make the arrays long enough for the first ``stop`` cells, or for all there are."""
        n = room(len(self.pos), min(stop, self.size), self.size)
        if n > len(self.pos):
            self.pos, self.shift = longer(self.pos, n, fill=-1), longer(self.shift, n)
            self.seqs = longer(self.seqs, n, axis=1)

    # --- looking ------------------------------------------------------------------------------------------

    def span(self, seq: int) -> tuple[int, int]:
        """(smallest, largest) position of the sequence, (-1, -1) if it is absent."""
        known = self._span[seq]
        if known is None:
            held = self.pos[self.seqs[seq]]
            known = self._span[seq] = (int(held.min()), int(held.max())) if len(held) else (-1, -1)
        return known

    def of(self, seq: int) -> np.ndarray:
        """Indices of the sequence's cells, by cell index."""
        cells: np.ndarray = self.seqs[seq].nonzero()[0]
        return cells

    def in_range(self, seq: int, p0: int, p1: int) -> np.ndarray:
        """Indices of cells with p0 <= pos < p1 that the sequence uses (seq < 0: that anybody uses)."""
        hit = (self.pos >= max(p0, 0)) & (self.pos < p1)
        return np.flatnonzero(hit if seq < 0 else hit & self.seqs[seq])

    def find(self, n: int, masked: Masked | None) -> np.ndarray | None:
        """KV-SLOT: n cells for new tokens, first fit from ``head`` around the ring; None if there are not enough.

        A cell can be taken if it is empty, or (window caches) if its only sequence will never look at it again.
        """
        start = 0 if self.head > self.used + 2 * n else self.head
        if n > self.size:
            return None
        stop = start + n
        if stop <= self.size and (self.pos[start:stop] < 0).all():     # the common case: a free stretch
            return np.arange(start, stop)
        cells = np.flatnonzero(self._free(masked))
        k = int(np.searchsorted(cells, start))
        if len(cells) - k < n and len(self.pos) < self.size:           # those beyond the arrays come before the first
            self.reach(max(len(self.pos), start) + n)
            cells = np.flatnonzero(self._free(masked))
        if len(cells) < n:
            return None
        return np.concatenate((cells[k:], cells[:k]))[:n]

    def find_together(self, n: int, masked: Masked | None) -> np.ndarray | None:
        """n neighbouring cells, first fit from ``head`` around the ring; None if no stretch is free."""
        start = 0 if self.head > self.used + 2 * n else self.head
        first = self._stretches(n, masked)
        if not (first >= start).any() and len(self.pos) < self.size:
            self.reach(max(len(self.pos), start) + n)
            first = self._stretches(n, masked)
        if not len(first):
            return None
        at = int(np.searchsorted(first, start)) % len(first)
        return np.arange(first[at], first[at] + n)

    def _stretches(self, n: int, masked: Masked | None) -> np.ndarray:
        """First cells of n neighbours within the arrays that can be taken, ascending."""
        taken = np.concatenate(([0], np.cumsum(~self._free(masked))))       # (cells + 1,) taken before each cell
        return np.flatnonzero(taken[n:] == taken[: max(0, len(taken) - n)])

    def _free(self, masked: Masked | None) -> np.ndarray:
        """(n,) which cells within the arrays can be taken."""
        free: np.ndarray = self.pos < 0
        return free if masked is None else free | self._forgotten(masked)

    def _forgotten(self, masked: Masked) -> np.ndarray:
        """Cells of exactly one sequence that the next token of that sequence cannot see."""
        alone = self.seqs.sum(axis=0) == 1
        gone = np.zeros(len(self.pos), dtype=bool)
        for seq in range(self.n_seq):
            last = self.span(seq)[1]
            if last >= 0:
                gone |= alone & self.seqs[seq] & masked(self.pos, last + 1)
        return gone

    # --- changing -----------------------------------------------------------------------------------------

    def place(self, cells: np.ndarray, pos: np.ndarray, seq: int, ordered: bool = True) -> dict[int, int]:
        """Put positions of one sequence into cells (``ordered``: ascending). Returns, per sequence that lost
        cells to it, the largest position lost."""
        lost: dict[int, int] = {}
        try:
            old = self.pos[cells]
        except IndexError:                                             # rare: asking for the largest each time is slow
            self.reach(int(cells.max()) + 1)
            old = self.pos[cells]
        taken = cells[old >= 0]
        if len(taken):
            for other in range(self.n_seq):
                mine = taken[self.seqs[other, taken]]
                if len(mine):
                    lost[other] = int(self.pos[mine].max())
            self._empty(taken)
        self.pos[cells] = pos
        self.seqs[seq, cells] = True
        self.used += len(cells)
        span = self._span[seq]
        if not ordered:
            self._span[seq] = None
        elif span is not None:
            lo, hi = int(pos[0]), int(pos[-1])
            self._span[seq] = (lo, hi) if span[0] < 0 else (min(span[0], lo), max(span[1], hi))
        return lost

    def remove(self, seq: int, p0: int, p1: int) -> None:
        """KV-RM: the sequence lets go of its cells in the range (seq < 0: the cells are emptied)."""
        if seq >= 0 and p0 > self.span(seq)[1]:
            return
        cells = self.in_range(seq, p0, p1)
        if not len(cells):
            return
        if seq < 0:
            freed = cells
        else:
            self.seqs[seq, cells] = False
            self._span[seq] = None
            freed = cells if self.n_seq == 1 else cells[~self.seqs[:, cells].any(axis=0)]
        self._empty(freed)
        if len(freed):
            self.head = min(self.head, int(freed[0]))

    def keep(self, seq: int) -> None:
        """Only ``seq`` stays."""
        others = np.flatnonzero((self.pos >= 0) & ~self.seqs[seq])
        self.seqs[:seq] = False
        self.seqs[seq + 1 :] = False
        self._span = [span if s == seq else (-1, -1) for s, span in enumerate(self._span)]
        self._empty(others)
        if len(others):
            self.head = min(self.head, int(others[0]))

    def move(self, seq: int, p0: int, p1: int, delta: int) -> None:
        """Add ``delta`` to the positions in the range; a cell whose position goes negative is emptied."""
        if delta == 0 or p0 >= p1:
            return
        cells = self.in_range(seq, p0, p1)
        self.pos[cells] += delta
        self.shift[cells] += delta
        self.has_shift = self.has_shift or bool(len(cells))
        gone = cells[self.pos[cells] < 0]
        self._empty(gone)
        self._span = [None] * self.n_seq
        self.head = int(gone[0]) if len(gone) else 0

    def divide(self, seq: int, p0: int, p1: int, d: int) -> None:
        """Divide the positions in the range by ``d``, rounding down."""
        if d == 1:
            return
        cells = self.in_range(seq, p0, p1)
        old = self.pos[cells]
        self.pos[cells] = old // d
        self.shift[cells] += old // d - old
        self.has_shift = self.has_shift or bool(len(cells))
        self._span = [None] * self.n_seq

    def share(self, src: int, dst: int, p0: int, p1: int) -> None:
        """``dst`` uses the cells of ``src`` in the range too."""
        self.seqs[dst, self.in_range(src, p0, p1)] = True
        self._span[dst] = None

    def _empty(self, cells: np.ndarray) -> None:
        if len(cells):
            self.pos[cells] = -1
            self.shift[cells] = 0
            self.seqs[:, cells] = False
            self.used -= len(cells)
            self._span = [None] * self.n_seq

    # --- trying and checking ------------------------------------------------------------------------------

    def save(self) -> Saved:
        """A copy of the table, for ``restore``."""
        return Saved(self.pos.copy(), self.shift.copy(), self.seqs.copy(), self.used, self.head, list(self._span))

    def restore(self, saved: Saved) -> None:
        """Back to a saved table."""
        self.pos, self.shift, self.seqs = saved.pos, saved.shift, saved.seqs
        self.used, self.head, self._span = saved.used, saved.head, saved.span

    def save_at(self, cells: np.ndarray) -> SavedCells:
        """A copy of these cells, for ``restore_at``."""
        self.reach(int(cells.max()) + 1)
        return SavedCells(self.pos[cells], self.shift[cells], self.seqs[:, cells], self.head)

    def restore_at(self, saved: SavedCells, cells: np.ndarray) -> None:
        """Put these cells back as they were saved; what was emptied elsewhere stays empty."""
        self.pos[cells], self.shift[cells], self.seqs[:, cells] = saved.pos, saved.shift, saved.seqs
        self.used, self.head = int((self.pos >= 0).sum()), saved.head
        self._span = [None] * self.n_seq

    def check(self) -> None:
        """Raise Crash unless the table is consistent with itself."""
        occupied = self.pos >= 0
        if int(occupied.sum()) != self.used:
            raise Crash(f"{self.used} cells counted as used, {int(occupied.sum())} are")
        if not np.array_equal(self.seqs.any(axis=0), occupied):
            raise Crash("a cell has a position and no sequence, or a sequence and no position")
        if not 0 <= self.head <= self.size:
            raise Crash(f"head {self.head} lies outside {self.size} cells")
        for seq in range(self.n_seq):
            held = self.pos[self.seqs[seq]]
            held.sort()
            if (held[1:] == held[:-1]).any():
                raise Crash(f"sequence {seq} holds a position twice")
            want = (int(held[0]), int(held[-1])) if len(held) else (-1, -1)
            if self.span(seq) != want:
                raise Crash(f"sequence {seq} spans {want}, not {self.span(seq)}")
