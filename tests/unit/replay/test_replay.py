"""Tests of the comparison of a recorded step with ours: differences, and cases that must not count as agreement."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType, SimpleNamespace

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.base import Answer
from cachesim.engines.registry import profiles
from cachesim.engines.shared.slot_events import NeedOne, PcBegin
from cachesim.events import Compared, Decoded, Launch, Log, SeqRm
from cachesim.replay.recorded_answers import compare_answer, fields_not_compared
from cachesim.replay.recorded_requests import LENGTHS
from cachesim.replay.recorded_trace import TraceMember, TraceStep, read_trace
from cachesim.replay.replay import (
    LENGTH_UNKNOWN,
    REJECTED_TWICE,
    TraceReplay,
    _has_died,
    _with_longer_drafts,
    difference,
    records,
    replay,
    without_cancel,
)
from cachesim.replay.replay_result import ReplayResult
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


def test_an_error_names_the_step_and_the_file(monkeypatch):
    def refuse(self, out, step):
        if step.number:
            raise BadInput("not simulated", hint="do not")

    monkeypatch.setattr(TraceReplay, "step", refuse)
    with pytest.raises(BadInput) as bad:
        replay(recorded())
    assert str(bad.value) == f"{TRACE}: step 1: not simulated (do not)"


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


def outputs(*digests):
    return [SimpleNamespace(digest=digest) for digest in digests]


@pytest.mark.parametrize(("equal", "shifts", "index_rows", "cold", "expected"), [
    (None, 1, True, (1, 2), None), (True, 0, True, (9, 9), True), (False, 0, True, (1, 2), False),
    (True, 1, False, (1, 2), True), (True, 1, False, (1, 3), False), (False, 1, False, (1, 2), False),
    (False, 2, True, (1, 2), True), (False, 1, True, (1, 3), False), (True, 1, True, (1,), False),
])  # fmt: skip
def test_after_a_shift_the_answer_of_a_server_without_a_cache_counts(equal, shifts, index_rows, cold, expected):
    """Its request takes any slot and no cache; the log of the replay goes on."""
    run, asked = TraceReplay(recorded(), "provenance", None, None), []
    request = recorded().steps[1].members[0].request
    run._has_index_rows = lambda: index_rows
    run._fresh = lambda log: SimpleNamespace(
        complete=lambda one: asked.append(one) or SimpleNamespace(outputs=outputs(*cold)))  # fmt: skip
    answer = SimpleNamespace(shifts=shifts, outputs=outputs(1, 2))
    assert run._as_recorded(replace(request, id_slot=0), answer, equal) is expected
    assert asked in ([], [replace(request, cache_prompt=False, id_slot=-1)])


@pytest.mark.parametrize(("model", "has"), [("qwen35", False), ("AI4", True), ("AAAA", False)])
def test_index_rows_are_those_of_layers_that_choose(model, has):
    trace = recorded(model=model, profile="llama_cpp@b11549")
    assert TraceReplay(trace, "provenance", None, None)._has_index_rows() is has
    assert TraceReplay(trace, "none", None, None)._has_index_rows() is False


@pytest.mark.parametrize(("file", "path"), [("x.bin", Path("folder/x.bin")), ("", None)])
def test_an_action_is_performed_in_the_folder(file, path):
    run, done = TraceReplay(recorded(), "none", Path("folder"), None), []
    run.server = SimpleNamespace(slot=lambda *one: done.append(one) or {"status": 200},
                                 set_adapters=lambda scales: done.append(scales) or {"status": 500})  # fmt: skip
    step = TraceStep(1, (), {}, [], "save", 3, file)
    assert run._perform_action(step) == {"status": 200} and run._perform_action(
        replace(step, action="lora", scales="0:1")) == {"status": 500}  # fmt: skip
    assert done == [("save", 3, path), "0:1"]


@pytest.mark.parametrize("has_files", [True, False])
def test_uninitialised_numbers_that_decided_something_are_noted(has_files):
    """Only a trace with files has such numbers."""
    trace = recorded((0, {"file": "x" * has_files}))
    run, out = TraceReplay(trace, "none", None, None), ReplayResult(trace)
    events = [Compared(0, (0, 1), 5), PcBegin(), Compared(0, (2, 1), 5)]
    run.server = SimpleNamespace(log=SimpleNamespace(events=events))
    run._count(out, TraceStep(7, (), {"status": 200}, []), [], None)
    assert (out.unset, out.steps_agree) == ({(0, 1), (2, 1)} if has_files else set(), 1)


def test_after_the_memory_differs_from_the_recorded_one_nothing_is_decided():
    trace = recorded()
    run, out = TraceReplay(trace, "none", None, None), ReplayResult(trace)
    run.left_at = 3
    for number in (7, 8):
        run._count(out, TraceStep(number, (), {"status": 200}, []), [], {"field": "x"})
    assert (out.steps_undecided, out.first, out.why) == (
        2, None, "step 7: the memory is not the recorded one since step 3")  # fmt: skip


@pytest.mark.parametrize(("untried", "more"), [(0, {}), (5, {"orders": "5 tried, not all"})])
def test_the_first_difference_tells_how_many_orders_were_tried(untried, more):
    trace = recorded()
    run, out = TraceReplay(trace, "none", None, None), ReplayResult(trace)
    for number in (7, 8):
        run._count(out, TraceStep(number, (), {"status": 200}, []), [], {"field": number}, untried)
    assert out.first == {"step": 7, "field": 7, **more} and out.steps_agree == 0


@pytest.mark.parametrize(("left_at", "status", "found"), [
    (None, 200, (1, 1, 0)), (None, 400, (0, 1, 0)), (3, 200, (0, 0, 1)), (3, 400, (0, 0, 1)),
])  # fmt: skip
def test_a_slot_action_has_a_verdict_unless_it_is_undecided(monkeypatch, left_at, status, found):
    """It is after the memory differed from the recorded one."""
    trace = recorded()
    run, out = TraceReplay(trace, "none", Path("folder"), None), ReplayResult(trace)
    run.left_at = left_at
    monkeypatch.setattr(run, "_records", lambda server, start: [])
    run.server = SimpleNamespace(slot=lambda *_: {"status": status}, log=SimpleNamespace(events=[]))
    run._slot_action(out, TraceStep(7, (), {"status": 200}, [], "erase", 0))
    assert (out.steps_agree, run.verdicts_agree, out.steps_undecided) == found


def test_a_step_knows_the_recorded_events_of_all_later_ones(monkeypatch):
    seen = []
    monkeypatch.setattr(TraceReplay, "step", lambda run, out, step: seen.append((step.number, list(run.following))))
    trace = recorded()
    replay(trace)
    assert [number for number, _ in seen] == [step.number for step in trace.steps] and len(seen) == 4
    later = [[event for step in trace.steps[at + 1 :] for event in step.events] for at in range(4)]
    assert [events for _, events in seen] == later and later[0] and not later[3]


LINES = [{"ev": "launch", "slot": 0}, {"ev": "release", "slot": 0}, {"ev": "launch", "slot": 1}]


def counted(theirs, ours, wrong=None, place=None, again=None, monkeypatch=None, response=MappingProxyType(RESPONSE)):
    """Return what a step counts, whose events are these; ``place`` and ``again``: of the first event that depends on a
    draft's length, and of a second rejection."""
    trace = recorded()
    run, out = TraceReplay(trace, "none", None, None), ReplayResult(trace)
    monkeypatch.setattr("cachesim.replay.replay.second_rejection", lambda events: again)
    member = TraceMember(None, response)
    run._count(out, TraceStep(7, (member,), {}, theirs), ours, wrong, depends_on_length=lambda: place)
    return out, run.left_at


