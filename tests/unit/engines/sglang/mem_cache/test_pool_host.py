"""Pools in host memory: their slots, and what is copied to them and back."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.base.errors import Crash
from cachesim.engines.sglang.mem_cache.memory_pool import MambaPool
from cachesim.engines.sglang.mem_cache.pool_host import HostKVCache, MambaPoolHost
from cachesim.engines.sglang.mem_cache.unified_cache.component_type import FULL, MAMBA, SWA
from cachesim.engines.shared.kv_rows import empty_rows, read_rows, write_rows
from cachesim.model import KVRows
from tests.unit.engines.sglang.trees import make_cache


def make_rows(layers, first):
    """Return rows of layers: slot n of layer i holds first + 100 i + n."""
    made = empty_rows(layers)
    for layer in layers:
        write_rows(made, layer, np.arange(20),
                   KVRows(np.arange(first + 100 * layer, first + 100 * layer + 20, dtype=np.uint64), None, None))
    return made


def digests(rows, layer, slots):
    return read_rows(rows[layer], np.array(slots)).digest.tolist()


@pytest.mark.parametrize(("used", "told"), [
    ([1, 2], ""), ([2, 1], ""), ([1], "slots of states are free"), ([1, 2, 3], "slots of states are free"),
    ([1, 1], "used twice"),
])  # fmt: skip
def test_each_state_is_free_or_in_use(used, told):
    pool = MambaPoolHost(4, MambaPool())
    assert (pool.alloc_host(1), pool.alloc_host(1)) == (1, 2)
    if not told:
        pool.check_host(used)
        return
    with pytest.raises(Crash, match=told):
        pool.check_host(used)


def test_a_slot_of_a_state_is_free_again():
    pool = MambaPoolHost(2, MambaPool())
    assert [pool.alloc_host(1) for _ in range(3)] == [1, 2, None]
    pool.free_host(1)
    assert (pool.available_size(), pool.alloc_host(1)) == (1, 1)


def test_a_state_is_copied_to_the_host_and_back():
    device = MambaPool()
    device.write(5, {0: "state"})
    pool = MambaPoolHost(4, device)
    pool.backup_from_device(5, 2)
    device.write(5, {0: "other"})
    pool.load_to_device(2, 7)
    assert (pool.states.read(2), device.read(5), device.read(7)) == ({0: "state"}, {0: "other"}, {0: "state"})


@pytest.mark.parametrize(("used", "told"), [
    ([[4, 5]], ""), ([[4], [5]], ""), ([[4, 5, 6, 7]], ""), ([], "3 pages are free or in use, of 4"),
    ([[8]], "4 pages"), ([[4], [8]], "5 pages"),
])  # fmt: skip
def test_each_page_is_free_or_holds_used_slots(used, told):
    """The first of four pages is taken."""
    pool = HostKVCache(16, 4, empty_rows([0]), [0])
    assert pool.alloc_host(2).tolist() == [4, 5]
    used = [np.array(slots, np.int64) for slots in used]
    if not told:
        pool.check_host(used)
        return
    with pytest.raises(Crash, match=told):
        pool.check_host(used)


@pytest.mark.parametrize(("n", "slots"), [(8, [*range(4, 12)]), (7, [*range(4, 11)]), (9, None)])
def test_slots_are_taken_as_long_as_they_are_free(n, slots):
    pool = HostKVCache(8, 4, empty_rows([0]), [0])
    taken = pool.alloc_host(n)
    assert (taken if slots is None else taken.tolist()) == slots
    if slots is not None:
        assert pool.available_size() == 0
        pool.free_host(taken)
        assert pool.available_size() == 8


def test_rows_of_the_pools_layers_are_copied_to_the_host_and_back():
    device = make_rows([0, 1, 2], first=1000)
    pool = HostKVCache(16, 1, device, [0, 2])
    pool.backup_from_device(np.array([3, 4]), np.array([9, 8]))
    assert set(pool.kv_buffer) == {0, 2}
    assert (digests(pool.kv_buffer, 0, [9, 8]), digests(pool.kv_buffer, 2, [9, 8])) == ([1003, 1004], [1203, 1204])
    pool.load_to_device(np.array([9]), np.array([15]))
    assert [digests(device, layer, [15]) for layer in (0, 1, 2)] == [[1003], [1115], [1203]]


@pytest.mark.parametrize(("model", "sizes", "layers"), [
    ("A", {FULL: 100}, {FULL: [0]}),
    ("W8 A G", {FULL: 100, SWA: 100, MAMBA: 13}, {FULL: [1], SWA: [0]}),
    ("G A", {FULL: 100, MAMBA: 13}, {FULL: [1]}),
])  # fmt: skip
def test_each_part_of_a_tree_has_a_pool_with_the_ratio_of_slots_and_a_page_more(model, sizes, layers):
    cache, _ = make_cache(model, size=64, states=8, page_size=4, enable_hierarchical_cache=True, hicache_ratio=1.5)
    pools = cache.cache_controller.mem_pool_host
    assert set(pools) == set(sizes)
    assert {part: pool.size for part, pool in pools.items()} == sizes
    assert {part: [*pools[part].layers] for part in layers} == layers
    assert {pools[part].page_size for part in layers} == {4}
