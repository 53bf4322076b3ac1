"""Tests that a model evaluated in runs gives the values of the whole sequence."""

from __future__ import annotations

import random

import numpy as np
import pytest

from cachesim.model import TokenRun, make_model, same_state
from cachesim.model.store import index_of
from cachesim.oracle.cold_run import cold
from tests.unit.model.plain_store import PlainStore, feed, keeps_a_state, prefill, same_rows

TOKENS = random.Random(11).sample(range(5000), 75)
RUNS = (1, 2, 8, 9, 1, 30, 3, 16, 5)                    # 75 tokens
MODELS = ("A", "W5", "K6", "N", "G", "S", "C", "H", "I6", "P8", "B2", "D4.8.3", "D4.8", "D3.5")


def in_runs(model, store, lengths, tokens):
    """Evaluate tokens of sequence 0 in runs, and return the outputs of each run."""
    found, at = [], 0
    for length in lengths:
        found += feed(model, store, [TokenRun(0, at, tokens[at : at + length])])
        at += length
    return found


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("kind", MODELS)
def test_runs_of_any_length_are_the_whole(kind, exact):
    model, store = make_model(f"{kind} A {kind}", exact), PlainStore(3)
    said = in_runs(model, store, RUNS, TOKENS)
    whole = cold(model, TOKENS, logits_at=[74], marks=[75])
    assert np.array_equal(np.concatenate([one.digest for one in said]), whole.digests)
    if exact:
        assert np.array_equal(np.concatenate([one.x for one in said]), whole.hidden)
        assert np.array_equal(model.readout(said[-1].x[-1:])[0], whole.logits[74])
    for index, layer in enumerate(model.spec.layers):
        if layer.part:
            assert same_rows(store.rows_of(index, 0), whole.rows(index))
        if keeps_a_state(layer):
            assert same_state(store.states[0, index], whole.state_at(index, 75))
        if layer.attention and layer.attention.chooser:
            assert np.array_equal(store.rows_of(index_of(index), 0).digest, whole.rows(index_of(index)).digest)
        if layer.ratio:
            made = store.compressed_of(index_of(index), 0, 75 // layer.ratio)
            assert np.array_equal(made.digest, whole.rows(index_of(index)).digest)
            assert (made.k is not None) == exact


@pytest.mark.parametrize("exact", [False, True])
def test_runs_of_two_sequences_in_a_batch_do_not_mix(exact):
    model, store = make_model("W5 I6 G D4.8.3", exact), PlainStore(5)
    prefill(model, store, 1, TOKENS[:20], 20)
    prefill(model, store, 0, TOKENS[30:41], 11)
    both = feed(model, store, [TokenRun(0, 11, TOKENS[41:60]), TokenRun(1, 20, TOKENS[20:25])])
    for said, tokens, new in ((both[0], TOKENS[30:60], 19), (both[1], TOKENS[:25], 5)):
        whole = cold(model, tokens, logits_at=[])
        assert np.array_equal(said.digest, whole.digests[-new:])
        if exact:
            assert np.array_equal(said.x, whole.hidden[-new:])


def test_a_part_of_an_output_has_these_tokens():
    [said] = feed(make_model("C", True), PlainStore(), [TokenRun(0, 0, TOKENS[:9])])
    part = said.part(2, 5)
    assert np.array_equal(part.digest, said.digest[2:5]) and np.array_equal(part.x, said.x[2:5])
    [bare] = feed(make_model("C", False), PlainStore(), [TokenRun(0, 0, TOKENS[:9])])
    assert bare.part(2, 5).x is None and np.array_equal(bare.part(2, 5).digest, said.digest[2:5])
