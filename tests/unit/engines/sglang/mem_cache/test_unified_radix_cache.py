"""Match, insertion, splits, locks and evictions of the radix tree."""

import copy

import numpy as np
import pytest

from cachesim.base.errors import NotInBuild, ProcessAborted
from cachesim.engines.sglang.mem_cache.allocation import alloc_for_extend, alloc_token_slots
from cachesim.engines.sglang.mem_cache.base_prefix_cache import EvictParams, InsertParams
from cachesim.engines.sglang.mem_cache.unified_cache.component_type import FULL, MAMBA, SWA
from cachesim.engines.sglang.mem_cache.unified_radix_cache import REFRESH_STEP
from cachesim.engines.sglang.profiles import PROFILES
from cachesim.events import Decided, Declined
from tests.unit.engines.sglang.trees import make_cache, make_req, take

NEW, MIDDLE, OLD = (PROFILES[f"sglang@{build}"] for build in ("0.5.23", "0.5.20", "0.5.9"))
FULL_ONLY, WITH_WINDOW, WITH_STATES = "A", "W{} A", "GA"


class Cache:
    """A prefix cache, its tree and its pools."""

    def __init__(self, model=FULL_ONLY, window=0, rules=NEW, **flags):
        self.cache, self.pools = make_cache(model.format(window), rules, **flags)
        self.tree = self.cache.tree_core
        self.allocator = self.pools.token_to_kv_pool_allocator

    def nodes(self):
        return list(self.tree.nodes())

    def insert(self, text, frontier=0, state=False, space="", priority=0, counted=0, chunked=False):
        key = tuple(map(ord, text))
        slots = take(self.pools, len(key))
        self.allocator.free_swa(slots[:frontier])
        slot = self.pools.req_to_token_pool.mamba_allocator.alloc() if state else None
        return self.cache.insert(InsertParams(
            key=key, extra_key=space, limit=len(key), value=slots, text=key, swa_evicted_seqlen=frontier,
            inserted_len=counted, priority=priority, mamba_value=slot, chunked=chunked,
        ))  # fmt: skip

    def match(self, text, space=""):
        return self.cache.match_prefix(tuple(map(ord, text)), space, len(text))

    def evict(self, *asked):
        return self.cache.evict(EvictParams(*asked))

    def slots(self, node):
        return self.tree.collect_full_device_indices(node)

    def changes(self):
        """Return the changes of the tree, and forget them."""
        rows = [row for event in self.cache.changes.events if hasattr(event, "rows") for row in event.rows()]
        self.cache.changes.clear()
        return rows


def test_a_match_splits_where_the_prompt_leaves():
    one = Cache()
    one.insert("abcdef")
    found = one.match("abcx")
    assert found.found.device_hit_length == 3 and found.last_device_node.end == 3
    assert one.changes() == [["new", 1, 0, 6], ["split", 1, 2, 3]]
    assert one.slots(found.last_device_node).tolist() == [1, 2, 3]


def test_a_match_makes_each_node_of_its_path_a_little_more_recent_than_the_one_before():
    one = Cache()
    for text in ("ab", "abcd", "abcdef"):
        one.insert(text)
    now = one.tree.get_and_increase_time_counter() + 1
    last = one.match("abcdef").last_device_node
    times = [node.last_access_time for node in (*last.path(), one.tree.root_node)]
    assert times == pytest.approx([now - at * REFRESH_STEP for at in range(4)], abs=REFRESH_STEP / 10)


def test_a_match_without_a_whole_page_takes_no_time():
    one = Cache(page_size=4)
    one.insert("abcdefgh")
    now = one.tree.get_and_increase_time_counter()
    assert one.match("abc").last_device_node is one.tree.root_node
    assert one.tree.get_and_increase_time_counter() == now + 1 > one.tree.root_node.last_access_time


def test_prefixes_end_at_pages():
    one = Cache(page_size=4)
    one.insert("abcdefgh")
    assert one.match("abcdef").found.device_hit_length == 4 and one.match("abc").found.device_hit_length == 0


