"""Cell table of an attention cache: positions and sequences of its cells.

pos      position of the token in a cell, -1 = empty
seqs     seqs[s, i] is true if sequence s uses (can see) cell i
head     start of the search for free cells
used     number of cells that are not empty
end      every cell from here on is empty

The arrays cover only the cells that were ever used: every cell after their end is empty.
Source: llama.cpp src/llama-kv-cells.h, src/llama-kv-cache.cpp (3f545be).
"""

from __future__ import annotations

from copy import copy
from typing import Callable

import numpy as np

from cachesim.base.errors import Crash
from cachesim.engines.llama_cpp.memory.cell_ranges import Found, SequenceExtents, as_array, index
from cachesim.engines.llama_cpp.memory.position_sets import PositionSets
from cachesim.engines.shared.kv_rows import extend_array, grown_size

Masked = Callable[[np.ndarray, int], np.ndarray]
"""(key positions, query position) -> mask of the keys that the query cannot see."""


class Cells:
    """Cell table of a stream: ``size`` cells, ``n_seq`` sequences. ``pos_set``, ``shared_stays``: see BuildTraits."""

    def __init__(self, size: int, n_seq: int, pos_set: bool = False, shared_stays: bool = True) -> None:
        self.size = size
        self.n_seq = n_seq
        self.pos_set = pos_set
        self.shared_stays = shared_stays
        self.clear()

    def clear(self) -> None:
        """Empty all cells."""
        self.pos = np.zeros(0, dtype=np.int64)                         # (n,) for the first n cells
        self.shift = np.zeros(0, dtype=np.int64)                       # (n,) pending K-shift in positions
        self.seqs = np.zeros((self.n_seq, 0), dtype=bool)              # (n_seq, n)
        self.used = 0
        self.head = 0
        self.end = 0
        self.has_shift = False
        self.extents = SequenceExtents(self.n_seq)
        self.sets = PositionSets(self.n_seq) if self.pos_set else None

    def reach(self, stop: int) -> None:
        """Extend the arrays to the first ``stop`` cells, or to all cells if there are fewer."""
        if stop > len(self.pos):
            n = grown_size(len(self.pos), min(stop, self.size), self.size)
            self.pos, self.shift = extend_array(self.pos, n, fill=-1), extend_array(self.shift, n)
            self.seqs = extend_array(self.seqs, n, axis=1)

    # --- queries ------------------------------------------------------------------------------------------

    def span(self, seq: int) -> tuple[int, int]:
        """Return the (smallest, largest) position of the sequence, (-1, -1) if it is absent."""
        known = self.extents.span[seq]
        if known is None:
            held = self.held(seq)
            held = held if self.sets is None else self.sets.known_positions(seq, held)
            known = self.extents.span[seq] = (int(held[0]), int(held[-1])) if len(held) else (-1, -1)
        return known

    def held(self, seq: int) -> np.ndarray:
        """Return the (n,) positions of the sequence, ascending, without using the known extent."""
        held: np.ndarray = self.pos[: self.end][self.seqs[seq, : self.end]]
        held.sort()
        return held

    def of(self, seq: int) -> Found:
        """Return the indices of the sequence's cells, ascending."""
        known = self.extents.stretch(seq)
        if known is not None:
            return known
        cells: np.ndarray = self.seqs[seq].nonzero()[0]
        return cells

    def in_range(self, seq: int, p0: int, p1: int) -> Found:
        """Return the indices of cells with p0 <= pos < p1 that the sequence (seq < 0: any sequence) uses."""
        known = self.extents.stretch(seq) if seq >= 0 else None
        if known is not None:
            lo = self.span(seq)[0]
            return known[max(p0 - lo, 0) : max(p1 - lo, 0)]
        hit = (self.pos >= max(p0, 0)) & (self.pos < p1)
        return np.flatnonzero(hit if seq < 0 else hit & self.seqs[seq])

    def find(self, n: int, masked: Masked | None) -> Found | None:
        """Return n cells for new tokens, first fit from ``head`` around the ring; None if too few are free.

        A cell is free if it is empty or (window caches) as ``_free`` says.
        """
        start = 0 if self.head > self.used + 2 * n else self.head
        if n > self.size:
            return None
        stop = start + n
        if stop <= self.size and (start >= self.end or self._free(masked, slice(start, stop)).all()):  # the common case
            return range(start, stop)
        cells = np.flatnonzero(self._free(masked))
        k = int(np.searchsorted(cells, start))
        if len(cells) - k < n and len(self.pos) < self.size:           # cells after the arrays come first
            self.reach(max(len(self.pos), start) + n)
            cells = np.flatnonzero(self._free(masked))
        if len(cells) < n:
            return None
        return np.concatenate((cells[k:], cells[:k]))[:n]

    def count_empty(self) -> int:
        """Return how many searches for a single cell, one after the other, find the cells from ``head`` on empty."""
        if self.head > self.used + 2:                 # the next search begins at cell 0
            return 0
        taken = self.pos[self.head : self.end] >= 0
        return int(taken.argmax()) if taken.any() else self.size - self.head

    def count_replaceable(self, seq: int, masked: Masked, query: int) -> int:
        """Return how many searches for a single cell, one after the other, find the cells from ``head`` on with the
        smallest positions of the sequence, in order: positions that no token from ``query`` on sees, in cells that no
        other sequence uses."""
        room = min(self.end, self.used + 3) - self.head            # further searches begin at cell 0
        if room <= 0 or self.sets is not None:
            return 0
        at = slice(self.head, self.head + room)
        pos = self.pos[at]
        first = self.span(seq)[0]
        oldest = self.seqs[seq, at] & masked(pos, query) & (pos == np.arange(first, first + room))
        if self.n_seq > 1:
            oldest &= self.seqs[:, at].sum(axis=0) == 1
        return room if oldest.all() else int(oldest.argmin())

    def find_contiguous(self, n: int, masked: Masked | None) -> range | None:
        """Return n adjacent free cells, first fit from ``head`` around the ring; None if no stretch is free."""
        start = 0 if self.head > self.used + 2 * n else self.head
        first = self._stretches(n, masked)
        if not (first >= start).any() and len(self.pos) < self.size:
            self.reach(max(len(self.pos), start) + n)
            first = self._stretches(n, masked)
        if not len(first):
            return None
        found = int(first[int(np.searchsorted(first, start)) % len(first)])
        return range(found, found + n)

    def _stretches(self, n: int, masked: Masked | None) -> np.ndarray:
        """Return the first cells of all stretches of n free cells within the arrays, ascending."""
        taken = np.concatenate(([0], np.cumsum(~self._free(masked))))     # (cells + 1,) used cells before each cell
        return np.flatnonzero(taken[n:] == taken[: max(0, len(taken) - n)])

    def _free(self, masked: Masked | None, at: slice = slice(None)) -> np.ndarray:
        """Return the (n,) mask of free cells within the arrays: empty cells, and cells that the next token of their
        sequence cannot see. With ``shared_stays`` a cell of several sequences is not free."""
        pos, seqs = self.pos[at], self.seqs[:, at]
        free: np.ndarray = pos < 0
        if masked is None or free.all():
            return free
        unseen = seqs.sum(axis=0) == 1 if self.shared_stays and self.n_seq > 1 else ~free
        for seq in range(self.n_seq):
            last = self.span(seq)[1]
            if last >= 0:
                unseen &= ~seqs[seq] | masked(pos, last + 1)
        free |= unseen
        return free

    # --- changes ------------------------------------------------------------------------------------------

    def place(self, cells: Found, pos: range | np.ndarray, seq: int) -> dict[int, int]:
        """Put positions of a sequence into cells; a range of positions increases by 1. Return, per sequence that
        lost cells to it, the largest position lost."""
        stop = cells.stop if isinstance(cells, range) else int(cells.max()) + 1
        self.reach(stop)
        lost = {} if isinstance(cells, range) and cells.start >= self.end else self._empty_used(as_array(cells))
        at = index(cells)
        self.pos[at] = as_array(pos)
        self.seqs[seq, at] = True
        self.used += len(cells)
        self.end = max(self.end, stop)
        self.extents.grow(seq, cells, pos)
        if self.sets is not None:
            self.sets.change(seq, (int(p) for p in pos))
        return lost

    def _empty_used(self, cells: np.ndarray) -> dict[int, int]:
        """Empty the cells that are used; return, per sequence, the largest position lost."""
        lost: dict[int, int] = {}
        taken = cells[self.pos[cells] >= 0]
        for other in range(self.n_seq) if len(taken) else ():
            mine = taken[self.seqs[other, taken]]
            if len(mine):
                lost[other] = int(self.pos[mine].max())
                if len(mine) == 1 and self._is_at(other, int(mine[0]) + 1, lost[other] + 1):
                    self.extents.drop_first(other, lost[other])
                else:
                    self.extents.forget(other)
        self._empty(taken)
        return lost

    def _is_at(self, seq: int, cell: int, pos: int) -> bool:
        """True if the cell holds this position of the sequence."""
        return cell < self.end and int(self.pos[cell]) == pos and bool(self.seqs[seq, cell])

    def remove(self, seq: int, p0: int, p1: int) -> None:
        """Release the sequence's cells in the range (seq < 0: empty all cells in the range)."""
        if seq >= 0 and self.sets is None and p0 > self.span(seq)[1]:
            return
        cells = self.in_range(seq, p0, p1)
        if not len(cells):
            return
        freed, at = cells, index(cells)
        if seq < 0:
            self.extents.forget(seq)
        else:
            self.seqs[seq, at] = False
            self.extents.shrink(seq, cells)
            if self.n_seq > 1 and (used := self.seqs[:, at].any(axis=0)).any():
                freed = as_array(cells)[~used]
        self._empty(freed)
        if len(freed):
            self.head = min(self.head, int(freed[0]))

    def keep(self, seq: int) -> None:
        """Remove all sequences but ``seq``."""
        others = np.flatnonzero((self.pos >= 0) & ~self.seqs[seq])
        self.seqs[:seq] = False
        self.seqs[seq + 1 :] = False
        for other in {*range(self.n_seq)} - {seq}:
            self.extents.set_absent(other)
        self._empty(others)
        if len(others):
            self.head = min(self.head, int(others[0]))

    def move(self, seq: int, p0: int, p1: int, delta: int) -> None:
        """Add ``delta`` to the positions in the range. Cells whose position becomes negative are emptied."""
        if delta == 0 or p0 >= p1:
            return
        cells = as_array(self.in_range(seq, p0, p1))
        if self.sets is not None:
            self.sets.move(seq, self.held(seq).tolist(), self.pos[cells].tolist(), delta)
        self.pos[cells] += delta
        self.shift[cells] += delta
        self.has_shift = self.has_shift or bool(len(cells))
        gone = cells[self.pos[cells] < 0]
        self._empty(gone)
        self.extents.forget(-1)
        self.head = int(gone[0]) if len(gone) else 0

    def divide(self, seq: int, p0: int, p1: int, d: int) -> None:
        """Divide the positions in the range by ``d``, rounding down."""
        if d == 1:
            return
        cells = as_array(self.in_range(seq, p0, p1))
        old = self.pos[cells]
        self.pos[cells] = old // d
        self.shift[cells] += old // d - old
        self.has_shift = self.has_shift or bool(len(cells))
        self.extents.forget(-1)

    def share(self, src: int, dst: int, p0: int, p1: int) -> None:
        """Let ``dst`` also use the cells of ``src`` in the range."""
        self.seqs[dst, index(self.in_range(src, p0, p1))] = True
        self.extents.forget(dst)

    def _empty(self, cells: Found) -> None:
        """Empty cells. The caller updates the extents of their sequences."""
        at = index(cells)
        self.pos[at] = -1
        self.shift[at] = 0
        self.seqs[:, at] = False
        self.used -= len(cells)
        if isinstance(cells, range) and cells.stop == self.end:
            self.end = cells.start

    # --- trials and checks --------------------------------------------------------------------------------

    def save(self) -> Cells:
        """Return a copy of the table for ``restore``."""
        twin = copy(self)
        twin.pos = self.pos.copy()
        twin.shift = self.shift.copy()
        twin.seqs = self.seqs.copy()
        twin.extents = self.extents.copy()
        return twin

    def restore(self, saved: Cells) -> None:
        """Restore a saved table."""
        self.pos = saved.pos
        self.shift = saved.shift
        self.seqs = saved.seqs
        self.used = saved.used
        self.head = saved.head
        self.end = saved.end
        self.extents = saved.extents

    def save_at(self, cells: Found) -> Callable[[], None]:
        """Return a function that restores these cells and ``head``. Cells emptied elsewhere stay empty."""
        at = as_array(cells)
        self.reach(int(at.max()) + 1)
        pos = self.pos[at]
        shift = self.shift[at]
        seqs = self.seqs[:, at]
        head = self.head

        def put_back() -> None:
            self.pos[at] = pos
            self.shift[at] = shift
            self.seqs[:, at] = seqs
            used = np.flatnonzero(self.pos >= 0)
            self.used = len(used)
            self.head = head
            self.end = int(used[-1]) + 1 if len(used) else 0
            self.extents.forget(-1)

        return put_back

    def check(self) -> None:
        """Raise Crash unless the table is consistent with itself."""
        occupied = self.pos >= 0
        if np.count_nonzero(occupied) != self.used:
            raise Crash(f"{self.used} KV cells are recorded as used, but {int(occupied.sum())} hold a token")
        if self.seqs.any(axis=0).tobytes() != occupied.tobytes():
            raise Crash("a KV cell has a position but no sequence, or a sequence but no position")
        if occupied[self.end :].any():
            raise Crash(f"KV cells from {self.end} on are recorded as empty, but one holds a token")
        if not 0 <= self.head <= self.size:
            raise Crash(f"head {self.head} lies outside {self.size} cells")
        for seq in range(self.n_seq):
            held = self.held(seq)
            if len(held) and (held[1:] == held[:-1]).any():
                raise Crash(f"sequence {seq} holds a position twice")
            want = (int(held[0]), int(held[-1])) if len(held) else (-1, -1)
            if self.sets is None and self.span(seq) != want:
                raise Crash(f"sequence {seq} spans {want}, not {self.span(seq)}")
            known = self.extents.stretch(seq)
            if known and (self.pos[index(known)].tolist() != held.tolist() or not self.seqs[seq, index(known)].all()):
                raise Crash(f"sequence {seq} does not lie in cells {known.start} .. {known.stop - 1} in order")
