"""The part of full attention: every node on the device has it.

Source: sgl-project/sglang python/sglang/srt/mem_cache/unified_cache/components/full.py (0.5.23).
"""

from __future__ import annotations

from typing import Iterator

from cachesim.engines.sglang.mem_cache.allocator import TokenToKVPoolAllocator
from cachesim.engines.sglang.mem_cache.unified_cache.component_type import FULL
from cachesim.engines.sglang.mem_cache.unified_cache.components.base import TreeComponent
from cachesim.engines.sglang.mem_cache.unified_cache.evictable_leaves import EvictableLeaves
from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_node import UnifiedTreeNode
from cachesim.engines.sglang.runtime_context import RuntimeContext


class FullComponent(TreeComponent):
    """Slots of full attention. ``evictable_leaves``: leaves that can be evicted."""

    component_type = FULL

    def __init__(self, context: RuntimeContext, allocator: TokenToKVPoolAllocator, leaves: EvictableLeaves) -> None:
        super().__init__(context)
        self.allocator = allocator
        self.evictable_leaves = leaves

    def available_size(self) -> int:
        """Return the number of free slots."""
        return self.allocator.full_available_size()

    def free_value(self, node: UnifiedTreeNode) -> None:
        """Free the slots of a node, with their window slots."""
        self.allocator.free(node.value[FULL])

    def victims(self) -> Iterator[UnifiedTreeNode]:
        """Yield leaves in the order of the eviction policy."""
        return self.evictable_leaves.in_order()

    def refresh_lru(self, node: UnifiedTreeNode, is_insert: bool) -> None:
        """Do nothing: leaves are evicted by the times of their nodes."""

    def redistribute_on_node_split(self, upper: UnifiedTreeNode, child: UnifiedTreeNode) -> None:
        """Divide the slots of a node and their copies."""
        n = len(upper.key)
        upper.lock_ref[FULL] = child.lock_ref[FULL]
        slots = child.value[FULL]
        if slots is not None:
            upper.value[FULL] = slots[:n]
            child.value[FULL] = slots[n:]
        copies = child.host_value
        if copies is not None:
            upper.host_value = copies[:n]
            child.host_value = copies[n:]