@pytest.mark.parametrize(("theirs", "ours", "agree"), [
    (LINES, LINES, 3), (LINES, LINES[:2], 2), (LINES[:1], LINES, 1), (LINES, [LINES[0], *LINES], 1),
    ([LINES[0], {"ev": "cancel"}, LINES[1]], LINES[:2], 3), ([{"ev": Decoded.ev}, LINES[0]], [{"ev": Decoded.ev},
                                                                                           LINES[0]], 1),
])  # fmt: skip
def test_events_that_are_reproduced_in_their_place_are_counted(monkeypatch, theirs, ours, agree):
    """A noticed disconnect always counts, an evaluated batch never."""
    out, left_at = counted(theirs, ours, monkeypatch=monkeypatch)
    assert (out.events_agree, left_at) == (agree, None)
    assert out.steps_agree == (difference(without_cancel(theirs), ours) is None)


@pytest.mark.parametrize(("again", "undecided"), [(None, False), (2, False), (1, True), (0, True)])
def test_from_a_second_rejection_on_a_difference_is_undecided(monkeypatch, again, undecided):
    out, left_at = counted(LINES, [LINES[0], LINES[2]], again=again, monkeypatch=monkeypatch)
    assert (out.steps_undecided, left_at, out.first is None) == ((1, 7, True) if undecided else (0, None, False))
    assert out.why == (f"step 7: {REJECTED_TWICE}" if undecided else "")
    agreeing, left_at = counted(LINES, LINES, {"field": "x"}, again=0, monkeypatch=monkeypatch)
    assert (agreeing.first, left_at) == ({"step": 7, "field": "x"}, None)


