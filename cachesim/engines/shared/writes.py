"""Which entries of a table has nobody written since somebody looked? Told by what writes them, below all rules.

A table tells of every entry that it may change, before or after it does, and rather of too many than of too few:
``tests/unit/engines/shared/test_writes.py`` compares tables before and after each of their operations, and finds every
operation that forgets to tell. Arrays of rows cannot be written in any other way than by ``rows.put``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

END = 2**62


class EntryRange(NamedTuple):
    """Entries first .. stop-1; ``first`` >= ``stop`` is none."""

    first: int
    stop: int


ALL, NONE = EntryRange(0, END), EntryRange(END, 0)


class Writes:
    """What may have been written since the last ``look``, as one stretch. Only who looked last can be told."""

    __slots__ = ("_first", "_reader", "_stop")

    def __init__(self) -> None:
        self._first, self._stop = NONE
        self._reader: object = None

    def touch(self, first: int = 0, stop: int = END) -> None:
        """Entries first .. stop-1 may change."""
        if first < self._first:
            self._first = first
        if stop > self._stop:
            self._stop = stop

    def look(self, reader: object) -> EntryRange:
        """What may have been written since this reader looked; everything, if it was not the last one to look. None
        looks without being noticed."""
        if reader is None:
            return ALL
        found = EntryRange(self._first, self._stop) if reader is self._reader else ALL
        self._reader = reader
        self._first, self._stop = NONE
        return found


def stretch_of(cells: slice | range | np.ndarray) -> EntryRange:
    """The least stretch with all of these entries in it."""
    if isinstance(cells, np.ndarray):
        return EntryRange(int(cells.min()), int(cells.max()) + 1) if len(cells) else NONE
    return EntryRange(cells.start or 0, END if cells.stop is None else cells.stop)


def still(written: EntryRange, first: int, n: int) -> int:
    """How many of the n entries from ``first`` on lie before everything written among them?"""
    return n if written.stop <= first or written.first >= first + n else max(0, written.first - first)
