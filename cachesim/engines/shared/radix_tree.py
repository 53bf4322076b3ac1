"""Radix tree whose nodes have parts: the bookkeeping below its rules.

The tree counts locks and sizes by part, orders the leaves that can be evicted, and keeps a recency list of each part
but full attention. An engine decides what is matched, inserted and evicted.
"""

from __future__ import annotations

import heapq
from typing import Any, Iterator, NamedTuple

from cachesim.base.errors import Crash, ProcessAborted
from cachesim.engines.shared.radix_node import LETTERS, Node
from cachesim.engines.shared.recency_list import Recency
from cachesim.engines.shared.tree_points import FULL, STATE, SWA


class Lock(NamedTuple):
    """A lock on a node and the path before it; ``mark``: boundary of its window, None = the root."""

    node: Node
    mark: int | None


class RadixTree:
    """The nodes, their locks, and the order of eviction. ``evictable``, ``protected``: tokens or states in the tree by
    part, without and with a lock."""

    def __init__(self, parts: tuple[int, ...], page: int, window: int) -> None:
        self.parts, self.page, self.window, self.evictable, self.protected = parts, page, window, [0, 0, 0], [0, 0, 0]
        self.root, self.ticks, self.count, self.marks = Node(0), 2.0, 1, 0
        self.lists = {part: Recency(part, lambda: Node(-1)) for part in parts if part != FULL}
        self.arena: dict[int, Node] = {}                # nodes by their number
        self.leaves: dict[Node, None] = {}              # those that can be evicted
        self.order: list[tuple[Any, float, int]] = []   # heap of their ranks, with outdated ones

    def rank(self, node: Node) -> Any:
        """Return the place of a leaf in the order of eviction; the smallest is evicted first."""
        return node.access

    def tick(self) -> float:
        """Return the time of the logical clock and advance it."""
        self.ticks += 1
        return self.ticks - 1

    def nodes(self) -> Iterator[Node]:
        """Yield all nodes but the root, breadth first."""
        level = [self.root]
        while level:
            level = [child for node in level for child in node.children.values()]
            yield from level

    def size(self, node: Node, part: int) -> int:
        """Return the number of slots that a part of a node has."""
        return 1 if part == STATE else len(node.key)

    def lock(self, node: Node) -> Lock:
        """Lock the path to a node for full attention, its last window, and its state."""
        mark, span = None, self.window
        for one in node.path():
            self._count(one, FULL, 1)
            self.leaves.pop(one, None)
            if span > 0:
                self._count(one, SWA, 1)
                span -= len(one.key)
                if span <= 0:
                    if one.mark is None:
                        self.marks += 1
                        one.mark = self.marks
                    mark = one.mark
        if STATE in self.parts and node is not self.root:
            self._count(node, STATE, 1)
        return Lock(node, mark)

    def unlock(self, lock: Lock | None) -> None:
        """Release a lock; do nothing without one."""
        if lock is None:
            return
        if STATE in self.parts and lock.node is not self.root:
            self._count(lock.node, STATE, -1)
        inside = SWA in self.parts
        for one in lock.node.path():
            if inside:
                self._count(one, SWA, -1)
                inside = lock.mark is None or one.mark != lock.mark
            self._count(one, FULL, -1)
            self.update_leaf(one)

    def _count(self, node: Node, part: int, step: int) -> None:
        """Count a lock of a part; its value is protected while the count is above 0."""
        before = node.lock[part]
        node.lock[part] = before + step
        if before + step < 0:
            raise ProcessAborted(f"AssertionError: lock_ref=0 on node {node.id}", "unlocked-twice")
        if before == max(0, -step) and node.value[part] is not None:
            size = self.size(node, part) * step
            self.evictable[part] -= size
            self.protected[part] += size

    def update_leaf(self, node: Node) -> None:
        """Keep the set of leaves that can be evicted: no children, no locks, not the root. A leaf is
        ranked again."""
        if node.children or node.parent is None or any(node.lock):
            self.leaves.pop(node, None)
        else:
            self.leaves[node] = None
            heapq.heappush(self.order, self._rank(node))
            if len(self.order) > 2 * len(self.leaves) + 64:
                self.order = [self._rank(leaf) for leaf in self.leaves]
                heapq.heapify(self.order)

    def _rank(self, node: Node) -> tuple[Any, float, int]:
        return self.rank(node), node.access, node.id

    def leaves_in_order(self) -> Iterator[Node]:
        """Yield leaves in the order of eviction; a parent joins when its last child has gone."""
        while self.order:
            rank = heapq.heappop(self.order)
            node = self.arena.get(rank[2])
            if node in self.leaves:
                assert node is not None
                if rank == self._rank(node):
                    yield node
                else:
                    self.update_leaf(node)

    def least_recent(self, part: int) -> Iterator[Node]:
        """Yield unlocked nodes, the least recent first. If an eviction removed the next node, too, begin again."""
        recent = self.lists[part]
        node = recent.unlocked()
        while node is not None:
            later = recent.unlocked(node)
            yield node
            node = later if later is None or later in recent else recent.unlocked()

    def check(self) -> None:
        """Raise Crash unless sizes, leaves and recency lists agree with the nodes."""
        nodes = list(self.nodes())
        for part in self.parts:
            have = [node for node in nodes if node.value[part] is not None]
            free = sum(self.size(node, part) for node in have if not node.lock[part])
            held = sum(self.size(node, part) for node in have if node.lock[part])
            if [free, held] != [self.evictable[part], self.protected[part]]:
                raise Crash(f"part {LETTERS[part]}: {free} tokens evictable and {held} protected, counted "
                            f"{self.evictable[part]} and {self.protected[part]}")  # fmt: skip
            if part != FULL and set(self.lists[part].members()) != set(have):
                raise Crash(f"the recency list of part {LETTERS[part]} does not hold its nodes")
        leaves = {node for node in nodes if not node.children and not any(node.lock)}
        if leaves != set(self.leaves):
            raise Crash("the set of evictable leaves is not that of the tree")
        for node in nodes:
            self._check_node(node)

    def _check_node(self, node: Node) -> None:
        page, above = self.page, node.parent
        if (len(node.key) % page or above is None or above.end != node.start or not node.key
                or above.children.get((node.space, node.key[:page])) is not node):  # fmt: skip
            raise Crash(f"node {node.id} does not continue its parent by whole pages")
        if node.value[FULL] is None or len(node.value[FULL]) != len(node.key):
            raise Crash(f"node {node.id} has {node.value[FULL]} for {len(node.key)} tokens")
        if not node.lock[FULL] >= max(node.lock) >= min(node.lock) >= 0:
            raise Crash(f"node {node.id} has the locks {node.lock}: those of full attention are not the most")
        if above.parent is not None and above.lock[FULL] < node.lock[FULL]:
            raise Crash(f"node {node.id} has more locks than its parent")
