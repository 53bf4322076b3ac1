"""Longest common prefix of each text with any earlier text."""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise
from typing import Hashable, NamedTuple, Sequence

from cachesim.base.tokens import common_prefix


class SharedPrefix(NamedTuple):
    """Common prefix of a text with an earlier text: number of that text (-1 = none) and characters."""

    number: int
    size: int


def shared_prefixes(texts: Sequence[str]) -> list[SharedPrefix]:
    """Return for each text the earlier text with the longest common prefix: an equal text, else the latest.

    Sorts the texts and compares neighbours only: a neighbour has the longest common prefix of all texts, and texts with
    a common prefix are adjacent.
    """
    order = sorted(range(len(texts)), key=texts.__getitem__)
    place = {number: at for at, number in enumerate(order)}
    sizes = _longest(texts, order, place)
    latest, equal = _Maximum(len(texts)), dict[str, int]()
    found = []
    for number, (text, size) in enumerate(zip(texts, sizes, strict=True)):
        best = equal.get(text, -1) if text else -1
        if size and best < 0:
            best = latest.within(*_range(texts, order, place[number], size))
        found.append(SharedPrefix(best, size))
        latest.set(place[number], number)
        equal[text] = number
    return found


def shared_under(texts: Sequence[str], keys: Sequence[Hashable]) -> list[SharedPrefix]:
    """Return for each text the earlier text with the longest common prefix among those with the same key."""
    found = [SharedPrefix(-1, 0)] * len(texts)
    for key in dict.fromkeys(keys):
        numbers = [number for number, own in enumerate(keys) if own == key]
        for number, best in zip(numbers, shared_prefixes([texts[number] for number in numbers]), strict=True):
            found[number] = best._replace(number=numbers[best.number] if best.number >= 0 else -1)
    return found


def _longest(texts: Sequence[str], order: Sequence[int], place: dict[int, int]) -> list[int]:
    """Return the longest common prefix of each text with an earlier text. ``order``: numbers of the sorted texts,
    ``place``: its inverse. The latest text leaves the sorted list first, so that its neighbours are earlier texts."""
    last = len(order)
    before, after = list(range(-1, last - 1)), list(range(1, last + 1))
    behind = [common_prefix(texts[a], texts[b]) for a, b in pairwise(order)]   # with the next text
    behind += [0, 0]                                # of the last text, and of place -1
    sizes = [0] * last
    for number in reversed(range(last)):
        at = place[number]
        left, right = before[at], after[at]
        sizes[number] = max(behind[left], behind[at])
        behind[left] = min(behind[left], behind[at])
        if left >= 0:
            after[left] = right
        if right < last:
            before[right] = left
    return sizes


def _range(texts: Sequence[str], order: Sequence[int], at: int, size: int) -> tuple[int, int]:
    """Return the range of sorted places whose texts share ``size`` characters with the text at place ``at``."""
    prefix = texts[order[at]][:size]
    low = bisect_left(range(at), True, key=lambda one: texts[order[one]].startswith(prefix))
    high = bisect_left(range(len(order)), True, at, key=lambda one: not texts[order[one]].startswith(prefix))
    return low, high


class _Maximum:
    """Segment tree: maximum of a range of places. A place without a number counts -1."""

    def __init__(self, places: int) -> None:
        self.places, self.tree = places, [-1] * (2 * places)

    def set(self, at: int, number: int) -> None:
        """Store the number of a place; it must exceed all stored numbers."""
        at += self.places
        while at:
            self.tree[at] = number
            at //= 2

    def within(self, low: int, high: int) -> int:
        """Return the maximum of the places low .. high-1."""
        low = low + self.places
        high = high + self.places
        found = -1
        while low < high:
            if low % 2:
                found, low = max(found, self.tree[low]), low + 1
            if high % 2:
                high -= 1
                found = max(found, self.tree[high])
            low, high = low // 2, high // 2
        return found
