"""Axes of plots: numbers as pixels, linear or logarithmic, with ticks at round numbers.

A logarithmic axis has a place of its own for 0 and for infinity, an unlimited value. They stand apart from its numbers.
"""

from __future__ import annotations

from math import ceil, floor, inf, isfinite, log10
from typing import Callable, Iterable, NamedTuple, Sequence

APART = 36.0  # pixels between 0, or infinity, and the nearest number of a logarithmic axis
FEW = 3  # ticks that an axis has at least, if its numbers differ
STEPS = (1, 2, 2.5, 5, 10)


def plain_number(value: float) -> str:
    """Return a number in few digits."""
    return f"{value:,.0f}" if value == round(value) else f"{value:,.4g}"


class Axis(NamedTuple):
    """What an axis shows. ``says`` writes its numbers; ``doubles``: ticks of a logarithmic axis are powers of two;
    ``whole``: ticks of a linear axis are whole numbers."""

    name: str
    is_log: bool = False
    says: Callable[[float], str] = plain_number
    doubles: bool = False
    whole: bool = False


class Tick(NamedTuple):
    """A place of an axis in pixels, with its label."""

    at: float
    says: str


class AxisScale:
    """An axis in pixels from ``start`` to ``stop``. ``values``: all that it shows. A linear axis begins at 0."""

    def __init__(self, axis: Axis, values: Iterable[float], start: float, stop: float) -> None:
        shown = [*values]
        self.axis = axis
        self.start = start
        self.stop = stop
        self._ends = sorted({one for one in shown if axis.is_log and (one <= 0 or one == inf)})
        numbers = [one for one in shown if isfinite(one) and (one > 0 or not axis.is_log)] or [1.0]
        least = min(numbers) if axis.is_log else min(0.0, *numbers)
        most = max(numbers)
        if least == most:
            least, most = (least / 2, most * 2) if axis.is_log else (0.0, most or 1.0)
        self.least = least
        self.most = most
        towards = 1 if stop > start else -1
        self._first = start + APART * towards if any(one <= 0 for one in self._ends) else start
        self._last = stop - APART * towards if inf in self._ends else stop

    def px(self, value: float) -> float:
        """Return the pixel of a number."""
        if self.axis.is_log and value <= 0:
            return self.start
        if value == inf:
            return self.stop
        if self.axis.is_log:
            share = (log10(value) - log10(self.least)) / (log10(self.most) - log10(self.least))
        else:
            share = (value - self.least) / (self.most - self.least)
        return round(self._first + share * (self._last - self._first), 1)

    def ticks(self) -> list[Tick]:
        """Return the ticks in the order of their numbers."""
        inside = [one for one in self._round_numbers() if self.least <= one <= self.most * 1.000001]
        zero = [Tick(self.px(0), "0")] if any(one <= 0 for one in self._ends) else []
        unlimited = [Tick(self.px(inf), "no limit")] if inf in self._ends else []
        return [*zero, *(Tick(self.px(one), self.axis.says(one)) for one in inside), *unlimited]

    def _round_numbers(self) -> Sequence[float]:
        """Return round numbers from the least to the most, those of a logarithm if they are not too few."""
        if not self.axis.is_log:
            return linear_ticks(self.least, self.most, self.axis.whole)
        found = _doubled(self.least, self.most) if self.axis.doubles else _decades(self.least, self.most)
        return found if len(found) >= FEW else [one for one in linear_ticks(self.least, self.most) if one > 0]


def linear_ticks(least: float, most: float, whole: bool = False) -> list[float]:
    """Return four to ten multiples of a round step between two numbers."""
    rough = (most - least) / 5 or 1.0
    power = 10.0 ** floor(log10(rough))
    step = next((one * power for one in STEPS if one * power >= rough * 0.999), 10 * power)
    step = max(1.0, round(step)) if whole else step
    first = ceil(least / step - 1e-9)
    return [round(n * step, 10) for n in range(first, floor(most / step + 1e-9) + 1)]


def _decades(least: float, most: float) -> list[float]:
    powers = range(floor(log10(least)), ceil(log10(most)) + 1)
    every = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
    inside = [one for one in every if least <= one <= most]
    tens = [one for one in inside if log10(one) == round(log10(one))]
    return tens if len(tens) > 2 * FEW else inside


def _doubled(least: float, most: float) -> list[float]:
    value = 2.0**-40
    found = []
    while value <= most:
        if value >= least:
            found.append(value)
        value *= 2
    return found
