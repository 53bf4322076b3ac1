"""Slots are taken from the front and freed to the end, in pages; window slots follow their slots."""

import numpy as np
import pytest

from cachesim.base.errors import Crash
from cachesim.engines.sglang.mem_cache.allocator import KvPools, PagePool, StatePool


def test_a_page_is_filled_before_another_is_taken():
    pool = PagePool(16, 4)
    first = pool.extend(-1, 0, 6)
    assert first.tolist() == [4, 5, 6, 7, 8, 9] and pool.available == 8
    assert pool.extend(int(first[-1]), 6, 7).tolist() == [10] and pool.available == 8
    assert pool.extend(10, 7, 9).tolist() == [11, 12] and pool.available == 4


def test_freed_pages_join_the_end():
    pool = PagePool(12, 4)
    pool.give_back(pool.extend(-1, 0, 6))
    assert list(pool.free) == [3, 1, 2]


def test_window_slots_are_freed_once():
    kv = KvPools(1, 8, 6)
    slots = kv.extend(-1, 0, 4)
    kv.free_window(slots[:2])
    assert (kv.full.available, kv.window.available) == (4, 4)
    kv.free(slots)
    assert (kv.full.available, kv.window.available) == (8, 6) and not kv.peer[slots].any()


def test_window_slots_move_to_kept_slots():
    kv = KvPools(1, 8, 8)
    old, fresh = kv.extend(-1, 0, 2), kv.extend(-1, 0, 2)
    kv.free_window(old)
    window = kv.peer[fresh].tolist()
    assert kv.move_window(old, fresh).tolist() == window == kv.peer[old].tolist()
    assert not np.any(kv.peer[fresh])


def test_a_freed_state_slot_is_taken_last():
    states = StatePool(2)
    states.put_back(states.take())
    assert [states.take(), states.take(), states.take()] == [2, 1, None] and states.available == 0


def test_a_page_is_free_or_in_use():
    pool = PagePool(12, 4)
    slots = pool.extend(-1, 0, 6)
    pool.check(np.append(slots, 0))
    for used in (slots[:4], np.append(slots, 12)):
        with pytest.raises(Crash, match="pages are free or in use, of 3"):
            pool.check(used)
