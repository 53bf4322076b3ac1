"""A source of draws whose answers a test states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class FixedDraws:
    """Draws the element with this index (or the last), and True for each chance of at least ``least`` percent. Keeps
    what it was asked: the chances, and the values to choose from."""

    def __init__(self, least: int, place: int = 0) -> None:
        self.least, self.place = least, place
        self.asked: list[int] = []
        self.offered: list[tuple[object, ...]] = []

    def chance(self, percent: int) -> bool:
        self.asked.append(percent)
        return percent >= self.least

    def one(self, values: Sequence[T]) -> T:
        self.offered.append(tuple(values))
        return values[min(self.place, len(values) - 1)]

    def below(self, n: int) -> int:
        return n - 1

    def between(self, low: int, high: int) -> int:
        return high if self.place else low
