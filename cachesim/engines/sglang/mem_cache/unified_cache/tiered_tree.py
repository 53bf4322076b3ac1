"""Radix tree whose nodes may have a copy of their rows in host memory.

A node that is evicted from the device stays in the tree while it has such a copy; all nodes before a node with slots
have slots. An engine decides when a node is copied, and in which order copies are dropped.
"""

from __future__ import annotations

from typing import Any, Callable, Sequence

import numpy as np

from cachesim.base.errors import Crash
from cachesim.engines.rule import Decision
from cachesim.engines.sglang.mem_cache import tree_events as ev
from cachesim.engines.sglang.mem_cache.allocator import NO_SLOTS, Slots
from cachesim.engines.sglang.mem_cache.pool_host import HostTier
from cachesim.engines.sglang.mem_cache.tree_points import FULL, STATE
from cachesim.engines.sglang.mem_cache.unified_cache.evictable_leaves import LeafOrder
from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_core import Lock, RadixTree, has_child
from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_node import Node


class TieredTree(RadixTree):
    """The tree. ``host_leaves``: nodes without slots and children that can be removed; ``doubles``: nodes that have had
    both, in the order in which they got the second; ``pinned``: nodes that are being loaded, and the node that they are
    loaded for."""

    def __init__(self, *memory: Any, host: HostTier | None) -> None:
        super().__init__(*memory)
        self.host = host
        self.host_leaves = LeafOrder(self.place, self.arena)
        self.doubles: dict[Node, None] = {}
        self.pinned: dict[Node, Node] = {}

    def update_leaf(self, node: Node) -> None:
        """Keep the sets of leaves of both memories."""
        if node.value[FULL] is not None or node.parent is None:
            super().update_leaf(node)
        elif node.children or any(node.lock):
            self.host_leaves.pop(node, None)
        else:
            self.host_leaves.put(node)

    def lock(self, node: Node) -> Lock:
        """Lock the path to a node."""
        self.host_leaves.pop(node, None)
        return super().lock(node)

    def split(self, child: Node, n: int) -> Node:
        """Split a node after its first ``n`` tokens, with its copy; return the new node that holds them."""
        upper = super().split(child, n)
        if child.host is not None:
            upper.host, child.host = child.host[:n], child.host[n:]
            if child in self.pinned:
                self.pinned[upper] = self.pinned[child]
            self.note_double(upper)
        return upper

    def remove(self, node: Node) -> Node:
        """Remove a leaf whose parts are dropped; return its parent."""
        self.host_leaves.pop(node, None)
        self.doubles.pop(node, None)
        return super().remove(node)

    def note_double(self, node: Node) -> None:
        """Record a node that has slots and a copy, unless it is being loaded."""
        if node.value[FULL] is not None and node.host is not None and node not in self.pinned:
            self.doubles.setdefault(node)

    def back_up(self, node: Node, doubles: bool, rule: Callable[[Node], Decision]) -> bool:
        """Copy a node to host memory, after others made room: with ``doubles`` copies of nodes that have slots, too,
        then host leaves, by the rule. Return whether there was room."""
        assert self.host is not None
        lacking = len(node.key) - self.host.available
        if lacking > 0 and doubles:
            lacking -= self._reclaim(lacking)
        leaves = self.host_leaves.in_order()
        while lacking > 0 and (leaf := next(leaves, None)) is not None:
            lacking -= self._forget(leaf, rule)
        if lacking > 0:
            return False
        node.host = self.host.write(node.value[FULL])
        self.changes.append(ev.BackedUp(node.id, len(node.key)))
        self.note_double(node)
        return True

    def _reclaim(self, n: int) -> int:
        """Drop copies of nodes that have slots, too, until ``n`` slots are free: those of leaves that can be evicted
        last. Return the freed slots."""
        freed, past = 0, list[Node]()
        for spared in (True, False):
            for node in self.doubles:
                if freed >= n:
                    break
                if node.value[FULL] is None or node.host is None:
                    past.append(node)
                elif not (spared and node in self.leaves) and node not in self.pinned:
                    freed += self._drop_copy(node, "")
                    past.append(node)
        for node in past:
            self.doubles.pop(node, None)
        return freed

    def _forget(self, node: Node, rule: Callable[[Node], Decision]) -> int:
        """Remove a leaf that has a copy only; return its number of slots."""
        decision = rule(node)
        self.decide(decision)
        freed = self._drop_copy(node, decision.rule)
        self.remove(node)
        return freed

    def _drop_copy(self, node: Node, rule: str) -> int:
        """Free the copy of a node; return its number of slots."""
        assert self.host is not None
        self.host.give_back(node.host)
        node.host = None
        self.changes.append(ev.Dropped(node.id, "H", len(node.key)))
        if node.value[FULL] is None:
            self.lost.append((node, FULL, rule))
            self.touched[node] = None
        return len(node.key)

    def demote(self, node: Node) -> int:
        """Free the slots of a leaf that has a copy; return their number."""
        assert node.parent is not None
        self.kv.free(node.value[FULL])
        node.value[FULL] = None
        self.evictable[FULL] -= len(node.key)
        self.changes.append(ev.Demoted(node.id, len(node.key)))
        self.touched[node] = None
        self.leaves.pop(node)
        self.update_leaf(node)
        self.update_leaf(node.parent)
        return len(node.key)

    def fill(self, node: Node, slots: Slots) -> None:
        """Give a node without slots these."""
        assert node.parent is not None
        node.value[FULL] = slots
        (self.protected if node.lock[FULL] else self.evictable)[FULL] += len(slots)
        self.host_leaves.pop(node, None)
        self.touched[node] = None
        self.update_leaf(node)
        self.update_leaf(node.parent)

    def revive(self, node: Node, slots: Slots) -> None:
        """Give a node without slots those of a request, which has evaluated the tokens again."""
        self.fill(node, slots)
        self.note_double(node)
        self.changes.append(ev.Revived(node.id, len(slots)))

    def evicted_path(self, last: Node) -> list[Node]:
        """Return the nodes without slots on the path to a node, the nearest to the root first."""
        return [node for node in last.path() if node.value[FULL] is None][::-1]

    def load(self, last: Node, slots: Slots) -> None:
        """Copy the rows of the nodes without slots on the path to a node into these slots. They are pinned until
        ``settle``."""
        assert self.host is not None
        at = 0
        for node in self.evicted_path(last):
            self.host.read(node.host, slots[at : at + len(node.key)])
            self.fill(node, slots[at : at + len(node.key)])
            self.pinned[node] = last
            self.changes.append(ev.Loaded(node.id, len(node.key)))
            at += len(node.key)

    def settle(self) -> None:
        """End all loads."""
        pinned, self.pinned = self.pinned, {}
        for last in dict.fromkeys(pinned.values()):
            for node in last.path():
                if pinned.get(node) is last:
                    self.note_double(node)

    def check(self) -> None:
        """Raise Crash unless sizes, leaves, recency lists and copies agree with the nodes."""
        super().check()
        gone = [node for node in self.nodes() if node.value[FULL] is None]
        if {node for node in gone if not node.children and not any(node.lock)} != set(self.host_leaves):
            raise Crash("the set of host leaves is not that of the tree")
        for node in gone:
            if has_child(node):
                raise Crash(f"node {node.id} has no slots, a child has")

    def check_pools(self, own: Sequence[Slots], states: Sequence[int]) -> None:
        """Raise Crash unless every slot is free, in the tree, or in one of these of requests, and every state."""
        nodes = [*self.nodes()]
        slots = np.concatenate([NO_SLOTS, *own, *(node.value[FULL] for node in nodes if node.value[FULL] is not None)])
        self.kv.full.check(slots)
        if self.kv.window is not None:
            self.kv.window.check(self.kv.peer[slots])
        if self.host is not None:
            self.host.check(np.concatenate([NO_SLOTS, *(node.host for node in nodes if node.host is not None)]))
        if STATE in self.parts:
            held = [*states, *(node.value[STATE] for node in nodes if node.value[STATE] is not None)]
            if len(set(held)) < len(held):
                raise Crash("slots of states are used twice")
            self.states.check(np.array(held, np.int64))
