"""Counts over recorded logs and their excerpts, and the table of them."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from tests.logs.slow_logs.compare import Result

COUNTS, CAUSES, ACCEPTED, REJECTED = 0.90, 0.80, 0.90, 0.05
"""Least shares of determined counts and causes that are stated, and of logs with known lengths that are simulated and
accepted; greatest share that is rejected."""
ALL = "all"
DIGITS = re.compile(r"\d[\d,.]*")


@dataclass(slots=True)
class Tally:
    """Counts; ``merge`` adds those of another log. Keys are a kind of cut and a name."""

    files: Counter[str] = field(default_factory=Counter)
    shares: Counter[tuple[str, str]] = field(default_factory=Counter)
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)     # of logs with known lengths
    false: Counter[str] = field(default_factory=Counter)                    # by kind
    false_by_cut: Counter[str] = field(default_factory=Counter)
    inner: list[str] = field(default_factory=list)
    examples: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    unjudged: Counter[str] = field(default_factory=Counter)

    def add(self, log: str, cut: str, result: Result) -> None:
        """Add the result of a log or an excerpt."""
        where = f"{log} ({cut})"
        self.files[cut] += 1
        for name, number in result.shares.items():
            self.shares[cut, name] += number
        if result.has_lengths or result.outcome == "refused":
            self.outcomes[cut, result.outcome] += 1
        for false in result.false:
            self.false[f"{false.part}: {DIGITS.sub('#', false.stated)[:90]}"] += 1
            self.false_by_cut[cut] += 1
            self.examples.append(f"{where} {false}")
        self.inner += [f"{where} {text}" for text in result.inner]
        self.missed += [f"{where} {text}" for text in result.missed]
        self.unjudged.update(result.unjudged)

    def merge(self, further: Tally) -> None:
        """Add the counts of another tally."""
        for name in ("files", "shares", "outcomes", "false", "false_by_cut", "unjudged"):
            getattr(self, name).update(getattr(further, name))
        for name in ("inner", "examples", "missed"):
            getattr(self, name).extend(getattr(further, name))

    def sum_of(self, name: str, cut: str = ALL) -> int:
        """Return a count over all cuts, or of one."""
        return sum(number for (one, key), number in self.shares.items() if key == name and cut in (ALL, one))

    def outcome(self, name: str, cut: str = ALL) -> int:
        """Return the number of logs with known lengths and this outcome."""
        return sum(number for (one, key), number in self.outcomes.items() if name in (ALL, key) and cut in (ALL, one))

    def failures(self) -> list[str]:
        """Return the limits that are not met."""
        out = [f"{sum(self.false.values())} false statements"] if self.false else []
        out += [f"{len(self.inner)} contradictions inside a report"] if self.inner else []
        logs = self.outcome(ALL)
        limits = (
            ("determined counts stated", self.sum_of("counts stated"), self.sum_of("counts determined"), COUNTS),
            ("determined causes stated", self.sum_of("causes stated"), self.sum_of("causes determined"), CAUSES),
            ("logs accepted", self.outcome("accepted"), logs, ACCEPTED),
        )
        out += [f"{what}: {share(number, of)}, expected {100 * least:.0f} %" for what, number, of, least in limits
                if number < least * of]  # fmt: skip
        if self.outcome("rejected") > REJECTED * logs:
            out.append(f"logs rejected: {share(self.outcome('rejected'), logs)}, at most {100 * REJECTED:.0f} %")
        return out


def share(number: int, of: int) -> str:
    """Return a number of a total with its percentage."""
    return f"{number} of {of} ({100 * number / max(1, of):.1f} %)"


def report(tally: Tally, shown: int) -> str:
    """Return the table, and the first false statements, contradictions and misses."""
    out = [_row("cut", "files", "false", "determined of counts", "stated of those", "causes stated", "simulated")]
    cuts = [*sorted(tally.files, key=lambda cut: (cut != "whole", cut)), ALL]
    out += [_cells(tally, cut) for cut in cuts]
    determined = share(tally.sum_of("losses stated"), tally.sum_of("losses determined"))
    out += ["", f"losses that the numbers prove, stated: {determined}"]
    out += ["", "outcomes of logs with known lengths:"]
    names = sorted({name for _, name in tally.outcomes})
    out += [f"  {name:<16} whole {share(tally.outcome(name, 'whole'), tally.outcome(ALL, 'whole'))}, "
            f"all {share(tally.outcome(name), tally.outcome(ALL))}" for name in names]  # fmt: skip
    out += ["", f"false statements: {sum(tally.false.values())}"]
    out += [f"  {number:>5} {what}" for what, number in tally.false.most_common(40)]
    for title, lines in (("examples", tally.examples), ("contradictions inside a report", tally.inner),
                         ("determined, but not stated", tally.missed)):  # fmt: skip
        out += ["", f"{title}: {len(lines)}", *(f"  {line}" for line in lines[:shown])]
    out += ["", "not judged: " + ", ".join(f"{what} {number}" for what, number in tally.unjudged.most_common(12))]
    return "\n".join([*out, "", *(f"FAILED: {one}" for one in tally.failures())])


def _row(*cells: str) -> str:
    widths = (14, 6, 6, 24, 24, 22, 24)
    return "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip()


def _cells(tally: Tally, cut: str) -> str:
    false = tally.false_by_cut.total() if cut == ALL else tally.false_by_cut[cut]
    files = tally.files.total() if cut == ALL else tally.files[cut]
    determined, counts = tally.sum_of("counts determined", cut), tally.sum_of("counts", cut)
    causes = share(tally.sum_of("causes stated", cut), tally.sum_of("causes determined", cut))
    return _row(
        cut, str(files), str(false), share(determined, counts), share(tally.sum_of("counts stated", cut), determined),
        causes, share(tally.outcome("accepted", cut), tally.outcome(ALL, cut)),
    )  # fmt: skip
