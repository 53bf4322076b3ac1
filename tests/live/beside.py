"""The simulator replays a recording while it is made, and reports the first difference."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from cachesim.engines.registry import profiles
from cachesim.events import Aborted
from cachesim.replay.recorded_trace import make_trace
from cachesim.replay.replay import ReplayResult, TraceReplay
from cachesim.tools.replay.command import checker
from tests.live.named import apart_of, colds


class Difference(NamedTuple):
    """The first difference of a step. ``what``: a field of an answer, an "event", or a "verdict"; ``recorded`` and
    ``ours``: the two values. ``racy``: the step depends on timing. ``ended``: last words of the simulated
    server if it ended in it."""

    step: int
    what: str
    recorded: object
    ours: object
    racy: bool = False
    ended: str = ""

    @property
    def group(self):
        """Key under which differences count as equal."""
        return f"{self.what}: {_kind(self.recorded)} / {_kind(self.ours)}" + (" (racy)" if self.racy else "")


def _kind(value):
    """Return an event's name; anything else without its numbers."""
    if isinstance(value, dict):
        return value.get("ev", "?")
    return value if value is None or isinstance(value, bool | str) else "number"


_TASK = re.compile(r"(?<!\w)id_task=\d+")


def ranked(events):
    """Return the events with task numbers in their texts replaced by the order of their first occurrence."""
    seen = {}

    def rank(found):
        return f"id_task={seen.setdefault(found[0], len(seen))}"

    return [{**event, "text": _TASK.sub(rank, event["text"])} if "text" in event else event for event in events]


def last_words(server):
    """Return the last message of a simulated server that ended, "" while it runs."""
    return next((event.text for event in reversed(server.log.events) if isinstance(event, Aborted)), "") * server.dead


class Timed(TraceReplay):
    """A replay in which task numbers can depend on timing: an error contains the raw number of its task, which depends
    on the order of requests, rounds and disconnects. ``timed``: some have depended on it so far."""

    timed = False

    def _records(self, server, start):
        found = super()._records(server, start)
        return ranked(found) if self.timed else found


class Beside:
    """A replay of a growing recording. ``steps``, ``events`` and ``verdicts`` count the comparisons; ``clean``: largest
    difference of log-probabilities from a cold run where the simulator finds nothing wrong; ``broken``: smallest where
    it does. ``apart``: by step number, the simulator's verdict and the distance of the real answers from cold
    answers."""

    def __init__(self):
        self.run = None
        self.found = None
        self.folder = TemporaryDirectory(prefix="cachesim-")
        self.clean, self.broken = 0.0, float("inf")
        self.steps = self.events = self.verdicts = self.undecided = 0
        self.apart = {}

    @property
    def left(self):
        """True if the memory is not the recorded one any more: later steps are undecided until a restart."""
        return self.run is not None and self.run.left_at is not None

    def close(self):
        """Remove the saved slots."""
        self.folder.cleanup()

    def hear(self, data):
        """Replay the new steps of a recording; return the first difference or None."""
        trace = make_trace(Path("live"), data, profiles())
        if trace.out:
            raise ValueError(trace.out)
        if self.run is None:
            self.run = Timed(trace, "provenance", Path(self.folder.name), checker())
            self.found = ReplayResult(trace)
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
        found.work = 0
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
                              last_words(run.server))
        self.verdicts += 1
        self._measure(step.number, raw, step.number in found.broken)
        if run.verdicts_agree == right:
            broken = step.number in found.broken
            if broken and not all(colds(one) for one in raw.get("steps", [raw])):
                self.verdicts, self.undecided = self.verdicts - 1, self.undecided + 1
                return None                     # without an answer there is nothing to compare
            return Difference(step.number, "verdict", "equal" if broken else "differs", "broken" if broken else "holds",
                              racy)
        return None

    def _measure(self, number, raw, broken):
        """Record the distances of rounding and of real differences."""
        found = [apart_of(cold) for one in raw.get("steps", [raw]) for cold in colds(one)]
        if not found:
            return
        self.apart[number] = broken, max(found)
        if len(found) == 1 and broken:
            self.broken = min(self.broken, found[0])
        elif not broken:
            self.clean = max(self.clean, *found)

