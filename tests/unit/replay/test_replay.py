"""Tests of the comparison of a recorded step with ours: differences, and cases that must not count as agreement."""

from __future__ import annotations

import json

import pytest

from cachesim.engines.base import Answer
from cachesim.engines.registry import profiles
from cachesim.engines.shared.slot_events import NeedOne, PcBegin
from cachesim.events import Launch, SeqRm
from cachesim.replay.recorded_answers import compare_answer, fields_not_compared
from cachesim.replay.recorded_trace import read_trace
from cachesim.replay.replay import difference, records, replay, without_cancel
from tests.replay.verdicts import DATA

RESPONSE = {"cache_n": 4, "prompt_n": 3, "tokens_cached": 9, "id_slot": 1, "truncated": False, "status": 200}
EVENTS = [{"ev": "need_one", "n_past": 3}, {"ev": "release", "n_tokens": 9}]


def answer(cache_n=4, **more):
    return Answer(0, **{"reused": {"slot": cache_n}, "prompt_n": 3, "tokens_cached": 9, "id_slot": 1, **more})


def test_equal_in_everything_agrees():
    assert difference(EVENTS, EVENTS) is None
    assert compare_answer(RESPONSE, answer()) is None


@pytest.mark.parametrize(
    "name, value", [("cache_n", 5), ("prompt_n", 2), ("tokens_cached", 8), ("id_slot", 0), ("truncated", True)]
)
def test_every_field_of_the_answer_counts(name, value):
    assert compare_answer(RESPONSE, answer(**{name: value})) == {
        "field": name,
        "recorded": RESPONSE[name],
        "ours": value,
    }


@pytest.mark.parametrize(
    "ours, place",
    [
        (EVENTS[::-1], 0),
        (EVENTS[:1], 1),
        ([*EVENTS, {"ev": "more"}], 2),
        ([{"ev": "need_one", "n_past": 4}, EVENTS[1]], 0),
        ([{"ev": "need_one"}, EVENTS[1]], 0),
        ([{"ev": "need_one", "n_past": 3, "x": 1}, EVENTS[1]], 0),
        ([], 0),
    ],
)
def test_every_event_with_every_field_counts_and_their_order(ours, place):
    assert difference(EVENTS, ours)["event"] == place


def test_an_error_agrees_by_its_status():
    failed = {"error": {"code": 500}, "status": 500}
    assert compare_answer(failed, answer(status=500)) is None
    assert compare_answer(failed, answer()) == {"field": "status", "recorded": 500, "ours": 200}


def test_further_completions_count():
    both = {**RESPONSE, "completions": [RESPONSE]}
    assert compare_answer(both, answer(children=[answer()])) is None
    assert compare_answer(both, answer(children=[answer(cache_n=5)]))["field"] == "cache_n"


def test_the_place_of_a_noticed_hang_up_means_nothing():
    assert without_cancel([EVENTS[0], {"ev": "cancel"}, EVENTS[1]]) == EVENTS


def test_what_a_server_does_not_log_is_left_out_and_slots_and_tasks_only_where_there_are_several():
    ours = [SeqRm(0, 1, 2, True), PcBegin(), Launch(1, 40, 0), NeedOne(1, 43, 2, 2)]
    launch, one = {"ev": "launch", "is_child": 0}, {"ev": "need_one", "n_past": 2, "n_tokens": 2}
    assert records(ours, True, frozenset(), False) == [{"ev": "pc_begin"}, launch, one]
    assert records(ours, True, frozenset({"pc_begin"}), False) == [launch, one]
    assert records(ours[2:], False, frozenset(), False) == [{**launch, "slot": 1}, {**one, "slot": 1}]
    assert [e["task"] for e in records(ours[2:], True, frozenset(), True)] == [0, 1]


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


@pytest.mark.parametrize(
    "answers, agree", [([True, False, None], 1), ([False, True, True], 1), ([True] * 3, 2), ([None] * 3, 0)]
)
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


def test_the_output_of_a_disconnected_client_is_not_compared(tmp_path):
    def spoil(data):
        data["steps"], data["inexact"] = data["steps"][:1], []
        step = data["steps"][0]
        step.pop("cold", None)
        step["response"]["cancelled"] = True

    trace = spoiled(tmp_path, spoil)
    assert trace.steps[0].members[0].inexact is None
    assert replay(trace, "provenance", lambda *_: False).broken == []


@pytest.mark.parametrize("name", ["predicted_n", "tokens_evaluated", "tokens_cached", "stop_type", "tokens"])
def test_a_changed_field_of_a_reply_is_found_wherever_it_is_recorded(tmp_path, name):
    def spoil(data):
        response = data["steps"][1]["response"]
        if name == "tokens":
            response.update(tokens_in_slot=response["tokens"], tokens=[9])
        else:
            response[name] = "eos" if name == "stop_type" else response[name] + 1

    found = replay(spoiled(tmp_path, spoil))
    assert found.steps - found.steps_agree >= 1
    assert found.first["step"] == 1


def test_a_token_that_the_client_received_must_have_been_generated():
    assert compare_answer({"tokens": [1, 2]}, answer(tokens=[1, 2])) is None
    assert compare_answer({"tokens": [1, 3]}, answer(tokens=[1, 2]))["field"] == "tokens[1:]"
    assert compare_answer({"tokens": [1]}, answer(tokens=[1, 2])) == {
        "field": "tokens[1:]", "recorded": [], "ours": [2]}  # fmt: skip
    assert compare_answer({"tokens": [1], "cancelled": True}, answer(tokens=[1, 2])) is None


def test_a_recording_that_states_tokens_only_is_undecided(tmp_path):
    def spoil(data):
        data["steps"], data["inexact"] = data["steps"][:1], []
        tokens = data["steps"][0]["response"]["tokens"]
        data["steps"][0]["response"] = {"tokens": tokens, "predicted_n": len(tokens), "stop_type": "limit"}

    assert replay(spoiled(tmp_path, spoil)).steps_undecided == 1


def test_the_fields_that_are_not_compared_are_named(tmp_path):
    def spoil(data):
        data["steps"][1]["response"].update(draft_n=3, text="x")

    assert fields_not_compared(spoiled(tmp_path, spoil)) == ["draft_n", "text"]
    assert fields_not_compared(spoiled(tmp_path, lambda data: None)) == []
