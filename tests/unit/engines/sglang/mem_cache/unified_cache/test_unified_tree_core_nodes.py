"""Nodes of the tree: their clock, what a split copies, what a deletion frees, and the slots of a path."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.base.errors import ProcessAborted
from cachesim.engines.sglang.mem_cache import tree_events as ev
from cachesim.engines.sglang.mem_cache.unified_cache.component_type import FULL, MAMBA
from tests.unit.engines.sglang.trees import insert, make_cache

TEXT = tuple(range(100, 140))
NO_BUFFER = {"mamba_radix_cache_strategy": "no_buffer", "disable_overlap_schedule": True}
HOST = {**NO_BUFFER, "enable_hierarchical_cache": True}


def chain(*lengths, model="A", **flags):
    """Return a tree with a chain of nodes that end after these lengths, and the nodes."""
    cache, pools = make_cache(model, **flags)
    for n in lengths:
        insert(cache, pools, TEXT[:n])
    cache.check_hicache_events()
    return cache.tree_core, [*cache.tree_core.nodes()]


def test_the_clock_counts_from_two():
    core = make_cache()[0].tree_core
    assert [core.get_and_increase_time_counter() for _ in range(3)] == [2.0, 3.0, 4.0]
    assert core.time_counter == 5.0


def test_a_new_node_has_the_next_number_and_two_ticks_of_the_clock():
    core = make_cache(page_size=2)[0].tree_core
    one = core.add_new_node(core.root_node, (1, 2, 3, 4), extra_key="x", priority=3, text=TEXT)
    two = core.add_new_node(one, (5, 6), extra_key="x", priority=4, text=TEXT)
    assert [(node.id, node.end, node.key, node.priority, node.extra_key, node.text) for node in (one, two)] == [
        (1, 4, (1, 2, 3, 4), 3, "x", TEXT), (2, 6, (5, 6), 4, "x", TEXT)]
    assert [(node.last_access_time, node.creation_time) for node in (one, two)] == [(2.0, 3.0), (4.0, 5.0)]
    assert core.nodes_by_id == {1: one, 2: two} and core.root_node.children == {("x", (1, 2)): one}
    assert (one.children, two.parent, one.hit_count) == ({("x", (5, 6)): two}, one, 0)


def test_the_upper_half_of_a_split_node_has_its_uses_and_its_age_and_the_lower_half_is_recent():
    core, [node] = chain(8)
    node.hit_count, node.priority, node.creation_time, node.extra_key = 5, 3, 1.5, None
    now = core.time_counter
    upper = core.split_node(node, 3)
    assert (upper.hit_count, upper.priority, upper.creation_time, upper.text) == (5, 3, 1.5, node.text)
    assert (upper.key, node.key, upper.end, node.end) == (TEXT[:3], TEXT[3:8], 3, 8)
    assert (upper.last_access_time, node.last_access_time) == (now, now + 2)
    assert upper.children == {(None, TEXT[3:4]): node} and node.parent is upper
    assert core.root_node.children == {(None, TEXT[:1]): upper}
    assert core.changes.events[-1] == ev.Split(node.id, upper.id, 3)


@pytest.mark.parametrize("start", range(9))
def test_slots_of_a_path_from_a_position_on(start):
    core, nodes = chain(2, 5, 8)
    slots = [int(slot) for node in nodes for slot in node.value[FULL]]
    assert core.collect_full_device_indices(nodes[-1], start).tolist() == slots[start:]
    assert core.collect_full_device_indices(nodes[1], min(start, 5)).tolist() == slots[start:5]
    assert core.collect_full_device_indices(core.root_node).tolist() == []


def test_only_nodes_behind_a_position_are_read_for_the_slots_of_a_path():
    core, nodes = chain(2, 5, 8)
    nodes[0].value[FULL] = None
    assert len(core.collect_full_device_indices(nodes[-1], 2)) == 6


MODELS = [("A", [4, 0, 0], "F"), ("W8 A", [4, 4, 0], "FS"), ("GA", [4, 0, 1], "FM"), ("W8 A G", [4, 4, 1], "FSM")]


@pytest.mark.parametrize(("model", "freed", "parts"), MODELS)
@pytest.mark.parametrize("is_copy", [False, True])
def test_a_deleted_leaf_frees_all_of_its_parts(is_copy, model, freed, parts):
    """``is_copy``: it is in host memory only, so that nothing is freed on the device."""
    core, [above, leaf] = chain(4, 8, model=model, **HOST if is_copy else NO_BUFFER)
    if is_copy:
        core.demote(leaf, "test")
    core.changes.clear()

    def room(of):
        pools = [component.host_pool if is_copy else component for component in of.components.values()]
        return [pool.available_size() for pool in pools]

    before = room(core)
    assert core.delete_leaf(leaf, "R") == ([0, 0, 0] if is_copy else freed)
    assert room(core) == [free + freed["FSM".index(part)] for free, part in zip(before, parts, strict=True)]
    assert [(one.node, one.component_type, one.rule) for one in core.changes.lost] == [
        (leaf, "FSM".index(part), "R") for part in parts]  # fmt: skip
    letters = [{"F": "H", "S": "HS", "M": "HM"}[part] for part in parts] if is_copy else parts
    assert core.changes.events == [*(ev.Dropped(leaf.id, letter, 4) for letter in letters), ev.Gone(leaf.id)]
    assert [*core.nodes()] == [*core.evictable_device_leaves] == [above]
    assert not core.evictable_host_leaves and leaf not in core.full_host_duplicates
    core.check()


def test_a_leaf_that_is_deleted_without_copies_leaves_its_parent_as_a_leaf():
    core, [above, leaf] = chain(4, 8)
    assert core.remove_leaf_from_parent(leaf) is above
    assert (leaf.value[FULL], above.children, core.nodes_by_id) == (None, {}, {above.id: above})
    assert [*core.evictable_device_leaves] == [above]


def test_a_demoted_leaf_loses_its_parts_on_the_device_and_keeps_its_copies():
    core, [above, leaf] = chain(4, 8, model="W8 A G", **HOST)
    core.changes.events.clear()
    assert core.demote(leaf, "R") == [4, 4, 1]
    assert leaf.value == [None, None, None] and all(value is not None for value in leaf.host_value)
    assert core.changes.events == [ev.Dropped(leaf.id, "S", 4), ev.Dropped(leaf.id, "M", 4), ev.Demoted(leaf.id, 4)]
    assert [*core.evictable_host_leaves] == [leaf] and [*core.evictable_device_leaves] == [above]
    core.check()


def test_a_node_that_is_evaluated_again_takes_the_slots_of_the_request():
    core, [above, leaf] = chain(4, 8, **HOST)
    core.demote(leaf, "R")
    core.changes.events.clear()
    slots = core.full.alloc_on_device(4)
    core.unevict_node_on_insert(leaf, slots)
    assert leaf.value[FULL] is slots and core.changes.events == [ev.Revived(leaf.id, 4)]
    assert [*core.full_host_duplicates] == [above, leaf] and [*core.evictable_device_leaves] == [leaf]
    assert not core.evictable_host_leaves and core.full.evictable_size == 8
    core.check()


@pytest.mark.parametrize(("evicted", "backed", "writing", "loading", "both"), [
    (False, True, False, False, True), (True, True, False, False, False), (False, False, False, False, False),
    (False, True, True, False, False), (False, True, False, True, False),
])  # fmt: skip
def test_a_node_with_slots_and_a_settled_copy_has_both(evicted, backed, writing, loading, both):
    core, [node] = chain(4)
    for known in (False, True):
        core.full_host_duplicates = {node: None} if known else {}
        node.value[FULL] = None if evicted else np.arange(4)
        node.host_value[FULL] = np.arange(4) if backed else None
        node.write_through_pending, core.loading = writing, {node: node} if loading else {}
        core.update_duplicate_tracking(node)
        assert (node in core.full_host_duplicates) is both


def test_a_lock_without_a_holder_is_released_in_silence():
    core, [node] = chain(4)
    core.dec_lock_ref(None)
    assert node.lock_ref == [0, 0, 0]
    assert core.move_lock(None, node).node is node and node.lock_ref == [1, 0, 0]


@pytest.mark.parametrize("part", ["W8 A", "GA"])
def test_the_root_is_locked_for_no_state(part):
    core, [node] = chain(4, model=part)
    lock = core.inc_lock_ref(core.root_node)
    assert (core.root_node.lock_ref, node.lock_ref, lock.window_lock_uuid) == ([0, 0, 0], [0, 0, 0], None)
    core.dec_lock_ref(lock)
    host = core.inc_host_lock_ref(core.root_node) if core.mamba is not None else None
    assert core.root_node.host_lock_ref[MAMBA] == 0
    if host is not None:
        core.dec_host_lock_ref(host)
        assert core.root_node.host_lock_ref[MAMBA] == 0


def test_a_lock_that_was_released_is_not_moved():
    core, [above, leaf] = chain(4, 8)
    lock = core.inc_lock_ref(above)
    core.dec_lock_ref(lock)
    with pytest.raises(ProcessAborted, match="lock_ref=0 on node 1"):
        core.move_lock(lock, leaf)


@pytest.mark.parametrize("model", ["A", "W8 A", "GA"])
def test_a_leaf_in_host_memory_with_a_locked_copy_is_not_evictable(model):
    core, [_, leaf] = chain(4, 8, model=model, **HOST)
    core.demote(leaf, "R")
    lock = core.inc_host_lock_ref(leaf)
    assert not core.evictable_host_leaves and 0 in leaf.host_lock_ref
    core.check()
    core.dec_host_lock_ref(lock)
    assert [*core.evictable_host_leaves] == [leaf] and leaf.host_lock_ref == [0, 0, 0]
    core.check()
