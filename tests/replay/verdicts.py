"""A trace replayed, and how the figures are read off: as `cachesim replay` does it."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from cachesim.engines.registry import profiles
from cachesim.replay.recorded_trace import Trace, read_trace
from cachesim.replay.replay import ReplayResult, replay
from cachesim.tools.replay.command import checker

DATA = Path(__file__).parents[1] / "data"


@lru_cache(maxsize=1)
def _read(path: Path) -> Trace:
    """Return a recording; it is read once where decisions and verdicts are compared one after the other."""
    return read_trace(path, profiles())


def decisions(path: Path) -> ReplayResult:
    """Replay a trace without a model, and compare every step and event."""
    return replay(_read(path))


def verdicts(path: Path) -> ReplayResult:
    """A trace replayed with provenance, every answer judged."""
    return replay(_read(path), "provenance", checker())


def decided_alike(found: ReplayResult) -> bool:
    """Every step and every event agrees."""
    return (found.steps_agree, found.events_agree) == (found.steps, found.events)


def judged_alike(found: ReplayResult) -> bool:
    """Broken exactly where the real server was inexact."""
    return found.verdicts_agree == found.steps
