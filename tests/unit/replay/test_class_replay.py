"""Tests of replays of a server's classes, with spoiled recordings."""

from __future__ import annotations

import json

import pytest

from cachesim.engines.registry import profiles
from cachesim.replay.recorded_trace import make_trace
from cachesim.replay.replay import replay
from cachesim.tools.replay.command import checker
from tests.replay.verdicts import DATA

FILE = DATA / "sglang" / "full-44.json"
ABORTS = DATA / "vllm" / "swa-3772.json"                   # the last of its 18 steps ends the process
WRONG = DATA / "vllm" / "full_mamba_ckpt-5024.json"        # steps 5 and 7 read something wrong


def replayed(change=lambda data: None, mode="none", check=None, file=FILE):
    data = json.loads(file.read_text("utf-8"))
    change(data)
    return replay(make_trace(file, data, profiles()), mode, check), data


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


def counts(found):
    return found.steps_agree, found.steps_undecided, found.verdicts_agree, found.broken


def test_a_process_that_ends_agrees_if_its_last_step_is_recorded_so():
    found, _ = replayed(file=ABORTS)
    assert counts(found) == (18, 0, None, [17]) and found.first is None
    found, _ = replayed(mode="provenance", check=checker(), file=ABORTS)
    assert counts(found) == (18, 0, 18, [17]) and found.events_agree == found.events


@pytest.mark.parametrize("field", ["error", "in"])
def test_a_process_that_ends_otherwise_is_a_difference(field):
    found, _ = replayed(lambda data: data["steps"][17].update({field: "other"}), "provenance", checker(), ABORTS)
    assert counts(found) == (17, 0, 17, [17])
    assert (found.first["step"], found.first["field"], found.first["recorded"]) == (17, field, "other")


@pytest.mark.parametrize(("check", "differ", "broken"), [
    (checker(), [], [5, 7]), (lambda *_: True, [5, 7], []), (lambda *_: None, [5, 7], []),
], ids=["judged", "all correct", "all undecided"])  # fmt: skip
def test_the_judged_answers_are_those_that_the_recording_marks(check, differ, broken):
    found, _ = replayed(mode="provenance", check=check, file=WRONG)
    assert [number for number, agrees in found.verdicts.items() if not agrees] == differ
    assert counts(found) == (found.steps, 0, found.steps - len(differ), broken)
