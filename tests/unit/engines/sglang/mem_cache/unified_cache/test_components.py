"""Parts of nodes: their slots, copies and locks, and what requests hand over."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.base.errors import Crash
from cachesim.engines.sglang.mem_cache.unified_cache.component_type import FULL, MAMBA, SWA
from tests.unit.engines.sglang.trees import NEW, insert, make_cache, make_req, take

TEXT = tuple(range(100, 140))
PARTS = [("W4 A", SWA, 4), ("GA", MAMBA, 1)]


def with_copy(model):
    """Return the tree of a node of four tokens that has a part and a copy of it, the node, and the part."""
    cache, pools = make_cache(model, enable_hierarchical_cache=True)
    insert(cache, pools, TEXT[:4])
    cache.check_hicache_events()
    (node,) = cache.tree_core.nodes()
    part = cache.swa or cache.mamba
    assert node.value[part.component_type] is not None and node.host_value[part.component_type] is not None
    return cache.tree_core, node, part


@pytest.mark.parametrize(("model", "kind", "size"), PARTS)
def test_a_copy_of_a_part_on_the_device_is_not_listed_and_can_be_dropped(model, kind, size):
    tree, node, part = with_copy(model)
    free = part.host_pool.available_size()
    assert [*part.host_lru_list.members()] == [] and tree.evict_host_component(node, kind, "R") == size
    assert (node.host_value[kind], part.host_pool.available_size()) == (None, free + size)
    tree.check()


@pytest.mark.parametrize(("model", "kind", "size"), PARTS)
def test_a_part_in_host_memory_only_is_listed_until_it_is_dropped(model, kind, size):
    tree, node, part = with_copy(model)
    assert tree.evict_component(node, kind, "R") == size and [*part.host_lru_list.members()] == [node]
    assert tree.evict_host_component(node, kind, "R") == size and [*part.host_lru_list.members()] == []
    tree.check()


@pytest.mark.parametrize(("model", "kind", "size"), PARTS)
def test_a_locked_copy_is_not_listed_until_its_last_lock_is_released(model, kind, size):
    tree, node, part = with_copy(model)
    tree.evict_component(node, kind, "R")
    locks = [tree.inc_host_lock_ref(node) for _ in range(2)]
    for lock in locks:
        assert [*part.host_lru_list.members()] == []
        part.check([node])
        tree.dec_host_lock_ref(lock)
    assert [*part.host_lru_list.members()] == [node] and node.host_lock_ref == [0, 0, 0]
    tree.check()


@pytest.mark.parametrize(("model", "kind", "size"), PARTS)
@pytest.mark.parametrize("damage", ["lacks some", "has other nodes", "does not hold its nodes"])
def test_lists_that_are_not_those_of_the_tree_are_noticed(model, kind, size, damage):
    tree, node, part = with_copy(model)
    if damage == "lacks some":
        tree.evict_component(node, kind, "R")
        part.host_lru_list.remove_node(node)
    elif damage == "has other nodes":
        part.host_lru_list.insert_mru(node)
    else:
        part.lru_list.remove_node(node)
    with pytest.raises(Crash, match=damage):
        part.check([node])


@pytest.mark.parametrize(("lost", "lengths"), [
    ([], [4]), (["device"], [4]), (["copy"], [4]), (["device", "copy"], []), (["copy", "device"], []),
])  # fmt: skip
def test_a_state_counts_as_long_as_it_is_anywhere(lost, lengths):
    tree, node, part = with_copy("GA")
    for place in lost:
        drop = tree.evict_component if place == "device" else tree.evict_host_component
        drop(node, MAMBA, "R")
    assert part.lengths.in_order() == lengths


def test_a_state_that_comes_back_is_counted_once():
    tree, node, part = with_copy("GA")
    tree.evict_component(node, MAMBA, "R")
    part.set_device_value(node, part.alloc_on_device(1))
    assert part.lengths.in_order() == [4] and [*part.host_lru_list.members()] == []


@pytest.mark.parametrize(("n", "fits"), [(0, True), (60, True), (61, False)])
def test_window_slots_are_taken_as_long_as_they_are_free(n, fits):
    _, _, part = with_copy("W4 A")
    assert part.available_size() == 60
    slots = part.alloc_on_device(n)
    assert (slots is not None) is fits and part.available_size() == (60 - n if fits else 60)
    if fits:
        part.free_on_device(slots)
        assert part.available_size() == 60


@pytest.mark.parametrize("is_locked", [False, True])
def test_a_node_whose_window_comes_back_has_one_slot_of_full_attention(is_locked):
    """An unlocked node takes over the slots of the request, a locked one only their window slots."""
    cache, pools = make_cache("W4 A")
    insert(cache, pools, TEXT[:4])
    tree, (node,) = cache.tree_core, cache.tree_core.nodes()
    tree.evict_component(node, SWA, "R")
    if is_locked:
        tree.full.count_lock(node, 1)
    before, incoming = node.value[FULL].tolist(), take(pools, 4)
    cache.swa.recover_from_incoming(node, incoming.copy())
    allocator = pools.swa_allocator
    assert (allocator.full_available_size(), allocator.swa_available_size()) == (60, 60)
    assert node.value[FULL].tolist() == (before if is_locked else incoming.tolist())
    assert np.array_equal(allocator.translate_loc_from_full_to_swa(node.value[FULL]), node.value[SWA])
    assert (node.value[SWA] > 0).all()
    allocator.check(node.value[FULL])


@pytest.mark.parametrize(("tracked", "floor"), [(None, None), (20, 16), (3, -1)])
def test_a_request_keeps_the_window_before_its_tracked_state(tracked, floor):
    cache, _ = make_cache("W4 A G")
    req, asked = make_req(0, TEXT), []
    req.kv.mamba_last_track_seqlen, req.kv.swa_evicted_seqlen, req.kv.cache_protected_len = tracked, 2, 1
    cache.swa.free_out_of_window_slots(req, lambda ask: asked.append(ask) or (2, 2), 30, 8)
    assert [(ask.retain_floor, ask.pre_len, ask.swa_evicted_seqlen, ask.cache_protected_len, ask.sliding_window_size,
             ask.page_size, ask.eviction_interval) for ask in asked] == [
        (floor, 30, 2, 1, 4, 1, 8)]


@pytest.mark.parametrize(("span", "frontier", "free"), [((2, 6), 6, 56), ((2, 2), 2, 52), ((5, 3), 5, 52)])
def test_window_slots_that_left_the_window_are_freed(span, frontier, free):
    cache, pools = make_cache("W4 A")
    req = make_req(0, TEXT)
    pools.req_to_token_pool.write(0, 0, take(pools, 12))
    cache.swa.free_out_of_window_slots(req, lambda ask: span, 30)
    assert (req.kv.swa_evicted_seqlen, cache.swa.available_size()) == (frontier, free)


@pytest.mark.parametrize(("is_finished", "unused", "free", "held"), [
    (True, None, 8, []), (True, 1, 8, []), (False, None, 5, [1, 2, 3]), (False, 9, 6, [1, 2, 3]),
])  # fmt: skip
def test_a_request_frees_its_states_when_it_ends_or_one_that_is_unused(is_finished, unused, free, held):
    cache, pools = make_cache("GA")
    states = pools.req_to_token_pool.mamba_allocator
    req = make_req(0, TEXT)
    kv = req.kv
    kv.mamba_pool_idx, kv.mamba_ping_pong_track_buffer = states.alloc(), [states.alloc(), states.alloc()]
    kv.mamba_last_track_seqlen, kv.mamba_prev_track_seqlen = 8, 4
    cache.mamba.cleanup_after_caching_req(req, unused, is_finished)
    assert (states.available_size(), kv.mamba_slots) == (free, held)
    assert (kv.mamba_last_track_seqlen, kv.mamba_prev_track_seqlen) == (None, None)


@pytest.mark.parametrize(("slot", "held"), [(1, [2, 3]), (2, [1, 3]), (3, [1, 2]), (9, [1, 2, 3]), (None, [1, 2, 3])])
def test_a_request_forgets_a_state_that_the_tree_took_over(slot, held):
    cache, _ = make_cache("GA", NEW)
    kv = (req := make_req(0, TEXT)).kv
    kv.mamba_pool_idx, kv.mamba_ping_pong_track_buffer = 1, [2, 3]
    cache.mamba.forget_slot(req, slot)
    assert kv.mamba_slots == held


@pytest.mark.parametrize(("buffer", "last", "given", "after"), [
    (None, 0, 9, None), ([2, 3], 0, 2, [9, 3]), ([2, 3], 1, 3, [2, 9]),
])  # fmt: skip
def test_a_request_exchanges_its_last_tracked_state_or_copies_the_running_one(buffer, last, given, after):
    cache, pools = make_cache("GA")
    kv = (req := make_req(0, TEXT)).kv
    pools.req_to_token_pool.mamba_pool.write(1, {0: "state"})
    kv.mamba_pool_idx, kv.mamba_ping_pong_track_buffer, kv.mamba_last_track_idx = 1, buffer, last
    assert cache.mamba.hand_over_chunk_state(req, 9) == given and kv.mamba_ping_pong_track_buffer == after
    assert pools.req_to_token_pool.mamba_pool.read(9) == ({0: "state"} if buffer is None else {})


@pytest.mark.parametrize("place", ["device", "copy"])
def test_a_state_of_the_same_length_counts_on(place):
    """Two prefixes of four tokens have a state each."""
    cache, pools = make_cache("GA", enable_hierarchical_cache=True)
    for text in (TEXT[:4], TEXT[10:14]):
        insert(cache, pools, text)
    cache.check_hicache_events()
    tree, [one, two] = cache.tree_core, cache.tree_core.nodes()
    drops = [tree.evict_component, tree.evict_host_component]
    for drop in drops if place == "copy" else drops[::-1]:
        assert cache.mamba.lengths.in_order() == [4, 4]
        drop(one, MAMBA, "R")
    assert cache.mamba.lengths.in_order() == [4]
    for drop in drops:
        drop(two, MAMBA, "R")
    assert cache.mamba.lengths.in_order() == []


@pytest.mark.parametrize(("last", "given"), [(None, (0, 13)), (2, (2, 13)), (9, (0, 12))])
def test_a_finished_request_without_a_tracked_state_hands_over_its_last_place(last, given):
    cache, _ = make_cache("GA", mamba_radix_cache_strategy="extra_buffer")
    kv = (req := make_req(0, TEXT)).kv
    kv.mamba_ping_pong_track_buffer, kv.mamba_last_track_idx, kv.mamba_last_track_seqlen = [12, 13], 1, last
    assert cache.mamba.select_finished_checkpoint(req, 4) == given


def test_window_slots_are_given_back_from_the_first_token_that_leaves_the_window():
    cache, _ = make_cache("W4 A")
    asked = []
    cache.swa.free_out_of_window_slots(make_req(0, TEXT), lambda ask: asked.append(ask.eviction_interval) or (0, 0), 30)
    assert asked == [1]
