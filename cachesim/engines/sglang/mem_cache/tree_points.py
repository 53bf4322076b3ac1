"""Restore points of a radix tree: its nodes, and the states at their ends.

A node has up to three parts: the rows of full attention of its tokens, their rows of a window, and a recurrent state
after its last token. It stands for its whole prefix, of which it holds the last tokens. So a split changes no restore
point: the lower half keeps its key and its usable lengths, the upper half is a further point.
"""

from __future__ import annotations

from typing import NamedTuple

from cachesim.engines.inspection import Key, RestorePoint
from cachesim.engines.sglang.mem_cache.allocator import ceil_align
from cachesim.engines.sglang.mem_cache.unified_cache.component_type import FULL, MAMBA, SWA
from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_core import UnifiedTreeCore
from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_node import UnifiedTreeNode
from cachesim.engines.sglang.runtime_context import RuntimeContext
from cachesim.engines.shared.restore_point_tracker import UNUSABLE, RestorePointTracker
from cachesim.events import Gained


class NodeReport(NamedTuple):
    """A node at its last report: the position from which on its window is live, and which parts are in host memory
    only."""

    live: int
    on_host: tuple[bool, ...] = ()


class TreePoints(RestorePointTracker):
    """Restore points of nodes and states. They are reported only while the log has a listener."""

    def __init__(self, context: RuntimeContext, tree_core: UnifiedTreeCore) -> None:
        super().__init__(context.log)
        self.parts = context.tree_components
        self.page = context.page_size
        self.window = context.swa_retain_window
        self.tree_core = tree_core
        self.has_host = context.server_args.enable_hierarchical_cache
        self.known: dict[int, NodeReport] = {}

    def kept(self) -> list[Key]:
        """Return the keys of all nodes and states."""
        keys = list[Key]()
        for node in self.tree_core.nodes():
            keys.append(key_of(node, FULL))
            if _has(node, MAMBA):
                keys.append(key_of(node, MAMBA))
        return keys

    def update(self) -> None:
        """Report the nodes that have changed, and those behind them whose window has."""
        changes = self.tree_core.changes
        if changes.touched and self.log.listens_to(Gained):
            rules = {lost.node.id: lost.rule for lost in changes.lost}
            for lost in changes.lost:
                if lost.component_type != SWA and lost.node.id in self.known:
                    self.lose(key_of(lost.node, lost.component_type), "evicted", lost.rule)
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
            now = self._window(node)
            self.known[node.id] = now
            self._hold(node, before, now, cause="evicted" if rule else "stored", rule=rule)
            if before is not None and before.live != now.live:
                todo += [child for child in node.children.values() if child.id in self.known]

    def _window(self, node: UnifiedTreeNode) -> NodeReport:
        """Return the position from which on the window of a node is live, and whether only its copy is left."""
        live = 0
        if SWA in self.parts:
            assert node.parent is not None
            before = self.known.get(node.parent.id)
            live = 0 if before is None else min(before.live, node.start)
            live = live if _has(node, SWA) else node.end
        return NodeReport(live, tuple(node.has_host_value_only(part) for part in self.parts) if self.has_host else ())

    def _hold(self, node: UnifiedTreeNode, before: NodeReport | None, now: NodeReport, cause: str, rule: str) -> None:
        """Report the prefix of a node and its state. With states, evaluation resumes only after a state."""
        assert node.parent is not None
        end = node.end
        lo = now.live + ceil_align(max(self.window if now.live else 0, self.page), self.page)
        usable = (lo, end) if lo <= end else UNUSABLE
        key = key_of(node, FULL)
        is_new = before is None
        lengths = usable if MAMBA not in self.parts else UNUSABLE
        tokens = node.text[node.start : end] if is_new else ()
        start = node.start if is_new else end
        after = key_of(node.parent, FULL) if is_new else key
        point = RestorePoint(key, end, tokens, start, after if start else None, *lengths, step=self.page)
        is_moved = before is None or before.on_host != now.on_host
        self.hold(point, cause, rule, anew=is_moved)
        if MAMBA in self.parts and _has(node, MAMBA):
            state = (end, end) if usable != UNUSABLE else UNUSABLE
            is_moved = before is not None and before.on_host != now.on_host
            self.hold(RestorePoint(key_of(node, MAMBA), end, (), end, key, *state), cause, rule, anew=is_moved)


def _has(node: UnifiedTreeNode, part: int) -> bool:
    """True if a node has a part, on the device or in host memory."""
    return node.value[part] is not None or node.host_value[part] is not None


def key_of(node: UnifiedTreeNode, part: int) -> Key:
    """Return the key of a node's restore point, or of that of its state."""
    return "state" if part == MAMBA else "node", node.id, 0
