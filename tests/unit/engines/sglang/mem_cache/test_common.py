"""What a request takes from the tree when it starts, and leaves in it when it ends."""

from contextlib import nullcontext

import pytest

from cachesim.base.errors import Crash, ProcessAborted
from cachesim.engines.sglang.events import Matched
from cachesim.engines.sglang.mem_cache.allocation import alloc_for_extend, alloc_token_slots
from cachesim.engines.sglang.mem_cache.base_prefix_cache import EvictParams
from cachesim.engines.sglang.mem_cache.common import (
    checkpoint_kv_cache,
    match_kv_cache,
    release_kv_cache,
)
from cachesim.engines.sglang.mem_cache.unified_cache.component_type import FULL, MAMBA, SWA
from cachesim.engines.sglang.profiles import PROFILES
from cachesim.engines.sglang.rules.reported import EndingRequest
from cachesim.events import Decided
from tests.unit.engines.sglang.trees import NEW, insert, make_cache, make_req, take

TEXT = tuple(range(100, 140))


def start(cache, req):
    """Match a request and give it slots for its whole prompt, as if they were evaluated."""
    match_kv_cache(req, cache, req.seqlen - 1, cow_mamba=True)
    req.kv.cache_protected_len = req.prefix_len
    req.lock = cache.tree_core.inc_lock_ref(req.last_node)
    req.extend_end = req.seqlen
    alloc_for_extend([req], cache)
    req.kv.kv_committed_len = req.seqlen


@pytest.mark.parametrize(("checkpoint", "nodes", "free"), [(True, [8, 4], 52), (False, [8], 56)])
def test_a_released_request_leaves_its_tokens_or_nothing(checkpoint, nodes, free):
    cache, pools = make_cache()
    insert(cache, pools, TEXT[:8])
    req = make_req(0, TEXT[:12])
    start(cache, req)
    assert (req.prefix_len, pools.token_to_kv_pool_allocator.available_size()) == (8, 52)
    release_kv_cache(req, cache, checkpoint)
    assert [len(node.key) for node in cache.tree_core.nodes()] == nodes and req.lock is None
    assert pools.token_to_kv_pool_allocator.available_size() == free and not pools.req_to_token_pool.req_to_token
    cache.check([], [])


def test_a_request_that_reuses_nothing_matches_nothing():
    cache, pools = make_cache()
    insert(cache, pools, TEXT[:8])
    req = make_req(0, TEXT[:12], cache_prompt=False)
    match_kv_cache(req, cache, req.seqlen - 1, cow_mamba=True)
    assert req.prefix_len == 0 and req.last_node is cache.tree_core.root_node


def test_a_request_gets_a_copy_of_the_state():
    cache, pools = make_cache("GA", states=4)
    insert(cache, pools, TEXT[:8])
    req = make_req(0, TEXT[:12])
    match_kv_cache(req, cache, req.seqlen - 1, cow_mamba=True)
    assert (req.kv.mamba_cow_src_index, req.kv.mamba_pool_idx) == (1, 2)
    release_kv_cache(req, cache, checkpoint=False)
    assert req.kv.mamba_slots == [] and pools.req_to_token_pool.mamba_allocator.available_size() == 3


def test_a_node_without_a_free_slot_gives_its_own_state_up():
    cache, pools = make_cache("GA", states=4)
    insert(cache, pools, TEXT[:8])
    allocator = pools.req_to_token_pool.mamba_allocator
    while allocator.alloc() is not None:
        pass
    insert(cache, pools, TEXT[20:24], state=0)
    req = make_req(0, TEXT[:12])
    match_kv_cache(req, cache, req.seqlen - 1, cow_mamba=True)
    assert req.kv.mamba_pool_idx == 0 and req.kv.mamba_cow_src_index == 1


@pytest.mark.parametrize(("is_answered", "stop"), [(False, 12), (True, 10)])
def test_a_request_ends_with_its_answer_or_with_what_it_computed(is_answered, stop):
    """The prompt has eight tokens and the answer two; two more were computed, such as drafts after its end."""
    asked = []
    cache, pools = make_cache(
        rules=NEW.changed({"owned_tokens": lambda ask: asked.append(ask) or ask.kv_committed_len}),
    )
    insert(cache, pools, TEXT[:4])
    req = make_req(0, TEXT[:8])
    start(cache, req)
    req.fill_ids.extend(TEXT[8:10])
    req.task.answer.predicted_n = 2
    alloc_token_slots(req, cache, 12)
    req.kv.kv_committed_len = 12
    req.is_answered = is_answered
    release_kv_cache(req, cache, checkpoint=True)
    wanted = EndingRequest(
        kv_committed_len=12,
        num_input_tokens=8,
        len_through_stop=stop,
        cache_protected_len=4,
        strip_thinking_cache=False,
    )
    assert asked == [wanted]


