"""The part of sliding windows: a node may have lost its window slots.

Source: sgl-project/sglang python/sglang/srt/mem_cache/unified_cache/components/swa.py (0.5.23).
"""

from __future__ import annotations

from typing import Callable

from cachesim.engines.sglang.managers.req import Req
from cachesim.engines.sglang.mem_cache.allocator import Slots, SWATokenToKVPoolAllocator
from cachesim.engines.sglang.mem_cache.memory_pool import ReqToTokenPool
from cachesim.engines.sglang.mem_cache.unified_cache.component_type import FULL, SWA
from cachesim.engines.sglang.mem_cache.unified_cache.components.listed import ListedComponent
from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_node import UnifiedTreeNode
from cachesim.engines.sglang.rules.request import RequestWindow
from cachesim.engines.sglang.runtime_context import RuntimeContext


class SWAComponent(ListedComponent):
    """Window slots. The last window of a locked path is locked; its first node is marked as the boundary."""

    component_type = SWA

    def __init__(self, context: RuntimeContext, allocator: SWATokenToKVPoolAllocator, pool: ReqToTokenPool) -> None:
        super().__init__(context)
        self.allocator = allocator
        self.req_to_token_pool = pool
        self.last_uuid = 0

    def available_size(self) -> int:
        """Return the number of free slots."""
        return self.allocator.swa_available_size()

    def free_value(self, node: UnifiedTreeNode) -> None:
        """Free the window slots of a node."""
        self.allocator.free_swa(node.value[FULL])

    def redistribute_on_node_split(self, upper: UnifiedTreeNode, child: UnifiedTreeNode) -> None:
        """Divide the window slots of a node and their copies; the boundary of a window lock is above."""
        n = len(upper.key)
        upper.lock_ref[SWA] = child.lock_ref[SWA]
        upper.window_lock_uuid = child.window_lock_uuid
        child.window_lock_uuid = None
        slots = child.value[SWA]
        if slots is not None:
            upper.value[SWA] = slots[:n]
            child.value[SWA] = slots[n:]
            if self.rules.split_recent(SWA):
                self.lru_list.reset_node_mru(child)
            self.lru_list.insert_after(child, upper)
        if self.host_pool is not None:
            self._divide_copies(upper, child)

    def _divide_copies(self, upper: UnifiedTreeNode, child: UnifiedTreeNode) -> None:
        """Divide the copies of the window slots of a node. Locked ones are not listed."""
        n = len(upper.key)
        upper.host_lock_ref[SWA] = child.host_lock_ref[SWA]
        upper.host_lock_uuid[SWA] = child.host_lock_uuid[SWA]
        child.host_lock_uuid[SWA] = None
        copies = child.host_value[SWA]
        if copies is None:
            return
        upper.host_value[SWA] = copies[:n]
        child.host_value[SWA] = copies[n:]
        if child.value[SWA] is None and not child.host_lock_ref[SWA]:
            if child in self.host_lru_list:
                self.host_lru_list.insert_after(child, upper)
            else:
                self.host_lru_list.insert_mru(upper)
                self.host_lru_list.insert_mru(child)

    # Copies in host memory.

    def alloc_on_device(self, n: int) -> Slots | None:
        """Take ``n`` window slots; None if fewer are free."""
        return self.allocator.swa_attn_allocator.alloc_full(n) if n <= self.available_size() else None

    def free_on_device(self, value: Slots) -> None:
        """Free window slots that no node has yet."""
        self.allocator.swa_attn_allocator.free(value)

    def set_device_value(self, node: UnifiedTreeNode, value: Slots) -> None:
        """Give a tombstone window slots, and pair its slots with them."""
        self.allocator.pair(node.value[FULL], value)
        self.store(node, value)

    def unbacked_nodes(self, node: UnifiedTreeNode) -> list[UnifiedTreeNode]:
        """Return the nodes of the last window before the end of a node that have no copies, up to one without a window
        or whose copy is being written."""
        found = list[UnifiedTreeNode]()
        span = self.context.swa_retain_window
        for one in node.path():
            is_dead = one.value[SWA] is None and one.host_value[SWA] is None
            if span <= 0 or one.write_through_pending or is_dead:
                break
            span -= len(one.key)
            if one.value[SWA] is not None and one.host_value[SWA] is None:
                found.append(one)
        return found[::-1]

    def nodes_to_load(self, last_node: UnifiedTreeNode) -> list[UnifiedTreeNode]:
        """Return the nodes of the last window before the end of a node that are in host memory only, the nearest to the
        root first."""
        found = list[UnifiedTreeNode]()
        span = self.context.swa_retain_window
        for node in last_node.path():
            if span <= 0:
                break
            span -= len(node.key)
            if node.value[SWA] is None:
                assert node.host_value[SWA] is not None
                found.append(node)
        return found[::-1]

    def acquire_host_lock(self, node: UnifiedTreeNode) -> int | None:
        """Lock the copies of the last window of a path; return their boundary, None = the root."""
        span = self.context.swa_retain_window
        for one in node.path():
            self.count_host_lock(one, 1)
            span -= len(one.key)
            if span <= 0:
                return self.new_host_lock_uuid(one)
        return None

    def release_host_lock(self, node: UnifiedTreeNode, host_lock_uuid: int | None) -> None:
        """Unlock the copies of a path up to the boundary of its window."""
        for one in node.path():
            self.count_host_lock(one, -1)
            if host_lock_uuid is not None and one.host_lock_uuid[SWA] == host_lock_uuid:
                break

    # Locks.

    def acquire_component_lock(self, node: UnifiedTreeNode) -> int | None:
        """Lock the last window of a path; return its boundary, None = the root."""
        span = self.context.swa_retain_window
        for one in node.path():
            self.count_lock(one, 1)
            span -= len(one.key)
            if span <= 0:
                if one.window_lock_uuid is None:
                    self.last_uuid += 1
                    one.window_lock_uuid = self.last_uuid
                return one.window_lock_uuid
        return None

    def release_component_lock(self, node: UnifiedTreeNode, window_lock_uuid: int | None) -> None:
        """Unlock a path up to the boundary of its window."""
        for one in node.path():
            self.count_lock(one, -1)
            if window_lock_uuid is not None and one.window_lock_uuid == window_lock_uuid:
                break

    def recover_from_incoming(self, node: UnifiedTreeNode, incoming: Slots) -> None:
        """Give a tombstone the window slots of a request. An unlocked node takes over its slots of full attention."""
        if not self.rules.revive(node.lock_ref[FULL] > 0):
            window = self.allocator.set_full_to_swa_mapping(node.value[FULL], incoming)
            self.allocator.free_full(incoming)
        else:
            self.allocator.free_full(node.value[FULL])
            node.value[FULL] = incoming
            window = self.allocator.translate_loc_from_full_to_swa(incoming)
        self.store(node, window)

    def commit_insert_component_data(self, node: UnifiedTreeNode) -> None:
        """Store the window slots of a new node."""
        self.store(node, self.allocator.translate_loc_from_full_to_swa(node.value[FULL]))

    def free_out_of_window_slots(self, req: Req, rule: Callable[[RequestWindow], tuple[int, int]], pre_len: int,
                                 eviction_interval: int = 1) -> None:  # fmt: skip
        """Free the window slots of a request, whose next key has ``pre_len`` tokens, that lie before its window."""
        context = self.context
        kv = req.kv
        floor = None
        if context.supports_mamba and kv.mamba_last_track_seqlen is not None:
            floor = kv.mamba_last_track_seqlen - context.swa_retain_window
        start, stop = rule(RequestWindow(
            pre_len=pre_len,
            swa_evicted_seqlen=kv.swa_evicted_seqlen,
            cache_protected_len=kv.cache_protected_len,
            retain_floor=floor,
            sliding_window_size=context.swa_retain_window,
            page_size=context.page_size,
            eviction_interval=eviction_interval,
        ))  # fmt: skip
        self.allocator.free_swa(self.req_to_token_pool.read(req.rid, start, stop))
        kv.swa_evicted_seqlen = max(kv.swa_evicted_seqlen, start, stop)
