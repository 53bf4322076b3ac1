"""How does a row of numbers become smaller while something stays true of it? Numbers are taken away, many at a time and
one by one, and lowered, one alone and two by the same amount, until none of this helps.

The same row and the same question give the same result on every machine and in every version.
"""

from __future__ import annotations

from itertools import combinations
from typing import Callable, Iterable, Sequence

Row = tuple[int, ...]
Holds = Callable[[Row], bool]


def lowest(row: Sequence[int], holds: Holds, tries: int) -> Row:
    """The smallest row found with so many questions; ``holds`` must be true of the given one, and no number of it is
    negative."""
    descent = _Descent(tuple(row), holds, tries)
    while True:
        before = descent.row
        descent.take_away()
        descent.lower_one()
        descent.lower_two()
        if descent.row == before or descent.spent:
            return descent.row


class _Descent:
    """The smallest row so far, and all that were asked for."""

    def __init__(self, row: Row, holds: Holds, tries: int) -> None:
        self.row, self.holds, self.tries = row, holds, tries
        self.asked: set[Row] = {row}

    @property
    def spent(self) -> bool:
        """Were all tries used up?"""
        return len(self.asked) > self.tries

    def take_away(self) -> None:
        """Whole stretches become zero, long ones first."""
        size = len(self.row)
        while size and not self.spent:
            for start in range(0, len(self.row), size):
                self._lower(range(start, min(start + size, len(self.row))), max(self.row[start : start + size]))
            size //= 2

    def lower_one(self) -> None:
        """Each number by itself, by as much as can be."""
        for i in range(len(self.row)):
            self._halving((i,))

    def lower_two(self) -> None:
        """Two numbers by the same amount: what matters may be their difference."""
        for pair in combinations([i for i, n in enumerate(self.row) if n > 1], 2):
            if self.spent:
                return
            self._halving(pair)

    def _halving(self, places: Sequence[int]) -> None:
        """Lower these by all that is there, or by half of it, and so on down to one."""
        by = min(self.row[i] for i in places)
        while by > 0:
            if self._lower(places, by):
                by = min(by, *(self.row[i] for i in places))
            else:
                by //= 2

    def _lower(self, places: Iterable[int], by: int) -> bool:
        """Lower these numbers, none below zero, if the row is still what is looked for."""
        if self.spent:
            return False
        new = list(self.row)
        for i in places:
            new[i] = max(0, new[i] - by)
        row = tuple(new)
        if row in self.asked:
            return False
        self.asked.add(row)
        if not self.holds(row):
            return False
        self.row = row
        return True