@pytest.mark.parametrize(("build", "free", "windows"), [
    ("0.5.23-repaired", 52, 52), ("0.5.23", 56, 56), ("0.5.20", 56, 54)])
def test_a_retracted_request_that_had_resumed_frees_slots_of_the_tree(build, free, windows):
    """With --strip-thinking-cache it owns its prompt, eight of the twelve tokens that the tree has. 0.5.20 takes the
    window slots of its first ten tokens for those that its window gave back."""
    cache, pools = make_cache("W3 A", rules=PROFILES[f"sglang@{build}"], strip_thinking_cache=True)
    insert(cache, pools, TEXT[:12])
    req = make_req(0, TEXT[:8])
    req.fill_ids.extend(TEXT[8:13])
    req.num_output_ids = 5
    start(cache, req)
    assert req.kv.cache_protected_len == 12
    req.kv.swa_evicted_seqlen = 10
    release_kv_cache(req, cache, checkpoint=False)
    allocator = pools.swa_allocator
    assert (allocator.full_available_size(), allocator.swa_available_size()) == (free, windows)


@pytest.mark.parametrize(("build", "windows"), [("0.5.23", 56), ("0.5.16", 56), ("0.5.15", 64)])
def test_a_window_slot_that_is_no_part_of_a_node_stays_taken_since_the_unified_tree(build, windows):
    """A request that freed slots of the tree leaves such nodes."""
    cache, pools = make_cache("W3 A", rules=PROFILES[f"sglang@{build}"])
    insert(cache, pools, TEXT[:8])
    for node in cache.tree_core.nodes():
        node.value[SWA] = None
    cache.evict(EvictParams(8))
    assert (pools.swa_allocator.full_available_size(), pools.swa_allocator.swa_available_size()) == (64, windows)


@pytest.mark.parametrize("build", ["0.5.23", "0.5.20"])
def test_a_running_request_holds_the_end_of_what_it_published(build):
    """0.5.20 matches the text again."""
    cache, pools = make_cache(rules=PROFILES[f"sglang@{build}"], page_size=4)
    insert(cache, pools, TEXT[:8])
    req = make_req(0, TEXT[:15])
    start(cache, req)
    checkpoint_kv_cache(req, cache)
    assert (req.last_node.end, req.kv.cache_protected_len, req.prefix_len) == (12, 12, 15)
    assert req.lock.node is req.last_node
    req.kv.cache_protected_len = 16
    with pytest.raises(ProcessAborted, match="cache_protected_len=16, page_aligned_len=12"):
        cache.checkpoint_into_tree(req, 15)


def test_a_request_that_copies_a_state_does_not_clear_its_slot():
    cache, pools = make_cache("GA", states=4)
    insert(cache, pools, TEXT[:8])
    req = make_req(0, TEXT[:12])
    req.kv.mamba_needs_clear = True
    match_kv_cache(req, cache, req.seqlen - 1, cow_mamba=True)
    assert (req.kv.mamba_cow_src_index, req.kv.mamba_needs_clear) == (1, False)


@pytest.mark.parametrize(("strategy", "gets"), [("extra_buffer_lazy", True), ("extra_buffer", False)])
def test_a_request_that_tracks_lazily_gives_up_the_state_that_it_locks(strategy, gets):
    cache, pools = make_cache("GA", states=8, mamba_radix_cache_strategy=strategy)
    insert(cache, pools, TEXT[:8])
    while pools.req_to_token_pool.mamba_allocator.alloc() is not None:
        pass
    req = make_req(0, TEXT[:12])
    node = next(cache.tree_core.nodes())
    req.lock = cache.tree_core.inc_lock_ref(node)
    if not gets:
        with pytest.raises(ProcessAborted):
            cache.alloc_mamba_slot(req)
        return
    assert cache.alloc_mamba_slot(req) == 1 and node.value[MAMBA] is None
    assert req.lock.node is node and not req.lock.holds_state
    cache.tree_core.dec_lock_ref(req.lock)
    cache.tree_core.check()


@pytest.mark.parametrize(("states", "told"), [([], ""), ([2], ""), ([1], "slots of states"), ([2, 2], "used twice")])
def test_every_state_is_free_in_the_tree_or_in_a_request(states, told):
    cache, pools = make_cache("GA", states=4)
    insert(cache, pools, TEXT[:8])
    if 2 in states:
        assert pools.req_to_token_pool.mamba_allocator.alloc() == 2
    with pytest.raises(Crash, match=told) if told else nullcontext():
        cache.check([], states)


