"""The part of full attention: every node has it, on the device or in host memory.

Source: sgl-project/sglang python/sglang/srt/mem_cache/unified_cache/components/full.py (0.5.23).
"""

from __future__ import annotations

from typing import Iterator

from cachesim.engines.sglang.mem_cache.allocator import Slots, TokenToKVPoolAllocator
from cachesim.engines.sglang.mem_cache.unified_cache.component_type import FULL
from cachesim.engines.sglang.mem_cache.unified_cache.components.base import TreeComponent
from cachesim.engines.sglang.mem_cache.unified_cache.evictable_leaves import EvictableLeaves
from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_node import UnifiedTreeNode
from cachesim.engines.sglang.rules.host import BACK
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
        """Free the slots of a node, with their window slots or without."""
        if self.rules.frees_windows_with_rows():
            self.allocator.free(node.value[FULL])
        else:
            self.allocator.free_full(node.value[FULL])

    def victims(self) -> Iterator[UnifiedTreeNode]:
        """Yield leaves in the order of the eviction policy."""
        return self.evictable_leaves.in_order()

    def refresh_lru(self, node: UnifiedTreeNode, is_insert: bool) -> None:
        """Do nothing: leaves are evicted by the times of their nodes."""

    def redistribute_on_node_split(self, upper: UnifiedTreeNode, child: UnifiedTreeNode) -> None:
        """Divide the slots of a node and their copies; the boundary of a lock on copies is above."""
        n = len(upper.key)
        upper.lock_ref[FULL] = child.lock_ref[FULL]
        upper.host_lock_ref[FULL] = child.host_lock_ref[FULL]
        upper.host_lock_uuid[FULL] = child.host_lock_uuid[FULL]
        child.host_lock_uuid[FULL] = None
        slots = child.value[FULL]
        if slots is not None:
            upper.value[FULL] = slots[:n]
            child.value[FULL] = slots[n:]
        copies = child.host_value[FULL]
        if copies is not None:
            upper.host_value[FULL] = copies[:n]
            child.host_value[FULL] = copies[n:]

    # Copies in host memory.

    def alloc_on_device(self, n: int) -> Slots | None:
        """Take ``n`` slots without window slots; None if fewer are free."""
        return self.allocator.alloc_full(n) if n <= self.available_size() else None

    def free_on_device(self, value: Slots) -> None:
        """Free slots that no node has yet."""
        self.allocator.free_full(value)

    def set_device_value(self, node: UnifiedTreeNode, value: Slots) -> None:
        """Give a node without slots these."""
        node.value[FULL] = value
        self.count_value(node)

    def unbacked_nodes(self, node: UnifiedTreeNode) -> list[UnifiedTreeNode]:
        """Return the node, unless it has a copy."""
        return [] if node.backuped else [node]

    def nodes_to_load(self, last_node: UnifiedTreeNode) -> list[UnifiedTreeNode]:
        """Return the nodes without slots on the path to a node, the nearest to the root first."""
        return [node for node in last_node.path() if node.evicted][::-1]

    def acquire_host_lock(self, node: UnifiedTreeNode) -> int | None:
        """Lock the copy of a node; None if it has none. With write_back a node without a copy is locked, too."""
        if not node.backuped and self.context.server_args.hicache_write_policy != BACK:
            return None
        self.count_host_lock(node, 1)
        return self.new_host_lock_uuid(node)

    def release_host_lock(self, node: UnifiedTreeNode, host_lock_uuid: int | None) -> None:
        """Unlock copies up to the boundary of a lock, which was one node; None = nothing was locked."""
        for one in node.path() if host_lock_uuid is not None else ():
            self.count_host_lock(one, -1)
            if one.host_lock_uuid[FULL] == host_lock_uuid:
                break
