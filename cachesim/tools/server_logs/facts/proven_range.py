"""Ranges of integers that follow from lines of a log, and the numbers of a request while they are derived."""

from __future__ import annotations

from typing import NamedTuple, Sequence

from cachesim.engines.shared.log_grammar import LogGrammar
from cachesim.tools.server_logs.lines.read_lines import LineSieve, ReadLine

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
    def is_upper_bound(self) -> bool:
        """True if the range only limits the number from above."""
        return self.low == 0 and self.high not in (0, None)

    @property
    def data(self) -> int | list[int | None]:
        """Value for JSON: an integer, or a list of the ends."""
        return self.low if self.is_exact else [self.low, self.high]

    def __str__(self) -> str:
        if self.is_exact:
            return f"{self.low:,}"
        if self.high is None:
            return f"at least {self.low:,}"
        return f"at most {self.high:,}" if self.low == 0 else f"{self.low:,} to {self.high:,}"

    def less(self, second: ProvenRange, plus: int, how: str) -> ProvenRange | None:
        """Return this minus ``second`` plus a constant, as far as it is not negative; None if it is negative, or if
        nothing is known about it."""
        low = 0 if second.high is None else max(0, self.low - second.high + plus)
        high = None if self.high is None else self.high - second.low + plus
        is_unknown = low == 0 and high is None
        if is_unknown or (high is not None and high < 0):
            return None
        return ProvenRange(low, high, self.lines | second.lines, how)

    def more(self, second: ProvenRange, plus: int, how: str) -> ProvenRange:
        """Return the sum with ``second`` and a constant."""
        is_open = self.high is None or second.high is None
        high = None if is_open else (self.high or 0) + (second.high or 0) + plus
        return ProvenRange(self.low + second.low + plus, high, self.lines | second.lines, how)

    def meets(self, second: ProvenRange) -> bool:
        """True if the ranges have a common integer."""
        return (second.high is None or self.low <= second.high) and (self.high is None or second.low <= self.high)

    def nearest(self, value: int) -> int:
        """Return the integer of the range that is nearest to a value."""
        most = value if self.high is None else min(value, self.high)
        return max(self.low, most)

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

Numbers = dict[str, ProvenRange]

Clash = tuple[str, ProvenRange, ProvenRange]


class FoundNumbers:
    """Numbers found so far, by name, and the pairs of ranges that cannot be met together."""

    def __init__(self) -> None:
        self.numbers: Numbers = {}
        self.clashes: list[Clash] = []

    def add(self, name: str, value: ProvenRange | None) -> None:
        """Add a range for a number; two ranges without a common integer clash."""
        if value is None or value.low < 0 or (value.high is not None and value.high < value.low):
            return
        held = self.numbers.get(name)
        if held is None:
            self.numbers[name] = value
        elif held.meets(value):
            self.numbers[name] = held.within(value)
        elif all(known[0] != name for known in self.clashes):
            self.clashes.append((name, held, value))

    def get(self, name: str) -> ProvenRange | None:
        """Return the range of a number, None if nothing is known about it."""
        return self.numbers.get(name)

    def drop(self, *names: str) -> None:
        """Forget these numbers."""
        for name in names:
            self.numbers.pop(name, None)


def may_hide(grammar: LogGrammar, sieve: LineSieve, head: str, kinds: Sequence[str]) -> bool:
    """True if the excerpt may lack lines of these kinds that the server printed with this prefix."""
    return sieve.hides(f"{head}{line.template}" for line in grammar.lines if line.ev in kinds)


def share_range(line: ReadLine, name: str) -> tuple[float, float] | None:
    """Return the shares that print as this number of a line, None if it has no such number between 0 and 1."""
    word = line.read.words.get(name) if name in line.read.numbers else None
    found = printed_range(word) if word else None
    return found if found is not None and found[1] > 0 and found[0] <= 1 else None