def test_name_spaces_are_disjoint():
    one = Cache()
    one.insert("abc", space="x")
    assert one.match("abc").found.device_hit_length == 0 and one.match("abc", "x").found.device_hit_length == 3


def test_duplicate_slots_are_freed():
    one = Cache()
    one.insert("abcd")
    assert one.insert("abcdef").prefix_len == 4 and one.allocator.full_available_size() == 64 - 6


@pytest.mark.parametrize(("model", "release", "order"), [
    (WITH_WINDOW, "0.5.9", "xy ef cd ab"), (WITH_WINDOW, "0.5.15", "xy ef cd ab"),
    (WITH_WINDOW, "0.5.16", "xy cd ab ef"), (WITH_WINDOW, "0.5.23", "xy cd ab ef"),
    (WITH_STATES, "0.5.9", "xy ef ab"), (WITH_STATES, "0.5.15", "xy ef ab"),
    (WITH_STATES, "0.5.16", "xy ef ab"), (WITH_STATES, "0.5.23", "xy ef ab"),
])
def test_until_0_5_15_a_node_that_an_insertion_splits_stays_more_recent_than_its_path(model, release, order):
    """Until then an insertion makes each node most recent as it passes it, and a split the rest of the node. Later ones
    make windows on the path most recent at the end. ``order``: most recent first."""
    one = Cache(model, 8, PROFILES[f"sglang@{release}"])
    state = model == WITH_STATES
    one.insert("ab", state=state)
    one.insert("abcdef", state=state)
    one.insert("abcdxy", state=state)
    part = one.tree.components[MAMBA if state else SWA]
    assert " ".join("".join(map(chr, node.key)) for node in part.lru_list.members()) == order


def test_the_window_must_be_live_before_a_stop():
    one = Cache(WITH_WINDOW, 3)
    one.insert("abcdefgh", frontier=4)
    assert [(node.end, node.value[SWA] is not None) for node in one.nodes()] == [(4, False), (5, True), (8, True)]
    assert one.match("abcdefg").found == (7, 7, 7) and one.match("abcdef").found == (6, 0, 6)
    assert one.match("abcdefx").swa_branching_seqlen == 6


def test_a_new_leaf_holds_one_window():
    for rules, ends in ((NEW, [5, 8]), (OLD, [8])):
        one = Cache(WITH_WINDOW, 3, rules)
        one.insert("abcdefgh")
        assert [node.end for node in one.nodes()] == ends


def test_a_state_is_usable_at_its_length_only():
    one = Cache(WITH_STATES, state_grid=2)
    one.insert("abcdef", state=True)
    found = one.match("abcde")
    assert found.found == (5, 0, 5) and found.mamba_branching_seqlen == 4
    assert one.match("abcdef").found.device_hit_length == 6
    assert [(node.end, node.value[MAMBA]) for node in one.nodes()] == [(5, None), (6, 1)], "the state stays below"


def test_a_second_state_is_not_kept():
    one = Cache(WITH_STATES)
    one.insert("abc", state=True)
    assert one.insert("abc", state=True).mamba_exist is True and one.nodes()[0].value[MAMBA] == 1


def test_a_path_holds_no_more_states_than_allowed():
    one = Cache(WITH_STATES, mamba_max_states_per_path=2)
    for text in ("ab", "abcd", "abcdef"):
        one.insert(text, state=True)
    assert [node.value[MAMBA] is not None for node in one.nodes()] == [False, True, True]


def test_a_tombstone_takes_over_the_slots_of_a_request():
    one = Cache(WITH_WINDOW, 2)
    one.insert("abcd", frontier=4)
    assert one.match("abcd").found.device_hit_length == 0
    one.insert("abcd", frontier=2)
    assert one.match("abcd").found.device_hit_length == 4 and one.allocator.full_available_size() == 60


