"""Restore points of nodes and states: what is reported of each change of the tree, and to whom."""

from __future__ import annotations

import pytest

from cachesim.engines.inspection import RestorePoint
from cachesim.engines.sglang.mem_cache.unified_cache.component_type import FULL, MAMBA, SWA
from cachesim.events import Gained, Lost
from tests.unit.engines.sglang.trees import insert, make_cache

TEXT = tuple(range(100, 120))
HOST = {"enable_hierarchical_cache": True, "mamba_radix_cache_strategy": "no_buffer", "disable_overlap_schedule": True}


class Tree:
    """A prefix cache, and the events about its restore points."""

    def __init__(self, *args, listens=True, **fields):
        self.cache, self.pools = make_cache(*args, **fields)
        self.core, self.points, self.log = self.cache.tree_core, self.cache.points, self.cache.log
        self.seen = []
        if listens:
            self.listen()

    def listen(self):
        self.log.kinds, self.log.listener = frozenset((Gained, Lost)), self.seen.append

    def insert(self, key):
        """Insert tokens and return the events."""
        insert(self.cache, self.pools, key)
        return self.report()

    def report(self):
        """Report the changes and return the events."""
        before = len(self.seen)
        self.cache.report()
        return self.seen[before:]

    def nodes(self):
        return list(self.core.nodes())


def points(events):
    return [event.point for event in events]


def test_a_node_adds_its_tokens_to_the_prefix_before_it():
    tree = Tree()
    assert points(tree.insert(TEXT[:8])) == [RestorePoint(("node", 1, 0), 8, TEXT[:8], 0, None, 1, 8)]
    assert points(tree.insert(TEXT[:12])) == [RestorePoint(("node", 2, 0), 12, TEXT[8:12], 8, ("node", 1, 0), 1, 12)]


def test_a_node_of_pages_is_usable_at_each_page():
    tree = Tree(page_size=4)
    assert points(tree.insert(TEXT[:8])) == [RestorePoint(("node", 1, 0), 8, TEXT[:8], 0, None, 4, 8, step=4)]


def test_a_state_stands_for_the_tokens_of_its_node():
    tree = Tree("GA")
    assert points(tree.insert(TEXT[:8])) == [
        RestorePoint(("node", 1, 0), 8, TEXT[:8], 0, None, 1, 0),
        RestorePoint(("state", 1, 0), 8, (), 8, ("node", 1, 0), 8, 8),
    ]


def test_nodes_behind_a_window_that_changed_are_reported_again():
    """The window has four tokens. Without that of the first node, prefixes are usable from four tokens behind it on."""
    tree = Tree("W4 A")
    for n in (4, 8, 12):
        tree.insert(TEXT[:n])
    nodes = tree.nodes()
    assert [tree.points.reported["node", node.id, 0] for node in nodes] == [(4, 1, 4), (8, 1, 8), (12, 1, 12)]
    tree.core.evict_component(nodes[0], SWA, "R")
    assert [(event.point, event.cause, event.rule) for event in tree.report()] == [
        (RestorePoint(("node", nodes[0].id, 0), 4, (), 4, ("node", nodes[0].id, 0), 1, 0), "evicted", "R"),
        (RestorePoint(("node", nodes[1].id, 0), 8, (), 8, ("node", nodes[1].id, 0), 8, 8), "evicted", "R"),
        (RestorePoint(("node", nodes[2].id, 0), 12, (), 12, ("node", nodes[2].id, 0), 8, 12), "evicted", "R"),
    ]


def test_nothing_is_reported_without_a_listener():
    tree = Tree("GA", listens=False)
    tree.insert(TEXT[:8])
    assert not any(isinstance(event, Gained) for event in tree.log.events)
    assert (tree.points.reported, tree.points.known) == ({}, {})


def test_a_listener_that_comes_later_is_told_of_later_changes_only():
    tree = Tree(listens=False)
    tree.insert(TEXT[:8])
    tree.listen()
    assert [point.key for point in points(tree.insert(TEXT[10:14]))] == [("node", 2, 0)]


