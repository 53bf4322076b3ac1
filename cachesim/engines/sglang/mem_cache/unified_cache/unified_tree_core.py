"""Radix tree whose nodes have parts, on pools of slots: the bookkeeping below its rules.

The tree splits nodes, stores and removes their parts, counts locks and sizes by part, orders the leaves that can be
evicted, and keeps a recency list of each part but full attention. An engine decides what is matched, inserted and
evicted.
"""

from __future__ import annotations

from typing import Any, Iterator, Mapping, NamedTuple, Sequence

import numpy as np

from cachesim.base.errors import Crash, ProcessAborted
from cachesim.base.tokens import Tokens
from cachesim.engines.rule import Decision
from cachesim.engines.sglang.mem_cache import tree_events as ev
from cachesim.engines.sglang.mem_cache.allocator import NO_SLOTS, KvPools, Slots, StatePool
from cachesim.engines.sglang.mem_cache.tree_points import FULL, STATE, SWA
from cachesim.engines.sglang.mem_cache.unified_cache.evictable_leaves import LeafOrder
from cachesim.engines.sglang.mem_cache.unified_cache.unified_lru_list import Recency
from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_node import LETTERS, Node
from cachesim.events import Decided, Event


class Lock(NamedTuple):
    """A lock on a node and the path before it; ``mark``: boundary of its window, None = the root."""

    node: Node
    mark: int | None


