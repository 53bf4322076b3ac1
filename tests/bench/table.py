"""Comparisons of rows, as a table of at most 80 columns."""

from __future__ import annotations

from statistics import median
from typing import NamedTuple, Sequence

from tests.bench.launch import NONE
from tests.bench.measure import Measured

WORSE = 1.05                  # ratio above which a row is called slower or larger, if every pair shows one above 1
LONGER = 1.5                  # ratio above which an output is called longer
ABSENT, UNCOMPARED = "not there", "not compared"
FIRST_LINE = ", first line"


class Comparison(NamedTuple):
    """A row of both commits. ``theirs`` is empty without a counterpart, or without another commit."""

    name: str
    ours: Sequence[Measured]
    theirs: Sequence[Measured] = ()
    note: str = ""            # why the row, or its counterpart, has no figures

    @property
    def ratios(self) -> list[float]:
        """Return CPU time of this commit divided by that of the other, pair by pair; [] if a row did not end."""
        if self.end:
            return []
        return [ours.seconds / theirs.seconds for ours, theirs in zip(self.ours, self.theirs, strict=True)]

    @property
    def memory(self) -> float:
        """Return the ratio of the median peak memories; 0 = not known, or not a figure of the row."""
        return peak(self.ours) / peak(self.theirs) if self.ratios and peak(self.theirs) else 0.0

    @property
    def output(self) -> float:
        """Return the ratio of the bytes of standard output; 0 = not known, or there is none."""
        return self.ours[0].output / self.theirs[0].output if self.ratios and self.theirs[0].output else 0.0

    @property
    def end(self) -> str:
        """Return why figures are missing, "" if both sides have theirs."""
        ends = [side.end for side in (*self.ours, *self.theirs) if side.end]
        return self.note or (ends[0] if ends else "" if self.theirs else UNCOMPARED)

    @property
    def is_slower(self) -> bool:
        """True if the median of the ratios is above ``WORSE``, and no pair contradicts it."""
        return bool(self.ratios) and median(self.ratios) > WORSE and min(self.ratios) > 1

    @property
    def mark(self) -> str:
        """Return the word at the end of the row."""
        return "slower" if self.is_slower else "larger" if self.memory > WORSE else ""

    def until_first_line(self) -> Comparison:
        """Return the comparison of the CPU seconds until the first line of output. Memory is a figure of the row with
        the last line."""
        ours = [_until_first_line(measured) for measured in self.ours]
        theirs = [_until_first_line(measured) for measured in self.theirs]
        return Comparison(f"{self.name}{FIRST_LINE}", ours, theirs, self.note)


def _until_first_line(measured: Measured) -> Measured:
    """Return the figures of the first line. Without one, they have a reason instead."""
    end = measured.end
    if not end and measured.first_line == NONE:
        end = "no first line"
    return Measured(measured.first_line, 0.0, end)


def peak(side: Sequence[Measured]) -> float:
    """Return the median peak memory in MiB."""
    return median(one.mib for one in side)


def header(commit: str) -> str:
    """Return the first lines of the table. ``commit``: the other commit, "" = none."""
    if not commit:
        return f"{'row':30}{'CPU s':>8}{'MiB':>7}"
    first = f"{'':30}{'this commit':>13}{commit[:12]:>13}{'CPU':>6}"
    return f"{first}\n{'row':30}{'CPU s':>7}{'MiB':>6}{'CPU s':>7}{'MiB':>6}{'ratio':>6}{'spread':>11}"


def line(row: Comparison, compared: bool) -> str:
    """Return a row of the table."""
    if not compared:
        return f"{row.name:30}{_figures(row.ours, 8, 7)}"
    figures = f"{row.name:30}{_figures(row.ours, 7, 6)}{_figures(row.theirs, 7, 6)}"
    if not row.ratios:
        return f"{figures} {short_reason(row.end)}".rstrip()
    return f"{figures}{median(row.ratios):>6.2f}{spread(row.ratios):>11}{row.mark:>7}".rstrip()


def spread(ratios: Sequence[float]) -> str:
    """Return the lowest and the highest ratio."""
    return f"{min(ratios):.2f}-{max(ratios):.2f}"


def _figures(side: Sequence[Measured], wide: int, narrow: int) -> str:
    if not side:
        return f"{'-':>{wide}}{'-':>{narrow}}"
    if side[0].end:
        return f"{short_reason(side[0].end):>{wide + narrow}}"
    memory = f"{peak(side):.0f}" if peak(side) else "-"
    return f"{median(one.seconds for one in side):>{wide}.2f}{memory:>{narrow}}"


def short_reason(end: str) -> str:
    """Return why a row has no figures, without details."""
    return end.partition(",")[0].partition(":")[0]


def summary(rows: Sequence[Comparison], commit: str) -> list[str]:
    """Return lines that name the rows that are slower, larger, longer in their output or without figures."""
    slower = [f"{row.name} ({median(row.ratios):.2f})" for row in rows if row.is_slower]
    larger = [f"{row.name} ({row.memory:.2f})" for row in rows if row.memory > WORSE]
    longer = [f"{row.name} ({row.output:.2f})" for row in rows if row.output > LONGER]
    named = [f"{row.name}: {row.end}" for row in rows if row.end not in ("", UNCOMPARED)]
    lines = []
    if commit:
        lines.append(f"slower than {commit}: {', '.join(slower) or 'none'}")
        lines.append(f"larger than {commit}: {', '.join(larger) or 'none'}")
        lines.append(f"output longer than that of {commit}: {', '.join(longer) or 'none'}")
    return lines + named
