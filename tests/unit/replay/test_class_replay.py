"""Tests of replays of a server's classes, with classes that return what a test gives."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from cachesim.base.errors import BadInput, ProcessAborted
from cachesim.engines.shared.class_recording import ClassRecording, PlayedStep
from cachesim.replay import class_replay
from cachesim.replay.class_replay import replay_classes
from cachesim.replay.recorded_trace import Trace

ADD = {"op": "add", "req": 0, "ev": [["alloc", 1], ["alloc", 2]]}
STEP = {"op": "step", "n": 3, "ev": [["free", 1]]}
FINAL = {"free": 7}


class Classes:
    """Recorded classes: ``plays`` has what each step returns or raises, then what the end returns."""

    def __init__(self, monkeypatch, *plays, wrong=(), undecided=""):
        self.plays, self.steps, self.started, self.rules = list(plays), [], [], object()
        form = ClassRecording(setup=None, play=self._begin, wrong=lambda step: set(wrong),
                              undecided=lambda data: undecided)  # fmt: skip
        recorded = SimpleNamespace(classes=lambda: form)
        engine = SimpleNamespace(recorded=recorded, start=self._start, rules=lambda name: (self.rules, name))
        monkeypatch.setattr(class_replay, "engine_of", lambda name: engine)

    def _start(self, *given):
        self.started.append(given)
        return "server"

    def _begin(self, server, data):
        assert server == "server"

        def play(step):
            self.steps.append(step)
            found = self.plays.pop(0)
            if isinstance(found, Exception):
                raise found
            return found if isinstance(found, PlayedStep) else PlayedStep(found)

        return play

    def replay(self, *steps, mode="none", check=None, table=None, out=""):
        trace = Trace(Path("t.json"), "toy@1", "GA", "t", {"n": 1}, {}, frozenset(), out=out)
        return replay_classes(trace, {"steps": list(steps), "final": FINAL}, mode, check, table)


def counts(found):
    return found.steps, found.steps_agree, found.steps_undecided, found.events, found.events_agree


def test_steps_that_agree_are_counted_with_their_events(monkeypatch):
    classes = Classes(monkeypatch, {"req": 0, "ev": ADD["ev"]}, {"n": 3}, {"free": 7, "held": []})
    found = classes.replay(ADD, STEP)
    assert counts(found) == (2, 2, 0, 3, 2)                        # the second step fills in no events
    assert (found.first, found.broken, found.verdicts_agree, found.why) == (None, [], None, "")
    assert classes.steps == [ADD, STEP, {"op": "final", "free": 7}]
    assert classes.started == [((classes.rules, "toy@1"), "GA", {"n": 1}, "none")]


def test_the_first_field_that_differs_ends_the_replay(monkeypatch):
    classes = Classes(monkeypatch, {"req": 0, "ev": [["alloc", 1], ["alloc", 3], ["x"]]}, {"n": 3})
    found = classes.replay(ADD, STEP)
    assert counts(found) == (2, 0, 0, 3, 1) and len(classes.steps) == 1
    assert found.first == {"step": 0, "field": "ev", "recorded": ADD["ev"],
                           "ours": [["alloc", 1], ["alloc", 3], ["x"]]}  # fmt: skip


def test_a_field_that_is_not_recorded_counts_as_empty(monkeypatch):
    found = Classes(monkeypatch, {"held": []}, {"held": [], "other": 5}).replay({"op": "a"}, {"op": "b"})
    assert found.first == {"step": 1, "field": "other", "recorded": 0, "ours": 5}
    assert counts(found) == (2, 1, 0, 0, 0)


def test_a_difference_in_the_end_belongs_to_no_step(monkeypatch):
    found = Classes(monkeypatch, {"n": 3}, {"free": 6}).replay(STEP)
    assert found.first == {"step": 1, "field": "free", "recorded": 7, "ours": 6} and found.steps_agree == 1


def test_a_process_that_ends_agrees_if_its_last_step_says_so(monkeypatch):
    died = {"op": "died", "error": "no block", "in": "allocate", "ev": [["free", 1]]}
    ends = ProcessAborted("no block", "allocate")
    found = Classes(monkeypatch, ends, {}).replay(died)
    assert counts(found) == (1, 1, 0, 1, 1) and (found.broken, found.verdicts_agree) == ([0], None)
    judged = Classes(monkeypatch, ends, {}).replay(died, mode="provenance", check=lambda *given: True)
    assert (judged.verdicts_agree, judged.broken) == (1, [0])


def test_a_process_that_ends_otherwise_is_a_difference(monkeypatch):
    ends = ProcessAborted("no room", "allocate")
    for mode, verdicts in (("none", None), ("provenance", 0)):
        found = Classes(monkeypatch, ends).replay({"op": "died", "error": "no block", "in": "allocate"}, mode=mode)
        assert found.first == {"step": 0, "field": "error", "recorded": "no block", "ours": "no room"}
        assert (counts(found), found.broken, found.verdicts_agree) == ((1, 0, 0, 0, 0), [0], verdicts)
    found = Classes(monkeypatch, ends).replay(STEP)
    assert found.first == {"step": 0, "field": "op", "recorded": "step", "ours": "died"}


def judge(server, request, answer):
    """False for answers of even requests, None for those of request 3."""
    assert server == "server"
    return None if request == 3 else request % 2 == 1


def said(*requests):
    return PlayedStep({}, [(i, i, f"answer {i}") for i in requests])


def test_outputs_are_compared_with_the_marks_of_the_recording(monkeypatch):
    classes = Classes(monkeypatch, said(1, 2, 3, 4), said(1, 3), said(2, 4), {}, wrong={2, 4})
    found = classes.replay({"op": "a"}, {"op": "b"}, {"op": "c"}, mode="provenance", check=judge)
    assert (found.verdicts, found.verdicts_agree, found.broken) == ({0: True, 1: False, 2: True}, 2, [0, 2])
    assert counts(found) == (3, 3, 0, 0, 0) and classes.started[0][3] == "provenance"


@pytest.mark.parametrize(("mode", "undecided"), [("none", ""), ("provenance", "no images")])
def test_outputs_that_cannot_be_judged_have_no_verdicts(monkeypatch, mode, undecided):
    classes = Classes(monkeypatch, said(2), {}, undecided=undecided)
    found = classes.replay({"op": "a"}, mode=mode, check=judge)
    assert (found.verdicts_agree, found.verdicts, found.broken) == (None, {}, [])
    assert found.steps_agree == 1 and classes.started[0][3] == "none"


def test_without_a_judge_no_step_has_a_verdict(monkeypatch):
    classes = Classes(monkeypatch, said(2), {})
    found = classes.replay({"op": "a"}, mode="exact")
    assert (found.verdicts_agree, found.verdicts, classes.started[0][3]) == (0, {}, "exact")


def test_other_rules_replace_those_of_the_recording(monkeypatch):
    classes = Classes(monkeypatch, {})
    classes.replay(table="mine")
    assert classes.started == [("mine", "GA", {"n": 1}, "none")]


def test_a_recording_that_cannot_be_replayed_is_undecided(monkeypatch):
    classes = Classes(monkeypatch)
    found = classes.replay(ADD, STEP, out="rule set toy@1 is not in this build")
    assert (counts(found), found.why) == ((2, 0, 2, 3, 0), "rule set toy@1 is not in this build")
    assert classes.started == []


def test_a_step_without_its_values_is_bad_input(monkeypatch):
    classes = Classes(monkeypatch, KeyError("req"))
    with pytest.raises(BadInput) as bad:
        classes.replay(ADD)
    assert str(bad.value) == "not a recording of classes: KeyError 'req'"
