"""Splits, parts and locks of a radix tree on pools, and its walk by weight."""

import pytest

from cachesim.base.errors import ProcessAborted
from cachesim.engines.sglang.mem_cache.allocator import KvPools, StatePool
from cachesim.engines.sglang.mem_cache.tree_points import FULL, STATE, SWA
from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_core import RadixTree


@pytest.fixture
def tree():
    """A tree with a node of six tokens and all parts."""
    made = RadixTree((FULL, SWA, STATE), 1, 3, KvPools(1, 20, 20), StatePool(4))
    node = made.grow(made.root, (1, 2, 3, 4, 5, 6), 6, "", 0, (1, 2, 3, 4, 5, 6))
    node.value[FULL] = made.kv.extend(-1, 0, 6)
    made.evictable[FULL] += 6
    made.store(node, SWA, made.kv.peer[node.value[FULL]])
    made.store(node, STATE, made.states.take())
    made.update_leaf(node)
    made.check()
    return made


def test_a_split_divides_slots_and_leaves_the_state_below(tree):
    node = next(tree.nodes())
    slots, lock = tree.slots(node).tolist(), tree.lock(node)
    upper = tree.split(node, 4)
    assert tree.slots(node).tolist() == slots and [len(one.key) for one in tree.nodes()] == [4, 2]
    assert (upper.value[STATE], node.value[STATE], upper.lock, node.lock) == (None, 1, [1, 1, 0], [1, 1, 1])
    tree.check()
    tree.unlock(lock)
    assert tree.protected == [0, 0, 0] and upper.lock == node.lock == [0, 0, 0]
    tree.check()


def test_a_dropped_part_frees_its_slots(tree):
    node = next(tree.nodes())
    assert [tree.available(part) for part in (FULL, SWA, STATE)] == [14, 14, 3]
    assert [tree.drop(node, part, "test") for part in (SWA, SWA, STATE)] == [6, 0, 1]
    tree.check()
    assert tree.drop(node, FULL, "test") == 6 and tree.remove(node) is tree.root and not tree.arena
    assert [tree.available(part) for part in (FULL, SWA, STATE)] == [20, 20, 4]
    assert [(part, rule) for _, part, rule in tree.lost] == [(SWA, "test"), (STATE, "test"), (FULL, "test")]


def test_a_locked_part_is_not_dropped(tree):
    node = next(tree.nodes())
    tree.lock(node)
    with pytest.raises(ProcessAborted, match="part S of node 1 is locked"):
        tree.drop(node, SWA, "test")


def test_the_walk_visits_the_heavier_child_first(tree):
    a, b = (tree.grow(tree.root, (n,), 1, "", 0, (n,)) for n in (7, 8))
    below = tree.grow(b, (9,), 2, "", 0, (8, 9))
    assert tree.heaviest_first({a: [1], b: [2], below: [3, 4], tree.root: [5]}) == [3, 4, 2, 1, 5]
