"""Slots and states that a step gives its requests, and what the tree gives up for them."""

from __future__ import annotations

import pytest

from cachesim.base.errors import ProcessAborted
from cachesim.engines.sglang.mem_cache.allocation import (
    alloc_for_decode,
    alloc_for_extend,
    alloc_req_slots,
    alloc_token_slots,
)
from cachesim.engines.sglang.mem_cache.tree_events import MadeRoom
from tests.unit.engines.sglang.trees import NEW, insert, make_cache, make_req

TEXT = tuple(range(100, 140))
LAZY, BUFFERED, NONE = "extra_buffer_lazy", "extra_buffer", "no_buffer"


def full_tree(page, leaves=16, **fields):
    """Return a cache of 16 pages, so many of which are leaves of the tree. ``fields``: flags, and ``rules``."""
    cache, pools = make_cache(size=16 * page, page_size=page, **fields)
    for n in range(leaves):
        insert(cache, pools, tuple(range(1000 * n, 1000 * n + page)))
    assert pools.token_to_kv_pool_allocator.available_size() == (16 - leaves) * page
    return cache


def num_leaves(cache):
    return len(list(cache.tree_core.nodes()))


def requests(number, tokens):
    """Return requests whose next chunk is their whole prompt."""
    made = [make_req(n, tuple(range(1, tokens + 1))) for n in range(number)]
    for req in made:
        req.extend_end = tokens
    return made


def test_a_request_for_a_model_without_states_takes_none():
    cache, pools = make_cache(mamba_radix_cache_strategy=NONE)
    req = make_req(0, TEXT)
    alloc_req_slots([req], cache)
    assert req.kv.mamba_slots == [] and not req.kv.mamba_needs_clear
    assert pools.req_to_token_pool.mamba_allocator.available_size() == 8


@pytest.mark.parametrize(("strategy", "buffer", "last"), [
    (NONE, None, 0), (BUFFERED, [2, 3], 1), (LAZY, [2, None], 0),
])  # fmt: skip
def test_a_request_takes_its_running_state_and_as_many_tracked_ones_as_the_strategy_wants(strategy, buffer, last):
    cache, _ = make_cache("GA", mamba_radix_cache_strategy=strategy, disable_overlap_schedule=strategy == NONE)
    req = make_req(0, TEXT)
    req.kv.mamba_next_track_idx = 1
    alloc_req_slots([req], cache)
    kv = req.kv
    assert (kv.mamba_pool_idx, kv.mamba_needs_clear, kv.mamba_ping_pong_track_buffer) == (1, True, buffer)
    assert (kv.mamba_next_track_idx, kv.mamba_last_track_idx) == (1 if buffer is None else 0, last)


def test_a_request_keeps_the_states_that_it_has():
    cache, pools = make_cache("GA", mamba_radix_cache_strategy=BUFFERED)
    req = make_req(0, TEXT)
    alloc_req_slots([req], cache)
    req.kv.mamba_needs_clear, req.kv.mamba_next_track_idx, req.kv.mamba_last_track_idx = False, 1, 0
    alloc_req_slots([req], cache)
    kv = req.kv
    assert (kv.mamba_slots, kv.mamba_needs_clear) == ([1, 2, 3], False)
    assert (kv.mamba_next_track_idx, kv.mamba_last_track_idx) == (1, 0)
    assert pools.req_to_token_pool.mamba_allocator.available_size() == 5


@pytest.mark.parametrize(("number", "has_running", "has_tracked", "evicted"), [
    (1, False, False, 2), (2, False, False, 5), (1, True, False, 1), (1, False, True, 0), (1, True, True, 0),
])  # fmt: skip
def test_the_states_that_requests_lack_are_evicted_at_once(number, has_running, has_tracked, evicted):
    """A request needs three states. One is free, and seven are in the tree."""
    cache, pools = make_cache("GA", mamba_radix_cache_strategy=BUFFERED)
    for n in range(7):
        insert(cache, pools, tuple(range(1000 * n, 1000 * n + 4)))
    made = requests(number, 4)
    made[0].kv.mamba_pool_idx = 9 if has_running else None
    made[0].kv.mamba_ping_pong_track_buffer = [9, 9] if has_tracked else None
    alloc_req_slots(made, cache)
    rooms = [event for event in cache.log.events if isinstance(event, MadeRoom)]
    assert [event.asked for event in rooms] == ([[0, 0, evicted]] if evicted else [])
    assert num_leaves(cache) == 7 - evicted


def test_slots_of_a_request_go_on_in_its_last_page():
    cache, pools = make_cache(page_size=4)
    req = make_req(0, TEXT)
    for stop, slots in ((2, [4, 5]), (3, [4, 5, 6]), (9, [4, 5, 6, 7, 8, 9, 10, 11, 12])):
        alloc_token_slots(req, cache, stop)
        assert pools.req_to_token_pool.read(0, 0, stop).tolist() == slots
        assert req.kv.kv_allocated_len == stop


