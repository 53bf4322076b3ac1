"""Tests of replays of a server's classes, with spoiled recordings."""

from __future__ import annotations

import json

import pytest

from cachesim.engines.registry import profiles
from cachesim.replay.recorded_trace import make_trace
from cachesim.replay.replay import replay
from tests.replay.verdicts import DATA

FILE = DATA / "sglang" / "full-44.json"


def replayed(change=lambda data: None, mode="none", check=None):
    data = json.loads(FILE.read_text("utf-8"))
    change(data)
    return replay(make_trace(FILE, data, profiles()), mode, check), data


def test_a_recording_agrees_in_every_step_and_event():
    found, data = replayed()
    assert (found.steps, found.steps_agree, found.steps_undecided) == (len(data["steps"]), len(data["steps"]), 0)
    assert (found.first, found.why) == (None, "") and found.verdicts_agree is None


@pytest.mark.parametrize("place", [1, 24])
def test_the_first_field_that_differs_ends_the_replay(place):
    found, _ = replayed(lambda data: data["steps"][place].update(run=[]))
    assert (found.first["step"], found.first["field"], found.first["recorded"]) == (place, "run", [])
    assert found.steps_agree == place


def test_a_difference_in_the_end_belongs_to_no_step():
    found, data = replayed(lambda data: data["final"].update(tree=[]))
    assert (found.first["step"], found.first["field"]) == (len(data["steps"]), "tree")
    assert found.steps_agree == len(data["steps"])
