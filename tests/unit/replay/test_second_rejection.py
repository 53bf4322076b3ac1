"""Tests of a replayed draft that is rejected again: our own recording of two completions, as a real server may write
it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cachesim.engines.base import Draft, Request
from cachesim.engines.llama_cpp.flags import read_flags
from cachesim.engines.registry import engine_of, profiles
from cachesim.events import Log
from cachesim.replay.recorded_answers import FIELDS
from cachesim.replay.recorded_requests import second_rejection
from cachesim.replay.recorded_trace import make_trace
from cachesim.replay.replay import REJECTED_TWICE, records
from cachesim.replay.replay import replay as replayed
from cachesim.tools.replay.command import checker
from cachesim.tools.replay.report import replay_data, totals

PROFILE = "llama_cpp@b11549"
FLAGS = ["-c", "512", "-b", "64", "-ub", "64", "-np", "2", "--spec-type", "ngram-simple"]
PROMPT, SAID = tuple(range(100, 120)), tuple(range(200, 206))
DRAFTS = (Draft(20, 2, 0),)
WRONG = (0, 3)          # the second completion's draft is undone with rows from before its window was copied
ASKED = Request(PROMPT, n_predict=6, forced=SAID, n_cmpl=2, children_forced=(SAID,), drafts=DRAFTS,
                children_drafts=(DRAFTS,))  # fmt: skip


def fields(answer):
    return {"status": 200, "tokens": answer.tokens, **{name: getattr(answer, name) for name in FIELDS}}


def recording(spoil=lambda steps: None):
    """Two requests for two completions, of which every first draft is rejected, and another request after a restart."""
    engine = engine_of(PROFILE)
    rules = engine.rules(PROFILE)
    steps = []
    for number in range(4):
        if number in (0, 3):
            server = engine.start(rules, "CW8", read_flags(FLAGS).options, "none", Log())
        if number == 2:
            steps.append({"i": 2, "op": "restart", "events": [], "server": {}})
            continue
        first = len(server.log.events)
        answer = server.complete(ASKED)
        response = {**fields(answer), "completions": [fields(child) for child in answer.children]}
        events = records(server.log.events[first:], False, rules.silent, True, rules.unlogged)
        request = {"prompt": list(PROMPT), "n_predict": 6, "n_cmpl": 2}
        steps.append({"i": number, "op": "completion", "request": request, "response": response, "events": events})
    spoil(steps)
    data = {"engine": "llama.cpp", "commit": "b11549", "model": "tiny-CW8.gguf", "name": "t", "workload": "t",
            "seed": 0, "note": None, "flags": FLAGS, "base_flags": [], "env": {}, "server": {"n_slots": 2},
            "inexact": [{"i": number, "shifted": False} for number in WRONG], "steps": steps}  # fmt: skip
    return replayed(make_trace(Path("t.json"), data, profiles()), "provenance", checker())


def restored(events):
    """The places of the restorations."""
    return [place for place, event in enumerate(events) if event["ev"] == "spec_restore"]


def again(steps):
    """Reject a draft of the first request once more."""
    events = steps[0]["events"]
    last = restored(events)[-1]
    events.insert(last + 1, events[last])


def test_drafts_that_are_rejected_once_are_replayed():
    found = recording()
    assert (found.steps, found.steps_agree, found.steps_undecided) == (4, 4, 0)
    assert (found.events_agree, found.verdicts_agree) == (found.events, 4)
    assert len(restored(found.trace.steps[0].events)) == 2


def test_a_second_rejection_is_undecided_and_a_later_step_that_agrees_is_compared():
    found = recording(again)
    assert (found.steps_agree, found.steps_undecided, found.verdicts_agree, found.first) == (3, 1, 3, None)
    assert found.why == f"step 0: {REJECTED_TWICE}"
    assert totals([replay_data(found)])["verdicts"] == 3


def test_what_differs_after_a_second_rejection_is_undecided_up_to_a_restart():
    def spoil(steps):
        again(steps)
        steps[1]["events"][0]["slot"] += 1

    found = recording(spoil)
    assert (found.steps_agree, found.steps_undecided, found.verdicts_agree, found.first) == (2, 2, 2, None)


@pytest.mark.parametrize(("settled", "undecided", "first"), [(True, 1, 1), (False, 2, None)])
def test_what_differs_after_the_length_of_every_slot_is_a_difference(settled, undecided, first):
    """The second request ends with a release of slot 0, its clearing, and a release of slot 1."""
    def spoil(steps):
        again(steps)
        events = steps[1]["events"]
        if settled:
            events.append(dict(events[-2]))
        else:
            events[-2]["n_tokens"] += 1

    found = recording(spoil)
    assert (found.steps_undecided, (found.first or {}).get("step")) == (undecided, first)


def test_a_slot_action_after_a_second_rejection_has_no_verdict():
    def spoil(steps):
        again(steps)
        steps[1] = {"i": 1, "op": "slot", "request": {"action": "erase", "id_slot": 0},
                    "response": {"status": 200, "n_erased": 26}, "events": []}  # fmt: skip

    found = recording(spoil)
    assert (found.steps_agree, found.steps_undecided, found.verdicts_agree, found.first) == (2, 2, 2, None)


@pytest.mark.parametrize("name", ["drafted", "accepted", "n_tokens"])
def test_an_ordinary_wrong_recording_of_such_a_step_is_a_difference(name):
    def spoil(steps):
        step = next(event for event in steps[0]["events"] if event["ev"] == "spec_step")
        step[name] += 1

    found = recording(spoil)
    assert found.steps_undecided == 0 and found.first["step"] == 0


def test_what_differs_before_the_second_rejection_is_a_difference():
    def spoil(steps):
        again(steps)
        steps[0]["events"][0]["slot"] += 1

    found = recording(spoil)
    assert (found.steps_undecided, found.first["event"]) == (0, 0)


CKPT, RESTORE, STEP = ({"ev": name, "task": 0} for name in ("spec_ckpt", "spec_restore", "spec_step"))


@pytest.mark.parametrize(("events", "place"), [
    ([], None), ([CKPT, RESTORE, STEP, CKPT, RESTORE], None), ([CKPT, RESTORE, {**RESTORE, "task": 1}], None),
    ([CKPT, RESTORE, {"ev": "batch", "task": 0}, RESTORE], 3), ([CKPT, RESTORE, {**STEP, "task": 1}, RESTORE], 3),
])  # fmt: skip
def test_a_restoration_counts_as_the_second_where_its_task_has_verified_nothing_between(events, place):
    assert second_rejection(events) == place
