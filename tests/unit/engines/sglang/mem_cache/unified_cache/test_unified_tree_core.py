"""Splits, parts and locks of the tree, and its walk by weight."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest

from cachesim.base.errors import Crash, ProcessAborted
from cachesim.engines.sglang.mem_cache.unified_cache.component_type import FULL, MAMBA, SWA
from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_node import UnifiedTreeNode
from tests.unit.engines.sglang.conversations import server
from tests.unit.engines.sglang.crowded_host import REQUESTS, reused_by_each
from tests.unit.engines.sglang.trees import insert, make_cache, make_req, take

KEY = (1, 2, 3, 4, 5, 6)


@pytest.fixture
def cache():
    """A cache whose tree has a node of six tokens with all parts."""
    made, pools = make_cache("W3 A G", size=20, states=4)
    core = made.tree_core
    node = core.add_new_node(core.root_node, KEY, extra_key="", priority=0, text=KEY)
    node.value[FULL] = take(pools, 6)
    core.full.count_value(node)
    core.swa.commit_insert_component_data(node)
    core.mamba.store(node, pools.req_to_token_pool.mamba_allocator.alloc())
    core.update_evictable_leaf_sets(node)
    core.check()
    return made


@pytest.fixture
def core(cache):
    return cache.tree_core


def available(core):
    return [component.available_size() for component in core.components.values()]


def test_a_split_divides_slots_and_leaves_the_state_below(core):
    node = next(core.nodes())
    slots = core.collect_full_device_indices(node).tolist()
    lock = core.inc_lock_ref(node)
    upper = core.split_node(node, 4)
    assert core.collect_full_device_indices(node).tolist() == slots
    assert [len(one.key) for one in core.nodes()] == [4, 2]
    assert (upper.value[MAMBA], node.value[MAMBA]) == (None, 1)
    assert (upper.lock_ref, node.lock_ref) == ([1, 1, 0], [1, 1, 1])
    core.check()
    core.dec_lock_ref(lock)
    assert [component.protected_size for component in core.components.values()] == [0, 0, 0]
    assert upper.lock_ref == node.lock_ref == [0, 0, 0]
    core.check()


@pytest.mark.parametrize("start, end", [(0, 2), (1, 2), (2, 2), (2, 0), (None, 1)])
def test_a_moved_lock_leaves_what_a_release_and_a_new_lock_leave(start, end):
    found = []
    for move in (True, False):
        made, pools = make_cache("W3 A G", size=40)
        tokens = tuple(range(12))
        for n in (4, 8, 12):
            insert(made, pools, tokens[:n])
        core = made.tree_core
        nodes = list(core.nodes())
        lock = None if start is None else core.inc_lock_ref(nodes[start])
        if move:
            lock = core.move_lock(lock, nodes[end])
        else:
            core.dec_lock_ref(lock)
            lock = core.inc_lock_ref(nodes[end])
        core.check()
        found.append((
            [(node.lock_ref, node.window_lock_uuid) for node in nodes], lock.window_lock_uuid, lock.node.id,
            [leaf.id for leaf in core.evictable_device_leaves],
            [(part.evictable_size, part.protected_size) for part in core.components.values()],
        ))  # fmt: skip
    assert found[0] == found[1]


def test_an_evicted_part_frees_its_slots(core):
    node = next(core.nodes())
    assert available(core) == [14, 14, 3] and core.mamba.lengths.in_order() == [6]
    assert [core.evict_component(node, part, "test") for part in (SWA, SWA, MAMBA)] == [6, 0, 1]
    core.check()
    assert core.mamba.lengths.in_order() == []
    assert core.evict_component(node, FULL, "test") == 6
    assert core.remove_leaf_from_parent(node) is core.root_node and not core.nodes_by_id
    assert available(core) == [20, 20, 4]
    assert [(lost.component_type, lost.rule) for lost in core.changes.lost] == [
        (SWA, "test"), (MAMBA, "test"), (FULL, "test")]  # fmt: skip


def test_a_locked_part_is_not_evicted(core):
    node = next(core.nodes())
    core.inc_lock_ref(node)
    with pytest.raises(ProcessAborted, match="part S of node 1 is locked"):
        core.evict_component(node, SWA, "test")


def test_a_state_that_is_handed_over_leaves_the_request(core, cache):
    from cachesim.base.tokens import TokenList
    from cachesim.engines.sglang.managers.req import Req

    req = Req(0, None, TokenList((1, 2)))
    req.kv.mamba_ping_pong_track_buffer = [2, 3]
    req.kv.mamba_last_track_seqlen = 4
    req.kv.mamba_last_track_idx = 1
    assert core.mamba.hand_over_chunk_state(req, 4) == 3 and req.kv.mamba_ping_pong_track_buffer == [2, 4]
    core.mamba.forget_slot(req, 2)
    assert req.kv.mamba_slots == [4]


def test_the_walk_visits_the_heavier_child_first(core):
    a, b = (core.add_new_node(core.root_node, (n,), extra_key="", priority=0, text=(n,)) for n in (7, 8))
    below = core.add_new_node(b, (9,), extra_key="", priority=0, text=(8, 9))
    assert core.dfs_weight_order({a: [1], b: [2], below: [3, 4], core.root_node: [5]}) == [3, 4, 2, 1, 5]


@pytest.mark.parametrize(("model", "policy", "tokens", "reused"), [
    ("W8 A", "write_back", 72, [0, 0, 39, 16, 0, 0, 39, 0, 35, 49]),
    ("W8 A", "write_through", 100, [0, 0, 39, 16, 0, 0, 39, 40, 35, 30]),
    ("GA", "write_back", 100, [0, 0, 32, 16, 0, 0, 32, 40, 32, 0]),
    ("GA", "write_through", 72, [0, 0, 32, 16, 0, 0, 32, 0, 32, 48]),
])  # fmt: skip
def test_parts_that_left_the_device_are_found_in_host_memory(model, policy, tokens, reused):
    assert reused_by_each(model, policy, 2.0, tokens) == reused


@pytest.mark.parametrize(("model", "policy", "reused"), [
    ("W8 A", "write_back", [0, 0, 39, 16, 0, 0, 39, 0, 35, 0]),
    ("W8 A", "write_through", [0, 0, 39, 0, 0, 0, 0, 0, 0, 0]),
    ("GA", "write_back", [0, 0, 32, 16, 0, 0, 16, 0, 32, 0]),
    ("GA", "write_through_selective", [0, 0, 0, 0, 0, 0, 24, 0, 0, 24]),
])  # fmt: skip
def test_copies_that_do_not_fit_leave_the_tree(model, policy, reused):
    assert reused_by_each(model, policy, 1.0, 100) == reused


def crowded(model, **flags):
    """Return the tree of a server with host memory, after conversations that compete for it."""
    parts = {"W8 A": {"swa_tokens": 48}, "GA": {"max_mamba_cache_size": 5, "mamba_track_interval": 8, "state_grid": 8}}
    srv = server(model, max_total_tokens=72, enable_hierarchical_cache=True, **parts[model], **flags)
    for request in REQUESTS[:4]:
        srv.complete(request)
    core = srv.scheduler.tree_cache.tree_core
    core.check()
    return core


def on_device(core):
    return next(node for node in core.nodes() if not node.evicted and node.value[SWA] is not None)


def in_host(core):
    return next(node for node in core.nodes() if node.evicted)


def shorter(node):
    node.key = node.key[1:]


@pytest.mark.parametrize(("change", "told"), [
    (lambda core: setattr(core.full, "evictable_size", core.full.evictable_size + 1),
     "part F: 19 tokens evictable and 51 protected, counted 20 and 51"),
    (lambda core: setattr(core.swa, "protected_size", 1),
     "part S: 30 tokens evictable and 11 protected, counted 30 and 1"),
    (lambda core: core.swa.lru_list.remove_node(on_device(core)), "the recency list of part S does not hold its nodes"),
    (lambda core: core.swa.host_lru_list.remove_node(in_host(core)), "the list of copies of part S lacks some"),
    (lambda core: core.swa.host_lru_list.insert_mru(on_device(core)), "the list of copies of part S has other nodes"),
    (lambda core: core.evictable_device_leaves.popitem(), "the set of evictable leaves is not that of the tree"),
    (lambda core: core.evictable_device_leaves.put(in_host(core)), "the set of evictable leaves is not that"),
    (lambda core: core.evictable_host_leaves.popitem(), "the set of host leaves is not that of the tree"),
    (lambda core: shorter(in_host(core)), "does not continue its parent by whole pages"),
    (lambda core: setattr(in_host(core), "end", 99), "does not continue its parent by whole pages"),
    (lambda core: in_host(core).host_value.__setitem__(FULL, None), "has None for"),
    (lambda core: in_host(core).lock_ref.__setitem__(SWA, 1), "those of full attention are not the most"),
    (lambda core: in_host(core).lock_ref.__setitem__(SWA, -1), "those of full attention are not the most"),
])  # fmt: skip
def test_a_tree_that_does_not_agree_with_its_nodes_is_noticed(change, told):
    core = crowded("W8 A")
    change(core)
    with pytest.raises(Crash, match=told):
        core.check()


def test_a_node_that_is_in_host_memory_only_while_a_child_has_slots_is_noticed():
    core = crowded("W8 A")
    node = next(node for node in core.nodes() if node.has_device_child and node.backuped and not any(node.lock_ref))
    core.evictable_device_leaves.put(node)
    core.demote(node, "test")
    with pytest.raises(Crash, match=f"node {node.id} has no slots, a child has"):
        core.check()


def test_a_node_with_more_locks_than_its_parent_is_noticed(core):
    node = next(core.nodes())
    lower = core.split_node(node, 4) and node
    lock = core.inc_lock_ref(lower)
    assert core.check() is None
    lower.lock_ref[FULL] += 1
    with pytest.raises(Crash, match="has more locks than its parent"):
        core.check()
    lower.lock_ref[FULL] -= 1
    core.dec_lock_ref(lock)


def test_lists_of_copies_have_places_of_their_own_in_a_node(core):
    for component, part in ((core.swa, SWA), (core.mamba, MAMBA)):
        assert (component.lru_list.pt, component.host_lru_list.pt) == (part, part + 3)
        assert (component.lru_list.use_host_ptr, component.host_lru_list.use_host_ptr) == (False, True)


def test_a_node_that_comes_back_is_a_leaf_instead_of_its_parent():
    core = crowded("GA")
    node = next(node for node in core.nodes() if node.evicted and node.parent in core.evictable_device_leaves)
    assert node in core.evictable_host_leaves
    core.unevict_node(node, core.full.alloc_on_device(len(node.key)))
    assert node in core.evictable_device_leaves and node.parent not in core.evictable_device_leaves
    assert node not in core.evictable_host_leaves
    core.check()


@pytest.mark.parametrize(("part", "n"), [(FULL, 3), (SWA, 3), (MAMBA, 1)])
def test_slots_that_no_node_got_are_given_back(core, part, n):
    component = core.components[part]
    free = component.available_size()
    taken = component.alloc_on_device(n)
    assert component.available_size() == free - n
    component.free_on_device(taken)
    assert component.available_size() == free


@pytest.mark.parametrize(("listed", "locks", "order"), [(True, 0, [8, 9, 7]), (False, 0, [9, 7, 8]), (False, 1, [8])])
def test_copies_of_a_window_are_divided_with_their_node_and_its_place(core, listed, locks, order):
    """Locked copies are not listed."""
    swa = core.swa
    swa.host_pool = object()
    recent, child, upper = UnifiedTreeNode(8), UnifiedTreeNode(9, key=(3, 4)), UnifiedTreeNode(7, key=(1, 2))
    for node in (recent, child):
        node.host_value[SWA] = np.arange(4)
    if listed:
        swa.host_lru_list.insert_mru(child)
    swa.host_lru_list.insert_mru(recent)
    child.host_lock_ref[SWA], child.host_lock_uuid[SWA], child.lock_ref[SWA], child.window_lock_uuid = locks, 3, 2, 5
    swa.redistribute_on_node_split(upper, child)
    assert [node.id for node in swa.host_lru_list.members()] == order
    assert [node.host_value[SWA].tolist() for node in (upper, child)] == [[0, 1], [2, 3]]
    assert (upper.host_lock_ref[SWA], upper.lock_ref[SWA]) == (locks, 2)
    assert (upper.host_lock_uuid[SWA], child.host_lock_uuid[SWA]) == (3, None)
    assert (upper.window_lock_uuid, child.window_lock_uuid) == (5, None)


def test_a_copy_is_listed_while_no_request_locks_it(core):
    swa = core.swa
    swa.host_pool = object()
    old, recent = UnifiedTreeNode(8), UnifiedTreeNode(9)
    for node in (old, recent):
        node.host_value[SWA] = np.arange(2)
        swa.host_lru_list.insert_mru(node)
    for step, listed in ((1, [9]), (1, [9]), (-1, [9]), (-1, [8, 9])):
        swa.count_host_lock(old, step)
        assert [node.id for node in swa.host_lru_list.members()] == listed
    assert old.host_lock_ref[SWA] == 0


def path_of(*parts):
    """Return the last of some nodes, each of four tokens with these parts: S = a window, H = a copy of it."""
    node = UnifiedTreeNode(0)
    for number, part in enumerate(parts, 1):
        node = UnifiedTreeNode(number, parent=node, key=(1, 2, 3, 4))
        node.value[SWA], node.host_value[SWA] = "S" in part or None, "H" in part or None
        node.write_through_pending = "w" in part
    return node


@pytest.mark.parametrize(("parts", "unbacked"), [
    (("S", "S", "S"), [1, 2, 3]), (("S", "S", "S", "S"), [2, 3, 4]), (("S", "SH", "S"), [1, 3]), (("S", "", "S"), [3]),
    (("S", "H", "S"), [1, 3]), (("S", "Sw", "S"), [3]), (("S", "S", ""), []), ((), []),
])  # fmt: skip
def test_windows_before_the_end_of_a_node_that_have_no_copies(core, parts, unbacked):
    """A window of nine tokens lies in three nodes of four."""
    core.swa.context = replace(core.swa.context, swa_retain_window=9)
    assert [node.id for node in core.swa.unbacked_nodes(path_of(*parts))] == unbacked


@pytest.mark.parametrize(("parts", "loaded"), [
    (("H", "H", "H"), [1, 2, 3]), (("H", "H", "H", "H"), [2, 3, 4]), (("H", "S", "H"), [1, 3]), (("S", "S"), []),
])  # fmt: skip
def test_windows_that_a_match_loads(core, parts, loaded):
    core.swa.context = replace(core.swa.context, swa_retain_window=9)
    assert [node.id for node in core.swa.nodes_to_load(path_of(*parts))] == loaded


@pytest.mark.parametrize(("loading", "writing"), [(False, False), (True, False), (False, True), (True, True)])
def test_both_parts_of_a_split_node_are_loaded_and_written(core, loading, writing):
    node = next(core.nodes())
    if loading:
        core.loading[node] = node
    if writing:
        core.mark_write_through_pending(node)
    upper = core.split_node(node, 4)
    assert core.loading == ({node: node, upper: node} if loading else {})
    assert core.write_through_nodes == ([node, upper] if writing else [])
    assert (node.write_through_pending, upper.write_through_pending) == (writing, writing)
    core.mark_write_through_pending(node)
    assert core.write_through_nodes == ([node, upper] if writing else [node])


def test_a_lock_releases_its_state_alone(core):
    """The state can then be evicted; the slots stay locked, and nothing is released twice."""
    node = next(core.nodes())
    lock = core.inc_lock_ref(node)
    assert node.lock_ref == [1, 1, 1]
    rest = core.release_state(lock)
    assert (rest.holds_state, node.lock_ref) == (False, [1, 1, 0]) and rest == lock._replace(holds_state=False)
    assert core.release_state(rest).holds_state is False and node.lock_ref == [1, 1, 0]
    core.check()
    core.dec_lock_ref(rest)
    assert node.lock_ref == [0, 0, 0] and [*core.evictable_device_leaves] == [node]
    core.check()


def test_a_copied_tree_is_the_one_that_a_node_that_left_it_refers_to(core):
    """A request may refer to a node that was evicted."""
    node = next(core.nodes())
    left = UnifiedTreeNode(99, parent=node)
    root, twin, again = deepcopy([core.root_node, left, node])
    assert twin.parent is again and again.parent is root and list(root.children.values()) == [again]
    assert again is not node and twin is not left


def test_a_locked_copy_makes_no_room():
    core = crowded("W8 A")
    node = next(iter(core.evictable_host_leaves))
    lock = core.inc_lock_ref(node)
    assert node not in core.evictable_host_leaves and node.lock_ref[FULL] == 1
    core.check()
    core.dec_lock_ref(lock)
    assert node in core.evictable_host_leaves
    core.check()


@pytest.mark.parametrize(("strategy", "up_to", "given"), [
    ("extra_buffer", 9, (4, 13)), ("extra_buffer", 4, (4, 13)), ("extra_buffer", 3, (2, 12)),
    ("extra_buffer", 2, (2, 12)), ("extra_buffer", 1, (0, 12)), ("no_buffer", 9, (9, 7)),
])  # fmt: skip
def test_a_finished_request_hands_over_a_tracked_state(strategy, up_to, given):
    """It tracked states after two and four tokens."""
    made, _ = make_cache("GA", mamba_radix_cache_strategy=strategy, disable_overlap_schedule=strategy == "no_buffer")
    req = make_req(0, KEY)
    req.kv.mamba_pool_idx = 7
    if strategy == "extra_buffer":
        req.kv.mamba_ping_pong_track_buffer = [12, 13]
        req.kv.mamba_last_track_idx, req.kv.mamba_last_track_seqlen, req.kv.mamba_prev_track_seqlen = 1, 4, 2
    assert made.mamba.select_finished_checkpoint(req, up_to) == given


@pytest.mark.parametrize("part", [FULL, SWA])
def test_a_locked_copy_is_not_freed(part):
    core = crowded("W8 A")
    node = next(node for node in core.nodes() if node.host_value[part] is not None)
    node.host_lock_ref[part] = 1
    with pytest.raises(ProcessAborted, match=f"copy {'FS'[part]} of node {node.id} is locked"):
        core.evict_host_component(node, part, "test")
    assert node.host_value[part] is not None


def test_a_copy_that_is_not_there_frees_nothing(core):
    assert core.evict_host_component(next(core.nodes()), SWA, "test") == 0 and not core.changes.lost


@pytest.mark.parametrize(("policy", "backed", "locks"), [
    ("write_through", True, 1), ("write_through", False, 0), ("write_back", True, 1), ("write_back", False, 1),
    ("write_through_selective", False, 0),
])  # fmt: skip
def test_a_node_without_a_copy_is_locked_only_if_it_is_copied_at_its_eviction(policy, backed, locks):
    made, pools = make_cache(enable_hierarchical_cache=True, hicache_write_policy=policy)
    insert(made, pools, KEY)
    full, node = made.tree_core.full, next(made.tree_core.nodes())
    node.host_value[FULL] = np.arange(6) if backed else None
    uuid = full.acquire_host_lock(node)
    assert (node.host_lock_ref[FULL], uuid is not None) == (locks, bool(locks))


@pytest.mark.parametrize(("up_to", "given"), [(4, (4, 13)), (3, (0, 13))])
def test_without_a_second_place_no_earlier_state_is_handed_over(up_to, given):
    made, _ = make_cache("GA", mamba_radix_cache_strategy="extra_buffer", disable_overlap_schedule=True)
    req = make_req(0, KEY)
    req.kv.mamba_ping_pong_track_buffer, req.kv.mamba_last_track_idx = [13], 0
    req.kv.mamba_last_track_seqlen, req.kv.mamba_prev_track_seqlen = 4, 2
    assert made.mamba.select_finished_checkpoint(req, up_to) == given


def test_a_boundary_of_locks_on_copies_keeps_its_mark(core):
    node, other = UnifiedTreeNode(8), UnifiedTreeNode(9)
    assert [core.swa.new_host_lock_uuid(one) for one in (node, node, other, node)] == [1, 1, 2, 1]
    assert [one.host_lock_uuid[SWA] for one in (node, other)] == [1, 2] and node.host_lock_uuid[FULL] is None