class RadixTree:
    """The nodes, their locks, and the order of eviction. ``evictable``, ``protected``: tokens or states in the tree by
    part, without and with a lock. ``changes``: events since they were last taken; ``touched``: nodes whose restore
    points may have changed; ``lost``: removed parts, with the deciding rule."""

    def __init__(self, parts: tuple[int, ...], page: int, window: int, kv: KvPools, states: StatePool) -> None:
        self.parts, self.page, self.window, self.evictable, self.protected = parts, page, window, [0, 0, 0], [0, 0, 0]
        self.kv, self.states = kv, states
        self.changes: list[Event] = []
        self.touched: dict[Node, None] = {}
        self.lost: list[tuple[Node, int, str]] = []
        self.root, self.ticks, self.count, self.marks = Node(0), 2.0, 1, 0
        self.lists = {part: Recency(part, lambda: Node(-1)) for part in parts if part != FULL}
        self.arena: dict[int, Node] = {}                # nodes by their number
        self.leaves = LeafOrder(self.place, self.arena)     # those that can be evicted

    def rank(self, node: Node) -> Any:
        """Return the place of a leaf in the order of eviction; the smallest is evicted first."""
        return node.access

    def decide(self, decision: Decision) -> Any:
        """Log a decision and return its value."""
        self.changes.append(Decided(None, decision.rule, decision.value, decision.because, decision.case))
        return decision.value

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

    def heaviest_first(self, ends: Mapping[Node, Sequence[int]]) -> list[int]:
        """Return the numbers that end at nodes in a depth-first order: of the children, the one with most numbers
        behind it first; a node after its children."""
        weight: dict[Node, int] = {}
        for node, numbers in ends.items():
            for one in (*node.path(), self.root):
                weight[one] = weight.get(one, 0) + len(numbers)
        order, todo = list[int](), [(self.root, False)]
        while todo:
            node, done = todo.pop()
            if done:
                order += ends.get(node, ())
                continue
            near = sorted((child for child in node.children.values() if child in weight), key=lambda one: -weight[one])
            todo += [(node, True), *((child, False) for child in reversed(near))]
        return order

    def size(self, node: Node, part: int) -> int:
        """Return the number of slots that a part of a node has."""
        return 1 if part == STATE else len(node.key)

    def available(self, part: int) -> int:
        """Return the number of free slots of a part."""
        pool = (self.kv.full, self.kv.window, self.states)[part]
        return 0 if pool is None else pool.available

    def slots(self, node: Node) -> Slots:
        """Return the slots of the path to a node."""
        parts = [one.value[FULL] for one in node.path()]
        return np.concatenate(parts[::-1]) if parts else NO_SLOTS

    # Nodes and their parts.

    def grow(self, parent: Node, key: Tokens, end: int, space: Any, priority: int, text: Tokens) -> Node:
        """Add a node without parts."""
        node = Node(self.count, self.tick(), self.tick(), priority)
        self.arena[self.count] = node
        self.count += 1
        node.parent, node.key, node.end, node.space, node.text = parent, key, end, space, text
        parent.children[space, key[: self.page]] = node
        self.touched[node] = None
        return node

    def split(self, child: Node, n: int) -> Node:
        """Split a node after its first ``n`` tokens; return the new node that holds them, with their slots and locks.
        The state stays below."""
        assert child.parent is not None
        upper = self.grow(child.parent, child.key[:n], child.start + n, child.space, child.priority, child.text)
        upper.hits, upper.created = child.hits, child.created
        child.key, child.parent = child.key[n:], upper
        upper.children[child.space, child.key[: self.page]] = child
        for part in (FULL, SWA):
            upper.lock[part] = child.lock[part]
            if (value := child.value[part]) is not None:
                upper.value[part], child.value[part] = value[:n], value[n:]
        upper.mark, child.mark = child.mark, None
        if upper.value[SWA] is not None:
            self.lists[SWA].add(upper, child)
        child.access = self.tick()
        self.update_leaf(child)
        self.changes.append(ev.Split(child.id, upper.id, n))
        self.touched[child] = None
        return upper

    def store(self, node: Node, part: int, value: Any) -> None:
        """Store the window or the state of a node."""
        node.value[part] = value
        self.lists[part].add(node)
        (self.protected if node.lock[part] else self.evictable)[part] += self.size(node, part)
        self.touched[node] = None

    def drop(self, node: Node, part: int, rule: str) -> int:
        """Remove a part of a node and free its slots; return the number of freed tokens or states."""
        if (value := node.value[part]) is None:
            return 0
        if node.lock[part]:
            raise ProcessAborted(f"AssertionError: part {LETTERS[part]} of node {node.id} is locked", "locked-part")
        if part == FULL:
            self.kv.free(value)
        elif part == SWA:
            self.kv.free_window(node.value[FULL])
        else:
            self.states.put_back(value)
        if part != FULL:
            node.value[part] = None
            self.lists[part].remove(node)
        size = self.size(node, part)
        self.evictable[part] -= size
        self.changes.append(ev.Dropped(node.id, LETTERS[part], len(node.key)))
        self.lost.append((node, part, rule))
        self.touched[node] = None
        return size

    def remove(self, node: Node) -> Node:
        """Remove a leaf whose parts are dropped; return its parent."""
        parent = node.parent
        assert parent is not None
        del parent.children[node.space, node.key[: self.page]]
        node.value[FULL] = None
        del self.arena[node.id]
        self.leaves.pop(node, None)
        self.update_leaf(parent)
        self.changes.append(ev.Gone(node.id))
        return parent

    # Locks.

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
        """Keep the set of leaves that can be evicted: no children with slots, no locks, not the root. A leaf is ranked
        again."""
        if node.parent is None or any(node.lock) or (node.children and has_child(node)):
            self.leaves.pop(node, None)
        else:
            self.leaves.put(node)

    def place(self, node: Node) -> tuple[Any, float, int]:
        """Return the place of a leaf in the order of eviction, distinct from that of any other leaf."""
        return self.rank(node), node.access, node.id

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
        leaves = {node for node in nodes if node.value[FULL] is not None and not has_child(node) and not any(node.lock)}
        if leaves != set(self.leaves):
            raise Crash("the set of evictable leaves is not that of the tree")
        for node in nodes:
            self._check_node(node)

    def _check_node(self, node: Node) -> None:
        page, above = self.page, node.parent
        if (len(node.key) % page or above is None or above.end != node.start or not node.key
                or above.children.get((node.space, node.key[:page])) is not node):  # fmt: skip
            raise Crash(f"node {node.id} does not continue its parent by whole pages")
        slots = node.host if node.value[FULL] is None else node.value[FULL]
        if slots is None or len(slots) != len(node.key):
            raise Crash(f"node {node.id} has {slots} for {len(node.key)} tokens")
        if not node.lock[FULL] >= max(node.lock) >= min(node.lock) >= 0:
            raise Crash(f"node {node.id} has the locks {node.lock}: those of full attention are not the most")
        if above.parent is not None and above.lock[FULL] < node.lock[FULL]:
            raise Crash(f"node {node.id} has more locks than its parent")


def has_child(node: Node) -> bool:
    """Return whether a child has slots of full attention."""
    return any(child.value[FULL] is not None for child in node.children.values())
