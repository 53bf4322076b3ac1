"""A recorded step against ours: what counts as a difference, and what is never counted as agreement."""

from __future__ import annotations

import json

import pytest

from cachesim.engines.base import Answer
from cachesim.engines.registry import profiles
from cachesim.live.replay import difference, replay
from cachesim.live.trace import TraceStep, read_trace
from tests.replay.verdicts import DATA

RESPONSE = {"cache_n": 4, "prompt_n": 3, "tokens_cached": 9, "id_slot": 1, "truncated": False, "status": 200}
EVENTS = [{"ev": "need_one", "n_past": 3}, {"ev": "release", "n_tokens": 9}]


def answer(**more):
    return Answer(0, **{"cache_n": 4, "prompt_n": 3, "tokens_cached": 9, "id_slot": 1, **more})


def step(response=RESPONSE, events=EVENTS):
    return TraceStep(0, None, response, events)


def test_equal_in_everything_agrees():
    assert difference(step(), answer(), EVENTS) is None


@pytest.mark.parametrize("name, value", [("cache_n", 5), ("prompt_n", 2), ("tokens_cached", 8), ("id_slot", 0), ("truncated", True)])
def test_every_field_of_the_answer_counts(name, value):
    assert difference(step(), answer(**{name: value}), EVENTS) == {"field": name, "recorded": RESPONSE[name], "ours": value}


@pytest.mark.parametrize("ours, place", [
    (EVENTS[::-1], 0), (EVENTS[:1], 1), ([*EVENTS, {"ev": "more"}], 2), ([{"ev": "need_one", "n_past": 4}, EVENTS[1]], 0),
    ([{"ev": "need_one"}, EVENTS[1]], 0), ([{"ev": "need_one", "n_past": 3, "x": 1}, EVENTS[1]], 0), ([], 0),
])
def test_every_event_with_every_field_counts_and_their_order(ours, place):
    assert difference(step(), answer(), ours)["event"] == place


def test_an_error_agrees_by_its_status():
    failed = {"error": {"code": 500}, "status": 500}
    assert difference(step(failed), answer(status=500), EVENTS) is None
    assert difference(step(failed), answer(), EVENTS) == {"field": "status", "recorded": 500, "ours": 200}


TRACE = sorted((DATA / "llama_cpp").glob("qwen35-bug-stale-ckpt-pos0.json"))[0]


def spoiled(tmp_path, spoil):
    data = json.loads(TRACE.read_text())
    spoil(data)
    path = tmp_path / "t.json"
    path.write_text(json.dumps(data))
    return read_trace(path, profiles())


def test_a_spoiled_number_makes_one_step_disagree_and_is_described(tmp_path):
    def spoil(data):
        data["steps"][1]["response"]["cache_n"] += 1

    found = replay(spoiled(tmp_path, spoil))
    assert (found.steps - found.steps_agree, found.events_agree) == (1, found.events)
    assert (found.first["step"], found.first["field"]) == (1, "cache_n")


def test_a_spoiled_event_makes_event_and_step_disagree(tmp_path):
    def spoil(data):
        data["steps"][1]["events"][0]["ev"] = "other"

    found = replay(spoiled(tmp_path, spoil))
    assert (found.steps - found.steps_agree, found.events - found.events_agree) == (1, 1)


@pytest.mark.parametrize("answers, agree", [([True, False, None], 1), ([False, True, True], 1), ([True] * 3, 2), ([None] * 3, 0)])
def test_an_undecided_verdict_is_never_agreement(tmp_path, answers, agree):
    def spoil(data):
        data["steps"] = data["steps"][:3]
        data["inexact"] = [{"i": 2, "shifted": False}]

    given = iter(answers)
    found = replay(spoiled(tmp_path, spoil), "provenance", lambda *_: next(given))
    assert found.verdicts_agree == agree


def test_without_a_judge_no_verdict_is_claimed():
    trace = read_trace(TRACE, profiles())
    assert replay(trace).verdicts_agree is None
    assert replay(trace, "none", lambda *_: True).verdicts_agree is None