@pytest.mark.parametrize(("rules", "kept"), [(NEW, True), (OLD, False)])
def test_a_locked_tombstone_keeps_its_slots(rules, kept):
    """0.5.9 frees the slots that a running request reads."""
    one = Cache(WITH_WINDOW, 2, rules)
    node = one.insert("abcd").last_device_node
    one.tree.inc_lock_ref(one.insert("abcdefgh").last_device_node)
    before = node.value[FULL].tolist()
    for inner in node.path():
        one.tree.evict_component(inner, SWA, "")
    one.insert("abcd")
    assert (one.slots(node).tolist() == before or node.value[FULL].tolist() == before) is kept
    assert set(before).isdisjoint(one.tree.swa.allocator.full_attn_allocator.free_pages) is kept


def test_a_lock_pins_a_window_and_survives_splits():
    one = Cache(WITH_WINDOW, 2)
    leaf = one.insert("abcdefgh").last_device_node
    lock = one.tree.inc_lock_ref(leaf)
    one.match("abcdefg")
    assert [node.lock_ref[SWA] for node in leaf.path()] == [1, 1, 0]
    one.tree.dec_lock_ref(lock)
    assert not any(any(node.lock_ref) for node in one.nodes())
    assert (one.tree.full.protected_size, one.tree.swa.protected_size) == (0, 0)
    with pytest.raises(ProcessAborted, match="lock_ref=0"):
        one.tree.dec_lock_ref(lock)


@pytest.mark.parametrize(("policy", "gone"), [("lru", "b"), ("fifo", "a"), ("mru", "a"), ("priority", "b")])
def test_the_policy_chooses_the_leaf(policy, gone):
    one = Cache(radix_eviction_policy=policy)
    for text, priority in (("aa", 1), ("bb", 0)):
        one.insert(text, priority=priority)
    one.match("aa")
    assert one.evict(1, 0, 0) == [2, 0, 0]
    first = next(event.node for event in one.cache.changes.events if event.ev == "gone")
    assert first == {"a": 1, "b": 2}[gone]


def test_eviction_goes_on_until_the_allocator_has_enough():
    one = Cache()
    for text in ("aaaa", "bbbb"):
        one.insert(text)
    assert one.evict(2, 0, 0) == [4, 0, 0] and one.allocator.full_available_size() == 60


def test_an_inner_node_loses_only_the_part():
    one = Cache(WITH_STATES)
    inner = one.insert("ab", state=True).last_device_node
    one.insert("abcd", state=True)
    one.match("abcd")
    assert one.evict(0, 0, 1) == [0, 0, 1] and inner.value[MAMBA] is None and inner.value[FULL] is not None
    assert one.match("abc").found.device_hit_length == 0


@pytest.mark.parametrize(("rules", "left"), [(NEW, 1), (OLD, 0)])
def test_a_tombstone_that_became_a_leaf(rules, left):
    one = Cache(WITH_STATES, rules=rules)
    inner = one.insert("ab", state=True).last_device_node
    leaf = one.insert("abcd", state=True).last_device_node
    one.tree.evict_component(inner, MAMBA, "")
    assert one.evict(0, 0, 1)[MAMBA] == 1 and leaf.id not in one.tree.nodes_by_id
    assert len(one.nodes()) == left


def test_a_copy_of_a_long_path_is_independent():
    one = Cache(WITH_STATES)
    node = one.tree.root_node
    for k in range(2000):
        node = one.tree.add_new_node(node, (k,), extra_key="", priority=0, text=())
    twin = copy.deepcopy(one)
    assert len(twin.nodes()) == 2000 and twin.tree.root_node is not one.tree.root_node
    twin.nodes()[0].key = ()
    assert one.nodes()[0].key == (0,)


def test_slots_of_a_path_are_in_order():
    one = Cache()
    one.insert("abc")
    node = one.insert("abcde").last_device_node
    assert np.array_equal(one.slots(node)[:3], [1, 2, 3]) and len(one.slots(node)) == 5


def test_only_other_requests_make_a_node_used_since_0_5_23():
    for rules, hits in ((NEW, 1), (MIDDLE, 2)):
        one = Cache(rules=rules)
        for counted in (0, 3):
            one.insert("abc", counted=counted)
        assert one.nodes()[0].hit_count == hits
    one = Cache(rules=MIDDLE)
    one.insert("ab", chunked=True)
    assert one.nodes()[0].hit_count == 0


