"""The cache of a server: its manager, the coordinator, and the managers of the groups."""

from __future__ import annotations

import pytest

from cachesim.engines.base import Request
from cachesim.engines.vllm import ENGINE
from cachesim.engines.vllm.core import kv_cache_coordinator as coordinator
from cachesim.engines.vllm.core import single_type_kv_cache_manager as single

NEW = "vllm@0.33.0"


def started(model="A", **flags):
    """Return a server and its cache."""
    server = ENGINE.start(NEW, model, {"block_size": 4, **flags}, "none")
    return server, server.scheduler.kv_cache_manager


def received(server, *prompts):
    """Return requests that wait."""
    for prompt in prompts:
        server.submit(Request(tuple(prompt), 1, forced=(7,)))
    server.take_tasks()
    return server.scheduler.waiting[-len(prompts) :]


@pytest.mark.parametrize("model, kinds", [
    ("A", [single.FullAttentionManager]), ("W8 A", [single.FullAttentionManager, single.SlidingWindowManager]),
    ("K8", [single.ChunkedLocalAttentionManager]), ("GA", [single.FullAttentionManager, single.MambaManager]),
])
def test_each_group_has_a_manager_of_its_kind(model, kinds):
    _, manager = started(model)
    assert [type(one) for one in manager.coordinator.single_type_managers] == kinds
    several = coordinator.HybridKVCacheCoordinator if len(kinds) > 1 else coordinator.UnitaryKVCacheCoordinator
    assert type(manager.coordinator) is several


def test_blocks_are_found_once_they_are_allocated_and_stay_after_the_request():
    server, manager = started()
    first, second = received(server, range(10), range(10))
    assert manager.get_computed_blocks(first).n == 0
    assert manager.allocate_slots(first, 10, manager.empty_kv_cache_blocks) == [[1, 2, 3]]
    manager.free(first)
    found = manager.get_computed_blocks(second)
    assert (found.n, found.tables) == (8, {0: [1, 2]}) and manager.get_block_ids(first.request_id) == [[]]


def test_a_request_that_does_not_fit_gets_nothing_and_its_need_is_known():
    server, manager = started(num_gpu_blocks=4, max_model_len=64, scheduler_reserve_full_isl=False)
    [request] = received(server, range(20))
    assert manager.allocate_slots(request, 20, manager.empty_kv_cache_blocks) is None
    assert manager.num_refused_blocks == 5 and manager.block_pool.get_num_free_blocks() == 3


def test_a_part_of_a_block_is_copied_before_a_sibling_writes_in_it():
    """A block of eight tokens with hashes of four: a hit ends inside it."""
    server, manager = started("AS", kv_groups="A/8 S/8", prefix_match_unit=4)
    first, second = received(server, range(13), [*range(12), 50, 51])
    manager.allocate_slots(first, 12, manager.empty_kv_cache_blocks)
    manager.take_kv_cache_block_copies()
    manager.new_step_starts()
    found = manager.get_computed_blocks(second)
    assert found.n == 12
    manager.allocate_slots(second, 2, found)
    copies = manager.take_kv_cache_block_copies()
    assert [source for source, _ in copies] == [blocks[-1] for blocks in found.tables.values()]
    assert manager.get_block_ids(second.request_id)[0][1] == copies[0][1]


def test_a_state_of_this_step_is_not_used_in_it():
    server, manager = started("S", num_gpu_blocks=16, max_model_len=64, enable_prefix_caching=True)
    first, second = received(server, range(9), range(9))
    manager.allocate_slots(first, 8, manager.empty_kv_cache_blocks)
    found = manager.get_computed_blocks(second)
    assert found.n == 8 and manager.allocate_slots(second, 1, found) is None
    manager.new_step_starts()
    assert manager.allocate_slots(second, 1, found) is not None


def test_windows_give_back_the_blocks_that_the_next_token_does_not_read():
    server, manager = started("W8")
    [request] = received(server, range(30))
    manager.allocate_slots(request, 20, manager.empty_kv_cache_blocks)
    request.num_computed_tokens = 20
    manager.allocate_slots(request, 4)
    [blocks] = manager.get_block_ids(request.request_id)
    assert blocks[:5] == [0, 0, 0, 4, 5] and len(blocks) == 6
    assert manager.block_pool.ref_cnt[1:3] == [0, 0]


def test_a_reset_needs_an_unused_pool():
    server, manager = started()
    [request] = received(server, range(10))
    manager.allocate_slots(request, 10, manager.empty_kv_cache_blocks)
    assert not manager.reset_prefix_cache()
    manager.free(request)
    assert manager.reset_prefix_cache() and manager.get_computed_blocks(request).n == 0
