"""``results.md``: for each fixed base, the last commit of each issue as a column of ratios.

A base is a commit that the project keeps for comparisons. A third section has the ratios to the commit that an issue
began with, which is another one for every issue.
"""

from __future__ import annotations

import re
from pathlib import Path
from statistics import median
from typing import Mapping, NamedTuple, Sequence

from tests.bench.table import Comparison, short_reason, spread

RESULTS = Path(__file__).with_name("results.md")
BASES = ("31c82ee", "53502ac7")
OF_ISSUE = "the base of the issue"
SHOWN = 8                     # digits of a commit
TITLE = "# Results of `make bench AGAINST=COMMIT`"
ABOUT = (
    "A section has the ratios to one commit, a column those of the last commit of an issue: CPU time as median",
    "(lowest-highest), then peak memory. `first line`: CPU time until the first line of output. `loop:`: without the",
    "command line. Written by `make bench AGAINST=COMMIT ARGS='--record \"issue N\"'`, once for each section.",
)
Cells = dict[str, dict[str, str]]
"""Name of a row -> label of a column -> cell."""


class Section(NamedTuple):
    """Ratios to one base, or to the bases of the issues."""

    labels: list[str]
    rows: Cells


def section_of(commit: str) -> str:
    """Return the title of the section for a commit, given by its full id."""
    for base in BASES:
        if commit.startswith(base):
            return base
    return OF_ISSUE


def cell(row: Comparison) -> str:
    """Return the cell of a row: ratio of CPU time with its spread, ratio of peak memory; else why there is none."""
    if not row.ratios:
        return short_reason(row.end)
    time = f"{median(row.ratios):.2f} ({spread(row.ratios)})"
    return f"{time}, {row.memory:.2f}" if row.memory else time


def record(file: Path, issue: str, commit: str, rows: Sequence[Comparison], order: Sequence[str]) -> None:
    """Write the cells of rows into the column of an issue. ``commit``: full id of the other commit; ``order``: names of
    all rows. Other cells stay, except those of the issue's column beside another commit of its own."""
    sections = read(file)
    title = section_of(commit)
    section = sections[title]
    label = issue if title in BASES else f"{issue}, {commit[:SHOWN]}"
    if label not in section.labels:
        _remove_issue(section, issue)
        section.labels.append(label)
    for row in rows:
        section.rows.setdefault(row.name, {})[label] = cell(row)
    text = [TITLE, "", *ABOUT]
    for title, section in sections.items():
        if section.labels:
            text += ["", f"## {title}", "", *_lines(section, order)]
    file.write_text("\n".join(text) + "\n", "utf-8")


def read(file: Path) -> Mapping[str, Section]:
    """Return the sections of a results file by their titles; those that it lacks are empty."""
    sections = {title: Section([], {}) for title in (*BASES, OF_ISSUE)}
    section = sections[OF_ISSUE]
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    for line in lines:
        if line.startswith("## "):
            section = sections[line.removeprefix("## ")]
        elif line.startswith("| "):
            name, *cells = re.split(r"\s*\|\s*", line.strip())[1:-1]
            if name == "row":
                section.labels.extend(cells)
            else:
                section.rows[name] = dict(zip(section.labels, cells, strict=True))
    return sections


def _remove_issue(section: Section, issue: str) -> None:
    """Remove the column of an issue beside an earlier commit."""
    old = [label for label in section.labels if label.startswith(f"{issue}, ")]
    for label in old:
        section.labels.remove(label)
        for cells in section.rows.values():
            cells.pop(label, None)


def _lines(section: Section, order: Sequence[str]) -> list[str]:
    """Return the lines of a section's table. Rows that are not measured any longer come last."""
    rows = section.rows
    names = [*(name for name in order if name in rows), *(name for name in rows if name not in order)]
    lines = ["".join(f"| {word} " for word in ("row", *section.labels)) + "|"]
    lines.append("|---" * (1 + len(section.labels)) + "|")
    for name in names:
        cells = [rows[name].get(label, "") for label in section.labels]
        lines.append("".join(f"| {word} " for word in (name, *cells)) + "|")
    return lines
