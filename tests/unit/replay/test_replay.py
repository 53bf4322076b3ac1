"""Tests of the comparison of a recorded step with ours: differences, and cases that must not count as agreement."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from cachesim.base import limits
from cachesim.engines.base import Answer
from cachesim.engines.registry import profiles
from cachesim.engines.shared.slot_events import NeedOne, PcBegin
from cachesim.events import Decoded, Launch, SeqRm
from cachesim.replay.recorded_answers import compare_answer, fields_not_compared
from cachesim.replay.recorded_trace import TraceStep, make_trace, read_trace
from cachesim.replay.replay import (
    difference,
    records,
    replay,
    without_cancel,
)
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
    batch = [Decoded(7), PcBegin()]
    assert records(batch, True, frozenset(), False) == [{"ev": "pc_begin"}]
    with_batches = records(batch, True, frozenset(), False, batches=True)
    assert with_batches == [{"ev": "decode", "n_tokens": 7}, {"ev": "pc_begin"}]


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


def recorded(*steps, **fields):
    """Return the trace with these of its steps changed. Each is (number, fields)."""
    trace = read_trace(TRACE, profiles())
    made = list(trace.steps)
    for number, changed in steps:
        made[number] = replace(made[number], **changed)
    return replace(trace, steps=made, **fields)


@pytest.mark.parametrize(("name", "difference"), [
    ("died", {"field": "died", "recorded": True, "ours": False}),
    ("stuck", {"field": "stuck", "recorded": True, "ours": False})])  # fmt: skip
def test_a_process_that_did_not_end_as_recorded_is_a_difference(name, difference):
    found = replay(recorded((1, {name: True})))
    assert found.first == {"step": 1, **difference} and (found.steps_agree, found.events_agree) == (3, 86)


def test_a_brief_replay_ends_at_the_first_step_that_differs():
    trace = recorded((1, {"died": True}), (2, {"died": True}))
    assert [replay(trace, brief=brief).steps_agree for brief in (False, True)] == [2, 1]
    assert replay(recorded(), brief=True).steps_agree == 4


def test_a_brief_replay_ends_at_the_first_verdict_that_differs():
    """The trace lists the answers of steps 2 and 3 as inexact."""
    def judged(*equal, brief=True):
        given = iter(equal)
        found = replay(recorded(), "provenance", lambda *_: next(given), brief=brief)
        return found.verdicts_agree, found.verdicts, found.broken, found.steps_agree

    assert judged(True, True, False, False) == (4, {0: True, 1: True, 2: True, 3: True}, [2, 3], 4)
    assert judged(True, False, False, False) == (1, {0: True, 1: False}, [1], 2)
    assert judged(True, False, False, False, brief=False) == (
        3, {0: True, 1: False, 2: True, 3: True}, [1, 2, 3], 4)
    assert judged(True, True, True) == (2, {0: True, 1: True, 2: False}, [], 3)
    assert judged(True, None) == (1, {0: True, 1: False}, [], 2)


def test_a_step_of_which_not_all_orders_were_tried_is_undecided():
    path = DATA / "ik_llama_parallel" / "llama-shortage-5049.json"
    data = json.loads(path.read_text())
    data["steps"][0]["events"].pop()
    limits.lift({"orders": 3})
    found = replay(make_trace(path, data, profiles()))
    assert found.why.startswith("step 0: 3 orders") and (found.first, found.steps_agree) == (None, 6)


def test_the_work_of_orders_is_limited_for_all_steps_of_a_recording_together():
    path = DATA / "ik_llama_parallel" / "llama-shortage-5049.json"
    data = json.loads(path.read_text())
    groups = [step for step in data["steps"] if step["op"] == "parallel"]
    for step in groups:
        step["events"].append({"ev": "need_one", "n_past": 1})
    limits.lift({"order-work": 1_000})
    found = replay(make_trace(path, data, profiles()))
    assert found.first is None and found.steps_undecided >= len(groups) > 1
    assert 1_000 < found.work < 1_000 * len(groups)


def test_a_restart_begins_with_an_empty_server_and_its_options():
    """The steps after it agree if they were recorded at the beginning; the restart itself has no verdict."""
    trace = read_trace(TRACE, profiles())
    again = replace(trace, inexact=frozenset(), steps=[
        trace.steps[0], TraceStep(1, (), {}, [], "restart"), replace(trace.steps[0], number=2)])  # fmt: skip
    found = replay(again, "provenance", lambda *_: True)
    assert (found.steps_agree, found.verdicts_agree, found.verdicts, found.first) == (3, 3, {0: True, 2: True}, None)
    smaller = replace(again, steps=[*again.steps[:1], replace(again.steps[1], options={**trace.flags, "ctx_size": 512}),
                                    *again.steps[2:]])  # fmt: skip
    assert replay(smaller).first["step"] == 2
    assert replay(replace(again, steps=again.steps[1:2])).why == "it holds no requests"


def test_a_trace_that_cannot_be_replayed_says_why():
    found = replay(recorded(out="another architecture"))
    assert (found.steps, found.steps_undecided, found.steps_agree, found.why) == (4, 4, 0, "another architecture")


def test_without_a_log_only_the_answers_are_compared():
    steps = [(number, {"events": []}) for number in range(4)]
    assert replay(recorded(*steps, has_log=False)).steps_agree == 4
    assert replay(recorded(*steps)).first["event"] == 0


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


@pytest.mark.parametrize(("text", "left"), [
    ("failed to launch slot with task, id_task = 7", "failed to launch slot with task"),
    ("failed to launch slot with child task 12", "failed to launch slot with child task"), ("another text 7",) * 2,
])  # fmt: skip
def test_the_numbers_of_refused_tasks_are_not_compared(text, left):
    events = [{"ev": "error", "slot": 1, "text": text}, {"ev": "cancel"}, {"ev": "launch"}]
    assert without_cancel(events) == [{"ev": "error", "slot": 1, "text": left}, {"ev": "launch"}]
