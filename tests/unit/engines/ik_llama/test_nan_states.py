"""NaN results of a micro-batch: which tokens, rows and states they reach."""

from __future__ import annotations

import numpy as np

from cachesim.engines.base import Request
from cachesim.engines.ik_llama import start
from cachesim.engines.ik_llama.memory.kv_cache import Blob, KvCache
from cachesim.engines.ik_llama.memory.model_layout import model_kind
from cachesim.engines.ik_llama.memory.nan_states import NAN, has_nan, is_nan, mark_nan
from cachesim.engines.shared.batch import Ubatch
from cachesim.events import Log
from cachesim.model import TokenRun
from cachesim.model.spec import parse
from cachesim.model.store import KVRows, LayerState

CLEAN = LayerState(np.zeros(1, np.uint64), 7, None, None)


def marked(before, *, states, runs=((0, 3),)):
    """Mark the layers of a model GG, whose states were NaN in the layers ``before`` of each run; return the tokens with
    a NaN output of each run."""
    made = tuple(TokenRun(seq, 0, [*range(n)]) for seq, n in runs)
    ubatch = Ubatch(made, (0, 3)[: len(runs)], sum(n for _, n in runs))
    found = mark_nan(parse("GG"), {}, states, before, ubatch, 0, 8, [{} for _ in runs])
    return [one.tolist() for one in found]


def test_a_state_that_was_nan_makes_all_later_tokens_and_layers_nan():
    states = [{0: CLEAN, 1: CLEAN}]
    assert marked([frozenset({0})], states=states) == [[True] * 3]
    assert [is_nan(state) for state in states[0].values()] == [True, True] and states[0][1].hash == int(NAN)
    states = [{0: CLEAN, 1: CLEAN}]
    assert marked([frozenset({1})], states=states) == [[True] * 3]
    assert [is_nan(state) for state in states[0].values()] == [False, True]


def test_other_sequences_keep_their_states():
    states = [{0: CLEAN, 1: CLEAN}, {0: CLEAN, 1: CLEAN}]
    assert marked([frozenset(), frozenset({1})], states=states, runs=((0, 3), (1, 2))) == [[False] * 3, [True] * 2]
    assert not any(map(is_nan, states[0].values()))


def test_the_rows_of_a_token_without_a_visible_cell_are_nan_from_the_next_layer_on():
    """Two runs at places 5 and 8 of a batch, in the cells from 4 on: the second begins in cell 7."""
    rows = {index: KVRows(np.zeros(16, np.uint64), None, None) for index in (0, 1)}
    ubatch = Ubatch((TokenRun(0, 0, [1, 2, 3]), TokenRun(1, 0, [1, 2])), (5, 8), 5)
    blind = [{"A": np.zeros(3, bool)}, {"A": np.array([True, False])}]
    found = mark_nan(parse("AA"), rows, [], [], ubatch, 4, 7, blind)
    assert [one.tolist() for one in found] == [[False] * 3, [True, False]]
    assert [np.flatnonzero(rows[index].digest == NAN).tolist() for index in (0, 1)] == [[], [7]]
    found = mark_nan(parse("AA"), rows, [], [], ubatch, 4, 8, blind)
    assert [one.tolist() for one in found] == [[True] * 3, [True] * 2]                  # cell 7 is read, too


def test_a_state_is_nan_from_the_first_token_that_was_lost_before_it():
    """The third of three tokens sees no cell: the attention layer loses it, and the state after it."""
    rows = {0: KVRows(np.zeros(16, np.uint64), None, None)}
    for blind, lost in (([False, False, True], True), ([False, False, False], False)):
        states = [{1: CLEAN}]
        ubatch = Ubatch((TokenRun(0, 0, [1, 2, 3]),), (0,), 3)
        [found] = mark_nan(parse("AG"), rows, states, [frozenset()], ubatch, 0, 8,
                           [{"A": np.array(blind)}])  # fmt: skip
        assert found.tolist() == blind and is_nan(states[0][1]) is lost


def test_a_saved_sequence_has_nan_in_a_row_or_in_a_state():
    spoilt = KVRows(np.array([3, NAN], np.uint64), None, None)
    clean = KVRows(np.array([3, 4], np.uint64), None, None)
    assert has_nan({0: clean, 1: spoilt}, {}) and has_nan({}, {0: CLEAN, 1: CLEAN._replace(hash=int(NAN))})
    assert not has_nan({0: clean}, {0: CLEAN, 1: None})


def test_a_cache_that_reads_nan_knows_it_until_it_is_cleared():
    kv = KvCache(model_kind("GA"), 16, 1, None, lambda *of: False, lambda event: None)
    spoilt = KVRows(np.array([3, NAN], np.uint64), None, None)
    kv.rows = {1: KVRows(np.zeros(0, np.uint64), None, None)}
    pos, own = np.arange(2), np.arange(2)
    for rows, states, known in (({}, {0: CLEAN}, False), ({1: spoilt}, {}, True), ({}, {0: CLEAN}, True)):
        assert kv.set(0, Blob(9, pos, own, rows, states, 1)) and kv.has_nan is known
    kv.clear()
    assert (kv.has_nan, kv.empty(0), kv.states, kv.state_pos, kv.cells.head) == (False, True, [{}], [-1], 0)


def test_a_state_that_is_nan_stays_nan_in_later_batches():
    one = start("ik_llama@main", "GA", {"ctx_size": 512, "batch_size": 64, "ubatch_size": 16}, "provenance", Log())
    one.complete(Request(tuple(range(1000, 1020)), 2))
    kv = one.core.memory
    assert not is_nan(kv.states[0][0])
    kv.states[0][0] = kv.states[0][0]._replace(hash=int(NAN))
    kv.has_nan = True
    one.complete(Request((*one.inspection.tokens_of(0), *range(2000, 2010)), 2))
    assert is_nan(kv.states[0][0])
