"""Tests of the comparison of recorded replies with ours: every field, tokens, further completions and slot actions."""

from __future__ import annotations

from pathlib import Path

import pytest

from cachesim.engines.base import Answer, Request
from cachesim.replay.recorded_answers import compare_action, compare_answer, fields_not_compared, first_field
from cachesim.replay.recorded_trace import Trace, TraceMember, TraceStep

RESPONSE = {
    "status": 200, "cache_n": 4, "prompt_n": 3, "tokens_cached": 9, "id_slot": 1, "truncated": False,
    "draft_n_accepted": 2, "predicted_n": 3, "stop_type": "limit", "tokens": [5, 6, 7], "tokens_evaluated": 7,
}  # fmt: skip


def ours(**given):
    found = {"reused": {"slot": 3, "checkpoint": 1}, "prompt_n": 3, "tokens_cached": 9, "id_slot": 1, "predicted_n": 3,
             "draft_n_accepted": 2, "stop_type": "limit", "tokens": [5, 6, 7]}  # fmt: skip
    return Answer(0, **{**found, **given})


def test_a_reply_with_equal_fields_agrees():
    assert compare_answer(RESPONSE, ours(), 7) is None


@pytest.mark.parametrize("name", [name for name in RESPONSE if name != "tokens"])
def test_every_field_of_a_reply_is_compared(name):
    found = compare_answer({**RESPONSE, name: "other"}, ours(), 7)
    assert found == {"field": name, "recorded": "other", "ours": RESPONSE[name]}


@pytest.mark.parametrize("name", RESPONSE)
def test_a_field_that_is_not_recorded_is_not_compared(name):
    assert compare_answer({key: value for key, value in RESPONSE.items() if key != name}, ours(), 7) is None


def test_the_first_field_that_differs_is_named():
    wrong = {**RESPONSE, "tokens": [1], "tokens_evaluated": 1, "stop_type": "eos", "prompt_n": 1}
    names = []
    while found := compare_answer(wrong, ours(), 7):
        name = found["field"].partition("[")[0]
        names.append(name)
        del wrong[name]
    assert names == ["prompt_n", "stop_type", "tokens_evaluated", "tokens"]


def test_the_length_of_an_unknown_prompt_is_not_compared():
    assert compare_answer({**RESPONSE, "tokens_evaluated": 99}, ours()) is None


def test_of_an_error_only_the_status_is_compared():
    failed = {**RESPONSE, "status": 400, "error": {"code": 400}, "cache_n": 99, "tokens": [1]}
    assert compare_answer(failed, ours(status=400), 1) is None
    assert compare_answer(failed, ours(), 1) == {"field": "status", "recorded": 400, "ours": 200}
    assert compare_answer(failed, ours(children=[ours(), ours(status=400)]), 1) is None, "one error is the reply to all"


@pytest.mark.parametrize(("tokens", "found"), [
    ([5, 6, 8], ("tokens[2:]", [8], [7])), ([5, 6], ("tokens[2:]", [], [7])), ([5, 6, 7, 8], ("tokens[3:]", [8], [])),
    ([], ("tokens[0:]", [], [5])),
])  # fmt: skip
def test_the_first_other_token_is_named(tokens, found):
    field, recorded, mine = found
    assert compare_answer({**RESPONSE, "tokens": tokens}, ours()) == {
        "field": field, "recorded": recorded, "ours": mine}  # fmt: skip
    assert compare_answer({**RESPONSE, "tokens": tokens, "cancelled": True}, ours()) is None


def test_further_completions_are_compared_after_the_reply():
    both = {**RESPONSE, "completions": [RESPONSE, {**RESPONSE, "cache_n": 1}]}
    wrong = {"field": "cache_n", "recorded": 1, "ours": 4}
    assert compare_answer(both, ours(children=[ours(), ours()]), 7) == wrong
    assert compare_answer(both, ours(children=[ours()]), 7) is None
    assert compare_answer({**both, "prompt_n": 1}, ours(children=[ours(), ours()]), 7)["field"] == "prompt_n"
    unknown = {**RESPONSE, "completions": [{**RESPONSE, "tokens_evaluated": 99}]}
    assert compare_answer(unknown, ours(children=[ours()]), 7) is None


@pytest.mark.parametrize("name", ["n_saved", "n_written", "n_restored", "n_read", "n_erased", "status"])
def test_every_number_of_a_slot_action_is_compared(name):
    assert compare_action({name: 4}, {name: 4}) is None
    assert compare_action({name: 4}, {}) == {"field": name, "recorded": 4, "ours": None}
    assert compare_action({}, {name: 4}) is None


def test_a_lost_reply_of_a_slot_action_is_not_compared():
    assert compare_action({"status": 0, "n_saved": 4}, {}) is None


def test_only_the_named_fields_are_compared_in_their_order():
    assert first_field({"a": 1, "b": 2}, {"a": 0, "b": 0}, ("b", "a")) == {"field": "b", "recorded": 2, "ours": 0}
    assert first_field({"a": 1}, {}, ("b",)) is None


def test_fields_that_are_not_compared_are_named_once_in_order():
    members = (TraceMember(Request((1,)), {"zeta": 1, "cache_n": 1, "completions": [{"beta": 1, "index": 0}]}),
               TraceMember(Request((1,)), {"alpha": 1, "zeta": 2, "completions": None}))  # fmt: skip
    steps = [TraceStep(0, members, {}, []), TraceStep(1, (), {"n_saved": 1, "filename": "x", "gamma": 1}, [], "save")]
    trace = Trace(Path("t.json"), "x@1", "A", "t", {}, {}, frozenset(), steps)
    assert fields_not_compared(trace) == ["alpha", "beta", "gamma", "zeta"]
