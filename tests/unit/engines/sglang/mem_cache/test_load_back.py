"""Loads from host memory: what a request gets if its load was declined, and how much room a load makes."""

from __future__ import annotations

import pytest

from cachesim.engines.sglang.mem_cache.unified_cache.component_type import FULL, MAMBA
from cachesim.engines.sglang.profiles import PROFILES
from tests.unit.engines.sglang.trees import NEW, insert, make_cache, make_req

TEXT = tuple(range(100, 120))
HOST = {"enable_hierarchical_cache": True, "mamba_radix_cache_strategy": "no_buffer", "disable_overlap_schedule": True}


def matched(rules, at, best):
    """Return the cache, and a request whose match ends at node ``at`` on the device, and at ``best`` with copies."""
    cache, pools = make_cache("GA", rules, **HOST)
    insert(cache, pools, TEXT[:8])
    insert(cache, pools, TEXT)
    nodes = [cache.tree_core.root_node, *cache.tree_core.nodes()]
    req = make_req(0, TEXT)
    req.last_node, req.best_match_node = nodes[at], nodes[best]
    req.kv.mamba_cow_src_index, req.kv.mamba_needs_clear = 7, True
    return cache, req


@pytest.mark.parametrize(("at", "source", "clear"), [(1, 1, False), (0, None, True)])
def test_a_request_whose_load_is_declined_starts_with_the_state_of_its_prefix(at, source, clear, monkeypatch):
    cache, req = matched(PROFILES["sglang@0.5.23-repaired"], at, 2)
    monkeypatch.setattr(cache.load_back, "load_back", lambda req, node: False)
    assert cache.load_back.init_load_back(req) == 0
    kv = req.kv
    assert (kv.mamba_cow_src_index, kv.mamba_needs_clear) == (source, clear)
    assert (kv.mamba_pool_idx is None) is (source is None)


def test_a_request_that_has_a_slot_for_its_state_gets_no_other_one(monkeypatch):
    cache, req = matched(PROFILES["sglang@0.5.23-repaired"], 1, 2)
    monkeypatch.setattr(cache.load_back, "load_back", lambda req, node: False)
    req.kv.mamba_pool_idx = 5
    cache.load_back.init_load_back(req)
    assert req.kv.mamba_pool_idx == 5


@pytest.mark.parametrize(("loads", "longer"), [(True, 12), (False, 0)])
def test_a_load_makes_the_prefix_longer_and_a_declined_one_changes_nothing(loads, longer, monkeypatch):
    cache, req = matched(NEW, 1, 2)
    monkeypatch.setattr(cache.load_back, "load_back", lambda req, node: loads)
    assert cache.load_back.init_load_back(req) == longer
    assert (req.kv.mamba_cow_src_index, req.kv.mamba_needs_clear, req.kv.mamba_pool_idx) == (7, True, None)


@pytest.mark.parametrize(("part", "free", "n", "asked"), [
    (FULL, 44, 50, (6, 0, 0)), (FULL, 44, 44, None), (MAMBA, 6, 8, (0, 0, 2)), (MAMBA, 6, 5, None),
])  # fmt: skip
def test_a_load_evicts_as_many_slots_of_a_part_as_it_lacks(part, free, n, asked, monkeypatch):
    cache, _ = matched(NEW, 1, 2)
    assert cache.tree_core.components[part].available_size() == free
    seen = []
    monkeypatch.setattr(cache, "evict", lambda params: seen.append(tuple(params)) or [0, 0, 0])
    cache.load_back._make_room(part, n)
    assert seen == ([] if asked is None else [asked])


def test_a_load_that_is_declined_gives_back_the_slot_of_the_state(monkeypatch):
    cache, req = matched(NEW, 1, 2)
    states = cache.tree_core.mamba.mamba_allocator
    free, locks = states.available_size(), [[*node.lock_ref] for node in cache.tree_core.nodes()]

    def take_slot(req, node):
        req.kv.mamba_pool_idx = cache.alloc_mamba_slot()
        return req.kv.mamba_pool_idx

    monkeypatch.setattr(cache.load_back, "_prepare_load_back", take_slot)
    monkeypatch.setattr(cache.load_back, "_load_back_transfers", lambda req, node: None)
    assert cache.load_back.load_back(req, req.best_match_node) is False
    assert (states.available_size(), req.kv.mamba_pool_idx) == (free, None)
    assert [node.lock_ref for node in cache.tree_core.nodes()] == locks
    assert not any(any(node.host_lock_ref) for node in cache.tree_core.nodes())


@pytest.mark.parametrize(("has_slot", "is_copy", "gets"), [
    (False, True, True), (True, True, False), (False, False, False), (True, False, False)])
def test_a_request_gets_a_slot_for_a_state_in_host_memory_if_it_has_none(has_slot, is_copy, gets, monkeypatch):
    cache, req = matched(NEW, 1, 2)
    req.kv.mamba_pool_idx = 5 if has_slot else None
    node = req.best_match_node
    if is_copy:
        node.host_value[MAMBA], node.value[MAMBA] = 1, None
    free = cache.tree_core.mamba.mamba_allocator.available_size()
    slot = cache.load_back._prepare_load_back(req, node)
    assert (slot is not None, req.kv.mamba_pool_idx) == (gets, slot if gets else 5 if has_slot else None)
    assert cache.tree_core.mamba.mamba_allocator.available_size() == free - gets


def test_a_load_that_its_rule_declines_names_the_rule(monkeypatch):
    cache, req = matched(NEW, 1, 2)
    monkeypatch.setattr(cache.load_back.controller, "load", None)
    assert cache.load_back._load_back_transfers(req, req.best_match_node) is None
    assert req.task.answer.deciding.startswith("SG-HOST-LOAD-BACK")


@pytest.mark.parametrize("own", [None, 5])
def test_a_load_that_is_declined_frees_no_state_that_it_did_not_take(own, monkeypatch):
    cache, req = matched(NEW, 1, 2)
    req.kv.mamba_pool_idx = own
    states = cache.tree_core.mamba.mamba_allocator
    free = [*states.free_slots]
    monkeypatch.setattr(cache.load_back, "_load_back_transfers", lambda req, node: None)
    assert cache.load_back.load_back(req, req.best_match_node) is False
    assert ([*states.free_slots], req.kv.mamba_pool_idx) == (free, own)