@pytest.mark.parametrize("has_slot", [False, True])
def test_a_request_keeps_the_slot_of_its_running_state(has_slot):
    cache, pools = make_cache("W3 A G", states=8)
    insert(cache, pools, TEXT[:8])
    states = pools.req_to_token_pool.mamba_allocator
    req = make_req(0, TEXT[:12])
    req.kv.mamba_pool_idx = states.alloc() if has_slot else None
    free = states.available_size()
    match_kv_cache(req, cache, req.seqlen - 1, cow_mamba=True)
    assert (req.kv.mamba_pool_idx, states.available_size()) == (2, free if has_slot else free - 1)
    assert not any(any(node.lock_ref) for node in cache.tree_core.nodes())


@pytest.mark.parametrize(("damage", "told"), [
    (lambda cache, pools: None, ""), (lambda cache, pools: take(pools, 1), "pages are free or in use"),
    (lambda cache, pools: setattr(cache.tree_core.full, "evictable_size", 9), "part F: 0 tokens evictable and 8 pro"),
    (lambda cache, pools: cache.cache_controller.mem_pool_host[FULL].free_pages.pop(), "128 pages are free or in use"),
])  # fmt: skip
def test_slots_nodes_and_copies_are_checked(damage, told):
    cache, pools = make_cache(enable_hierarchical_cache=True)
    insert(cache, pools, TEXT[:8])
    damage(cache, pools)
    with pytest.raises(Crash, match=told) if told else nullcontext():
        cache.check([], [])


@pytest.mark.parametrize(("starts", "before", "deciding"), [
    (True, "", True), (True, "OTHER", "OTHER"), (False, "", "")])
def test_the_first_rule_of_a_start_decides(starts, before, deciding):
    cache, pools = make_cache()
    insert(cache, pools, TEXT[:8])
    req = make_req(0, TEXT[:12])
    req.task.answer.deciding = before
    match_kv_cache(req, cache, req.seqlen - 1, cow_mamba=starts)
    found = req.task.answer.deciding
    assert found == deciding if isinstance(deciding, str) else found.startswith("SG-")


def test_a_request_without_free_slots_ends_the_process():
    cache, _ = make_cache(size=8, page_size=4)
    req = make_req(0, TEXT[:12])
    alloc_token_slots(req, cache, 8)
    assert req.kv.kv_allocated_len == 8
    with pytest.raises(ProcessAborted, match="Out of memory"):
        alloc_token_slots(req, cache, 9)
    alloc_token_slots(req, cache, 8)


@pytest.mark.parametrize(("free", "asked"), [(1, 0), (0, 1)])
def test_only_a_match_that_evicts_a_state_locks_its_path_meanwhile(free, asked):
    """The window of the path is unlocked as far as a rule says."""
    seen = []
    rules = NEW.changed({"copy_unlock": lambda mark: seen.append(mark) or mark})
    cache, pools = make_cache("W3 A G", rules, states=8)
    insert(cache, pools, TEXT[20:24])
    insert(cache, pools, TEXT[:8])
    states = pools.req_to_token_pool.mamba_allocator
    while states.available_size() > free:
        states.alloc()
    req = make_req(0, TEXT[:12])
    match_kv_cache(req, cache, req.seqlen - 1, cow_mamba=True)
    assert len(seen) == asked and None not in seen and req.kv.mamba_pool_idx is not None
    assert not any(any(node.lock_ref) for node in cache.tree_core.nodes())


def test_a_released_request_has_no_slots_and_is_released_once():
    cache, pools = make_cache()
    req = make_req(0, TEXT[:12])
    start(cache, req)
    release_kv_cache(req, cache, checkpoint=True)
    assert (req.kv.kv_allocated_len, [len(node.key) for node in cache.tree_core.nodes()]) == (0, [12])
    release_kv_cache(req, cache, checkpoint=True)
    assert pools.token_to_kv_pool_allocator.available_size() == 52
    cache.check([], [])


@pytest.mark.parametrize(("left", "swa"), [(0, 64), (5, 64), (12, 64)])
def test_slots_that_left_the_window_are_freed_with_the_others(left, swa):
    cache, pools = make_cache("W4 A")
    req = make_req(0, TEXT[:12])
    start(cache, req)
    allocator = pools.token_to_kv_pool_allocator
    allocator.free_swa(pools.req_to_token_pool.read(0, 0, left))
    req.kv.swa_evicted_seqlen = left
    release_kv_cache(req, cache, checkpoint=False)
    assert (allocator.full_available_size(), allocator.swa_available_size()) == (64, swa)
    cache.check([], [])


