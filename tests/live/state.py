"""State of a campaign: a JSON line per server start, in a file per build and seed."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

from tests.live.beside import Difference
from tests.live.named import name_of

COUNTS = ("conversations", "steps", "events", "verdicts", "undecided", "looked", "refused", "starts")


class State:
    """The lines of a file. Lines with unnamed differences are dropped on reading, so their conversations run again."""

    def __init__(self, file):
        self.file, self.lines = Path(file), []
        if self.file.exists():
            found = [json.loads(line) for line in self.file.read_text("utf-8").splitlines() if line]
            for one in (one for line in found for one in line["differences"]):
                one["name"] = self._named(one)
            for line in found:
                if not unnamed(line) and not self._has(line):
                    self.lines.append(line)

    def _has(self, line):
        """True if a line for these conversations exists."""
        return any((known["number"], known["first"]) == (line["number"], line["first"]) for known in self.lines)

    def _named(self, case):
        """Return the class of a difference under the current predicates, from its recording."""
        kept = self.file.parent / "differences" / case["file"]
        if not kept.is_file():
            return case["name"]
        recording = json.loads(kept.read_text("utf-8"))
        return name_of(Difference(*case["what"]), recording, case.get("runs", ()), case.get("plain"))

    def done(self, number):
        """Return the number of conversations of an option set that are done; they are consecutive."""
        at = 0
        for line in sorted((line for line in self.lines if line["number"] == number), key=lambda one: one["first"]):
            if line["first"] == at:
                at += line["conversations"] + line["refused"]
        return at

    def add(self, tally):
        """Store a result once; the file is complete at any time."""
        line = json.loads(json.dumps(asdict(tally)))
        if self._has(line):
            return
        self.lines.append(line)
        self.file.parent.mkdir(parents=True, exist_ok=True)
        beside = self.file.with_suffix(".new")
        beside.write_text("".join(json.dumps(line) + "\n" for line in self.lines), "utf-8")
        os.replace(beside, self.file)

    def sums(self):
        """Return totals over all lines, and differences by class or, without a class, by group."""
        sums = {name: sum(line.get(name, 0) for line in self.lines) for name in COUNTS}
        sums["option sets"] = len({line["number"] for line in self.lines if line["conversations"]})
        sums["seconds"] = round(sum(line["seconds"] for line in self.lines))
        named, others = {}, {}
        for one in (one for line in self.lines for one in line["differences"]):
            table, key = (named, one["name"]) if one["name"] else (others, one["group"])
            table.setdefault(key, []).append(one["file"])
        return sums, named, others


def unnamed(line):
    """Return the differences of a line that no class explains."""
    return [one for one in line["differences"] if not one["name"]]
