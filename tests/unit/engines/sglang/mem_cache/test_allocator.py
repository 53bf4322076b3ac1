"""Slots are taken from the front and freed to the end, in pages; window slots follow their slots."""

import numpy as np
import pytest

from cachesim.base.errors import Crash
from cachesim.engines.sglang.mem_cache.allocator import (
    MambaSlotAllocator,
    PagedTokenToKVPoolAllocator,
    SWATokenToKVPoolAllocator,
)
from cachesim.engines.shared.kv_rows import FIRST


def test_a_page_is_filled_before_another_is_taken():
    pool = PagedTokenToKVPoolAllocator(16, 4)
    first = pool.alloc_extend(-1, 0, 6)
    assert first.tolist() == [4, 5, 6, 7, 8, 9] and pool.available_size() == 8
    assert pool.alloc_extend(int(first[-1]), 6, 7).tolist() == [10] and pool.available_size() == 8
    assert pool.alloc_extend(10, 7, 9).tolist() == [11, 12] and pool.available_size() == 4


def test_freed_pages_join_the_end():
    pool = PagedTokenToKVPoolAllocator(12, 4)
    pool.free(pool.alloc_extend(-1, 0, 6))
    assert list(pool.free_pages) == [3, 1, 2]


def test_window_slots_are_freed_once():
    kv = SWATokenToKVPoolAllocator(8, 6, 1)
    slots = kv.alloc_extend(-1, 0, 4)
    kv.free_swa(slots[:2])
    assert (kv.full_available_size(), kv.swa_available_size()) == (4, 4)
    kv.free(slots)
    assert (kv.full_available_size(), kv.swa_available_size()) == (8, 6)
    assert not kv.full_to_swa_index_mapping[slots].any()


def test_slots_without_window_slots_may_be_the_first_of_all():
    kv = SWATokenToKVPoolAllocator(8, 6, 1)
    slots = kv.alloc_full(3)
    assert slots.tolist() == [1, 2, 3] and kv.full_to_swa_index_mapping[slots].tolist() == [0, 0, 0]
    assert (kv.full_available_size(), kv.swa_available_size()) == (5, 6)
    assert kv.alloc_full(0).tolist() == []


def test_window_slots_move_to_kept_slots():
    kv = SWATokenToKVPoolAllocator(8, 8, 1)
    old, fresh = kv.alloc_extend(-1, 0, 2), kv.alloc_extend(-1, 0, 2)
    kv.free_swa(old)
    window = kv.full_to_swa_index_mapping[fresh].tolist()
    assert kv.set_full_to_swa_mapping(old, fresh).tolist() == window == kv.full_to_swa_index_mapping[old].tolist()
    assert not np.any(kv.full_to_swa_index_mapping[fresh])


def test_a_freed_state_slot_is_taken_last():
    states = MambaSlotAllocator(2)
    states.free(states.alloc())
    assert [states.alloc(), states.alloc(), states.alloc()] == [2, 1, None] and states.available_size() == 0


def test_a_state_slot_is_free_or_in_use():
    states = MambaSlotAllocator(3)
    slot = states.alloc()
    states.check([slot])
    with pytest.raises(Crash, match="2 slots of states are free or in use, of 3"):
        states.check([])
    for used in ([slot, slot], [slot, 2]):
        with pytest.raises(Crash, match="slots of states are"):
            states.check(used)


def test_a_page_is_free_or_in_use():
    pool = PagedTokenToKVPoolAllocator(12, 4)
    slots = pool.alloc_extend(-1, 0, 6)
    pool.check(np.append(slots, 0))
    for used in (slots[:4], np.append(slots, 12)):
        with pytest.raises(Crash, match="pages are free or in use, of 3"):
            pool.check(used)


def test_the_last_page_loses_its_window_slots_whole():
    kv = SWATokenToKVPoolAllocator(16, 16, 4)
    slots = kv.alloc_extend(-1, 0, 12)
    kv.free_swa(slots[:6])
    assert kv.full_to_swa_index_mapping[slots].tolist() == [0] * 8 + [12, 13, 14, 15]
    assert (kv.swa_available_size(), kv.available_size()) == (12, 4)
    assert [*kv.swa_attn_allocator.free_pages] == [4, 1, 2]
    kv.free_swa(slots[8:9])
    assert kv.full_to_swa_index_mapping[slots].tolist() == [0] * 12 and kv.swa_available_size() == 16


@pytest.mark.parametrize(("size", "window", "available"), [(8, 5, 2), (5, 8, 2), (9, 9, 6)])
def test_as_many_slots_can_be_taken_as_both_pools_have(size, window, available):
    kv = SWATokenToKVPoolAllocator(size, window, 1)
    kv.alloc_extend(-1, 0, 3)
    assert kv.available_size() == available


@pytest.mark.parametrize("n", [FIRST - 1, FIRST, FIRST + 1, 2 * FIRST])
def test_every_slot_has_a_place_for_its_window_slot(n):
    """Slots are counted from 1."""
    kv = SWATokenToKVPoolAllocator(3 * FIRST, 3 * FIRST, 1)
    slots = kv.alloc_extend(-1, 0, n)
    assert kv.full_to_swa_index_mapping[slots].tolist() == slots.tolist() == [*range(1, n + 1)]


@pytest.mark.parametrize(("full", "window"), [(True, False), (False, True), (True, True)])
def test_a_slot_of_either_pool_that_is_lost_is_seen(full, window):
    pool = SWATokenToKVPoolAllocator(8, 8, 1)
    used = pool.alloc_extend(-1, 0, 3)
    pool.check(used)
    if full:
        pool.full_attn_allocator.free_pages.pop()
    if window:
        pool.swa_attn_allocator.free_pages.pop()
    with pytest.raises(Crash, match="7 pages are free or in use, of 8"):
        pool.check(used)


@pytest.mark.parametrize(("freed", "left", "pages"), [
    (slice(4, 6), [*range(4, 8), *[0] * 4, *range(12, 16)], [4, 2]),
    (slice(4, 8), [*range(4, 8), *[0] * 4, *range(12, 16)], [4, 2]),
    (slice(8, 9), [*range(4, 12), *[0] * 4], [4, 3]), (slice(0, 0), [*range(4, 16)], [4]),
])  # fmt: skip
def test_window_slots_of_other_pages_stay(freed, left, pages):
    kv = SWATokenToKVPoolAllocator(16, 16, 4)
    slots = kv.alloc_extend(-1, 0, 12)
    kv.free_swa(slots[freed])
    assert kv.full_to_swa_index_mapping[slots].tolist() == left
    assert [*kv.swa_attn_allocator.free_pages] == pages and kv.full_available_size() == 4
