"""Restore points of the radix tree: its nodes, and the states at their ends.

A split changes no restore point: the upper half is a new point, and the lower half keeps its key.
"""

from __future__ import annotations

from typing import NamedTuple

from cachesim.engines.inspection import Key, Point
from cachesim.engines.sglang.memory.nodes import FULL, STATE, SWA, Node
from cachesim.engines.sglang.memory.tree import Tree
from cachesim.events import Gained, Log, Lost

UNUSABLE = 1, 0


class Reported(NamedTuple):
    """The last report of a node: where it begins and ends, its usable lengths, and live window tokens up to its end."""

    start: int
    end: int
    usable: tuple[int, int]
    state: tuple[int, int] | None
    run: int


class TreePoints:
    """Reports restore points to the log while somebody listens."""

    def __init__(self, tree: Tree, log: Log) -> None:
        self.tree, self.log = tree, log
        self.known: dict[int, Reported] = {}

    def update(self) -> None:
        """Report the nodes that have changed, and those behind them whose window has."""
        tree = self.tree
        if self.log.listens_to(Gained):
            rules = {node.id: rule for node, _, rule in tree.lost}
            for node, part, rule in tree.lost:
                if part != SWA and node.id in self.known:
                    self.log.emit(Lost(None, key_of(node, part), "evicted", rule))
            for node in sorted(tree.touched, key=lambda node: node.start):
                if node.value[FULL] is not None:
                    self._report(node, rules.get(node.id, ""))
                else:
                    self.known.pop(node.id, None)
        tree.touched.clear()
        tree.lost.clear()

    def _report(self, node: Node, rule: str) -> None:
        todo = [node]
        while todo:
            node = todo.pop()
            before = self.known.get(node.id)
            now = self.known[node.id] = self._lengths(node)
            if before != now:
                self._emit(node, before, now, rule)
            if before is not None and before.run != now.run:
                todo += [child for child in node.children.values() if child.id in self.known]

    def _lengths(self, node: Node) -> Reported:
        """Return at which lengths of its prefix a node is usable."""
        tree, start, end = self.tree, node.start, node.end
        lo, run = start + tree.page, 0
        if SWA in tree.parts:
            before = self._run(node.parent)
            live = node.value[SWA] is not None
            run = min(before + len(node.key), tree.window) if live else 0
            missing = max(tree.window - before, tree.page)
            lo = start + -(-missing // tree.page) * tree.page if live else end + 1
        usable = (lo, end) if lo <= end else UNUSABLE
        if STATE not in tree.parts:
            return Reported(start, end, usable, None, run)
        state = None
        if node.value[STATE] is not None:
            state = (end, end) if SWA not in tree.parts or run >= tree.window else UNUSABLE
        return Reported(start, end, UNUSABLE, state, run)

    def _run(self, node: Node | None) -> int:
        """Return the number of live window tokens before the end of a node, at most the window."""
        run, window = 0, self.tree.window
        while node is not None and node.parent is not None:
            if run >= window or node.value[SWA] is None:
                return min(run, window)
            run += len(node.key)
            node = node.parent
        return window

    def _emit(self, node: Node, before: Reported | None, now: Reported, rule: str) -> None:
        parent, cause = node.parent, "evicted" if rule else "stored"
        assert parent is not None
        key = key_of(node, FULL)
        if before is None or (before.start, before.end, before.usable) != (now.start, now.end, now.usable):
            after = key_of(parent, FULL) if parent.parent is not None else None
            tokens, start = node.text[now.start : now.end], now.start
            if before is not None and before.start == now.start:
                tokens, start, after = (), now.end, key
            point = Point(key, now.end, tokens, start, after, *now.usable, self.tree.page)
            self.log.emit(Gained(None, point, cause, rule))
        if now.state is not None and (before is None or before.state != now.state):
            point = Point(key_of(node, STATE), now.end, (), now.end, key, *now.state)
            self.log.emit(Gained(None, point, cause, rule))


def key_of(node: Node, part: int) -> Key:
    """Return the key of a node's restore point, or of that of its state."""
    return "state" if part == STATE else "node", node.id, 0
