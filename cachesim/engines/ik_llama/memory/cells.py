"""Cell table of a context: labels, own positions and users of all cells.

pos     position of the cell by which attention is masked (its label), -1 = empty
own     position for which the row in the cell was computed; differs from the label only after a speculative restore
        relabelled the cell
seqs    sequences that use the cell: seqs[s, i]
head    start of the search for free cells
used    number of non-empty cells

The arrays are as long as the highest used cell requires; cells after their end are empty. Source: ik_llama.cpp
src/llama.cpp llama_kv_cache_find_slot, llama_kv_cache_seq_rm (8337e4cd3).
"""

from __future__ import annotations

import numpy as np

from cachesim.base.errors import Crash
from cachesim.engines.shared.kv_rows import extend_array, grown_size


class Cells:
    """The cell table: ``size`` cells, ``n_seq`` sequences."""

    def __init__(self, size: int, n_seq: int) -> None:
        self.size, self.n_seq = size, n_seq
        self.pos = np.zeros(0, dtype=np.int64)                   # (n,) labels of the first n cells
        self.own = np.zeros(0, dtype=np.int64)                   # (n,)
        self.seqs = np.zeros((n_seq, 0), dtype=bool)             # (n_seq, n)
        self.head, self.used = 0, 0
        self._last: list[int | None] = [-1] * n_seq              # largest label, None = not cached

    def reach(self, stop: int) -> None:
        """Extend the arrays to at least ``stop`` cells."""
        n = grown_size(len(self.pos), stop, self.size)
        if n > len(self.pos):
            self.pos, self.own = extend_array(self.pos, n, fill=-1), extend_array(self.own, n, fill=-1)
            self.seqs = extend_array(self.seqs, n, axis=1)

    def of(self, seq: int) -> np.ndarray:
        """Return the indices of the sequence's cells, ascending."""
        found: np.ndarray = self.seqs[seq].nonzero()[0]
        return found

    def held(self, seq: int) -> np.ndarray | slice:
        """Return the sequence's cells, ascending: as a slice if they are contiguous, which reads an array without a
        copy."""
        used = self.seqs[seq]
        n = int(np.count_nonzero(used))
        first = int(used.argmax()) if n else 0
        if n and used[first : first + n].all():
            return slice(first, first + n)
        return self.of(seq)

    def pos_max(self, seq: int) -> int:
        """Return the largest position (``pos``) of the sequence, -1 without cells."""
        known = self._last[seq]
        if known is None:
            held = self.pos[self.seqs[seq]]
            known = self._last[seq] = int(held.max()) if len(held) else -1
        return known

    def first(self, seq: int) -> int:
        """Return the position (``pos``) of the sequence's first cell by index, which need not be the smallest; -1
        without cells."""
        cells = self.of(seq)
        return int(self.pos[cells[0]]) if len(cells) else -1

    def find(self, n: int) -> int | None:
        """Return the first of ``n`` contiguous free cells, searched once around the ring from ``head``; None = not
        found. Moves ``head`` to the end of the search."""
        tested = 0
        while tested < self.size:
            if self.head + n > self.size:
                tested += self.size - self.head
                self.head = 0
                if n > self.size:
                    return None
                continue
            taken = self.pos[self.head : self.head + n] >= 0
            if not taken.any():
                return self.head
            first = self.head + int(taken.argmax())          # continue after this cell and its taken neighbours
            free = self.pos[first:] < 0
            stop = first + (int(free.argmax()) if free.any() else len(free))
            tested, self.head = tested + stop - self.head, stop
        return None

    def place(self, first: int, pos: np.ndarray, own: np.ndarray, seq: int) -> None:
        """Give a sequence the contiguous cells from ``first`` on, with positions ``pos``."""
        stop = first + len(pos)
        self.reach(stop)
        self.pos[first:stop], self.own[first:stop] = pos, own
        self.seqs[seq, first:stop] = True
        self.used += len(pos)
        known = self._last[seq]
        self._last[seq] = None if known is None or not len(pos) else max(known, int(np.maximum.reduce(pos)))

    def remove(self, seq: int, p0: int, p1: int) -> None:
        """Remove the sequence from its cells at positions (``pos``) p0 .. p1-1. If the first freed cell precedes
        ``head``, the next search for free cells starts there."""
        if p0 > self.pos_max(seq):
            return
        cells = np.flatnonzero(self.seqs[seq] & (self.pos >= p0) & (self.pos < p1))
        self.seqs[seq, cells] = False
        self._last[seq] = None
        freed = cells if self.n_seq == 1 else cells[~self.seqs[:, cells].any(axis=0)]
        if len(freed):
            self.pos[freed] = self.own[freed] = -1
            self.used -= len(freed)
            self.head = min(self.head, int(freed[0]))

    def relabel(self, cell: int, pos: int) -> None:
        """Set the position ``pos`` of a cell, whichever sequences use it; ``own`` is unchanged."""
        self.reach(cell + 1)
        self.pos[cell] = pos
        self._last = [None] * self.n_seq

    def move(self, seq: int, p0: int, p1: int, delta: int) -> np.ndarray:
        """Add ``delta`` to positions p0 .. p1-1 (``pos`` and ``own``) of the sequence; return the cells."""
        cells = np.flatnonzero(self.seqs[seq] & (self.pos >= p0) & (self.pos < p1))
        self.pos[cells] += delta
        self.own[cells] += delta
        self._last[seq] = None
        self.head = 0
        return cells

    def check(self) -> None:
        """Raise Crash unless the table is consistent."""
        occupied = self.pos >= 0
        if int(occupied.sum()) != self.used:
            raise Crash(f"used-cell counter is {self.used}, expected {int(occupied.sum())}")
        if not np.array_equal(self.seqs.any(axis=0), occupied):
            raise Crash("a cell has a position without a sequence, or a sequence without a position")
        for seq in range(self.n_seq):
            held = self.pos[self.seqs[seq]]
            if self.pos_max(seq) != (int(held.max()) if len(held) else -1):
                raise Crash(f"recorded end of sequence {seq} is {self.pos_max(seq)}, its cells end elsewhere")
