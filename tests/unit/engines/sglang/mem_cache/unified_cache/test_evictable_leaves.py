"""Leaves in the order of eviction: outdated ranks are renewed, and leaves that are gone are passed over."""

from __future__ import annotations

from cachesim.engines.sglang.mem_cache.unified_cache.evictable_leaves import STALE, EvictableLeaves


class Leaf:
    def __init__(self, number, time):
        self.number, self.time = number, time


def made(*times):
    nodes = {number: Leaf(number, time) for number, time in enumerate(times)}
    leaves = EvictableLeaves(lambda leaf: (leaf.time, 0, leaf.number), nodes)
    for leaf in nodes.values():
        leaves.put(leaf)
    return leaves, nodes


def numbers(leaves):
    found = []
    for leaf in leaves.in_order():
        found.append(leaf.number)
        del leaves[leaf]
    return found


def test_the_lowest_rank_goes_first():
    assert numbers(made(3, 1, 2)[0]) == [1, 2, 0]


def test_a_leaf_whose_rank_changed_comes_at_its_new_place():
    leaves, nodes = made(3, 1, 2)
    nodes[1].time = 9
    assert numbers(leaves) == [2, 0, 1]


def test_a_leaf_that_is_gone_is_passed_over_and_one_that_is_added_joins():
    leaves, nodes = made(3, 1, 2)
    del leaves[nodes[2]]
    order = leaves.in_order()
    assert next(order).number == 1
    nodes[3] = Leaf(3, 2)
    leaves.put(nodes[3])
    assert [leaf.number for leaf in order] == [3, 0]


def test_outdated_ranks_do_not_pile_up():
    leaves, nodes = made(3, 1)
    lengths = []
    for time in range(10 * STALE):
        nodes[0].time = time
        leaves.put(nodes[0])
        lengths.append(len(leaves.heap))
    assert (max(lengths), min(lengths)) == (2 * len(leaves) + STALE, 2) and numbers(leaves) == [1, 0]
