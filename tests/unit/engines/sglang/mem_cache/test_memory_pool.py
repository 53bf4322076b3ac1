"""Slots of requests: consecutive ones are returned as a slice of the same slots."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cachesim.engines.sglang.mem_cache.memory_pool import MambaPool, MHATokenToKVPool, ReqToTokenPool
from cachesim.engines.shared.kv_rows import FIRST
from cachesim.model import parse

WRITES = st.lists(st.tuples(st.integers(0, 12), st.lists(st.integers(0, 5), max_size=5)), max_size=8)


@given(WRITES)
def test_a_slice_has_the_slots_that_were_written(writes):
    pool, length = ReqToTokenPool(8), 0
    for start, steps in writes:
        start = min(start, length)
        first = int(pool.read(0, start - 1, start)[0]) + 1 if start else 1
        slots = first + np.cumsum([step // 4 for step in steps]) + np.arange(len(steps))
        pool.write(0, start, slots.astype(np.int64))
        length = max(length, start + len(steps))
        for a in range(length):
            cells = pool.cells(0, a, length)
            found = list(range(cells.start, cells.stop)) if isinstance(cells, slice) else cells.tolist()
            assert found == pool.read(0, a, length).tolist()


def test_slots_that_were_appended_in_order_are_a_slice():
    pool = ReqToTokenPool(8)
    for start in (0, 4, 8):
        pool.write(0, start, np.arange(20 + start, 24 + start))
    pool.write(0, 4, np.arange(24, 26))
    assert pool.cells(0, 0, 12) == slice(20, 32) and pool.cells(0, 5, 7) == slice(25, 27)
    pool.free(0)
    assert len(pool.cells(0, 0, 12)) == 0


@pytest.mark.parametrize(("writes", "cells"), [
    ([(0, [5, 6, 7, 8])], slice(5, 9)),
    ([(0, [5, 6]), (2, [7, 8])], slice(5, 9)),
    ([(0, [5, 6, 7, 8]), (1, [6, 7])], slice(5, 9)),                    # the same slots again
    ([(0, [5, 6, 7, 8]), (4, [])], slice(5, 9)),
    ([(0, [5, 6, 7, 8]), (0, [])], slice(5, 9)),
    ([(0, [5, 6, 7, 8]), (0, [1, 2])], [1, 2, 7, 8]),                   # the rest does not follow
    ([(0, [5, 6, 7, 8]), (0, [4, 5])], [4, 5, 7, 8]),
    ([(0, [5, 6, 7, 8]), (2, [3])], [5, 6, 3, 8]),
    ([(0, [5, 6, 7, 8]), (3, [9])], [5, 6, 7, 9]),
    ([(0, [5, 6]), (2, [8, 9])], [5, 6, 8, 9]),
    ([(0, [5, 9]), (2, [7, 8])], [5, 9, 7, 8]),
    ([(0, [5, 9]), (2, [7, 8]), (1, [6])], [5, 6, 7, 8]),               # only what a write contains becomes known
    ([(0, [5, 9]), (2, [7, 8]), (1, [6, 7, 8])], slice(5, 9)),
])  # fmt: skip
def test_slots_are_known_to_be_consecutive_after_writes(writes, cells):
    pool = ReqToTokenPool(8)
    for start, slots in writes:
        pool.write(0, start, np.array(slots, np.int64))
    found = pool.cells(0, 0, 4)
    assert found == cells if isinstance(cells, slice) else (not isinstance(found, slice) and found.tolist() == cells)


def test_the_known_slots_before_a_break_are_a_slice():
    pool = ReqToTokenPool(8)
    pool.write(3, 0, np.array([5, 6, 7, 8]))
    pool.write(3, 1, np.array([6, 2]))
    assert pool.cells(3, 0, 2) == slice(5, 7) and pool.cells(3, 1, 2) == slice(6, 7)
    assert pool.cells(3, 0, 3).tolist() == [5, 6, 2] and pool.cells(3, 2, 2).tolist() == []


def test_a_row_is_one_of_size_until_it_is_freed():
    pool = ReqToTokenPool(2)
    for rid in (4, 7):
        pool.write(rid, 0, np.array([5 + rid]))
    assert pool.available_size() == 0 and pool.read(7, 0, 1).tolist() == [12]
    pool.free(4)
    pool.free(4)
    assert pool.available_size() == 1 and pool.read(4, 0, 1).tolist() == []


def test_a_copied_state_is_that_of_its_source():
    pool = MambaPool()
    pool.write(1, {0: "state"})
    pool.copy_from(1, 2)
    pool.copy_from(None, 3)
    assert (pool.read(2), pool.read(3), pool.read(9), pool.read(None)) == ({0: "state"}, {}, {}, {})
    pool.clear_slot(1)
    assert (pool.read(1), pool.read(2)) == ({}, {0: "state"})


@pytest.mark.parametrize(("model", "full", "window"), [("GAS", [1], []), ("AA", [0, 1], []), ("W8 GA", [2], [0])])
def test_only_layers_with_attention_have_rows(model, full, window):
    pool = MHATokenToKVPool(parse(model))
    slots = np.array([1, 2])
    assert [*pool.kv_buffer] == sorted(full + window)
    assert ([*pool.read(slots, window=False)], [*pool.read(slots, window=True)]) == (full, window)


def test_slots_behind_a_gap_and_of_unknown_requests_are_no_slice():
    pool = ReqToTokenPool(8)
    assert pool.cells(9, 0, 1).tolist() == [] and pool.read(9, 0, 1).tolist() == []
    pool.write(3, 1, np.array([6, 7]))
    assert pool.cells(3, 1, 3).tolist() == [6, 7] and pool.cells(3, 0, 1).tolist() == [0]


@pytest.mark.parametrize("n", [FIRST - 1, FIRST, FIRST + 1, 2 * FIRST])
def test_slots_up_to_the_end_of_a_row_may_be_written_again(n):
    pool = ReqToTokenPool(8)
    pool.write(3, 0, np.arange(5, 5 + n))
    pool.write(3, n - 2, np.arange(3 + n, 5 + n))
    assert pool.cells(3, 0, n) == slice(5, 5 + n) and pool.read(3, n - 1, n).tolist() == [4 + n]