@pytest.mark.parametrize(("place", "undecided"), [(None, False), (2, False), (1, True), (0, True)])
def test_from_a_draft_of_unknown_length_on_a_difference_is_undecided(monkeypatch, place, undecided):
    out, left_at = counted(LINES, [LINES[0], LINES[2]], place=place, monkeypatch=monkeypatch)
    assert (out.steps_undecided, left_at) == ((1, 7) if undecided else (0, None))
    assert out.why == (f"step 7: {LENGTH_UNKNOWN}" if undecided else "")
    assert out.first == (None if undecided else {"step": 7, "event": 1, "recorded": LINES[1], "ours": LINES[2]})
    other, left_at = counted(LINES, LINES, {"field": "x"}, place=place, monkeypatch=monkeypatch)
    assert (other.first, left_at) == ((None, 7) if place is not None else ({"step": 7, "field": "x"}, None))


def test_a_step_without_a_result_is_undecided_unless_it_differs(monkeypatch):
    out, left_at = counted(LINES, LINES, response={}, monkeypatch=monkeypatch)
    assert (out.steps_agree, out.steps_undecided, left_at) == (0, 1, None)
    assert out.why == "step 7: the recording says nothing of an answer that could be compared"
    assert counted(LINES, LINES[:1], response={}, monkeypatch=monkeypatch)[0].first["event"] == 1


def test_a_step_is_repeated_with_every_supposed_length_of_its_drafts():
    plain, longer = TraceMember("a", {}), TraceMember("b", {}, longer=tuple(f"b{n}" for n in range(len(LENGTHS))))
    assert _with_longer_drafts(TraceStep(0, (plain,), {}, [])) == []
    found = _with_longer_drafts(TraceStep(3, (plain, longer), {}, LINES))
    assert [[member.request for member in step.members] for step in found] == [
        ["a", f"b{n}"] for n in range(len(LENGTHS))]  # fmt: skip
    assert {(step.number, len(step.events)) for step in found} == {(3, 3)}


@pytest.mark.parametrize("events", [
    [], [{"ev": "launch", "slot": 0}], [{"ev": "need_one"}, {"ev": "launch", "task": 0}],
])  # fmt: skip
def test_a_server_that_slept_is_recognised_with_the_tasks_of_the_step(monkeypatch, events):
    """The numbers of tasks are compared only if the recording has them, in this step."""
    run, seen = TraceReplay(recorded(can_sleep=True), "none", None, None), []
    monkeypatch.setattr("cachesim.replay.replay.wake_if_slept", lambda server, *_: seen.append(run.tasks) or server)
    for step in (recorded().steps[0], replace(recorded().steps[1], events=events), recorded().steps[2]):
        run.step(ReplayResult(run.trace), step)
    has_tasks = any("task" in event for event in events)
    assert seen == [False, has_tasks, False]


