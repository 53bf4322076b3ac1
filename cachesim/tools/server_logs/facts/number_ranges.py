"""Numbers of a request while they are derived: every number is a range with the lines that prove it."""

from __future__ import annotations

from typing import Sequence

from cachesim.engines.shared.log_grammar import LogGrammar
from cachesim.tools.server_logs.facts.proven_range import ProvenRange, printed_range
from cachesim.tools.server_logs.lines.read_lines import LineSieve, ReadLine

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
