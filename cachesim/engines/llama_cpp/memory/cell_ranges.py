"""Ranges of cells, and the known extent of each sequence.

Found      indices of cells: a range if they are adjacent and in order (the usual case), else an array
span       (smallest, largest) position of a sequence, (-1, -1) if it is absent, None = unknown
stretch    adjacent cells that hold consecutive positions of a sequence, in order

Extents are updated with each change of the cell table. A change that is hard to follow sets them to unknown.
"""

from __future__ import annotations

from copy import copy
from itertools import pairwise
from typing import Sequence

import numpy as np

Found = range | np.ndarray
"""Indices of cells."""
ABSENT = (-1, -1)
"""Span of a sequence without cells."""


def index(cells: Found) -> slice | np.ndarray:
    """Return the cells as an index into an array."""
    return slice(cells.start, cells.stop) if isinstance(cells, range) else cells


def as_array(cells: Found) -> np.ndarray:
    """Return the cells as an array of indices."""
    return np.arange(cells.start, cells.stop) if isinstance(cells, range) else cells


def as_range(pos: np.ndarray) -> range | np.ndarray:
    """Return the positions as a range if they increase by 1, else unchanged."""
    first, n = int(pos[0]), len(pos)
    return range(first, first + n) if bool((pos[1:] - pos[:-1] == 1).all()) else pos


def concatenate_cells(cells: Sequence[Found]) -> Found:
    """Concatenate cells; the result is a range if they are adjacent and in order."""
    if all(isinstance(one, range) for one in cells) and all(a[-1] + 1 == b[0] for a, b in pairwise(cells)):
        return range(cells[0][0], cells[-1][-1] + 1)
    return np.concatenate([as_array(one) for one in cells])


class SequenceExtents:
    """Known extent of each of ``n_seq`` sequences. ``first``: first cell of its stretch, -1 = the sequence is absent or
    not known to be a stretch."""

    def __init__(self, n_seq: int) -> None:
        self.span: list[tuple[int, int] | None] = [ABSENT] * n_seq
        self.first = [-1] * n_seq

    def copy(self) -> SequenceExtents:
        """Return an independent copy."""
        twin = copy(self)
        twin.span, twin.first = list(self.span), list(self.first)
        return twin

    def stretch(self, seq: int) -> range | None:
        """Return the sequence's cells if they are known to be a stretch, else None."""
        first, known = self.first[seq], self.span[seq]
        return None if first < 0 or known is None else range(first, first + known[1] - known[0] + 1)

    def grow(self, seq: int, cells: Found, pos: range | np.ndarray) -> None:
        """Record that the sequence also has these cells, with these positions."""
        known, first = self.span[seq], self.first[seq]
        if known is None or not isinstance(pos, range):
            self.forget(seq)
        elif known == ABSENT:
            self.span[seq] = pos.start, pos.stop - 1
            self.first[seq] = cells.start if isinstance(cells, range) else -1
        else:
            lo, hi = known
            self.span[seq] = min(lo, pos.start), max(hi, pos.stop - 1)
            if pos.start != hi + 1 or not isinstance(cells, range) or cells.start - first != pos.start - lo:
                self.first[seq] = -1

    def shrink(self, seq: int, cells: Found) -> None:
        """Record that the sequence loses these cells."""
        known, span = self.stretch(seq), self.span[seq]
        if known is None or span is None or not isinstance(cells, range):
            self.forget(seq)
        elif len(cells) == len(known):
            self.set_absent(seq)
        elif cells.stop == known.stop:
            self.span[seq] = span[0], span[1] - len(cells)
        elif cells.start == known.start:
            self.span[seq], self.first[seq] = (span[0] + len(cells), span[1]), cells.stop
        else:
            self.first[seq] = -1

    def drop_first(self, seq: int, pos: int) -> None:
        """Record that the sequence loses ``pos`` but holds ``pos + 1``; the extent stays known if ``pos`` was the
        smallest position."""
        known = self.span[seq]
        if known is not None and known[0] == pos:
            self.span[seq], self.first[seq] = (pos + 1, known[1]), -1
        else:
            self.forget(seq)

    def set_absent(self, seq: int) -> None:
        """Record that the sequence is absent."""
        self.span[seq], self.first[seq] = ABSENT, -1

    def forget(self, seq: int) -> None:
        """Set the extent of a sequence (seq < 0: of all sequences) to unknown."""
        for each in range(len(self.span)) if seq < 0 else (seq,):
            self.span[each], self.first[each] = None, -1
