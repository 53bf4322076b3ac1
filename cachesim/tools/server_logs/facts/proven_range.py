"""Range of an integer that follows from lines of a log."""

from __future__ import annotations

from typing import NamedTuple

SINGLE = 3e-7                # relative error of a share that a server computes with 32-bit numbers

class ProvenRange(NamedTuple):
    """Integers from ``low`` to ``high`` (None = no upper end), the lines that prove them, and how."""

    low: int
    high: int | None
    lines: frozenset[int] = frozenset()
    how: str = ""

    @property
    def is_exact(self) -> bool:
        """True if the range holds a single integer."""
        return self.low == self.high

    @property
    def data(self) -> int | list[int | None]:
        """Value for JSON: an integer, or a list of the ends."""
        return self.low if self.is_exact else [self.low, self.high]

    def __str__(self) -> str:
        if self.is_exact:
            return f"{self.low:,}"
        return f"at least {self.low:,}" if self.high is None else f"{self.low:,} to {self.high:,}"

    def less(self, second: ProvenRange, plus: int, how: str) -> ProvenRange | None:
        """Return this minus ``second`` plus a constant, None if it may be negative."""
        if second.high is None or self.high is None:
            return None
        low, high = self.low - second.high + plus, self.high - second.low + plus
        return ProvenRange(low, high, self.lines | second.lines, how) if low >= 0 else None

    def more(self, second: ProvenRange, plus: int, how: str) -> ProvenRange | None:
        """Return the sum with ``second`` and a constant."""
        if second.high is None or self.high is None:
            return None
        return ProvenRange(self.low + second.low + plus, self.high + second.high + plus, self.lines | second.lines, how)

    def meets(self, second: ProvenRange) -> bool:
        """True if the ranges have a common integer."""
        return (second.high is None or self.low <= second.high) and (self.high is None or second.low <= self.high)

    def within(self, second: ProvenRange) -> ProvenRange:
        """Return the common integers of two ranges that meet; the lines of the range that decides."""
        low = max(self.low, second.low)
        high = self.high if second.high is None else second.high if self.high is None else min(self.high, second.high)
        for one in (self, second):
            if (one.low, one.high) == (low, high):
                return one
        return ProvenRange(low, high, self.lines | second.lines, f"{self.how}; {second.how}")


def printed_range(word: str) -> tuple[float, float] | None:
    """Return the numbers that print as this word, None if it is not a decimal number."""
    whole, _, digits = word.partition(".")
    if not digits.isdigit() or not whole.lstrip("-").isdigit():
        return None
    value, half = float(word), 0.5 * 10 ** -len(digits)
    return value - half - abs(value) * SINGLE, value + half + abs(value) * SINGLE
