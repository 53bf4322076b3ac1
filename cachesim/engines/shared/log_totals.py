"""Totals of a log: conclusions about a whole server from lines that name no request, for engines that log such lines.

A total quotes the lines that prove it. It holds for the lines in the log alone, which may be an excerpt.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Iterator, Mapping, NamedTuple, Sequence, TypeGuard

LARGEST = 1 << 53            # larger numbers, infinity among them, are damaged: no server counts so far


def nameless(lost: str, flag: str) -> str:
    """Return what a log without requests does not show; ``flag``: with it, replies have the cached tokens."""
    return (f"the lines name no request: which prompts missed, and which decision lost their {lost} (replies have "
            f"cached_tokens with {flag}; cachesim import BODIES compares prompts)")  # fmt: skip


class LoggedNumbers(NamedTuple):
    """Recognised line: its number in the log, from 1, its kind, and its numbers."""

    line: int
    kind: str
    numbers: Mapping[str, Any]


class LogTotal(NamedTuple):
    """Conclusion about a server: the lines that prove it, its numbers by name, and a sentence."""

    lines: tuple[int, ...]
    numbers: Mapping[str, Any]
    says: str


class Series(NamedTuple):
    """Values of a number in the order of their lines, at least one."""

    lines: tuple[int, ...]
    values: tuple[float, ...]

    @property
    def ends(self) -> tuple[int, ...]:
        """Lines of the lowest, the highest and the last value."""
        low, high = self.values.index(min(self.values)), self.values.index(max(self.values))
        return tuple(sorted({self.lines[low], self.lines[high], self.lines[-1]}))

    @property
    def range(self) -> list[float]:
        """Lowest and highest value."""
        return [min(self.values), max(self.values)]

    @property
    def percent(self) -> str:
        """Last value, and the range of all, as text."""
        low, high = self.range
        last = f"{self.values[-1]:.1f} %"
        return last if low == high else f"{last} at the end ({low:.1f} to {high:.1f} %)"

    @property
    def growth(self) -> float | None:
        """Growth of a counter, its value if there is only one, None if it fell."""
        if any(later < earlier for earlier, later in pairwise(self.values)):
            return None
        return self.values[-1] - (self.values[0] if len(self.values) > 1 else 0)


def series(lines: Sequence[LoggedNumbers], name: str) -> Iterator[Series]:
    """Yield the values of a number in these lines, nothing without a value."""
    pairs = [(line.line, line.numbers.get(name)) for line in lines]
    if found := [(line, value) for line, value in pairs if is_number(value)]:
        yield Series(*zip(*found, strict=True))


def is_number(value: object) -> TypeGuard[float]:
    """True for a number that a server may have counted."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST


def share(part: float, whole: float) -> str:
    """Return a share in percent as text."""
    return f"{100 * part / whole:.1f} %"


def of_kind(lines: Sequence[LoggedNumbers], *kinds: str) -> list[LoggedNumbers]:
    """Return the lines of these kinds."""
    return [line for line in lines if line.kind in kinds]


def by_engine(lines: Sequence[LoggedNumbers]) -> Iterator[tuple[str, list[LoggedNumbers]]]:
    """Yield the lines of each engine of a server, with a label; a single engine has no label."""
    names = sorted({str(line.numbers.get("engine", "")) for line in lines})
    for name in names:
        own = [line for line in lines if str(line.numbers.get("engine", "")) == name]
        yield f"engine {name}: " if len(names) > 1 else "", own


def rates(lines: Sequence[LoggedNumbers], name: str, what: str, tail: str, factor: float = 1.0) -> Iterator[LogTotal]:
    """Yield the last value and the range of a number, for each engine. ``factor``: that of a printed value, in per
    cent."""
    for label, own in by_engine(lines):
        for found in series(own, name):
            shares = Series(found.lines, tuple(value * factor for value in found.values))
            yield LogTotal(found.ends, {name: found.range}, f"{label}{what} {shares.percent}{tail}")


def sums(lines: Sequence[LoggedNumbers], name: str, says: str) -> Iterator[LogTotal]:
    """Yield the sum of a number that counts what happened since the line before."""
    for found in series(lines, name):
        count = int(sum(found.values))
        yield LogTotal(found.lines, {name: count}, f"{count:,} {says}")


def last(lines: Sequence[LoggedNumbers], name: str, says: str) -> Iterator[LogTotal]:
    """Yield the last value of a whole number; ``says`` has its place."""
    for found in series(lines, name):
        value = int(found.values[-1])
        yield LogTotal(found.lines[-1:], {name: value}, says.format(f"{value:,}"))


def caching_off(lines: Sequence[LoggedNumbers], what: str) -> Iterator[LogTotal]:
    """Yield that the cache is off, if lines state it."""
    if lines:
        off = tuple(line.line for line in lines)
        yield LogTotal(off, {"caching": False}, f"{what} is off: every prompt is evaluated completely")


