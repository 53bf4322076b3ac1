"""Search for what a recording leaves open: moments of slot actions, of requests that wait, uninitialised numbers."""

from __future__ import annotations

import json

import pytest

from cachesim.engines.registry import profiles
from cachesim.replay import unknown_search
from cachesim.replay.recorded_trace import make_trace, read_trace
from cachesim.replay.replay_result import ReplayResult
from cachesim.replay.unknown_search import LARGE, Supposition, settled
from tests.replay.verdicts import DATA, decided_alike, decisions, judged_alike, verdicts

PARALLEL = DATA / "ik_llama_parallel"
ACTIONS = PARALLEL / "gemma3l6-slot_files-5017.json"
NUMBERS = PARALLEL / "qwen35d64mtp-slot_files-5007.json"
WAITS = PARALLEL / "qwen35d64mtp-burst-5010.json"


def changed(path, change):
    data = json.loads(path.read_text())
    change(data["steps"])
    return make_trace(path, data, profiles())


def event_of(steps, kind):
    return next(event for step in steps for event in step["events"] if event["ev"] == kind)


@pytest.mark.parametrize("path", [ACTIONS, NUMBERS, WAITS], ids=["slot actions", "numbers", "waiting"])
def test_the_first_supposition_does_not_agree_and_a_later_one_does(monkeypatch, path):
    assert decided_alike(decisions(path))
    monkeypatch.setattr(unknown_search, "MOST", 1)
    assert not decided_alike(decisions(path))


@pytest.mark.parametrize(("path", "kind", "field"), [
    (ACTIONS, "batch", "p0"), (NUMBERS, "ckpt_restore", "pos_max"), (WAITS, "release", "n_tokens"),
], ids=["slot actions", "numbers", "waiting"])  # fmt: skip
@pytest.mark.part(3)
def test_no_supposition_agrees_with_another_decision(path, kind, field):
    from cachesim.replay.replay import replay

    def spoil(steps):
        event_of(steps, kind)[field] += 1

    assert replay(changed(path, spoil)).first is not None


def test_an_uninitialised_number_is_large_or_what_the_log_has():
    found = ReplayResult(read_trace(NUMBERS, profiles()), first={"step": 3}, unset={(2, 0), (2, 1)})
    large = unknown_search._other_numbers(Supposition(), found)
    assert large.unset == {(2, 0): LARGE, (2, 1): LARGE + 1}
    event = {"ev": "ckpt_restore", "n_tokens": LARGE + 1, "pos_max": 5}
    found.first = {"step": 9, "ours": event, "recorded": {**event, "n_tokens": 805}}
    assert unknown_search._other_numbers(large, found).unset == {(2, 0): LARGE, (2, 1): 805}
    found.first["recorded"]["pos_max"] = 6
    assert unknown_search._other_numbers(large, found) is None


def test_steps_before_the_difference_go_another_way_the_last_first():
    found = ReplayResult(read_trace(ACTIONS, profiles()), first={"step": 7})
    case = unknown_search._other_way(Supposition(), found, [4, 5, 7])
    assert case.passed == {5: 1}
    found.first = {"step": 5}                # all ways of step 5 were tried
    assert unknown_search._other_way(case, found, [4, 5, 7]).passed == {4: 1}
    found.first = {"step": 4}
    assert unknown_search._other_way(case, found, [4, 5, 7]) is None


def test_a_verdict_that_depends_on_the_moment_of_an_action_is_undecided():
    trace = read_trace(ACTIONS, profiles())

    def play(case):
        step = 8
        out = ReplayResult(trace, steps=1, steps_agree=1, verdicts_agree=1, verdicts={step: not case.passed})
        out.first = None if sum(case.passed.values()) < 2 else {"step": 4}
        return out

    found = settled(trace, play, judged=True)
    assert (found.steps_agree, found.steps_undecided, found.verdicts_agree) == (0, 1, 0)
    assert found.why.startswith("step 8: the verdict depends")


@pytest.mark.long
@pytest.mark.parametrize("path", sorted(PARALLEL.glob("*.json")), ids=lambda path: path.stem)
def test_recordings_with_several_slots_agree_with_every_verdict(path):
    found = verdicts(path)
    assert decided_alike(found) and judged_alike(found) and not found.steps_undecided
    assert found.broken == sorted(found.trace.inexact)