@pytest.mark.parametrize(("model", "hits"), [("A", (8, 0, 0)), ("W4 A", (8, 4, 0)), ("GA", (8, 0, 1))])
def test_a_match_counts_what_is_in_host_memory_only(model, hits):
    """The window needs the second node only; the state is that of the last one."""
    cache, pools = make_cache(model, enable_hierarchical_cache=True)
    for n in (4, 8):
        insert(cache, pools, TEXT[:n])
    cache.check_hicache_events()
    for node in [*cache.tree_core.nodes()][::-1]:
        cache.tree_core.demote(node, "R")
    req = make_req(0, TEXT[:12])
    match_kv_cache(req, cache, req.seqlen - 1, cow_mamba=True)
    assert (req.host_hit_length, req.swa_host_hit_length, req.mamba_host_hit_length) == hits
    assert (req.prefix_len, req.num_matched_prefix_tokens, req.best_match_node.end) == (0, 8, 8)


@pytest.mark.parametrize("starts", [True, False])
def test_the_hit_of_a_request_that_starts_is_a_decision(starts):
    cache, pools = make_cache("GA")
    insert(cache, pools, TEXT[:8])
    req = make_req(5, TEXT[:12])
    match_kv_cache(req, cache, req.seqlen - 1, cow_mamba=starts)
    decided = [event.rule for event in cache.log.events if isinstance(event, Decided) and event.slot == 5]
    assert decided == ([req.task.answer.deciding] if starts else [])
    (matched,) = [event for event in cache.log.events if isinstance(event, Matched)]
    assert (matched.hit, matched.full, matched.cow) == (8, 8, int(starts))


@pytest.mark.parametrize(("starts", "branch"), [(False, 8), (True, None)])
def test_a_waiting_request_keeps_its_branch_if_a_match_finds_none(starts, branch):
    cache, _ = make_cache()
    req = make_req(0, TEXT[:12])
    req.mamba_branching_seqlen = 8
    match_kv_cache(req, cache, req.seqlen - 1, cow_mamba=starts)
    assert req.mamba_branching_seqlen == branch


@pytest.mark.parametrize(("build", "is_finished", "matches"), [
    ("0.5.23", False, False), ("0.5.23", True, False), ("0.5.20", False, True), ("0.5.20", True, False),
])  # fmt: skip
def test_only_a_running_request_of_an_older_release_matches_what_it_published(build, is_finished, matches):
    asked = []
    rules = PROFILES[f"sglang@{build}"]
    accept = rules.accept_node
    cache, _ = make_cache(rules=rules.changed({"accept_node": lambda *ask: asked.append(ask) or accept(*ask)}))
    req = make_req(0, TEXT[:12])
    start(cache, req)
    asked.clear()
    cache.checkpoint_into_tree(req, 12, is_finished)
    assert bool(asked) is matches and req.last_node.end == 12


def test_a_match_that_evicts_a_state_once_unlocked_the_window_up_to_the_root():
    """Before #27038 it also unlocked windows before its own, which it had not locked."""
    cache, pools = make_cache("W3 A G", PROFILES["sglang@before-27038"], states=8)
    insert(cache, pools, TEXT[20:24])
    insert(cache, pools, TEXT[:8])
    while pools.req_to_token_pool.mamba_allocator.alloc() is not None:
        pass
    req = make_req(0, TEXT[:12])
    with pytest.raises(ProcessAborted, match="lock_ref=0 on node"):
        match_kv_cache(req, cache, req.seqlen - 1, cow_mamba=True)


@pytest.mark.parametrize("strips", [False, True])
@pytest.mark.parametrize("model", ["A", "GA"])
def test_a_request_that_never_had_slots_gives_back_its_states_only(model, strips):
    cache, pools = make_cache(model, states=4, strip_thinking_cache=strips, mamba_radix_cache_strategy="no_buffer",
                              disable_overlap_schedule=True)  # fmt: skip
    states = pools.req_to_token_pool.mamba_allocator
    req = make_req(0, TEXT[:8])
    req.kv.mamba_pool_idx = states.alloc() if model == "GA" else None
    release_kv_cache(req, cache, checkpoint=True)
    assert [*cache.tree_core.nodes()] == [] and cache.log.events == []
    assert (states.available_size(), req.kv.mamba_slots, req.lock) == (4, [], None)
    cache.check([], [])


def test_a_released_request_holds_no_lock_and_no_row():
    cache, pools = make_cache("W4 A G", strip_thinking_cache=True, states=8)
    req = make_req(0, TEXT[:12])
    start(cache, req)
    assert cache.tree_core.root_node is req.lock.node and pools.req_to_token_pool.available_size() == 7
    release_kv_cache(req, cache, checkpoint=False)
    assert (req.lock, req.kv.kv_allocated_len, pools.req_to_token_pool.available_size()) == (None, 0, 8)
    assert [*cache.tree_core.nodes()] == [] and pools.req_to_token_pool.mamba_allocator.available_size() == 8
    cache.check([], [])
