"""A part that nodes can lose while they stay in the tree; its nodes are in a list by recency, and those that have it in
host memory only in another one."""

from __future__ import annotations

from typing import Any, Iterator, Sequence

from cachesim.base.errors import Crash
from cachesim.engines.sglang.mem_cache.unified_cache.component_type import LETTERS
from cachesim.engines.sglang.mem_cache.unified_cache.components.base import TreeComponent
from cachesim.engines.sglang.mem_cache.unified_cache.unified_lru_list import UnifiedLRUList
from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_node import UnifiedTreeNode
from cachesim.engines.sglang.runtime_context import RuntimeContext

END = -1                        # number of the ends of a list
ENDLESS = 1 << 40               # tokens that no path has


class ListedComponent(TreeComponent):
    """A part with a list of its nodes. ``host_lru_list``: nodes with a copy in host memory only, without those that are
    locked there."""

    def __init__(self, context: RuntimeContext) -> None:
        super().__init__(context)
        self.lru_list = UnifiedLRUList(self.component_type, lambda: UnifiedTreeNode(END))
        self.host_lru_list = UnifiedLRUList(self.component_type, lambda: UnifiedTreeNode(END), use_host_ptr=True)

    def victims(self) -> Iterator[UnifiedTreeNode]:
        """Yield unlocked nodes, the least recent first."""
        return self.lru_list.in_order()

    def store(self, node: UnifiedTreeNode, value: Any) -> None:
        """Give a node the part, as the most recent one."""
        node.value[self.component_type] = value
        if node in self.host_lru_list:
            self.host_lru_list.remove_node(node)
        self.lru_list.insert_mru(node)
        self.count_value(node)

    def evict_component(self, node: UnifiedTreeNode) -> int:
        """Free the slots of an unlocked node, which becomes a tombstone of the part; return their number."""
        size = super().evict_component(node)
        node.value[self.component_type] = None
        self.lru_list.remove_node(node)
        self._list_copy(node)
        return size

    # Copies in host memory.

    def set_device_value(self, node: UnifiedTreeNode, value: Any) -> None:
        """Give a tombstone the part, as the most recent one."""
        self.store(node, value)

    def evict_host_component(self, node: UnifiedTreeNode) -> int:
        """Free the copy of a node; return its number of tokens or states."""
        size = super().evict_host_component(node)
        if node in self.host_lru_list:
            self.host_lru_list.remove_node(node)
        return size

    def _list_copy(self, node: UnifiedTreeNode) -> None:
        """List a node that has the part in host memory only, as the most recent one."""
        if node.has_host_value_only(self.component_type) and node not in self.host_lru_list:
            self.host_lru_list.insert_mru(node)

    def count_host_lock(self, node: UnifiedTreeNode, step: int) -> None:
        """Add ``step`` to the locks on the copy of a node, which is listed while it has none."""
        super().count_host_lock(node, step)
        if node.host_lock_ref[self.component_type] == 0:
            self._list_copy(node)
        elif step > 0 and node.host_lock_ref[self.component_type] == 1 and node in self.host_lru_list:
            self.host_lru_list.remove_node(node)

    def refreshes_passed(self) -> bool:
        """True if an insertion makes the part most recent on its whole path: node by node, as it passes them."""
        return self._recent_span(is_insert=True) >= ENDLESS

    def refresh_passed(self, node: UnifiedTreeNode) -> None:
        """Make the part of a node most recent that an insertion passes, which may split it then."""
        if node.value[self.component_type] is not None:
            self.lru_list.reset_node_mru(node)

    def _recent_span(self, is_insert: bool) -> int:
        context = self.context
        span: int = self.rules.recent_span(
            self.component_type, is_insert, context.swa_retain_window, context.page_size)
        return span

    def refresh_lru(self, node: UnifiedTreeNode, is_insert: bool) -> None:
        """Make the part most recent at the end of a path that was matched or inserted."""
        span = self._recent_span(is_insert)
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
        copies = {node for node in nodes if node.has_host_value_only(self.component_type)}
        if {one for one in copies if not one.host_lock_ref[self.component_type]} - set(self.host_lru_list.members()):
            raise Crash(f"the list of copies of part {LETTERS[self.component_type]} lacks some")
        if set(self.host_lru_list.members()) - copies:
            raise Crash(f"the list of copies of part {LETTERS[self.component_type]} has other nodes")
