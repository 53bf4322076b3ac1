"""Cells that a micro-batch reads: those before the end that attention reads, and for windows not before their start."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cachesim.engines.ik_llama.memory.context import OK, Context, UbatchStore, with_matrix
from cachesim.engines.ik_llama.memory.kv_cache import Window
from cachesim.engines.shared.batch import DecodeBatch
from cachesim.model import LayerState, TokenRun
from tests.unit.engines.ik_llama.test_memory import RULES, cache, fill


@pytest.mark.parametrize(("n_kv", "low", "base", "whole", "window"), [
    (10, 0, 0, range(10), range(10)), (9, 0, 0, range(9), range(9)), (5, 0, 0, range(5), range(5)),
    (10, 3, 0, range(10), range(3, 10)), (5, 3, 0, range(5), (3, 4)), (10, 0, 4, range(10), range(4, 10)),
    (10, 3, 4, range(10), range(4, 10)), (7, 5, 4, range(7), (5, 6)),
])  # fmt: skip
def test_a_micro_batch_reads_the_cells_of_its_sequence_in_its_range(n_kv, low, base, whole, window):
    kv = cache("W4 A")
    fill(kv, 10)
    kv.window = Window(4, 16, base=base)
    store = UbatchStore(kv, TokenRun(0, 8, [8, 9]), 8, n_kv, low, 0)
    assert store.positions("kv", 0).tolist() == [*whole] == np.arange(32)[store.cells].tolist()
    assert store.positions("swa", 0).tolist() == [*window] == np.arange(32)[store.window_cells].tolist()
    assert store.mine == slice(8, 10)


def test_cells_of_another_sequence_are_not_read():
    kv = cache("A", n_seq=2)
    fill(kv, 4)
    fill(kv, 3, seq=1)
    store = UbatchStore(kv, TokenRun(1, 2, [2]), 6, 32, 0, 1)
    assert np.arange(32)[store.cells].tolist() == [4, 5, 6] and store.positions("kv", 0).tolist() == [0, 1, 2]


def test_a_model_of_states_only_has_no_cells_to_read():
    def refused(pos):
        raise AssertionError("asked for the cells that attention reads")

    batch = DecodeBatch()
    batch.extend([1, 2, 3], 0, 0)
    assert Context(cache("SS"), None, 8, replace(RULES, seen=refused), print).decode(batch) == OK
    with pytest.raises(AssertionError, match="asked for"):
        Context(cache("SA"), None, 8, replace(RULES, seen=refused), print).decode(batch)


CONV = LayerState(np.ones(1, np.uint64), 5, None, np.full((2, 2), 3.0))
MATRIX = LayerState(np.zeros(1, np.uint64), 9, None, np.full((2, 2), 4.0))


@pytest.mark.parametrize(("conv", "matrix", "hash_", "number"), [
    (CONV, MATRIX, 9, 4.0), (CONV, None, 0, 0.0), (CONV, CONV, 5, 3.0),
    (CONV._replace(h=None), None, 0, None), (CONV._replace(h=None), MATRIX._replace(h=None), 9, None),
])  # fmt: skip
def test_a_row_has_the_convolution_of_one_state_and_the_matrix_of_another(conv, matrix, hash_, number):
    """A missing matrix is zero."""
    found = with_matrix(conv, matrix)
    assert (found.conv is conv.conv, found.hash) == (True, hash_)
    assert (found.h if number is None else found.h.tolist()) == (number and [[number] * 2] * 2 if number else (
        None if number is None else [[0.0] * 2] * 2))  # fmt: skip
    assert with_matrix(None, matrix) is None


def test_rows_kept_per_step_are_found_by_sequence_and_position_or_by_place():
    context = Context(cache("GA", n_seq=2), None, 8, RULES, print)
    context.steps = {1: {0: CONV}, (1, 7): {0: MATRIX}}
    context.matrices = {(1, 7): {0: MATRIX}}
    assert context.kept_after(1, 5, 2) == {0: MATRIX}
    assert context.kept_after(0, 5, 1)[0].hash == 0 and context.kept_after(1, 6, 2) == {}
