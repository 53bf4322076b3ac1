"""Tests of state that outlives a request: token lists after an abort, parsers, the system prompt, reused graphs."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.base import Request
from cachesim.engines.ik_llama import start
from cachesim.engines.ik_llama.rules.checkpoint_restore import Ckpt, RestoreInputs, erase_restored, resume_checkpoint
from cachesim.engines.ik_llama.rules.micro_batch import ComputeGraph, graph_by_sequences, graph_by_shape
from cachesim.events import Log

OLD, BASE = ComputeGraph(256, 10, 1, (1,), (False,), False), "ik_llama@1889-base"


def served(profile, *requests, **server):
    base = {"ctx_size": 512, "batch_size": 64, "ubatch_size": 16, "cache_ram": 0}
    running = start(profile, "A", {**base, **server}, "provenance", Log())
    return running, [running.complete(request) for request in requests]


@pytest.mark.parametrize(("now", "first", "shape", "sequences"), [
    (OLD, 1, True, True),
    (OLD, 0, False, False),
    (OLD._replace(zeroed=(True,)), 1, True, False),
    (OLD._replace(rows=(2,)), 1, True, False),
    (OLD._replace(outputs=0), 1, False, False),
    (OLD._replace(per_step=True), 1, False, False),
])
def test_a_graph_is_used_again_by_its_shape_or_by_its_sequences(now, first, shape, sequences):
    assert graph_by_shape(OLD, now, first).value is shape
    assert graph_by_sequences(OLD, now, first).value is sequences
    assert graph_by_shape(None, now, first).value is False


def test_a_draft_of_2195_resumes_beyond_the_prefix_and_leaves_a_token_of_the_prompt():
    late, ask = Ckpt(0, 94, 0, 94, 95, 1), RestoreInputs(40, 40, 100, 0, False, True, 60, 94)
    assert resume_checkpoint(late, ask).value[:2] == (95, 59)
    assert erase_restored([Ckpt(0, 30, 0, 30, 31, 1), late], ask).value == (1,)


def test_a_system_prompt_is_refused_where_it_is_not_simulated():
    with pytest.raises(BadInput, match="system prompt"):
        served(BASE, Request(tuple(range(30)), extra={"system_tokens": 10}), parallel=2, context_shift=False)


def test_a_system_prompt_precedes_the_tokens_of_the_slot():
    asked = Request(tuple(range(30)), extra={"system_tokens": 10}), Request(tuple(range(10, 35)))
    running, answers = served(BASE, *asked, context_shift=False)
    assert running.inspection.tokens_of(0) == tuple(range(35))
    assert answers[1].prompt == tuple(range(35)) and answers[1].prompt_n == 5


@pytest.mark.parametrize(("profile", "entries", "kept"), [("ik_llama@main", 0, 0), ("ik_llama@1743", 1, 12)])
def test_a_system_prompt_clears_the_prompt_cache_and_the_slot_or_only_the_memory(profile, entries, kept):
    """The slot of 12 tokens, saved before, keeps its list, so that the prompt counts as evaluated though no row is."""
    first, second = Request(tuple(range(100, 120)), 1), Request(tuple(range(200, 212)), 1)
    again = Request((*range(10), *second.prompt, 7), 1, extra={"system_tokens": 10})
    running, answers = served(profile, first, second, again, context_shift=False, cache_ram=1, cache_ram_n_min=0)
    assert len(running.core.cache.entries) == entries
    assert (answers[2].cache_n, answers[2].prompt_n) == (kept, 10 + 13 - kept)
    assert running.core.memory.cells.used == 10 + 13 - kept