@pytest.mark.parametrize(("has_died", "others", "place"), [
    (False, [], None), (False, [(LINES, False)], None), (False, [(LINES[:2], False), (LINES[:1], False)], 1),
    (False, [(LINES[:1], False), (LINES, False), (LINES[:2], False)], 1),
    (False, [(LINES[:1], True), (LINES[:2], False)], 2), (False, [(LINES[:1], True)], None),
    (True, [(LINES[:1], True), (LINES[:2], False)], 1),
])  # fmt: skip
def test_the_first_event_that_longer_drafts_would_change(monkeypatch, has_died, others, place):
    """A longer draft with which the process ends is impossible, unless the recorded process ended, too."""
    run, places, asked = TraceReplay(recorded(), "none", None, None), [], []
    step = replace(recorded().steps[0], died=has_died)
    monkeypatch.setattr("cachesim.replay.replay._with_longer_drafts", lambda step: [*range(len(others))])
    results = {n: SimpleNamespace(server=SimpleNamespace(lines=lines), answers={0: SimpleNamespace(died=died)})
               for n, (lines, died) in enumerate(others)}  # fmt: skip
    before = SimpleNamespace(fork=lambda: "copy")
    own = SimpleNamespace(lines=LINES, fork=lambda: before, log=Log())

    def send(server, sent, theirs, on_answer):
        asked.append((server, sent))
        return SimpleNamespace(server=own, answers_checked=[], untried=3) if sent is step else results[sent]

    run.server, run._send, run._fields = own, send, lambda *_: None
    run._records = lambda server, first: server.lines
    run._count = lambda out, step, ours, wrong, untried, depends: places.append((ours, untried, depends()))
    run.step(ReplayResult(run.trace), step)
    assert places == [(LINES, 3, place)]
    assert asked == [(own, step), *(("copy", n) for n in range(len(others)))]


@pytest.mark.parametrize(("has_check", "undecided", "checked", "verdicts", "broken"), [
    (True, False, [(True, False)], {0: True}, []), (True, False, [(True, True)], {0: False}, []),
    (True, False, [(True, False), (False, True)], {0: True}, [0]),
    (True, False, [(True, False), (False, False)], {0: False}, [0]),
    (True, False, [(False, False), (True, False)], {0: False}, [0]),
    (True, False, [(None, False), (True, False)], {0: False}, []), (True, False, [None, (True, False)], {0: True}, []),
    (True, False, [], {0: True}, []), (True, True, [(True, False)], {}, []), (False, False, [(True, False)], {}, []),
    (False, True, [(False, False)], {}, []),
])  # fmt: skip
def test_a_step_agrees_if_each_verdict_is_the_recorded_one(has_check, undecided, checked, verdicts, broken):
    """Of each answer: whether it equals a cold run's, and whether the recording calls it inexact."""
    run = TraceReplay(recorded(), "none", None, (lambda *_: None) if has_check else None)
    out = ReplayResult(run.trace)
    run._send = lambda *_: SimpleNamespace(server=run.server, answers_checked=checked, untried=0)
    run._fields = lambda *_: None

    def count(out, *_):
        out.steps_undecided += undecided

    run._count = count
    run.step(out, recorded().steps[0])
    assert (out.verdicts, out.broken, run.verdicts_agree) == (verdicts, broken, sum(verdicts.values()))


@pytest.mark.parametrize(("answers", "field"), [
    ([{"died": True}, {"done": True}], "died"), ([{"done": True}, {"died": True}], "died"),
    ([{"done": True}, {}], "stuck"), ([{}, {"done": True}], "stuck"),
])  # fmt: skip
def test_one_of_several_answers_shows_that_the_process_ended_or_is_stuck(answers, field):
    given = {number: Answer(number, **fields) for number, fields in enumerate(answers)}
    step, result = SimpleNamespace(died=False, stuck=False), SimpleNamespace(answers=given)
    assert TraceReplay._fields(None, step, result) == {"field": field, "recorded": False, "ours": True}


@pytest.mark.parametrize(("died", "has"), [([True, False], True), ([False, True], True), ([False, False], False),
                                          ([], False)])  # fmt: skip
def test_a_step_ends_the_process_if_one_of_its_answers_says_so(died, has):
    answers = {number: Answer(number, died=one) for number, one in enumerate(died)}
    assert _has_died(SimpleNamespace(answers=answers)) is has


@pytest.mark.parametrize(("text", "left"), [
    ("failed to launch slot with task, id_task = 7", "failed to launch slot with task"),
    ("failed to launch slot with child task 12", "failed to launch slot with child task"), ("another text 7",) * 2,
])  # fmt: skip
def test_the_numbers_of_refused_tasks_are_not_compared(text, left):
    events = [{"ev": "error", "slot": 1, "text": text}, {"ev": "cancel"}, {"ev": "launch"}]
    assert without_cancel(events) == [{"ev": "error", "slot": 1, "text": left}, {"ev": "launch"}]
