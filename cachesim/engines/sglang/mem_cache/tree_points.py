"""Restore points of a radix tree: its nodes, and the states at their ends.

A node has up to three parts: the rows of full attention of its tokens, their rows of a window, and a recurrent state
after its last token. It stands for its whole prefix, of which it holds the last tokens. So a split changes no restore
point: the lower half keeps its key and its usable lengths, the upper half is a further point.
"""

from __future__ import annotations

from typing import NamedTuple

from cachesim.engines.inspection import Key, Point, TreeCell
from cachesim.engines.sglang.mem_cache.allocator import ceil_align
from cachesim.engines.sglang.mem_cache.unified_cache.component_type import FULL, MAMBA, PARTS, SWA
from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_core import UnifiedTreeCore
from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_node import UnifiedTreeNode
from cachesim.engines.sglang.runtime_context import RuntimeContext
from cachesim.events import Gained, Lost

HOST = "copy in host memory"
Lengths = tuple[int, int]
UNUSABLE: Lengths = 1, 0


class Reported(NamedTuple):
    """The last report of a node: usable lengths of its prefix, those of its state (None = no state), the position from
    which on its window is live, and whether only its copy in host memory is left."""

    usable: Lengths
    state: Lengths | None
    live: int
    gone: bool


class TreePoints:
    """Reports restore points to the log while it has a listener."""

    def __init__(self, context: RuntimeContext, tree_core: UnifiedTreeCore) -> None:
        self.log = context.log
        self.parts = context.tree_components
        self.page = context.page_size
        self.window = context.swa_retain_window
        self.tree_core = tree_core
        self.known: dict[int, Reported] = {}

    def kept(self) -> list[Key]:
        """Return the keys of all nodes and states."""
        keys = list[Key]()
        for node in self.tree_core.nodes():
            if not node.evicted or node.backuped:
                keys.append(key_of(node, FULL))
            if node.value[MAMBA] is not None:
                keys.append(key_of(node, MAMBA))
        return keys

    def cells(self) -> list[TreeCell]:
        """Return the nodes for a picture."""
        cells = list[TreeCell]()
        for node in self.tree_core.nodes():
            held = [PARTS[part] for part in self.parts if node.value[part] is not None]
            lacks = [PARTS[part] for part in self.parts if node.value[part] is None]
            if node.backuped:
                held.append(HOST)
            parent = node.parent.id if node.parent else 0
            cells.append(TreeCell(node.id, parent, start=node.start, end=node.end, held=held, lacks=lacks,
                                  locks=node.lock_ref[FULL]))  # fmt: skip
        return cells

    def update(self) -> None:
        """Report the nodes that have changed, and those behind them whose window has."""
        changes = self.tree_core.changes
        if changes.touched and self.log.listens_to(Gained):
            rules = {lost.node.id: lost.rule for lost in changes.lost}
            for lost in changes.lost:
                if lost.component_type != SWA and lost.node.id in self.known:
                    self.log.emit(Lost(None, key_of(lost.node, lost.component_type), "evicted", lost.rule))
            for node in sorted(changes.touched, key=lambda node: node.start):
                if not node.evicted or node.backuped:
                    self._report(node, rules.get(node.id, ""))
                else:
                    self.known.pop(node.id, None)
        changes.touched.clear()
        changes.lost.clear()

    def _report(self, node: UnifiedTreeNode, rule: str) -> None:
        todo = [node]
        while todo:
            node = todo.pop()
            before = self.known.get(node.id)
            now = self._lengths(node)
            self.known[node.id] = now
            if before != now:
                self._emit(node, before, now, rule)
            if before is not None and before.live != now.live:
                todo += [child for child in node.children.values() if child.id in self.known]

    def _lengths(self, node: UnifiedTreeNode) -> Reported:
        """Return at which lengths the prefix of a node is usable."""
        end = node.end
        live = 0
        if SWA in self.parts:
            before = self.known.get(node.parent.id) if node.parent is not None else None
            live = end if node.value[SWA] is None else 0 if before is None else min(before.live, node.start)
        lo = live + ceil_align(max(self.window if live else 0, self.page), self.page)
        usable = (lo, end) if lo <= end else UNUSABLE
        if MAMBA not in self.parts:
            return Reported(usable, None, live, node.evicted)
        state = None if node.value[MAMBA] is None else (end, end) if lo <= end else UNUSABLE
        return Reported(UNUSABLE, state, live, False)

    def _emit(self, node: UnifiedTreeNode, before: Reported | None, now: Reported, rule: str) -> None:
        assert node.parent is not None
        cause = "evicted" if rule else "stored"
        key = key_of(node, FULL)
        if before is None or (before.usable, before.gone) != (now.usable, now.gone):
            tokens = node.text[node.start : node.end] if before is None else ()
            start = node.start if before is None else node.end
            after = key_of(node.parent, FULL) if before is None else key
            self.log.emit(Gained(None, Point(
                key, node.end, tokens, start, after=after if start else None, lo=now.usable[0], hi=now.usable[1],
                step=self.page,
            ), cause, rule))  # fmt: skip
        if now.state is not None and (before is None or before.state != now.state):
            point = Point(key_of(node, MAMBA), node.end, (), node.end, after=key, lo=now.state[0], hi=now.state[1])
            self.log.emit(Gained(None, point, cause, rule))


def key_of(node: UnifiedTreeNode, part: int) -> Key:
    """Return the key of a node's restore point, or of that of its state."""
    return "state" if part == MAMBA else "node", node.id, 0
