"""Our server goes through a recording while it is being made, and says where it differs."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from cachesim.engines.registry import profiles
from cachesim.replay.recorded_trace import make_trace
from cachesim.replay.replay import Replayed, Replaying
from cachesim.tools.replay.command import checker
from tests.live.named import apart_of, colds


class Difference(NamedTuple):
    """The first thing in which a step differs. ``what`` is a field of an answer, an "event", or a "verdict";
    ``recorded`` and ``ours`` are the two values. ``racy``: the step depends on timing. ``ended``: in it our server
    ended."""

    step: int
    what: str
    recorded: object
    ours: object
    racy: bool = False
    ended: bool = False

    @property
    def group(self):
        """Differences of one group are taken for one and the same."""
        return f"{self.what}: {_kind(self.recorded)} / {_kind(self.ours)}" + (" (racy)" if self.racy else "")


def _kind(value):
    """An event's name; anything else without its numbers."""
    if isinstance(value, dict):
        return value.get("ev", "?")
    return value if value is None or isinstance(value, bool | str) else "number"


_TASK = re.compile(r"(?<!\w)id_task=\d+")


def ranked(events):
    """Events whose texts name tasks by the order in which such texts first name them."""
    seen = {}

    def rank(found):
        return f"id_task={seen.setdefault(found[0], len(seen))}"

    return [{**event, "text": _TASK.sub(rank, event["text"])} if "text" in event else event for event in events]


class Timed(Replaying):
    """A replay in which numbers of tasks can depend on timing: an error names the raw number of its task, and a server
    gives those as requests, rounds and hang-ups come. ``timed``: some have depended on it by now."""

    timed = False

    def _records(self, server, start):
        found = super()._records(server, start)
        return ranked(found) if self.timed else found


class Beside:
    """A replay of a recording that grows. ``steps``, ``events`` and ``verdicts`` count what was compared; ``clean`` is
    the largest difference of log-probabilities from a cold run where ours says that nothing is wrong, ``broken`` the
    smallest where something is. ``apart``: by number of a step, whether ours says that something is wrong, and how far
    the real answers are from cold ones."""

    def __init__(self):
        self.run = None
        self.found = None
        self.folder = TemporaryDirectory(prefix="cachesim-")
        self.clean, self.broken = 0.0, float("inf")
        self.steps = self.events = self.verdicts = self.undecided = 0
        self.apart = {}

    def close(self):
        """Remove the saved slots."""
        self.folder.cleanup()

    def hear(self, data):
        """Go on with the steps that are new in a recording; the first difference, None if there is none."""
        trace = make_trace(Path("live"), data, profiles())
        if trace.out:
            raise ValueError(trace.out)
        if self.run is None:
            self.run = Timed(trace, "provenance", Path(self.folder.name), checker())
            self.found = Replayed(trace)
        for step, raw in zip(trace.steps[self.steps :], data["steps"][self.steps :], strict=True):
            difference = self._step(step, raw)
            self.steps += 1
            if difference is not None:
                return difference
        return None

    def _step(self, step, raw):
        found, run = self.found, self.run
        run.files |= bool(step.file)
        agreed, undecided, right = found.steps_agree, found.steps_undecided, run.verdicts_agree
        found.first = None
        racy = bool(raw.get("racy"))
        run.timed = run.timed or racy
        run.step(found, replace(step, events=ranked(step.events)) if run.timed else step)
        self.events += len(step.events)
        if found.steps_undecided > undecided:
            self.undecided += 1
            return None
        if found.steps_agree == agreed:
            first = found.first or {}
            what = "event" if "event" in first else first.get("field", "?")
            return Difference(step.number, what, first.get("recorded"), first.get("ours"), racy,
                              run.server.dead)
        self.verdicts += 1
        self._measure(step.number, raw, step.number in found.broken)
        if run.verdicts_agree == right:
            broken = step.number in found.broken
            if broken and not all(colds(one) for one in raw.get("steps", [raw])):
                self.verdicts, self.undecided = self.verdicts - 1, self.undecided + 1
                return None                     # a client that hung up has no answer to compare
            return Difference(step.number, "verdict", "equal" if broken else "differs", "broken" if broken else "holds",
                              racy)
        return None

    def _measure(self, number, raw, broken):
        """How far apart are rounding and real differences?"""
        found = [apart_of(cold) for one in raw.get("steps", [raw]) for cold in colds(one)]
        if not found:
            return
        self.apart[number] = broken, max(found)
        if len(found) == 1 and broken:
            self.broken = min(self.broken, found[0])
        elif not broken:
            self.clean = max(self.clean, *found)

