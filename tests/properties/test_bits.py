"""Cached path and cold run are bit-identical, for all chunks, cell orders and other sequences in a batch.

A history is the tokens of up to three sequences, cut into micro-batches that hold runs of several of them, in a store
with shuffled cells. All outputs and all stored values must equal the cold run of each sequence alone: provenance,
hidden values, logits, K/V rows, recurrent states.
"""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cachesim.model import Model, TokenRun, make_model, same_state
from cachesim.model.store import HiddenOutput, index_of
from cachesim.oracle.cold_run import ColdRun, cold
from tests.unit.model.plain_store import (
    ALL_KINDS,
    PlainStore,
    every_kind,
    feed,
    joined,
    keeps_a_state,
    prefill,
    same_rows,
)

KINDS = [*every_kind(3), "GGGA", "C W2 H", "SSA W5", "G P8 G P8", "W4 I3 W4 I3", "A B2 B1", "W3 D4.3.2 D6.3 D2.3"]
RECORDED = ["AAAA", "W32 A W32 A", "SSSS", "GGGAGGGA", "CCACAC", "C C W32 C W32 C", "HHH", "SSASSA", "GGGA"]
LONG = [random.Random(5).randrange(1000) for _ in range(600)]


def assert_cold(model: Model, store: PlainStore, seq: int, said: HiddenOutput, truth: ColdRun) -> None:
    """Assert that outputs and stored values of a sequence equal its cold run, bit for bit."""
    n = len(truth.digests)
    assert np.array_equal(said.digest, truth.digests)
    if model.exact:
        assert said.x is not None and truth.hidden is not None and np.array_equal(said.x, truth.hidden)
        assert np.array_equal(model.readout(said.x[-1:])[0], truth.logits[n - 1])
    for index, layer in enumerate(model.spec.layers):
        if layer.part:
            assert same_rows(store.rows_of(index, seq), truth.rows(index))
        if layer.attention and layer.attention.chooser:
            assert same_rows(store.rows_of(index_of(index), seq), truth.rows(index_of(index)))
        if layer.ratio and n >= layer.ratio:
            held = store.compressed_of(index_of(index), seq, n // layer.ratio)
            assert same_rows(held, truth.rows(index_of(index)))
        if keeps_a_state(layer):
            assert same_state(store.states[seq, index], truth.state_at(index, n))


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[list[int]], list[list[TokenRun]]]:
    """Draw the tokens of each sequence, and their micro-batches."""
    tokens = draw(st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=24), min_size=1, max_size=3))
    done, batches = [0] * len(tokens), []
    while any(at < len(tokens[seq]) for seq, at in enumerate(done)):
        runs = []
        for seq in draw(st.permutations([s for s, at in enumerate(done) if at < len(tokens[s])])):
            size = draw(st.integers(1, 9))
            runs.append(TokenRun(seq, done[seq], tokens[seq][done[seq] : done[seq] + size]))
            done[seq] += len(runs[-1].tokens)
        batches.append(runs)
    return tokens, batches


@pytest.mark.part(3)
@pytest.mark.parametrize("exact", [True, False], ids=["exact", "provenance"])
@pytest.mark.parametrize("notation", KINDS)
def test_cached_path_is_the_cold_run(notation: str, exact: bool) -> None:
    model = make_model(notation, exact)

    @settings(derandomize=True, deadline=None, max_examples=15)
    @given(histories(), st.integers(0, 2**16))
    def holds(history: tuple[list[list[int]], list[list[TokenRun]]], order: int) -> None:
        tokens, batches = history
        store, said = PlainStore(order), [[] for _ in tokens]           # type: ignore[var-annotated]
        for runs in batches:
            for run, one in zip(runs, feed(model, store, runs), strict=True):
                said[run.seq].append(one)
        for seq, mine in enumerate(tokens):
            truth = cold(model, mine, logits_at=[len(mine) - 1], marks=[len(mine)])
            assert_cold(model, store, seq, joined(said[seq]), truth)

    holds()


@pytest.fixture(scope="module")
def truths() -> dict[tuple[str, bool], ColdRun]:
    return {}


@pytest.mark.long
@pytest.mark.parametrize("chunk", [1, 7, 64, 512])
@pytest.mark.parametrize("exact", [True, False], ids=["exact", "provenance"])
@pytest.mark.parametrize("notation", RECORDED)
def test_chunks_do_not_matter(
    notation: str, exact: bool, chunk: int, truths: dict[tuple[str, bool], ColdRun]
) -> None:
    model, store = make_model(notation, exact), PlainStore(chunk)
    if (notation, exact) not in truths:
        truths[notation, exact] = cold(model, LONG, logits_at=[len(LONG) - 1], marks=[len(LONG)])
    said = prefill(model, store, 0, LONG, chunk)
    assert_cold(model, store, 0, said, truths[notation, exact])


def test_company_changes_nothing_but_itself() -> None:
    """A run alone equals that run among others, in every place of the micro-batch."""
    model = make_model(ALL_KINDS, True)
    alone = prefill(model, PlainStore(), 0, LONG[:40], 40)
    for place in range(3):
        others = [TokenRun(seq, 0, LONG[seq * 50 : seq * 50 + 30 + seq]) for seq in (1, 2)]
        runs = [*others[:place], TokenRun(0, 0, LONG[:40]), *others[place:]]
        among = feed(model, PlainStore(place), runs)[place]
        assert alone.x is not None and among.x is not None
        assert np.array_equal(alone.digest, among.digest) and np.array_equal(alone.x, among.x)