@pytest.mark.parametrize(("counted", "hits"), [(2, 1), (3, 0), (6, 0)])
def test_a_new_leaf_that_a_window_splits_is_counted_from_the_end_of_the_tree(counted, hits):
    one = Cache(WITH_WINDOW, 3)
    one.insert("abcdefg", frontier=2, counted=counted)
    assert [(node.end, node.hit_count) for node in one.nodes()] == [(2, 0), (4, 0), (7, hits)]


def test_leaves_stay_in_order_after_many_uses():
    one = Cache()
    for text in ("abc", "xyz", "mno"):
        one.insert(text)
    for _ in range(200):
        one.match("abc")
        one.match("xyz")
    assert len(one.tree.evictable_device_leaves.heap) < 100
    gone = [one.evict(1, 0, 0) and [node.key for node in one.nodes()] for _ in range(3)]
    assert [len(keys) for keys in gone] == [2, 1, 0] and gone[1] == [tuple(map(ord, "xyz"))]


@pytest.mark.parametrize(("build", "hit"), [("0.5.23", 0), ("before-17061", 8)])
def test_a_match_over_a_tombstone_has_nothing_in_host_memory(build, hit):
    """Before #17061 a run shorter than the window goes on behind a tombstone, whose window is nowhere."""
    one = Cache(WITH_WINDOW, 4, PROFILES[f"sglang@{build}"])
    nodes = [one.insert(text).last_device_node for text in ("ab", "abcd", "abcdef", "abcdefgh")]
    for dead in nodes[::2]:
        one.tree.evict_component(dead, SWA, "")
    found = one.match("abcdefgh")
    assert (found.found.device_hit_length, found.swa_host_hit_length, found.mamba_host_hit_length) == (hit, 0, 0)


def test_host_memory_of_older_releases_has_rows_of_full_attention_only():
    for model in ("GA", "W4 A"):
        with pytest.raises(NotInBuild, match="HiCache for windows and states is not modelled"):
            make_cache(model, OLD, enable_hierarchical_cache=True)
        assert make_cache(model, NEW, enable_hierarchical_cache=True)[0].cache_controller is not None
    assert make_cache("A", OLD, enable_hierarchical_cache=True)[0].load_back is not None
    assert make_cache("A", NEW)[0].load_back is None


@pytest.mark.parametrize(("model", "exists"), [(FULL_ONLY, None), (WITH_STATES, True)])
def test_nothing_is_inserted_of_a_text_without_a_whole_page(model, exists):
    one = Cache(model)
    found = one.cache.insert(InsertParams(key=(1, 2), extra_key="", limit=0, value=take(one.pools, 2), text=(1, 2),
                                          priority=3))  # fmt: skip
    assert found == (one.tree.root_node, 0, exists) and one.nodes() == []
    assert one.tree.root_node.priority == 3


def test_a_slot_for_a_state_is_evicted_or_the_process_ends():
    one = Cache(WITH_STATES, states=4)
    one.insert("ab", state=True)
    allocator = one.pools.req_to_token_pool.mamba_allocator
    while allocator.available_size():
        allocator.alloc()
    assert one.cache.alloc_mamba_slot() == 1, "the slot of the node"
    assert one.nodes() == []
    with pytest.raises(ProcessAborted, match="Can not alloc mamba cache"):
        one.cache.alloc_mamba_slot()


@pytest.mark.parametrize(("policy", "left"), [("lru", "ab"), ("mru", "cd"), ("fifo", "cd"), ("filo", "ab")])
def test_an_insertion_makes_the_nodes_of_its_path_recent(policy, left):
    one = Cache(radix_eviction_policy=policy)
    for text in ("ab", "cd", "ab"):
        one.insert(text)
    one.evict(1)
    assert [node.key for node in one.nodes()] == [tuple(map(ord, left))]


