"""Comparisons of rows, as a table of at most 80 columns and as the columns of ``results.md``."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import median
from typing import NamedTuple, Sequence

from tests.bench.measure import Measured

RESULTS = Path(__file__).with_name("results.md")
WORSE = 1.05                  # ratio above which a row is called slower or larger, if every pair shows one above 1
ABSENT, UNCOMPARED = "absent", "not compared"
TITLE = "# Results of `make bench AGAINST=COMMIT`"

ABOUT = (
    "Ratios of this commit to the other: CPU time as median (lowest-highest), and peak memory. A column names the",
    "issue whose last commit was measured, and the other commit. Written by `make bench AGAINST=COMMIT` with",
    "`ARGS='--record \"issue N\"'`.",
)


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
        """Return the ratio of the median peak memories; 0 = not known."""
        return peak(self.ours) / peak(self.theirs) if self.ratios else 0.0

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
        return f"{figures} {_short(row.end)}".rstrip()
    return f"{figures}{median(row.ratios):>6.2f}{spread(row.ratios):>11}{row.mark:>7}".rstrip()


def spread(ratios: Sequence[float]) -> str:
    """Return the lowest and the highest ratio."""
    return f"{min(ratios):.2f}-{max(ratios):.2f}"


def _figures(side: Sequence[Measured], wide: int, narrow: int) -> str:
    if not side:
        return f"{'-':>{wide}}{'-':>{narrow}}"
    if side[0].end:
        return f"{_short(side[0].end):>{wide + narrow}}"
    return f"{median(one.seconds for one in side):>{wide}.2f}{peak(side):>{narrow}.0f}"


def _short(end: str) -> str:
    return end.partition(",")[0].partition(":")[0]


def summary(rows: Sequence[Comparison], commit: str) -> list[str]:
    """Return lines that name the rows that are slower, larger or without figures."""
    slower = [f"{row.name} ({median(row.ratios):.2f})" for row in rows if row.is_slower]
    larger = [f"{row.name} ({row.memory:.2f})" for row in rows if row.memory > WORSE]
    named = [f"{row.name}: {row.end}" for row in rows if row.end not in ("", UNCOMPARED)]
    lines = []
    if commit:
        lines.append(f"slower than {commit}: {', '.join(slower) or 'none'}")
        lines.append(f"larger than {commit}: {', '.join(larger) or 'none'}")
    return lines + named


def cells(row: Comparison) -> tuple[str, str]:
    """Return the two cells of a row in ``results.md``: ratio of CPU time with its spread, ratio of peak memory."""
    if not row.ratios:
        return _short(row.end), ""
    return f"{median(row.ratios):.2f} ({spread(row.ratios)})", f"{row.memory:.2f}"


def record(file: Path, label: str, rows: Sequence[Comparison], order: Sequence[str]) -> None:
    """Write the pair of columns ``label`` of a results file; columns of other comparisons stay."""
    labels, known = read(file)
    if label not in labels:
        labels.append(label)
    for row in rows:
        known.setdefault(row.name, {})[label] = cells(row)
    names = [*(name for name in order if name in known), *(name for name in known if name not in order)]
    text = [TITLE, "", *ABOUT, ""]
    text.append("| row |" + "".join(f" {label}: CPU | MiB |" for label in labels))
    text.append("|---" * (1 + 2 * len(labels)) + "|")
    for name in names:
        pairs = [known[name].get(one, ("", "")) for one in labels]
        text.append(f"| {name} |" + "".join(f" {cpu} | {mib} |" for cpu, mib in pairs))
    file.write_text("\n".join(text) + "\n", "utf-8")


def read(file: Path) -> tuple[list[str], dict[str, dict[str, tuple[str, str]]]]:
    """Return the labels of the comparisons of a results file, and the cells of each row by label."""
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    table = [re.split(r"\s*\|\s*", one.strip())[1:-1] for one in lines if one.startswith("| ")]
    if not table:
        return [], {}
    labels = [head.removesuffix(": CPU") for head in table[0][1::2]]
    rows = {}
    for name, *found in table[1:]:
        rows[name] = dict(zip(labels, zip(found[::2], found[1::2], strict=True), strict=True))
    return labels, rows
