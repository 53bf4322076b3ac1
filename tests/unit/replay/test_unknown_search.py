"""Search for what a recording leaves open: moments of slot actions, of requests that wait, uninitialised numbers."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from cachesim.engines.base import Request
from cachesim.engines.registry import profiles
from cachesim.replay import unknown_search
from cachesim.replay.recorded_trace import TraceMember, TraceStep, make_trace, read_trace
from cachesim.replay.replay_result import ReplayResult
from cachesim.replay.unknown_search import settled
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


@pytest.mark.parametrize(("path", "kind", "field", "why"), [
    (ACTIONS, "batch", "p0", ""), (WAITS, "release", "n_tokens", ""),
    (NUMBERS, "ckpt_restore", "pos_max",
     "step 11: 48 suppositions about what the recording does not contain were tried, not all"),
], ids=["slot actions", "waiting", "numbers"])  # fmt: skip
@pytest.mark.part(3)
def test_no_supposition_agrees_with_another_decision(path, kind, field, why):
    """The step differs, or is undecided if not all suppositions were tried."""
    from cachesim.replay.replay import replay

    def spoil(steps):
        event_of(steps, kind)[field] += 1

    found = replay(changed(path, spoil))
    assert found.why == why
    assert (found.first is None, found.steps_undecided) == ((True, 1) if why else (False, 0))


def test_a_verdict_that_depends_on_the_moment_of_an_action_is_undecided():
    trace = read_trace(ACTIONS, profiles())

    def play(case):
        step = 8
        out = ReplayResult(trace, steps=1, steps_agree=1, verdicts_agree=1, verdicts={step: not case.passed})
        out.first = None if sum(case.passed.values()) < 2 else {"step": 4}
        return out

    found = settled(trace, play, [], judged=True)
    assert (found.steps_agree, found.steps_undecided, found.verdicts_agree) == (0, 1, 0)
    assert found.why.startswith("step 8: the verdict depends")


@pytest.mark.long
@pytest.mark.parametrize("path", sorted(PARALLEL.glob("*.json")), ids=lambda path: path.stem)
def test_recordings_with_several_slots_agree_with_every_verdict(path):
    found = verdicts(path)
    assert decided_alike(found) and judged_alike(found) and not found.steps_undecided
    assert found.broken == sorted(found.trace.inexact)


def scripted(*results, judged=True):
    """What ``settled`` returns, with the suppositions that it tried, if the replays of a trace end with these results:
    the step of the first difference, or verdicts; a group with a slot action is step 4, one that waits step 6."""
    acting, waiting = (TraceMember(Request((1,)), {}, action="erase"),), (TraceMember(Request((1,)), {}),) * 2
    trace = replace(read_trace(ACTIONS, profiles()), steps=[
        TraceStep(number, acting if number == 4 else waiting if number == 6 else (), {}, [], rounds=number == 6)
        for number in range(9)])  # fmt: skip
    tried = []

    def play(case):
        result = results[len(tried)]
        tried.append(case.passed)
        if isinstance(result, dict):
            return ReplayResult(trace, steps=9, steps_agree=9, verdicts_agree=9, verdicts=result)
        return ReplayResult(trace, steps=9, steps_agree=result, first={"step": result}, differing=[result])

    return settled(trace, play, [4, 6], judged=judged), tried


def test_orders_of_steps_that_act_or_wait_are_tried_until_one_agrees():
    found, tried = scripted(8, 8, 5, {4: True}, judged=False)
    assert tried == [{}, {6: 1}, {6: 2}, {4: 1}] and found.verdicts == {4: True}


def test_the_first_of_the_best_replays_is_returned_if_none_agrees():
    found, tried = scripted(5, 6, 6, 4)
    assert tried == [{}, {4: 1}, {4: 2}, {4: 3}] and (found.steps_agree, found.first) == (6, {"step": 6})


def test_after_an_agreement_only_slot_actions_go_another_way():
    agrees = {4: True, 7: True}
    found, tried = scripted(agrees, 8, agrees, agrees, agrees, agrees)
    assert tried == [{}, {4: 1}, {4: 2}, {4: 3}, {4: 4}, {4: 5}]
    assert (found.steps_undecided, found.verdicts_agree) == (0, 9)


def test_verdicts_that_differ_between_agreeing_orders_are_undecided():
    agrees, other = {4: True, 5: False, 7: True}, {4: False, 5: True, 7: True}
    found, tried = scripted(agrees, agrees, other, agrees, agrees)
    assert len(tried) == 5 and (found.steps_agree, found.steps_undecided, found.verdicts_agree) == (7, 2, 8)
    assert found.why == "step 4: the verdict depends on when a slot action of a group was done"


def test_only_so_many_suppositions_are_tried(monkeypatch):
    monkeypatch.setattr(unknown_search, "MOST", 3)
    found, tried = scripted(8, 8, 8, 8)
    assert len(tried) == 3 and found.first is None and found.why.startswith("step 8: 3 suppositions")
    assert (found.steps_agree, found.steps_undecided) == (8, 1)


def test_of_suppositions_that_agree_equally_far_the_first_is_returned():
    acting = TraceMember(Request((1,)), {}, action="erase")
    trace = replace(read_trace(ACTIONS, profiles()), steps=[TraceStep(4, (acting,), {}, [])])
    results = [ReplayResult(trace, steps_agree=n, first={"step": step}) for n, step in ((2, 9), (2, 9), (1, 4))]
    played = iter(results)
    assert settled(trace, lambda case: next(played), [4], judged=False) is results[0] and next(played, None) is None