@pytest.mark.parametrize(("own", "frontier", "freed"), [(0, 0, (6, 6)), (2, 0, (4, 4)), (2, 4, (4, 2)), (0, 4, (6, 2)),
                                                        (4, 2, (2, 2)), (6, 6, (0, 0)), (5, 9, (1, 0))])
def test_slots_that_the_tree_had_before_are_freed_with_the_windows_that_are_left(own, frontier, freed):
    """The first ``own`` of six tokens belong to the tree; the windows before the frontier are gone."""
    one = Cache(WITH_WINDOW, 8)
    one.insert("abcdef")
    key = tuple(map(ord, "abcdef"))
    slots = take(one.pools, 6)
    one.allocator.free_swa(slots[:frontier])
    before = one.allocator.full_available_size(), one.allocator.swa_available_size()
    one.cache.insert(InsertParams(key=key, extra_key="", limit=6, value=slots, text=key, prev_prefix_len=own,
                                  swa_evicted_seqlen=frontier))  # fmt: skip
    after = one.allocator.full_available_size(), one.allocator.swa_available_size()
    assert tuple(now - then for now, then in zip(after, before, strict=True)) == freed


@pytest.mark.parametrize(("page", "limit", "hit"), [(1, 7, 7), (4, 7, 4), (4, 8, 8), (4, 3, 0)])
def test_a_match_ends_at_the_last_whole_page_of_the_limit(page, limit, hit):
    one = Cache(page_size=page)
    one.insert("abcdefgh")
    assert one.cache.match_prefix(tuple(map(ord, "abcdefgh")), "", limit).found.device_hit_length == hit


HOST = {"enable_hierarchical_cache": True}


@pytest.mark.parametrize(("frontier", "nodes"), [
    (0, [(8, True)]), (5, [(5, False), (8, True)]), (8, [(8, False)]),
])  # fmt: skip
def test_a_node_in_host_memory_that_is_evaluated_again_gets_the_live_window(frontier, nodes):
    """Its slots before the window have no window slots, and become a node of their own."""
    one = Cache(WITH_WINDOW, 8, **HOST)
    one.insert("abcdefgh")
    one.cache.check_hicache_events()
    (node,) = one.nodes()
    one.tree.demote(node, "R")
    one.insert("abcdefgh", frontier)
    assert [(node.end, node.value[SWA] is not None) for node in one.nodes()] == nodes
    assert not any(node.evicted for node in one.nodes())
    one.tree.check()


@pytest.mark.parametrize(("most", "rules"), [(-1, 0), (3, 0), (2, 1)])
def test_a_path_that_keeps_its_states_decides_nothing(most, rules):
    one = Cache(WITH_STATES, mamba_max_states_per_path=most)
    for text in ("ab", "abcd", "abcdef"):
        one.insert(text, state=True)
    decided = [event.rule for event in one.cache.changes.events if isinstance(event, Decided)]
    assert decided.count("SG-STATE-PATH.CAP") == rules


@pytest.mark.parametrize("strategy", ["no_buffer", "extra_buffer"])
def test_the_tree_takes_over_the_state_of_a_request_that_ends_or_a_copy_after_a_chunk(strategy):
    for is_finished in (False, True):
        cache, pools = make_cache(WITH_STATES, mamba_radix_cache_strategy=strategy, state_grid=4,
                                  mamba_track_interval=4, disable_overlap_schedule=strategy == "no_buffer")
        req = make_req(0, range(1, 9))
        req.extend_end = 8
        alloc_for_extend([req], cache)
        kv = req.kv
        kv.kv_committed_len, kv.mamba_last_track_seqlen = 8, 8
        own = kv.mamba_pool_idx if strategy == "no_buffer" else kv.mamba_ping_pong_track_buffer[kv.mamba_last_track_idx]
        states = pools.req_to_token_pool.mamba_allocator
        free = states.available_size()
        cache.checkpoint_into_tree(req, 8, is_finished)
        (node,) = cache.tree_core.nodes()
        is_own = is_finished or strategy == "extra_buffer"
        assert (node.value[MAMBA] == own) is is_own
        assert states.available_size() == (7 if is_finished else free - 1)


