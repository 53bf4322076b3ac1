"""Slots of requests: consecutive ones are returned as a slice of the same slots."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cachesim.engines.sglang.mem_cache.memory_pool import ReqToTokenPool

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
