"""Locks, sizes and evictions of the radix tree."""

from __future__ import annotations

import heapq
from typing import Any, Iterator, NamedTuple, Sequence

from cachesim.base.errors import ProcessAborted
from cachesim.engines.rule import Decision
from cachesim.engines.sglang import events as ev
from cachesim.engines.sglang.flags import Options
from cachesim.engines.sglang.profiles.rule_table import Rules
from cachesim.engines.shared.page_pool import KvPools, StatePool
from cachesim.engines.shared.radix_node import LETTERS, Node
from cachesim.engines.shared.recency_list import Recency
from cachesim.engines.shared.tree_points import FULL, STATE, SWA
from cachesim.events import Decided, Event


class Lock(NamedTuple):
    """A lock on a node and the path before it; ``mark``: boundary of its window, None = the root."""

    node: Node
    mark: int | None


class EvictableTree:
    """The nodes, their locks, and the order of eviction. ``evictable``, ``protected``: tokens or states in the tree by
    part, without and with a lock; ``changes``: events since they were last taken; ``touched``: nodes whose restore
    points may have changed; ``lost``: removed parts, with the deciding rule."""

    def __init__(self, rules: Rules, opts: Options, parts: tuple[int, ...], window: int, kv: KvPools,
                 states: StatePool) -> None:
        self.rules, self.opts, self.parts, self.window, self.kv, self.states = rules, opts, parts, window, kv, states
        self.page, self.evictable, self.protected = opts.page_size, [0, 0, 0], [0, 0, 0]
        self.root, self.ticks, self.count, self.marks = Node(0), 2.0, 1, 0
        self.lists = {part: Recency(part, lambda: Node(-1)) for part in parts if part != FULL}
        self.arena: dict[int, Node] = {}                # nodes by their number
        self.leaves: dict[Node, None] = {}
        self.order: list[tuple[Any, float, int]] = []   # heap of leaves' ranks, with outdated ones
        self.changes: list[Event] = []
        self.touched: dict[Node, None] = {}
        self.lost: list[tuple[Node, int, str]] = []

    def tick(self) -> float:
        """Return the time of the logical clock and advance it."""
        self.ticks += 1
        return self.ticks - 1

    def decide(self, decision: Decision) -> Any:
        """Log a decision and return its value."""
        self.changes.append(Decided(None, decision.rule, decision.value, decision.because, decision.case))
        return decision.value

    def nodes(self) -> Iterator[Node]:
        """Yield all nodes but the root, breadth first."""
        level = [self.root]
        while level:
            level = [child for node in level for child in node.children.values()]
            yield from level

    def size(self, node: Node, part: int) -> int:
        """Return the number of slots that a part of a node has."""
        return 1 if part == STATE else len(node.key)

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
        """Return the place of a leaf in the order of the policy."""
        return self.rules.evict_first(self.opts.radix_eviction_policy, node), node.access, node.id

    # Removal.

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

    def _remove_leaf(self, node: Node, part: int, freed: list[int]) -> None:
        """Evict a leaf, whichever part asked for it, and ancestors that do not stay without it."""
        decision = self.rules.drop_leaf(part, node)
        self.decide(decision)
        for kind in self.parts:
            freed[kind] += self.drop(node, kind, decision.rule)
        parent = node.parent
        assert parent is not None
        del parent.children[node.space, node.key[: self.page]]
        node.value[FULL] = None
        del self.arena[node.id]
        self.leaves.pop(node, None)
        self.update_leaf(parent)
        self.changes.append(ev.Gone(node.id))
        if parent in self.leaves and not self.rules.stays_above(parent, self.parts):
            self._remove_leaf(parent, part, freed)

    # Eviction.

    def available(self, part: int) -> int:
        """Return the number of free slots of a part."""
        if part == STATE:
            return self.states.available
        pool = self.kv.full if part == FULL else self.kv.window
        return 0 if pool is None else pool.available

    def evict(self, asked: Sequence[int]) -> list[int]:
        """Evict until this many further slots of each part are available; return the numbers of freed slots."""
        wanted = [self.available(part) + n if n else 0 for part, n in enumerate(asked)]
        freed = [0, 0, 0]
        for part in self.parts:
            quota = self.rules.evict_quota(part, asked[part], freed[part], self.evictable[part])
            if not quota or self.available(part) >= wanted[part]:
                continue
            victims = self._leaves_by_policy() if part == FULL else self._least_recent(part)
            for node in victims:
                if node in self.leaves:
                    self._remove_leaf(node, part, freed)
                else:
                    self._drop_inside(node, part, freed)
                if freed[part] >= quota or self.available(part) >= wanted[part]:
                    break
        return freed

    def _leaves_by_policy(self) -> Iterator[Node]:
        """Yield leaves in the order of the policy; a parent joins when its last child has gone."""
        while self.order:
            rank = heapq.heappop(self.order)
            node = self.arena.get(rank[2])
            if node in self.leaves:
                assert node is not None
                if rank == self._rank(node):
                    yield node
                else:
                    self.update_leaf(node)

    def _least_recent(self, part: int) -> Iterator[Node]:
        """Yield unlocked nodes, the least recent first. If an eviction removed the next node, too, begin again."""
        recent = self.lists[part]
        node = recent.unlocked()
        while node is not None:
            later = recent.unlocked(node)
            yield node
            node = later if later is None or later in recent else recent.unlocked()

    def _drop_inside(self, node: Node, part: int, freed: list[int]) -> None:
        """Make an inner node a tombstone of a part, and of the parts that go with it."""
        decision = self.rules.drop_inside(part, node)
        for letter in self.decide(decision):
            kind = LETTERS.index(letter)
            freed[kind] += self.drop(node, kind, decision.rule)