def test_a_request_that_published_its_branch_has_none_any_longer():
    for up_to, left in ((8, None), (6, 8)):
        cache, _ = make_cache("W4 A")
        req = make_req(0, range(1, 13))
        req.extend_end, req.swa_branching_seqlen = 12, 8
        alloc_for_extend([req], cache)
        req.kv.kv_committed_len = 12
        cache.checkpoint_into_tree(req, up_to)
        assert (req.swa_branching_seqlen, req.kv.cache_protected_len) == (left, up_to)


@pytest.mark.parametrize(("own", "revived"), [(6, False), (5, True), (0, True)])
def test_a_tombstone_whose_slots_are_the_trees_own_gets_no_window(own, revived):
    """The first ``own`` of six tokens belong to the tree; only slots of the request can revive a window."""
    one = Cache(WITH_WINDOW, 8)
    node = one.insert("abcdef").last_device_node
    one.tree.evict_component(node, SWA, "")
    key = tuple(map(ord, "abcdef"))
    slots = np.concatenate([node.value[FULL][:own], take(one.pools, 6 - own)])
    one.cache.insert(InsertParams(key=key, extra_key="", limit=6, value=slots, text=key, prev_prefix_len=own))
    assert (one.nodes()[-1].value[SWA] is not None) is revived
    assert own < 6 or one.allocator.swa_available_size() == 64


def test_a_path_with_a_state_in_use_keeps_the_state_that_was_just_inserted():
    """The first node's state is locked; the new one lies between it and a leaf."""
    one = Cache(WITH_STATES, mamba_max_states_per_path=1)
    one.tree.inc_lock_ref(one.insert("a", state=True).last_device_node)
    one.insert("abcd", state=True)
    one.insert("ab", state=True)
    assert [(node.end, node.value[MAMBA] is not None) for node in one.nodes()] == [(1, True), (2, True), (4, True)]


@pytest.mark.parametrize(("asked", "freed", "left"), [
    ((4, 4), [4, 4, 0], 1), ((4, 3), [4, 4, 0], 1), ((4, 5), [8, 8, 0], 0), ((5, 4), [8, 8, 0], 0),
    ((0, 4), [4, 4, 0], 1),
])  # fmt: skip
def test_a_part_that_has_enough_after_another_one_evicts_nothing(asked, freed, left):
    """Both leaves have four tokens with their windows."""
    one = Cache(WITH_WINDOW, 8)
    for text in ("aaaa", "bbbb"):
        one.insert(text)
    assert one.evict(*asked) == freed and len(one.nodes()) == left


def started(prompt, model=FULL_ONLY, **flags):
    """Return a cache, and a request whose whole prompt has slots and is computed."""
    cache, pools = make_cache(model, **flags)
    req = make_req(0, range(1, prompt + 1))
    req.extend_end = prompt
    alloc_for_extend([req], cache)
    req.kv.kv_committed_len = prompt
    return cache, pools, req


@pytest.mark.parametrize(("flags", "up_to", "ends"), [
    ({}, 0, []), ({}, 1, [1]), ({"speculative_algorithm": "EAGLE"}, 0, []), ({"speculative_algorithm": "EAGLE"}, 1, []),
    ({"speculative_algorithm": "EAGLE"}, 2, [1]),
])  # fmt: skip
def test_a_text_without_a_whole_pair_is_not_inserted(flags, up_to, ends):
    cache, pools, req = started(4, **flags)
    free = pools.token_to_kv_pool_allocator.available_size()
    cache.checkpoint_into_tree(req, up_to)
    assert [node.end for node in cache.tree_core.nodes()] == ends
    assert pools.token_to_kv_pool_allocator.available_size() == free


def test_a_branch_that_the_request_published_before_stays():
    cache, _, req = started(12, "W4 A")
    cache.checkpoint_into_tree(req, 8)
    req.swa_branching_seqlen = 8
    cache.checkpoint_into_tree(req, 8)
    assert (req.swa_branching_seqlen, req.kv.cache_protected_len) == (8, 8)


