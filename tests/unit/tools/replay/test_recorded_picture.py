"""The picture of a recording: its prompts as words, what its answers state, and its first difference."""

from __future__ import annotations

from pathlib import Path

import pytest

from cachesim.engines.base import Request
from cachesim.replay.recorded_trace import Trace, TraceMember, TraceStep
from cachesim.tools.replay.recorded_picture import SimulatorDifference, recorded_events, recorded_scene, words_of

ANSWER = {"id_slot": 1, "cache_n": 2, "prompt_n": 3, "predicted_n": 4}


def member(*prompt, inexact=False, **response):
    return TraceMember(Request(prompt), {**ANSWER, **response}, inexact)


def step(number, *members, events=(), **more):
    return TraceStep(number, members, {}, [*events], **more)


def trace(*steps, inexact=()):
    return Trace(Path("folder/a.json"), "llama_cpp@b1", "GA", "a name", {}, {}, frozenset(inexact), [*steps])


def rows(*steps, differs=None):
    return recorded_scene(trace(*steps), differs).rows


def test_a_scene_has_the_name_file_and_verdict_of_its_recording():
    scene = recorded_scene(trace(step(0, member(5))))
    assert scene[:4] == ("a name", "recorded: a.json", "llama_cpp@b1", "GA")
    assert scene.is_recorded and scene.answer == "recorded"
    assert recorded_scene(trace(inexact=(3, 5))).answer == "2 answers differ from a cold run"


def test_a_request_has_the_tokens_that_its_answer_states():
    [row] = rows(step(0, member(*range(5))))
    assert [(one.start, one.stop, one.origin) for one in row.stretches] == [
        (0, 2, "reused"), (2, 5, "evaluated"), (5, 9, "generated")]  # fmt: skip
    assert (row.number, row.slot, row.cache_n, row.prompt_n, row.is_wrong) == (0, 1, 2, 3, False)
    assert row.verdict == "equal to a cold run" and row.text == "A"
    [row] = rows(step(0, member(7, cache_n=0, predicted_n=None, id_slot=None)))
    assert [(one.start, one.stop) for one in row.stretches] == [(0, 3)] and row.slot == -1


def test_refused_and_wrong_answers_are_named():
    first, second, third = rows(step(0, member(5, status=400)), step(1, member(5, inexact=True)), step(2, member()))
    assert (first.verdict, first.stretches) == ("refused (400)", [])
    assert (second.verdict, second.is_wrong) == ("differs from a cold run", True) and third.text == "empty prompt"


def test_actions_are_rows_and_members_of_a_step_follow_each_other():
    saved, restarted = step(1, action="save", id_slot=2, file="a.bin"), step(2, action="restart")
    found = rows(step(0, member(5), member(6)), saved, restarted)
    assert [row.number for row in found] == [0, 1, 2, 3]
    assert [(row.text, row.slot) for row in found[2:]] == [("save a.bin", 2), ("restart", 0)]


def test_the_first_difference_stands_at_its_step():
    differs = SimulatorDifference(1, "the simulator differs: n_past 3")
    found = rows(step(0, member(5)), step(1, member(6)), step(1, action="erase"), differs=differs)
    assert [row.why for row in found] == ["", differs.text, differs.text] and [*found[2].read] == [differs.text]
    assert [*rows(step(0, action="erase"))[0].read] == []


def test_events_belong_to_the_first_request_of_their_step():
    first, second = {"ev": "launch", "slot": 0}, {"ev": "release"}
    found = recorded_events(trace(step(0, member(5), member(6), events=[first, second]), step(1, action="erase"),
                                  step(2, member(5), events=[second])))  # fmt: skip
    assert found.says == ["launch: slot 0", "release", "release"] and found.decisions == [False] * 3
    assert (found.walk.rows, found.walk.begins, found.walk.ends) == ([0, 0, 3], [0, 0, 2, 2], [2, 2, 3, 3])


@pytest.mark.parametrize(("texts", "words"), [
    ([(1, 2, 3)], [["A0-3"]]), ([()], [[]]), ([(1, 2), (1, 2)], [["A0-2"], ["A0-2"]]),
    ([(1, 2, 3), (1, 2, 4)], [["A0-2", "B2-3"], ["A0-2", "C2-3"]]),
    ([(1, 2), (1, 2, 3)], [["A0-2"], ["A0-2", "B2-3"]]), ([(1,), (2,)], [["A0-1"], ["B0-1"]]),
    ([(1, 2, 3), (1, 2, 4), (1, 5, 6)], [["A0-1", "B1-2", "C2-3"], ["A0-1", "B1-2", "D2-3"], ["A0-1", "E1-3"]]),
    ([(1, 2, 3), (1, 5), (1, 2, 4)], [["A0-1", "B1-2", "C2-3"], ["A0-1", "D1-2"], ["A0-1", "B1-2", "E2-3"]]),
])  # fmt: skip
def test_prompts_are_divided_where_they_part(texts, words):
    found = words_of(texts)
    assert [[f"{one.name}{one.start}-{one.stop}" for one in found[text]] for text in texts] == words
