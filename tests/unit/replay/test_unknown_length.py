"""Tests of a rejected draft whose length is in no log line: our own recording of a conversation that arrives while
another one drafts, as a real server may write it."""

from __future__ import annotations

from pathlib import Path

from cachesim.engines.base import Draft, Request
from cachesim.engines.llama_cpp.flags import read_flags
from cachesim.engines.registry import engine_of, profiles
from cachesim.events import Log
from cachesim.replay.recorded_answers import FIELDS
from cachesim.replay.recorded_trace import make_trace
from cachesim.replay.replay import DRAFTS_UNKNOWN, LENGTH_UNKNOWN, records
from cachesim.replay.replay import replay as replayed

PROFILE, MODEL = "llama_cpp@b11549", "GA"
FLAGS = ["-c", "1024", "-b", "64", "-ub", "16", "-np", "2", "--spec-type", "ngram-simple", "-cms", "0"]
FIRST, SAID, SECOND = tuple(range(20, 40)), tuple(range(40, 50)), tuple(range(100, 200))
DRAFTED = 30


def fields(answer):
    return {"status": 200, "tokens": answer.tokens, **{name: getattr(answer, name) for name in FIELDS}}


def member(number, prompt, answer, said, **more):
    request = {"prompt": list(prompt), "n_predict": len(said)}
    return {"i": number, "op": "completion", "task": number, "request": request, "response": fields(answer), **more}


def recording(spoil=lambda events: None, head=(), **more):
    """A request drafts 30 tokens, of which none is right, in the iteration in which another prompt begins."""
    engine = engine_of(PROFILE)
    rules = engine.rules(PROFILE)
    server = engine.start(rules, MODEL, read_flags(FLAGS).options, "none", Log())
    one = server.submit(Request(FIRST, n_predict=len(SAID), forced=SAID, drafts=(Draft(20, DRAFTED, 0),)))
    server.iterate()
    server.iterate()
    two = server.submit(Request(SECOND, n_predict=2, forced=(7, 8)))
    while not (one.done and two.done):
        server.iterate()
    events = records(server.log.events, False, rules.silent, True, rules.unlogged)
    spoil(events)
    steps = [member(0, FIRST, one, SAID, **more), member(1, SECOND, two, (7, 8))]
    data = {"engine": "llama.cpp", "commit": "b11549", "model": "tiny-GA.gguf", "name": "t", "workload": "t", "seed": 0,
            "note": None, "flags": FLAGS, "base_flags": [], "env": {}, "server": {"n_slots": 2}, "inexact": [],
            "steps": [{"i": 0, "op": "parallel", "steps": steps, "events": events}], **dict(head)}  # fmt: skip
    return replayed(make_trace(Path("t.json"), data, profiles()))


def test_a_step_that_depends_on_the_length_is_undecided():
    found = recording()
    assert (found.first, found.steps_undecided, found.why) == (None, 1, f"step 0: {LENGTH_UNKNOWN}")


def test_with_the_length_it_agrees():
    found = recording(drafts=[[20, DRAFTED]])
    assert (found.first, found.steps_agree, found.steps_undecided) == (None, 1, 0)


def test_what_differs_before_the_draft_is_a_difference():
    def spoil(events):
        events[0]["slot"] += 1

    found = recording(spoil)
    assert (found.steps_undecided, found.first["event"]) == (0, 0)


def test_with_the_length_another_event_is_a_difference():
    def spoil(events):
        events[-1]["n_tokens"] += 1

    assert recording(spoil, drafts=[[20, DRAFTED]]).first["recorded"]["ev"] == "release"


def test_without_a_log_a_step_with_accepted_drafts_is_undecided():
    response = {"status": 200, "tokens": list(SAID), "draft_n": 5, "draft_n_accepted": 3}
    found = recording(head={"log": False}, response=response)
    assert (found.first, found.steps_undecided, found.why) == (None, 1, f"step 0: {DRAFTS_UNKNOWN}")
