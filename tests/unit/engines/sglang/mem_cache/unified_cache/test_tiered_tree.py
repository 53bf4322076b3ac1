"""A tree with copies in host memory: what is demoted, loaded, reclaimed and forgotten."""

import numpy as np
import pytest

from cachesim.engines.rule import Decision
from cachesim.engines.sglang.mem_cache.allocator import KvPools, StatePool
from cachesim.engines.sglang.mem_cache.pool_host import HostTier
from cachesim.engines.sglang.mem_cache.tree_points import FULL
from cachesim.engines.sglang.mem_cache.unified_cache.tiered_tree import TieredTree
from cachesim.engines.shared.kv_rows import empty_rows, write_rows
from cachesim.model import Rows


def drop(node):
    return Decision(node.id, {}, rule="test")


@pytest.fixture
def rows():
    """Rows of a layer: slot n holds n."""
    made = empty_rows([0])
    write_rows(made, 0, np.arange(20), Rows(np.arange(20, dtype=np.uint64), None, None))
    return made


@pytest.fixture
def tree(rows):
    """A tree whose host memory holds ten tokens, with the nodes 1 (four tokens), 2 and 3 behind it (three each)."""
    made = TieredTree((FULL,), 1, 0, KvPools(1, 20, None), StatePool(1), host=HostTier(10, 1, rows))
    add(made, made.root, (1, 2, 3, 4))
    add(made, made.arena[1], (5, 6, 7))
    add(made, made.arena[1], (8, 9, 10))
    made.check()
    return made


def add(tree, parent, key):
    node = tree.grow(parent, key, parent.end + len(key), "", 0, key)
    node.value[FULL] = tree.kv.extend(-1, 0, len(key))
    tree.evictable[FULL] += len(key)
    tree.update_leaf(node)
    tree.update_leaf(parent)
    return node


def test_a_demoted_node_comes_back_with_its_rows(tree, rows):
    one, two, _ = tree.nodes()
    slots = tree.slots(two).tolist()
    assert all(tree.back_up(node, False, drop) for node in (one, two)) and list(tree.doubles) == [one, two]
    assert tree.demote(two) == 3 and tree.evictable == [7, 0, 0] and list(tree.host_leaves) == [two]
    fresh = np.array([17, 18, 19])
    tree.load(two, fresh)
    assert rows[0].digest[fresh].tolist() == slots[4:] and tree.pinned == {two: two} and not tree.host_leaves
    tree.settle()
    assert list(tree.doubles) == [one, two] and not tree.pinned
    tree.check()


def test_a_split_divides_the_copy(tree):
    _, two, _ = tree.nodes()
    tree.back_up(two, False, drop)
    held = two.host.tolist()
    upper = tree.split(two, 2)
    assert (upper.host.tolist(), two.host.tolist()) == (held[:2], held[2:]) and list(tree.doubles) == [two, upper]


def test_host_leaves_make_room_the_oldest_first(tree):
    one, two, three = tree.nodes()
    for node in (one, two, three):
        assert tree.back_up(node, False, drop)
    for node in (two, three):
        tree.demote(node)
    four = add(tree, tree.root, (20, 21))
    assert tree.back_up(four, False, drop) and list(tree.nodes()) == [one, four, three]
    assert [(node, rule) for node, _, rule in tree.lost] == [(two, "test")]
    tree.check()


def test_doubles_make_room_first_those_of_evictable_leaves_last(tree):
    one, two, three = tree.nodes()
    for node in (two, one, three):
        tree.back_up(node, False, drop)
    four = add(tree, tree.root, (20, 21, 22, 23))
    assert tree.back_up(four, True, drop) and [node.host is None for node in (one, two, three)] == [True, False, False]
    five = add(tree, tree.root, (30,))
    assert tree.back_up(five, True, drop) and two.host is None and list(tree.doubles) == [three, four, five]
    assert not tree.back_up(add(tree, tree.root, (40, 41, 42, 43)), False, drop)
