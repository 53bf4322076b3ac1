"""Every decision that is logged has a sentence."""

import pytest

from cachesim.engines.base import Request
from cachesim.engines.rule import RULES
from cachesim.events import Decided

A, B, C = tuple(range(100, 130)), tuple(range(200, 230)), tuple(range(300, 330))


@pytest.mark.parametrize(("model", "flags"), [
    ("A", {"max_total_tokens": 64, "new_token_ratio": 0.0}), ("W4 A", {"swa_tokens": 44, "page_size": 4}),
    ("GA", {"max_mamba_cache_size": 5, "mamba_max_states_per_path": 1}),
    ("GA", {"mamba_radix_cache_strategy": "extra_buffer", "state_grid": 4, "mamba_track_interval": 4}),
])  # fmt: skip
def test_every_decision_has_a_sentence(engine, model, flags):
    server = engine.start("sglang@0.5.23", model, flags, "none")
    for prompt in (A, B, C, (*A, 1), A):
        server.submit(Request(prompt, 12))
    while server.working:
        server.iterate()
    decided = [event for event in server.log.events if isinstance(event, Decided)]
    assert decided and all(event.rule in RULES for event in decided)
    assert [event.rule for event in decided if engine.say(event.rule, event.value, event.because) is None] == []


@pytest.mark.parametrize(("model", "answer", "flags", "said"), [
    ("GA", 80, {"max_total_tokens": 100}, "waits: it needs 112 slots for 30 tokens and an answer of 80, 100 are free"),
    ("W8 A", 4, {"max_total_tokens": 200, "swa_tokens": 12},
     "the last 19 tokens of its prompt wait: 189 slots and 1 window slots are free or can be evicted, and a page of"),
])  # fmt: skip
def test_a_request_that_waits_for_ever_says_what_it_needs_and_what_is_free(engine, model, answer, flags, said):
    server = engine.start("sglang@0.5.23", model, flags, "none")
    server.complete(Request(A, answer))
    decided = [event for event in server.log.events if isinstance(event, Decided)]
    texts = [engine.say(event.rule, event.value, event.because) for event in decided]
    assert any(str(text).startswith(said) for text in texts)


@pytest.mark.parametrize(("value", "pinned", "parts", "said"), [
    (None, True, 0, "nothing is loaded from host memory: another load holds the copies"),
    (None, False, 0, "1 token in host memory are too few to load"),
    (5, False, 0, "5 tokens in host memory are due to be loaded"),
    (5, False, 1, "5 tokens and a window or a state in host memory are due to be loaded"),
    (5, False, 2, "5 tokens and a window and a state in host memory are due to be loaded"),
])  # fmt: skip
def test_a_load_says_what_it_loads_or_why_it_does_not(engine, value, pinned, parts, said):
    assert engine.say("SG-HOST-LOAD-BACK.TEN", value, {"tokens": 1, "pinned": pinned, "parts": parts}) == said
