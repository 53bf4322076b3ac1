"""A list of the numbers 0 .. n - 1 in which any of them is removed, or added at an end, in constant time."""

from __future__ import annotations

from typing import Iterable, Iterator

from cachesim.base.errors import BadInput

MOST = 1 << 23               # entries of a pool: each needs 40 to 100 bytes at once


def pool_size(n: int) -> int:
    """Return the number of entries of a pool. Raise BadInput if memory could not hold them."""
    if n > MOST:
        raise BadInput(f"a pool of {n:,} entries, at most {MOST:,} are simulated", hint="a smaller pool")
    return n


class FreeList:
    """Unused objects in the order in which they are used next; at first all of them, ascending. Linked in both
    directions; entry ``n`` is its end."""

    def __init__(self, n: int) -> None:
        self.n = self.size = pool_size(n)
        self.next: list[int] = [*range(1, n + 1), 0]
        self.prev: list[int] = [n, *range(n)]

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[int]:
        at = self.next[self.n]
        while at != self.n:
            yield at
            at = self.next[at]

    def remove(self, number: int) -> None:
        """Remove an entry."""
        before, after = self.prev[number], self.next[number]
        self.next[before], self.prev[after] = after, before
        self.size -= 1

    def pop(self) -> int:
        """Remove the first entry and return it."""
        first: int = self.next[self.n]
        self.remove(first)
        return first

    def prepend(self, many: Iterable[int]) -> None:
        """Add entries before all others, in this order."""
        at = self.n
        for number in many:
            self._insert(number, at)
            at = number

    def append(self, many: Iterable[int]) -> None:
        """Add entries after all others, in this order."""
        for number in many:
            self._insert(number, self.prev[self.n])

    def _insert(self, number: int, before: int) -> None:
        after = self.next[before]
        self.next[before] = self.prev[after] = number
        self.prev[number], self.next[number] = before, after
        self.size += 1
