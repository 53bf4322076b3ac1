"""Evictions of the radix tree."""

from __future__ import annotations

from typing import Any, Sequence

from cachesim.base.errors import ProcessAborted
from cachesim.engines.rule import Decision
from cachesim.engines.sglang.flags import Options
from cachesim.engines.sglang.profiles.rule_table import Rules
from cachesim.engines.shared import tree_events as ev
from cachesim.engines.shared.page_pool import KvPools, StatePool
from cachesim.engines.shared.radix_node import LETTERS, Node
from cachesim.engines.shared.radix_tree import RadixTree
from cachesim.engines.shared.tree_points import FULL, STATE, SWA
from cachesim.events import Decided, Event


class EvictableTree(RadixTree):
    """The tree on its pools. ``changes``: events since they were last taken; ``touched``: nodes whose restore points
    may have changed; ``lost``: removed parts, with the deciding rule."""

    def __init__(self, rules: Rules, opts: Options, parts: tuple[int, ...], window: int, kv: KvPools,
                 states: StatePool) -> None:
        super().__init__(parts, opts.page_size, window)
        self.rules, self.opts, self.kv, self.states = rules, opts, kv, states
        self.changes: list[Event] = []
        self.touched: dict[Node, None] = {}
        self.lost: list[tuple[Node, int, str]] = []

    def decide(self, decision: Decision) -> Any:
        """Log a decision and return its value."""
        self.changes.append(Decided(None, decision.rule, decision.value, decision.because, decision.case))
        return decision.value

    def rank(self, node: Node) -> Any:
        """Return the place of a leaf in the order of the policy."""
        return self.rules.evict_first(self.opts.radix_eviction_policy, node)

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
            victims = self.leaves_in_order() if part == FULL else self.least_recent(part)
            for node in victims:
                if node in self.leaves:
                    self._remove_leaf(node, part, freed)
                else:
                    self._drop_inside(node, part, freed)
                if freed[part] >= quota or self.available(part) >= wanted[part]:
                    break
        return freed

    def _drop_inside(self, node: Node, part: int, freed: list[int]) -> None:
        """Make an inner node a tombstone of a part, and of the parts that go with it."""
        decision = self.rules.drop_inside(part, node)
        for letter in self.decide(decision):
            kind = LETTERS.index(letter)
            freed[kind] += self.drop(node, kind, decision.rule)
