"""Recordings of the classes of real servers (tests/data): what they did in each step is what ours must do."""

from __future__ import annotations

from pathlib import Path

from cachesim.engines.registry import profiles
from cachesim.replay.recorded_trace import read_trace
from cachesim.replay.replay import replay
from tests.replay.verdicts import judged_alike, verdicts

DATA = Path(__file__).parents[2] / "data"


def recordings(*folders: str) -> list[Path]:
    """Return the recordings in these folders of the data."""
    return sorted(path for folder in folders for path in (DATA / folder).glob("*.json"))


def name_of(path: Path) -> str:
    """Return the name of a recording in the id of a test."""
    return f"{path.parent.name}/{path.stem}"


def first_difference(path: Path) -> object:
    """Return the first difference between a recording and our classes, None without one."""
    return replay(read_trace(path, profiles())).first


def wrong_requests(path: Path) -> object:
    """Return None if the steps that read something wrong are those of the recording, else the result of its replay."""
    found = verdicts(path)
    return None if found.first is None and (judged_alike(found) or found.verdicts_agree is None) else found
