"""A server with --sleep-idle-seconds: whether it slept before a step is read from what the step logged."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from cachesim.engines.registry import profiles
from cachesim.live.replay import records, replay
from cachesim.live.trace import read_trace
from tests.unit.engines.llama_cpp.talk import Talk

FLAGS = ["-c", "512", "-b", "64", "-ub", "16", "-np", "1", "--cache-ram", "0"]
PROMPTS = [[*range(1, 60)], [*range(1, 60), 70, 71], [*range(1, 60), 72]]


def recorded(tmp_path, sleeps):
    """A recording of our own server, which is started anew before the steps in ``sleeps``."""
    steps, talk = [], None
    for number, prompt in enumerate(PROMPTS):
        if talk is None or number in sleeps:
            talk = Talk("AAAA", mode="none", ctx_size=512, batch_size=64, ubatch_size=16, cache_ram=0)
        first = len(talk.log.events)
        answer = talk.ask(prompt, 2, forced=(5, 6))
        events = records(talk.log.events[first:], True, talk.server.rules.silent, False, talk.server.rules.unlogged)
        loads = [{"ev": "warn", "text": "the V embeddings have different sizes"}] if number in sleeps else []
        response = {"status": 200, "cache_n": answer.cache_n, "prompt_n": answer.prompt_n, "tokens": [5, 6],
                    "tokens_cached": answer.tokens_cached, "id_slot": 0, "truncated": False}  # fmt: skip
        steps.append({"i": number, "op": "completion", "request": {"prompt": prompt, "n_predict": 2},
                      "response": response, "events": [*loads, *events]})  # fmt: skip
    held = len(talk.server.slots[0].tokens) if 3 not in sleeps else 0
    steps.append({"i": 3, "op": "slot", "request": {"action": "erase", "id_slot": 0},
                  "response": {"status": 200, "n_erased": held}, "events": [{"ev": "slot_clear", "n_tokens": held}]})
    data = {"engine": "llama.cpp", "commit": "3f545beccee69d9975f466ec7e45fd9aacd8ba90", "model": "tiny-llama.gguf",
            "name": "llama-sleep", "flags": [*FLAGS, "--sleep-idle-seconds", "1"], "server": {"n_slots": 1},
            "inexact": [], "steps": steps}  # fmt: skip
    path = tmp_path / "t.json"
    path.write_text(json.dumps(data))
    return read_trace(path, profiles())


@pytest.mark.parametrize("sleeps", [(), (1,), (2,), (1, 2), (3,), (2, 3)], ids=str)
def test_it_is_found_before_which_steps_the_server_slept(tmp_path, sleeps):
    found = replay(recorded(tmp_path, sleeps))
    assert (found.first, found.steps_agree, found.events_agree) == (None, 4, found.events)


def test_without_the_flag_nobody_sleeps(tmp_path):
    trace = recorded(tmp_path, (2,))
    assert replay(replace(trace, sleeps=False)).steps_agree < 4

