"""Radix tree over prefixes: match, insert, evict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Sequence

from cachesim.base.tokens import Tokens, common_prefix
from cachesim.engines.sglang.flags import Options
from cachesim.engines.sglang.mem_cache import tree_events as ev
from cachesim.engines.sglang.mem_cache.allocator import KvPools, Slots, StatePool
from cachesim.engines.sglang.mem_cache.pool_host import HostTier
from cachesim.engines.sglang.mem_cache.tree_points import FULL, STATE, SWA
from cachesim.engines.sglang.mem_cache.unified_cache.tiered_tree import TieredTree
from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_node import LETTERS, Node
from cachesim.engines.sglang.profiles.rule_table import Rules
from cachesim.engines.sglang.rules.host import DEMOTE, WRITE
from cachesim.engines.sglang.rules.tree import Found


class Match(NamedTuple):
    """Result of a match: how many tokens, the node that they end at, the last node of a longer hit with copies in host
    memory, and where a state or a window would have given a longer hit."""

    found: Found
    node: Node
    last: Node
    state_branch: int | None
    window_branch: int | None


@dataclass(slots=True)
class Insertion:
    """``limit`` tokens of a request, with their slots, that the tree takes over. The first ``protected`` belong to the
    tree already; those before ``frontier`` have no window slots; ``counted`` were inserted by the same request
    before. ``state``: slot of the state after the last token; ``text``: the tokens with their key; ``chunk``: the
    request evaluates further chunks."""

    tokens: Tokens
    space: Any
    limit: int
    slots: Slots
    protected: int
    frontier: int
    counted: int
    priority: int
    state: int | None
    text: Tokens
    chunk: bool = False


class Inserting(NamedTuple):
    """Result of an insertion: the node where it ends, tokens that were there before, whether a state was."""

    node: Node
    known: int
    exists: bool | None


class Tree(TieredTree):
    """The radix tree, with the rules of a version."""

    def __init__(self, rules: Rules, opts: Options, parts: tuple[int, ...], window: int, kv: KvPools,
                 states: StatePool, host: HostTier | None = None) -> None:
        super().__init__(parts, opts.page_size, window, kv, states, host=host)
        self.rules, self.opts = rules, opts

    # Match.

    def match(self, tokens: Tokens, space: Any, limit: int) -> Match:
        """Return the longest usable prefix among the first ``limit`` tokens. It splits a node that the tokens leave,
        and makes the used nodes recent."""
        rules, most = self.rules, limit // self.page * self.page
        node = best = self.root
        at, run = 0, self.window
        while at < most and (child := node.children.get((space, tokens[at : at + self.page]))):
            same = self._common(child, tokens, at, most)
            whole = same == len(child.key)
            node = child if whole else self.split(child, same)
            at += same
            run, fits = rules.accept_node(run, node, self.parts, self.window)
            best = node if fits else best
            if not whole:
                break
        if most:
            self._refresh(best)
        node = next((one for one in best.path() if one.value[FULL] is not None), self.root)
        if node is not best:
            self.update_leaf(node)
        found = Found(limit, node.end, at)
        state_branch = rules.branch_point(found, self.opts.state_grid) if STATE in self.parts and most else None
        window_branch = rules.branch_point(found, self.page) if SWA in self.parts and most else None
        return Match(found, node, best, state_branch, window_branch)

    def _common(self, child: Node, tokens: Tokens, at: int, most: int) -> int:
        part = tokens[at : min(most, at + len(child.key))]
        if part == child.key:
            return len(part)
        return common_prefix(child.key, part) // self.page * self.page

    def _refresh(self, best: Node) -> None:
        """Make the node of a match recent, and the path to it."""
        self._refresh_parts(best, insertion=False)
        time = self.tick()
        for node in (*best.path(), self.root):
            node.access = time
            time -= 0.00001
        self.update_leaf(best)

    def _refresh_parts(self, node: Node, insertion: bool) -> None:
        """Make windows and states at the end of a path most recent."""
        for part, recent in self.lists.items():
            span, newer = self.rules.recent_span(part, insertion, self.window, self.page), None
            for one in node.path():
                if span <= 0:
                    break
                if one.value[part] is not None:
                    newer = recent.refresh(one, newer)
                span -= len(one.key)

    def insert(self, ask: Insertion) -> Inserting:
        """Insert the tokens of a request. Slots of tokens that the tree had before are freed."""
        node, at = self.root, 0
        node.access, node.priority = self.tick(), max(node.priority, ask.priority)
        if not ask.limit:
            return Inserting(node, 0, True if STATE in self.parts else None)
        while at < ask.limit and (child := node.children.get((ask.space, ask.tokens[at : at + self.page]))):
            child.access = self.tick()
            same = self._common(child, ask.tokens, at, ask.limit)
            node = child if same == len(child.key) else self.split(child, same)
            node.priority = max(node.priority, ask.priority)
            if node.value[FULL] is None:
                self.revive(node, ask.slots[at : at + same])
            else:
                self._overlap(node, at, same, ask)
            at += same
            if self.rules.counts_hit(at, ask.counted, ask.chunk):
                self.use(node)
        known, fresh = at, at < ask.limit
        if fresh:
            node = self._leaf(node, at, ask)
        exists = self._keep_state(node, ask.state, fresh) if STATE in self.parts else None
        self._refresh_parts(node, insertion=True)
        if fresh and self.rules.counts_hit(at + len(node.key), ask.counted, ask.chunk):
            self.use(node)
        self.update_leaf(node)
        return Inserting(node, known, exists)

    def _overlap(self, node: Node, at: int, n: int, ask: Insertion) -> None:
        """Free the request's own slots of tokens that a node has, except those that revive its window."""
        taken = n
        if SWA in self.parts and ask.protected < at + n and node.value[SWA] is None:
            live = self.rules.live_from(ask.frontier, at, at + n)
            if live is not None:
                if live > at:
                    self.split(node, live - at)
                self._revive_window(node, ask.slots[live : at + n])
                taken = live - at
        first = max(0, ask.protected - at)
        if first < taken:
            dead = min(max(ask.frontier - at - first, 0), taken - first)
            self.kv.full.give_back(ask.slots[at + first : at + first + dead])
            self.kv.free(ask.slots[at + first + dead : at + taken])

    def _revive_window(self, node: Node, fresh: Slots) -> None:
        """Give a tombstone the window slots of a request. An unlocked node takes over its slots of full attention."""
        if not self.rules.revive(node.lock[FULL] > 0):
            window = self.kv.move_window(node.value[FULL], fresh)
            self.kv.full.give_back(fresh)
        else:
            self.kv.full.give_back(node.value[FULL])
            node.value[FULL] = fresh
            window = self.kv.peer[fresh]
        self.store(node, SWA, window)

    def _leaf(self, parent: Node, at: int, ask: Insertion) -> Node:
        """Add a leaf for the rest of the tokens; the tokens without window slots become a node of their own."""
        key, text = ask.tokens[at : ask.limit], ask.text
        leaf = self.grow(parent, key, ask.limit, ask.space, ask.priority, text)
        leaf.value[FULL] = ask.slots[at : ask.limit]
        self.evictable[FULL] += len(key)
        self.changes.append(ev.Grown(leaf.id, parent.id, len(key)))
        self.update_leaf(leaf)
        self.update_leaf(parent)
        live = self.rules.live_from(ask.frontier, at, ask.limit) if SWA in self.parts else None
        if live is not None:
            if live > at:
                self.split(leaf, live - at)
            older = self.rules.capped_leaf(len(leaf.key), self.window, self.page)
            for node in ((self.split(leaf, older), leaf) if older else (leaf,)):
                self.store(node, SWA, self.kv.peer[node.value[FULL]])
        return leaf

    def _keep_state(self, node: Node, state: int | None, fresh: bool) -> bool:
        """Store the request's state in a node without one; return whether it had one."""
        kept = self.decide(self.rules.keep_state(node.value[STATE] is not None, node.end))
        if kept:
            self.store(node, STATE, state)
        else:
            self.lists[STATE].refresh(node)
        if not fresh:
            node.access = self.tick()
        if kept:
            self._drop_excess(node)
        return not kept

    def _drop_excess(self, tail: Node) -> None:
        """Drop the states of a path beyond the limit, the shallowest first."""
        holders = [node for node in tail.path() if node.value[STATE] is not None]
        held = len(holders)
        for node in holders[:0:-1]:
            if held <= self.opts.mamba_max_states_per_path or self.opts.mamba_max_states_per_path < 0:
                break
            decision = self.rules.drop_excess(held, self.opts.mamba_max_states_per_path, node)
            if self.decide(decision):
                self.drop(node, STATE, decision.rule)
                held -= 1

    # Copies in host memory: complete at once. In the real server a node is locked until its copy is.

    def use(self, node: Node) -> None:
        """Count a use of a node; copy it, and the nodes before it, if it is time."""
        policy = self.opts.hicache_write_policy
        if self.host is None or self.rules.counts_uses(policy):
            node.hits += 1
        if self.host is None or node.host is not None or not self.decide(self.rules.writes_through(policy, node)):
            return
        for one in [one for one in node.path() if one.host is None][::-1]:
            if not self._copy(one):
                return

    def _copy(self, node: Node) -> bool:
        doubles = self.rules.reclaims_doubles(self.opts.hicache_write_policy)
        return self.back_up(node, doubles, self.rules.drop_host_leaf)

    def _keeps_copy(self, node: Node) -> bool:
        """Return whether an evicted leaf stays in the tree with its copy, which is written if necessary."""
        if self.host is None:
            return False
        what = self.decide(self.rules.leave_device(self.opts.hicache_write_policy, node))
        return bool(what == DEMOTE or (what == WRITE and self._copy(node)))

    # Eviction.

    def rank(self, node: Node) -> Any:
        """Return the place of a leaf in the order of the policy."""
        return self.rules.evict_first(self.opts.radix_eviction_policy, node)

    def _remove_leaf(self, node: Node, part: int, freed: list[int]) -> None:
        """Evict a leaf, whichever part asked for it, and ancestors that do not stay without it."""
        decision = self.rules.drop_leaf(part, node)
        self.decide(decision)
        for kind in self.parts:
            freed[kind] += self.drop(node, kind, decision.rule)
        parent = self.remove(node)
        if parent in self.leaves and not self.rules.stays_above(parent, self.parts):
            self._remove_leaf(parent, part, freed)

    def evict(self, asked: Sequence[int]) -> list[int]:
        """Evict until this many further slots of each part are available; return the numbers of freed slots."""
        wanted = [self.available(part) + n if n else 0 for part, n in enumerate(asked)]
        freed = [0, 0, 0]
        for part in self.parts:
            quota = self.rules.evict_quota(part, asked[part], freed[part], self.evictable[part])
            if not quota or self.available(part) >= wanted[part]:
                continue
            victims = self.leaves.in_order() if part == FULL else self.least_recent(part)
            for node in victims:
                if node in self.leaves and self._keeps_copy(node):
                    freed[FULL] += self.demote(node)
                elif node in self.leaves:
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
