"""Small recordings agree with the simulator, and no longer do after a change of a number in them."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from cachesim.engines.registry import profiles
from cachesim.replay.recorded_trace import read_trace
from cachesim.replay.replay import replay
from tests.shared import ROOT

DATA = ROOT / "tests" / "data"
LARGEST, EACH, CHANGES = 20_000, 6, 6
FOLDERS = ("ik_llama", "ik_llama_odd", "ik_llama_parallel", "llama_cpp", "llama_cpp_b11549", "llama_cpp_odd", "sglang")
FILES = [file for folder in FOLDERS for file in sorted(
    (file for file in (DATA / folder).glob("*.json") if file.stat().st_size <= LARGEST),
    key=lambda file: (file.stat().st_size, file.name))[:EACH]]  # fmt: skip


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_a_recording_agrees_in_every_step_and_event(file: Path) -> None:
    found = replay(read_trace(file, profiles()))
    assert (found.first, found.steps_agree, found.events_agree) == (None, found.steps, found.events)
    assert found.steps > 0 and found.steps_undecided == 0 and found.verdicts_agree is None


def altered(file: Path, seed: int) -> str:
    """Return the text of a recording in which a number of an event is larger by one."""
    data = json.loads(file.read_text())
    places = [(event, name) for step in data["steps"] for event in step.get("events", ())
              for name, value in event.items() if type(value) is int and name not in ("task", "slot")]  # fmt: skip
    event, name = places[Random(seed).randrange(len(places))]
    event[name] += 1
    return json.dumps(data)


PLAIN = [file for file in FILES if file.parent.name == "llama_cpp"]


@pytest.mark.parametrize("file", PLAIN, ids=lambda file: file.stem)
@pytest.mark.parametrize("seed", range(CHANGES))
def test_a_changed_number_of_an_event_is_a_difference(file: Path, seed: int, tmp_path: Path) -> None:
    copy = tmp_path / file.name
    copy.write_text(altered(file, seed))
    found = replay(read_trace(copy, profiles()))
    assert found.steps_agree < found.steps or found.events_agree < found.events
    assert found.first is not None or found.steps_undecided


def test_another_answer_of_an_action_is_a_difference_of_its_own(tmp_path: Path) -> None:
    file = DATA / "llama_cpp" / "gemma3-bug-swafull-slotfile-cut12.json"
    data = json.loads(file.read_text())
    step = next(step for step in data["steps"] if step["request"].get("action") == "save")
    name = "n_saved"
    step["response"][name] += 1
    (tmp_path / file.name).write_text(json.dumps(data))
    found = replay(read_trace(tmp_path / file.name, profiles()))
    assert found.first is not None and found.first["field"] == name and "orders" not in found.first
    assert found.first["recorded"] == found.first["ours"] + 1