@pytest.mark.parametrize(("page", "declined"), [(1, []), (2, [1, 9]), (4, [1, 9]), (8, [1, 9])])
def test_tokens_after_the_last_whole_page_have_no_restore_point(page, declined):
    cache, _, req = started(9, page_size=page)
    cache.checkpoint_into_tree(req, 9)
    assert [event.n_tokens for event in cache.log.events if isinstance(event, Declined)] == declined


@pytest.mark.parametrize(("rules", "chunked", "uses"), [(NEW, False, 1), (NEW, True, 1), (MIDDLE, False, 1),
                                                        (MIDDLE, True, 0)])  # fmt: skip
def test_an_inserted_node_has_the_priority_of_its_request_and_counts_it(rules, chunked, uses):
    """Before 0.5.23 a chunk did not count as a use."""
    cache, _, req = started(8, rules=rules)
    req.priority, req.is_chunked = 3, chunked
    cache.checkpoint_into_tree(req, 8)
    (node,) = cache.tree_core.nodes()
    assert (node.priority, node.hit_count) == (3, uses)


@pytest.mark.parametrize("rules", [NEW, MIDDLE])
def test_a_node_ends_with_the_prompt_and_is_kept_longer_than_the_answer(rules):
    """A prompt of four tokens and two of its answer, which count as one use."""
    cache, _, req = started(4, rules=rules)
    req.fill_ids.extend((8, 9))
    alloc_token_slots(req, cache, 6)
    req.kv.kv_committed_len = 6
    cache.checkpoint_into_tree(req, 6, is_finished=True)
    nodes = [(node.end, node.priority, node.hit_count) for node in cache.tree_core.nodes()]
    assert nodes == [(4, 1, 1), (6, 0, 1)]


@pytest.mark.parametrize(("policy", "left"), [("lru", ["ab", "cd"]), ("mru", ["ab", "xy"]), ("fifo", ["ab", "xy"]),
                                              ("filo", ["ab", "cd"])])  # fmt: skip
def test_a_match_that_splits_a_leaf_makes_its_rest_recent(policy, left):
    one = Cache(radix_eviction_policy=policy)
    for text in ("abcd", "xy"):
        one.insert(text)
    one.match("ab")
    one.evict(1)
    assert ["".join(map(chr, node.key)) for node in one.nodes()] == left


@pytest.mark.parametrize(("policy", "gone"), [("lru", "xyz"), ("mru", "abcd")])
def test_a_match_that_goes_on_in_host_memory_makes_the_leaf_of_the_device_recent(policy, gone):
    one = Cache(radix_eviction_policy=policy, **HOST)
    for text in ("abcd", "abcdefgh", "xyz"):
        one.insert(text)
    one.cache.check_hicache_events()
    one.tree.demote(one.nodes()[-1], "R")
    found = one.match("abcdefgh")
    assert (found.found.device_hit_length, found.host_hit_length, found.last_device_node.end) == (4, 4, 4)
    one.evict(1)
    assert ["".join(map(chr, node.key)) for node in one.nodes() if node.evicted and node.key != (101, 102, 103, 104)
            ] == [gone]  # fmt: skip
    one.tree.check()


@pytest.mark.parametrize(("frontier", "ends"), [
    (0, [(3, True), (8, True)]), (3, [(3, True), (8, True)]), (5, [(3, True), (5, False), (8, True)]),
    (8, [(3, True), (8, False)]),
])  # fmt: skip
def test_a_node_behind_others_that_is_evaluated_again_gets_the_live_window(frontier, ends):
    one = Cache(WITH_WINDOW, 8, **HOST)
    for text in ("abc", "abcdefgh"):
        one.insert(text)
    one.cache.check_hicache_events()
    one.tree.demote(one.nodes()[-1], "R")
    one.insert("abcdefgh", frontier)
    assert [(node.end, node.value[SWA] is not None) for node in one.nodes()] == ends
    one.tree.check()