def test_slots_that_a_request_has_are_not_taken_again():
    cache, pools = make_cache(page_size=4)
    req = make_req(0, TEXT)
    for stop in (9, 6):
        alloc_token_slots(req, cache, stop)
        assert (req.kv.kv_allocated_len, pools.token_to_kv_pool_allocator.available_size()) == (9, 52)


@pytest.mark.parametrize(("pages", "fits"), [(16, True), (17, False)])
def test_a_request_may_take_the_last_page_that_is_free(pages, fits):
    cache, _ = make_cache(page_size=4)
    req = make_req(0, TEXT)
    if fits:
        alloc_token_slots(req, cache, 4 * pages)
        assert req.kv.kv_allocated_len == 64
        return
    with pytest.raises(ProcessAborted, match="Out of memory") as caught:
        alloc_token_slots(req, cache, 4 * pages)
    assert caught.value.kind == "out-of-slots"


@pytest.mark.parametrize(("page", "number", "spare", "left"), [
    (1, 1, 1, 8), (1, 2, 1, 0), (1, 1, 2, 8),                # without pages exactly what the chunks need
    (2, 1, 1, 11), (4, 1, 1, 13), (4, 2, 1, 10), (4, 1, 0, 14), (4, 1, 3, 11), (4, 2, 3, 6),
])  # fmt: skip
def test_a_prefill_step_evicts_its_tokens_and_spare_pages_for_each_request(page, number, spare, left):
    """The pool has 16 pages, each of which is a leaf of the tree; each request evaluates eight tokens."""
    cache = full_tree(page, rules=NEW.changed({"spare_pages": spare}))
    alloc_for_extend(requests(number, 8), cache)
    assert num_leaves(cache) == left


def test_a_prefill_step_begins_after_the_slots_of_the_hit():
    cache, pools = make_cache(page_size=4)
    insert(cache, pools, TEXT[:8])
    req = make_req(0, TEXT[:12])
    req.last_node, req.prefix_len, req.extend_end = next(cache.tree_core.nodes()), 8, 12
    alloc_for_extend([req], cache)
    assert pools.req_to_token_pool.read(0, 0, 12).tolist() == [*range(4, 16)] and req.kv.kv_allocated_len == 12


def test_a_prefill_step_gives_a_request_its_states():
    cache, _ = make_cache("GA", mamba_radix_cache_strategy=BUFFERED)
    (req,) = requests(1, 8)
    alloc_for_extend([req], cache)
    assert req.kv.mamba_slots == [1, 2, 3]


@pytest.mark.parametrize("page", [1, 4])
@pytest.mark.parametrize(("number", "pages", "left"), [(1, 1, 15), (2, 1, 14), (2, 3, 10)])
def test_a_decode_step_evicts_pages_for_each_request(page, number, pages, left):
    cache = full_tree(page, rules=NEW.changed({"decode_pages": pages}))
    alloc_for_decode(requests(number, 8), cache)
    assert num_leaves(cache) == left


DRAFTS = {"speculative_algorithm": "EAGLE", "speculative_num_steps": 3}


@pytest.mark.parametrize(("page", "number", "left"), [(1, 1, 8), (1, 2, 0), (2, 1, 11), (4, 1, 13), (4, 2, 10)])
def test_a_decode_step_with_drafts_evicts_the_slots_of_two_drafts(page, number, left):
    """Two drafts of three tokens, and a token after each, are eight slots; with pages each request has a further
    one."""
    cache = full_tree(page, **DRAFTS)
    made = requests(number, 8)
    alloc_for_decode(made, cache)
    assert num_leaves(cache) == left and [req.kv.kv_allocated_len for req in made] == [8] * number


def test_a_decode_step_with_drafts_that_have_slots_evicts_nothing():
    cache = full_tree(4, leaves=13, **DRAFTS)
    (req,) = requests(1, 8)
    alloc_token_slots(req, cache, 12)
    req.kv.kv_committed_len = 3
    alloc_for_decode([req], cache)
    assert num_leaves(cache) == 13 and req.kv.kv_allocated_len == 12


@pytest.mark.parametrize(("flags", "committed", "allocated"), [({}, 5, 6), ({}, 8, 9), (DRAFTS, 5, 16), (DRAFTS, 0, 8)])
def test_a_decode_step_takes_a_slot_or_the_pages_of_two_drafts_behind_the_computed_tokens(flags, committed, allocated):
    cache, pools = make_cache(page_size=4, **flags)
    req = make_req(0, TEXT)
    alloc_token_slots(req, cache, committed)
    req.kv.kv_committed_len = committed
    alloc_for_decode([req], cache)
    assert req.kv.kv_allocated_len == allocated
    assert len(set(pools.req_to_token_pool.read(0, 0, allocated).tolist())) == allocated
