"""Tests that the reason distinguishes a cold start, a hit and an extension, and that the tokens of a prompt add up."""

from __future__ import annotations

import pytest

from cachesim.engines.base import prompt_of
from cachesim.judging.judged_run import run_judged
from cachesim.judging.recompute_reasons import reused
from cachesim.judging.run_data import request_data
from cachesim.scenarios.corpus import corpus_files
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.load import load


def told(line, model="A", profile="llama_cpp@b11549", **server):
    """The reason of the last request."""
    run = run_judged(from_line(line, model=model, profiles=(profile,), server=server), profile)
    return request_data(run, len(run.requests) - 1, run.requests[-1])["reason"]


@pytest.mark.parametrize(("line", "said"), [
    ("A10", "empty slot"), ("A10>a5/A.a.B5", "extends the slot"), ("A10/A", "whole prompt held, all but 1"),
    ("S10.A5/S.B5", "LCP 10"), ("A10/A!", "cache_prompt is false"),
    ("A10/B10", "no common prefix"), ("A10/B10/A.C2", "loaded 10 from an entry"),
])  # fmt: skip
def test_a_reason_of_attention(line, said):
    assert told(line, cache_ram=-1, parallel=1) == said


def test_reasons_of_a_recurrent_layer():
    assert told("S100.A30/S.B40", "GGGA", parallel=1) == "forced full re-processing"
    assert told("S20.A10>a5/S.A", "GGGA", parallel=1) == "LCP 30, restored 26"


def test_a_request_that_was_not_answered():
    assert told("A300", ctx_size=256) == "REFUSED (400)"


def test_a_prompt_that_was_never_sent_may_be_in_the_slot_as_a_whole():
    assert told("A10>b8/A.b[:4]", parallel=1) == "whole prompt held, all but 1"


def test_an_engine_without_slots_has_no_empty_slot():
    assert told("A10", profile="mlx_lm@d78bf58e") == "no cached prefix"
    assert told("A40/A[:20].B9", profile="sglang@0.5.23", model="S") == "nothing reused"


def test_another_engine():
    assert told("A10", profile="ik_llama@main") == "empty slot"
    assert told("A10>a2/A.a.B5", profile="ik_llama@main") == "extends the slot"
    assert told("A10>a2/A.a.B5", profile="mlx_lm@d78bf58e").startswith("loaded ")


@pytest.mark.part(3)
@pytest.mark.parametrize("name", sorted(corpus_files())[::7])
def test_kept_restored_loaded_and_evaluated_are_the_prompt(name):
    scenario = load(corpus_files()[name])
    run = run_judged(scenario, scenario.profiles[0], "provenance")
    for one in run.requests:
        whole = one.answer.status == 200 and one.answer.done and not (one.answer.died or one.answer.cancelled)
        if whole and one.request.prompt:
            assert sum(reused(one.answer)) + one.answer.prompt_n == len(prompt_of(one.request, one.answer)), name
