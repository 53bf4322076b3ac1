"""Counts of a campaign: false statements, lines without a statement, and causes by cut, build and key."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.logs.cuts import Excerpt
from tests.logs.judged import Result

COVERED, NAMED, CELL, SAMPLES = 0.95, 0.85, 0.70, 20
"""Least shares of covered lines and of named causes, in all and in a cell of the table; samples that a cell needs."""
KEPT = 200  # examples of each kind that a tally keeps


class Share(NamedTuple):
    """Named causes of those that are in the excerpt."""

    named: int
    due: int

    def __str__(self) -> str:
        return f"{self.named:>6} of {self.due:>6}  {100 * self.named / max(1, self.due):5.1f} %"


@dataclass(slots=True)
class Tally:
    """Counts over excerpts; ``merge`` adds those of another process."""

    excerpts: Counter[str] = field(default_factory=Counter)  # by cut
    said: Counter[str] = field(default_factory=Counter)  # statements by kind
    lines: Counter[str] = field(default_factory=Counter)  # "cache", "covered", "unjudged"
    cells: Counter[tuple[str, str, bool]] = field(default_factory=Counter)  # axis: value, named
    false: Counter[str] = field(default_factory=Counter)  # by what and reason
    examples: list[str] = field(default_factory=list)
    misses: list[str] = field(default_factory=list)
    silent: Counter[str] = field(default_factory=Counter)  # kinds of lines without a statement
    earlier: Counter[tuple[str, bool, bool]] = field(default_factory=Counter)  # earlier decisions for the slot's prefix
    apart: Counter[tuple[str, bool]] = field(default_factory=Counter)  # decisions for other texts

    def add(self, number: int, excerpt: Excerpt, result: Result) -> None:
        """Add the result of an excerpt of a source."""
        log, where = excerpt.logs[0], f"--source {number} --cut '{excerpt.cut}'"
        self.excerpts[excerpt.cut.split()[0]] += 1
        self.said.update(result.said)
        self.lines.update(cache=result.cache_lines, covered=result.covered, unjudged=result.unjudged)
        for key, named, task, own in result.due:
            cut = excerpt.cut.split()[0]
            which = "own decision is there" if own else "only earlier decisions are there"
            for value in (
                "all", which, f"cut {cut}", f"build {log.profile}", f"cause {key}", f"cut {cut}, cause {key}"
            ):
                self.cells[value, "", named] += 1
            if not named and len(self.misses) < KEPT:
                self.misses.append(f"{where} task {task}: {key} ({log.profile})")
        self.earlier.update(result.earlier)
        self.apart.update(result.apart)
        for wrong in result.false:
            reason = "".join(" # " if sign.isdigit() else sign for sign in wrong.why).replace("  #", "")[:60]
            self.false[f"{wrong.said['kind']} {wrong.said['what']} {sorted(wrong.said['numbers'])[:3]}: {reason}"] += 1
            if len(self.examples) < KEPT:
                said = {name: wrong.said[name] for name in ("what", "lines", "slot", "task", "numbers")}
                self.examples.append(f"{where} ({log.profile}): {wrong.why}: {said}")
        for text in result.silent:
            self.silent["".join(sign for sign in text if not sign.isdigit())[-70:]] += 1

    def merge(self, further: Tally) -> None:
        """Add the counts of another tally."""
        for name in ("excerpts", "said", "lines", "cells", "false", "silent", "earlier", "apart"):
            getattr(self, name).update(getattr(further, name))
        self.examples = (self.examples + further.examples)[:KEPT]
        self.misses = (self.misses + further.misses)[:KEPT]

    def shares(self) -> dict[str, Share]:
        """Return the share of named causes in each cell."""
        cells = sorted({cell for cell, _, _ in self.cells})
        return {cell: Share(self.cells[cell, "", True], self.cells[cell, "", True] + self.cells[cell, "", False])
                for cell in cells}  # fmt: skip

    @property
    def coverage(self) -> float:
        """Share of the cache lines with a statement."""
        return self.lines["covered"] / max(1, self.lines["cache"])

    def failures(self) -> list[str]:
        """Return the limits that the campaign does not meet."""
        out = [f"{sum(self.false.values())} false statements"] if self.false else []
        if self.coverage < COVERED:
            out.append(f"{100 * self.coverage:.1f} % of the cache lines have a statement, wanted {100 * COVERED:.0f} %")
        for cell, share in self.shares().items():
            least = NAMED if cell == "all" else CELL
            if share.due >= SAMPLES and share.named < least * share.due:
                out.append(f"{cell}: {share}, wanted {100 * least:.0f} %")
        return out

    @property
    def holds(self) -> bool:
        """True if no statement is false and every share reaches its limit."""
        return not self.failures()


def report(tally: Tally, shown: int) -> str:
    """Return the table of a campaign, and its first false statements and misses."""
    out = [
        f"{sum(tally.excerpts.values())} excerpts: {dict(tally.excerpts)}",
        f"statements: {dict(tally.said)}, {tally.lines['unjudged']} not judged",
        f"lines about caches with a statement: {tally.lines['covered']} of {tally.lines['cache']} "
        f"({100 * tally.coverage:.2f} %)",
        "",
        "causes named, of those whose deciding line is in the excerpt:",
    ]
    out += [f"  {cell:<44} {share}" for cell, share in tally.shares().items()]
    out += ["", "earlier decisions that the ledger charges for the slot's common prefix; is this key named?"]
    for key, provable in sorted({cell[:2] for cell in tally.earlier}, key=lambda cell: (not cell[1], cell[0])):
        counts = [tally.earlier[key, provable, named] for named in (True, False)]
        name = key if provable else f"{key} (not provable from a log)"
        out.append(f"  {name:<62} {Share(counts[0], sum(counts))}")
    out += ["", "decisions for tokens of other texts, not demanded; is this key named?"]
    for key in sorted({key for key, _ in tally.apart}):
        out.append(f"  {key:<62} {Share(tally.apart[key, True], tally.apart[key, True] + tally.apart[key, False])}")
    out += ["", f"false statements: {sum(tally.false.values())}"]
    out += [f"  {times:>6} {what}" for what, times in tally.false.most_common(40)]
    out += [f"  {one}" for one in tally.examples[:shown]]
    out += ["", "misses:"] + [f"  {one}" for one in tally.misses[:shown]]
    out += ["", "lines without a statement:"] + [
        f"  {times:>6} {text}" for text, times in tally.silent.most_common(shown)
    ]
    return "\n".join([*out, "", *(f"FAILED: {one}" for one in tally.failures())])