def replies(lines: Sequence[LoggedNumbers]) -> Iterator[LogTotal]:
    """Yield the reused share of the prompts of logged replies."""
    pairs = [(line.line, line.numbers["cache_n"], line.numbers["n_tokens"]) for line in lines
             if all(isinstance(line.numbers[name], int) and is_number(line.numbers[name])
                    for name in ("cache_n", "n_tokens"))]  # fmt: skip
    cached, tokens = sum(pair[1] for pair in pairs), sum(pair[2] for pair in pairs)
    if tokens:
        yield LogTotal(tuple(pair[0] for pair in pairs), {"cache_n": cached, "n_tokens": tokens}, f"replies: "
                       f"{cached:,} of {tokens:,} prompt tokens were cached, {share(cached, tokens)}")  # fmt: skip


def counter(lines: Sequence[LoggedNumbers], name: str, says: str) -> Iterator[LogTotal]:
    """Yield the growth of a counter, for each engine, nothing for 0; since the start of the server with a single
    scrape. ``says`` has the place of that period."""
    for label, own in by_engine(of_kind(lines, name)):
        for found in series(own, name):
            since = " since the start of the server" if len(found.lines) == 1 else " between the scrapes"
            if growth := found.growth:
                proof = tuple(sorted({found.lines[0], found.lines[-1]}))
                yield LogTotal(proof, {name: int(growth)}, f"{label}{int(growth):,} {says.format(since)}")


def grown_at(lines: Sequence[LoggedNumbers], kind: str, name: str) -> Iterator[int]:
    """Yield the lines of a kind whose counter is higher than in the line of the kind before, for each engine."""
    for _, own in by_engine(of_kind(lines, kind)):
        for found in series(own, name):
            for (_, before), (line, after) in pairwise(zip(found.lines, found.values, strict=True)):
                if after > before:
                    yield line


def explained_falls(
    lines: Sequence[LoggedNumbers], name: str, what: str, resets: Sequence[int], preempted: Sequence[int]
) -> Iterator[LogTotal]:
    """Yield the deepest fall of a rate [%] between neighbouring lines with a reset of the cache in between, and the
    deepest of the others during which requests were preempted, for each engine. ``lines``: those with the rate
    ``name``; ``resets``, ``preempted``: numbers of the lines that print these events."""
    for label, own in by_engine(lines):
        for found in series(own, name):
            falls = list(_falls(found))
            reset = [fall for fall in falls if fall.has_any(resets)]
            for fall in sorted(reset)[:1]:
                at = [line for line in resets if fall.first < line < fall.last]
                says = f"{label}{what} {fall.words}: the cache was reset in between (line {at[0]}), and the rate " \
                       "counts requests since then"
                yield LogTotal((fall.first, *at, fall.last), {name: [fall.low, fall.high], "resets": len(at)}, says)
            others = [fall for fall in falls if fall not in reset and fall.has_any(preempted)]
            for fall in sorted(others)[:1]:
                at = [line for line in preempted if fall.first < line <= fall.last]
                says = f"{label}{what} {fall.words} while requests were preempted: the running ones needed more " \
                       "blocks than were free, and the free blocks are those that keep the prefixes of ended requests"
                proof = tuple(sorted({fall.first, *at, fall.last}))
                yield LogTotal(proof, {name: [fall.low, fall.high]}, says)


class _Fall(NamedTuple):
    """Fall of a rate [%] between two lines. Falls are ordered by their depth."""

    change: float
    first: int
    last: int
    high: float
    low: float

    def has_any(self, lines: Sequence[int]) -> bool:
        """True if one of these lines is after the first and not after the last line of the fall."""
        return any(self.first < line <= self.last for line in lines)

    @property
    def words(self) -> str:
        """The fall as text."""
        return f"fell from {self.high:.1f} % to {self.low:.1f} %"


def _falls(found: Series) -> Iterator[_Fall]:
    """Yield the falls of a rate."""
    for (first, high), (last, low) in pairwise(zip(found.lines, found.values, strict=True)):
        if low < high:
            yield _Fall(low - high, first, last, high, low)


def counters(
    lines: Sequence[LoggedNumbers], asked: str, hit: str, where: str, unit: str = "tokens"
) -> Iterator[LogTotal]:
    """Yield the share of hits between the first and the last scrape of two counters, for each engine; since the start
    of the server with a single scrape. A counter that fell belongs to a new server. ``unit``: what is counted."""
    for label, own in by_engine(of_kind(lines, asked, hit)):
        for queries, hits in zip(series(own, asked), series(own, hit), strict=False):
            counts = [one.growth for one in (queries, hits)]
            if len(queries.lines) != len(hits.lines) or None in counts or not counts[0]:
                continue
            total, found = (int(count or 0) for count in counts)
            since = "since the start of the server" if len(queries.lines) == 1 else "between the scrapes"
            proof = {*queries.lines[:1], *queries.lines[-1:], *hits.lines[:1], *hits.lines[-1:]}
            yield LogTotal(tuple(sorted(proof)), {"queries": total, "hits": found}, f"{label}{found:,} of {total:,} "
                           f"looked-up {unit} were {where}, {share(found, total)} ({since})")  # fmt: skip