def test_an_evicted_node_is_lost_by_its_rule_and_forgotten():
    tree = Tree("GA")
    tree.insert(TEXT[:8])
    tree.insert(TEXT[:12])
    one, two = tree.nodes()
    tree.core.delete_leaf(two, "R")
    lost = tree.report()
    assert {event.key for event in lost} == {("node", two.id, 0), ("state", two.id, 0)}
    assert {(event.cause, event.rule) for event in lost} == {("evicted", "R")}
    assert set(tree.points.known) == {one.id}
    assert set(tree.points.kept()) == {("node", one.id, 0), ("state", one.id, 0)} == set(tree.points.reported)
    assert tree.report() == []


def test_a_node_that_was_never_reported_is_not_lost():
    tree = Tree(listens=False)
    tree.insert(TEXT[:8])
    tree.listen()
    tree.core.delete_leaf(tree.nodes()[0], "R")
    assert tree.report() == []


def test_a_node_whose_slots_go_to_host_memory_is_reported_anew():
    tree = Tree(**HOST)
    tree.insert(TEXT[:8])
    (node,) = tree.nodes()
    tree.cache.check_hicache_events()
    tree.core.demote(node, "R")
    (event,) = tree.report()
    assert event.point == RestorePoint(("node", 1, 0), 8, (), 8, ("node", 1, 0), 1, 8)
    assert (event.cause, event.rule) == ("stored", "")
    assert tree.points.kept() == [("node", 1, 0)]


@pytest.mark.parametrize("part", [FULL, MAMBA])
def test_a_part_in_host_memory_keeps_its_point(part):
    tree = Tree("GA", **HOST)
    tree.insert(TEXT[:8])
    (node,) = tree.nodes()
    tree.cache.check_hicache_events()
    tree.core.demote(node, "R")
    found = points(tree.report())
    assert [point.key for point in found] == [("node", 1, 0), ("state", 1, 0)]
    assert [(point.lo, point.hi) for point in found] == [(1, 0), (8, 8)]
    tree.core.evict_host_component(node, part, "R")
    assert (("state", 1, 0) in tree.points.kept()) is (part == FULL)


def test_the_upper_half_of_a_split_node_is_a_further_point_without_a_state():
    tree = Tree("GA")
    tree.insert(TEXT[:8])
    assert points(tree.insert((*TEXT[:4], 9))) == [
        RestorePoint(("node", 2, 0), 4, TEXT[:4], 0, None, 1, 0),
        RestorePoint(("node", 3, 0), 5, (9,), 4, ("node", 2, 0), 1, 0),
        RestorePoint(("state", 3, 0), 5, (), 5, ("node", 3, 0), 5, 5),
    ]
    assert set(tree.points.kept()) == set(tree.points.reported)


def test_a_state_that_was_lost_is_lost_once():
    tree = Tree("GA")
    tree.insert(TEXT[:8])
    tree.insert(TEXT[:12])
    one, two = tree.nodes()
    tree.core.evict_component(one, MAMBA, "R")
    assert [(event.key, event.rule) for event in tree.report()] == [(("state", one.id, 0), "R")]
    tree.core.evict_component(two, MAMBA, "S")
    assert [(event.key, event.rule) for event in tree.report()] == [(("state", two.id, 0), "S")]


def test_a_state_behind_a_dead_window_is_unusable():
    tree = Tree("W4 A G")
    tree.insert(TEXT[:4])
    tree.insert(TEXT[:8])
    one, two = tree.nodes()
    assert tree.points.reported["state", two.id, 0] == (8, 8, 8)
    tree.core.evict_component(one, SWA, "R")
    tree.core.evict_component(two, SWA, "R")
    tree.report()
    assert tree.points.reported["state", two.id, 0] == (8, 1, 0)


def test_nodes_from_before_the_listener_are_not_reported_with_those_before_them():
    tree = Tree("W4 A", listens=False)
    tree.insert(TEXT[:4])
    tree.insert(TEXT[:12])
    tree.listen()
    one = tree.nodes()[0]
    tree.core.changes.touch(one)
    assert [point.key for point in points(tree.report())] == [("node", one.id, 0)]
    tree.core.evict_component(one, SWA, "R")
    assert [point.key for point in points(tree.report())] == [("node", one.id, 0)]
