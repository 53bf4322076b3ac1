"""Cells that lie together: how some of them are named, and what is known of where a sequence lies.

Found      indices of cells: a range where they are neighbours in order, as a rule, else an array
span       (smallest, largest) position of a sequence, (-1, -1) if it is absent, None = to be looked up
stretch    cells of a sequence whose positions lie one after the other in neighbouring cells

What is known follows from what was done to the table; where that is not easily followed it is forgotten.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Sequence

import numpy as np

Found = range | np.ndarray
"""Indices of cells."""


def index(cells: Found) -> slice | np.ndarray:
    """The cells as an array is asked for them."""
    return slice(cells.start, cells.stop) if isinstance(cells, range) else cells


def listed(cells: Found) -> np.ndarray:
    """The cells one by one."""
    return np.arange(cells.start, cells.stop) if isinstance(cells, range) else cells


def ascending(pos: np.ndarray) -> range | np.ndarray:
    """Positions as a range, if they ascend by one."""
    first, n = int(pos[0]), len(pos)
    return range(first, first + n) if bool((pos[1:] - pos[:-1] == 1).all()) else pos


def in_a_row(cells: Sequence[Found]) -> Found:
    """Cells one after the other: a range, if they are neighbours in order."""
    if all(isinstance(one, range) for one in cells) and all(a[-1] + 1 == b[0] for a, b in pairwise(cells)):
        return range(cells[0][0], cells[-1][-1] + 1)
    return np.concatenate([listed(one) for one in cells])


class Extents:
    """Where each of ``n_seq`` sequences lies, as far as that is known. ``first``: first cell of its stretch, -1 = it is
    absent, or not known to lie in one."""

    def __init__(self, n_seq: int) -> None:
        self.span: list[tuple[int, int] | None] = [(-1, -1)] * n_seq
        self.first = [-1] * n_seq

    def copy(self) -> Extents:
        """An independent copy."""
        twin = Extents(0)
        twin.span, twin.first = list(self.span), list(self.first)
        return twin

    def stretch(self, seq: int) -> range | None:
        """The sequence's cells, if it is known that they are a stretch."""
        first, known = self.first[seq], self.span[seq]
        return None if first < 0 or known is None else range(first, first + known[1] - known[0] + 1)

    def grow(self, seq: int, cells: Found, pos: range | np.ndarray) -> None:
        """The sequence has these cells too, with these positions."""
        known, first = self.span[seq], self.first[seq]
        if known is None or not isinstance(pos, range):
            self.forget(seq)
        elif known[0] < 0:
            self.span[seq] = pos.start, pos.stop - 1
            self.first[seq] = cells.start if isinstance(cells, range) else -1
        else:
            lo, hi = known
            self.span[seq] = min(lo, pos.start), max(hi, pos.stop - 1)
            if pos.start != hi + 1 or not isinstance(cells, range) or cells.start - first != pos.start - lo:
                self.first[seq] = -1

    def shrink(self, seq: int, cells: Found) -> None:
        """The sequence loses these cells."""
        known, span = self.stretch(seq), self.span[seq]
        if known is None or span is None or not isinstance(cells, range):
            self.forget(seq)
        elif len(cells) == len(known):
            self.gone(seq)
        elif cells.stop == known.stop:
            self.span[seq] = span[0], span[1] - len(cells)
        elif cells.start == known.start:
            self.span[seq], self.first[seq] = (span[0] + len(cells), span[1]), cells.stop
        else:
            self.first[seq] = -1

    def lose(self, seq: int, pos: int) -> None:
        """The sequence loses this position, and has the one after it: its smallest, if it was that."""
        known = self.span[seq]
        if known is not None and known[0] == pos:
            self.span[seq], self.first[seq] = (pos + 1, known[1]), -1
        else:
            self.forget(seq)

    def gone(self, seq: int) -> None:
        """The sequence is absent."""
        self.span[seq], self.first[seq] = (-1, -1), -1

    def forget(self, seq: int) -> None:
        """It is no longer known where a sequence lies (seq < 0: where any of them does)."""
        for each in range(len(self.span)) if seq < 0 else (seq,):
            self.span[each], self.first[each] = None, -1
