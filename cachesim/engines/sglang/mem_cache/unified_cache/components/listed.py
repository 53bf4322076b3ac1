"""A part that nodes can lose while they stay in the tree; its nodes are in a list by recency."""

from __future__ import annotations

from typing import Any, Iterator, Sequence

from cachesim.base.errors import Crash
from cachesim.engines.sglang.mem_cache.unified_cache.component_type import LETTERS
from cachesim.engines.sglang.mem_cache.unified_cache.components.base import TreeComponent
from cachesim.engines.sglang.mem_cache.unified_cache.unified_lru_list import UnifiedLRUList
from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_node import UnifiedTreeNode
from cachesim.engines.sglang.runtime_context import RuntimeContext

END = -1                        # number of the ends of a list


class ListedComponent(TreeComponent):
    """A part with a list of its nodes."""

    def __init__(self, context: RuntimeContext) -> None:
        super().__init__(context)
        self.lru_list = UnifiedLRUList(self.component_type, lambda: UnifiedTreeNode(END))

    def victims(self) -> Iterator[UnifiedTreeNode]:
        """Yield unlocked nodes, the least recent first."""
        return self.lru_list.in_order()

    def store(self, node: UnifiedTreeNode, value: Any) -> None:
        """Give a node the part, as the most recent one."""
        node.value[self.component_type] = value
        self.lru_list.insert_mru(node)
        self.count_value(node)

    def evict_component(self, node: UnifiedTreeNode) -> int:
        """Free the slots of an unlocked node, which becomes a tombstone of the part; return their number."""
        size = super().evict_component(node)
        node.value[self.component_type] = None
        self.lru_list.remove_node(node)
        return size

    def refresh_lru(self, node: UnifiedTreeNode, is_insert: bool) -> None:
        """Make the part most recent at the end of a path that was matched or inserted."""
        context = self.context
        span = self.rules.recent_span(self.component_type, is_insert, context.swa_retain_window, context.page_size)
        newer = None
        for one in node.path():
            if span <= 0:
                break
            if one.value[self.component_type] is not None:
                self.lru_list.reset_node_mru(one, newer)
                newer = one
            span -= len(one.key)

    def check(self, nodes: Sequence[UnifiedTreeNode]) -> None:
        """Raise Crash unless sizes and list agree with the nodes."""
        super().check(nodes)
        have = {node for node in nodes if node.value[self.component_type] is not None}
        if set(self.lru_list.members()) != have:
            raise Crash(f"the recency list of part {LETTERS[self.component_type]} does not hold its nodes")
