"""A part of the tree: its slots, its sizes, its locks, the order in which nodes lose it, and its copies in host memory.

Source: sgl-project/sglang python/sglang/srt/mem_cache/unified_cache/components/base.py (0.5.23).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Iterator, Sequence

from cachesim.base.errors import Crash, ProcessAborted
from cachesim.engines.sglang.mem_cache.pool_host import HostPool
from cachesim.engines.sglang.mem_cache.unified_cache.component_type import LETTERS
from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_node import UnifiedTreeNode
from cachesim.engines.sglang.runtime_context import RuntimeContext


class TreeComponent(ABC):
    """A part. ``evictable_size``, ``protected_size``: tokens or states in the tree without and with a lock;
    ``host_pool``: where its copies are, None = there is no host memory."""

    component_type: int

    def __init__(self, context: RuntimeContext) -> None:
        self.context = context
        self.rules = context.rules
        self.evictable_size = 0
        self.protected_size = 0
        self.host_pool: HostPool | None = None
        self.last_host_uuid = 0

    @abstractmethod
    def available_size(self) -> int:
        """Return the number of free slots."""

    @abstractmethod
    def free_value(self, node: UnifiedTreeNode) -> None:
        """Free the slots of a node that has the part."""

    @abstractmethod
    def victims(self) -> Iterator[UnifiedTreeNode]:
        """Yield unlocked nodes in the order in which they lose the part."""

    def value_len(self, node: UnifiedTreeNode) -> int:
        """Return the number of slots of a node that has the part."""
        return len(node.key)

    def schedulable_size(self) -> int:
        """Return the number of slots that are free or can be evicted."""
        return self.available_size() + self.evictable_size

    def count_value(self, node: UnifiedTreeNode) -> None:
        """Count the slots of a node that got the part."""
        if node.lock_ref[self.component_type]:
            self.protected_size += self.value_len(node)
        else:
            self.evictable_size += self.value_len(node)

    def count_lock(self, node: UnifiedTreeNode, step: int) -> None:
        """Add ``step`` to the locks of a node; its slots are protected while it has one."""
        before = node.lock_ref[self.component_type]
        node.lock_ref[self.component_type] = before + step
        if before + step < 0:
            raise ProcessAborted(f"AssertionError: lock_ref=0 on node {node.id}", "unlocked-twice")
        if before == max(0, -step) and node.value[self.component_type] is not None:
            size = self.value_len(node) * step
            self.evictable_size -= size
            self.protected_size += size

    def evict_component(self, node: UnifiedTreeNode) -> int:
        """Free the slots of an unlocked node that has the part; return their number."""
        self.free_value(node)
        size = self.value_len(node)
        self.evictable_size -= size
        return size

    # Copies in host memory.

    @abstractmethod
    def alloc_on_device(self, n: int) -> Any:
        """Take the slots of ``n`` tokens for copies that come back; None if fewer are free."""

    @abstractmethod
    def free_on_device(self, value: Any) -> None:
        """Free slots that no node has yet."""

    @abstractmethod
    def set_device_value(self, node: UnifiedTreeNode, value: Any) -> None:
        """Give a node without slots these."""

    @abstractmethod
    def unbacked_nodes(self, node: UnifiedTreeNode) -> list[UnifiedTreeNode]:
        """Return the nodes whose part is copied together with a node, the nearest to the root first."""

    @abstractmethod
    def nodes_to_load(self, last_node: UnifiedTreeNode) -> list[UnifiedTreeNode]:
        """Return the nodes whose copies must come back for a match that ends at a node, the nearest to the root
        first."""

    @abstractmethod
    def acquire_host_lock(self, node: UnifiedTreeNode) -> int | None:
        """Lock the copies that a match at a node needs; return their boundary, if the lock has one."""

    @abstractmethod
    def release_host_lock(self, node: UnifiedTreeNode, host_lock_uuid: int | None) -> None:
        """Unlock copies up to their boundary."""

    def evict_host_component(self, node: UnifiedTreeNode) -> int:
        """Free the copy of a node; return its number of tokens or states."""
        assert self.host_pool is not None
        self.host_pool.free_host(node.host_value[self.component_type])
        node.host_value[self.component_type] = None
        return self.value_len(node)

    def count_host_lock(self, node: UnifiedTreeNode, step: int) -> None:
        """Add ``step`` to the locks on the copy of a node."""
        node.host_lock_ref[self.component_type] += step
        assert node.host_lock_ref[self.component_type] >= 0

    def new_host_lock_uuid(self, node: UnifiedTreeNode) -> int:
        """Return the mark of a node as a boundary of locks on copies; mark it if necessary."""
        found = node.host_lock_uuid[self.component_type]
        if found is None:
            self.last_host_uuid += 1
            found = self.last_host_uuid
            node.host_lock_uuid[self.component_type] = found
        return found

    # Order.

    @abstractmethod
    def refresh_lru(self, node: UnifiedTreeNode, is_insert: bool) -> None:
        """Make the part recent at the end of a path that was matched or inserted."""

    @abstractmethod
    def redistribute_on_node_split(self, upper: UnifiedTreeNode, child: UnifiedTreeNode) -> None:
        """Divide the part of a node of which the first tokens became the node ``upper``."""

    def check(self, nodes: Sequence[UnifiedTreeNode]) -> None:
        """Raise Crash unless the sizes agree with the nodes."""
        have = [node for node in nodes if node.value[self.component_type] is not None]
        unlocked = sum(self.value_len(node) for node in have if not node.lock_ref[self.component_type])
        locked = sum(self.value_len(node) for node in have if node.lock_ref[self.component_type])
        if (unlocked, locked) != (self.evictable_size, self.protected_size):
            letter = LETTERS[self.component_type]
            raise Crash(f"part {letter}: {unlocked} tokens evictable and {locked} protected, counted "
                        f"{self.evictable_size} and {self.protected_size}")  # fmt: skip
