"""Tests of servers with --sleep-idle-seconds: whether the server slept before a step follows from the step's events."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from cachesim.engines.registry import profiles
from cachesim.replay.recorded_trace import read_trace
from cachesim.replay.replay import records, replay
from tests.unit.engines.llama_cpp.talk import Talk

FLAGS = ["-c", "512", "-b", "64", "-ub", "16", "--cache-ram", "0"]
PROMPTS = [[*range(1, 60)], [*range(1, 60), 70, 71], [*range(1, 60), 72]]


def recorded(tmp_path, sleeps, prompts=PROMPTS, slots=(0, 0, 0)):
    """A recording of our own server, which is started anew before the steps in ``sleeps``; each prompt goes to the
    slot that is named for it."""
    steps, talk, n_slots = [], None, 1 + max(slots)
    for number, (prompt, slot) in enumerate(zip(prompts, slots, strict=True)):
        if talk is None or number in sleeps:
            talk = Talk("AAAA", mode="none", ctx_size=512, batch_size=64, ubatch_size=16, cache_ram=0, parallel=n_slots)
        first = len(talk.log.events)
        answer = talk.ask(prompt, 2, forced=(5, 6), id_slot=slot)
        events = records(talk.log.events[first:], n_slots == 1, talk.server.core.rules.silent, False,
                         talk.server.core.rules.unlogged)  # fmt: skip
        loads = [{"ev": "warn", "text": "the V embeddings have different sizes"}] if number in sleeps else []
        response = {"status": 200, "cache_n": answer.cache_n, "prompt_n": answer.prompt_n, "tokens": [5, 6],
                    "tokens_cached": answer.tokens_cached, "id_slot": slot, "truncated": False}  # fmt: skip
        steps.append({"i": number, "op": "completion", "request": {"prompt": prompt, "n_predict": 2, "id_slot": slot},
                      "response": response, "events": [*loads, *events]})  # fmt: skip
    held = len(talk.server.core.slots[0].tokens) if 3 not in sleeps else 0
    cleared = {"ev": "slot_clear", **({"slot": 0} if n_slots > 1 else {}), "n_tokens": held}
    steps.append({"i": 3, "op": "slot", "request": {"action": "erase", "id_slot": 0},
                  "response": {"status": 200, "n_erased": held}, "events": [cleared]})
    data = {"engine": "llama.cpp", "commit": "3f545beccee69d9975f466ec7e45fd9aacd8ba90", "model": "tiny-llama.gguf",
            "name": "llama-sleep", "flags": [*FLAGS, "-np", str(n_slots), "--sleep-idle-seconds", "1"],
            "server": {"n_slots": n_slots}, "inexact": [], "steps": steps}  # fmt: skip
    path = tmp_path / "t.json"
    path.write_text(json.dumps(data))
    return read_trace(path, profiles())


@pytest.mark.parametrize("sleeps", [(), (1,), (2,), (1, 2), (3,), (2, 3)], ids=str)
def test_it_is_found_before_which_steps_the_server_slept(tmp_path, sleeps):
    found = replay(recorded(tmp_path, sleeps))
    assert (found.first, found.steps_agree, found.events_agree) == (None, 4, found.events)


def test_who_may_have_slept_or_not_was_awake(tmp_path):
    """The second prompt goes to a slot that was never used: its log is equal either way. The third prompt shows it."""
    trace = recorded(tmp_path, (), [PROMPTS[0], [*range(90, 100)], PROMPTS[1]], slots=(0, 1, 0))
    assert trace.steps[2].members[0].response["cache_n"] > 0
    found = replay(trace)
    assert (found.first, found.steps_agree) == (None, 4)


def test_without_the_flag_the_server_does_not_sleep(tmp_path):
    trace = recorded(tmp_path, (2,))
    assert replay(replace(trace, can_sleep=False)).steps_agree < 4
