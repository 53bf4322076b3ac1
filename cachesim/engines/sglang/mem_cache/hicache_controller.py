"""Copies of nodes in host memory (HiCache): written, dropped and loaded.

A node is locked until its copies are complete. Copies take no time here: they are complete when the next step is
chosen.
Source: sgl-project/sglang python/sglang/srt/mem_cache/hybrid_cache/hybrid_cache_controller.py HybridCacheController,
mem_cache/unified_radix_cache.py, mem_cache/unified_cache/unified_tree_core.py (0.5.23).
"""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Sequence

import numpy as np

from cachesim.engines.sglang.mem_cache import tree_events as ev
from cachesim.engines.sglang.mem_cache.allocator import Slots
from cachesim.engines.sglang.mem_cache.base_prefix_cache import HostLock, TreeLock
from cachesim.engines.sglang.mem_cache.pool_host import HOST_PARTS, HostPoolGroup
from cachesim.engines.sglang.mem_cache.unified_cache.component_type import FULL, LETTERS, MAMBA, NUM_COMPONENT_TYPES
from cachesim.engines.sglang.mem_cache.unified_cache.components.listed import ListedComponent
from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_core import UnifiedTreeCore
from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_node import UnifiedTreeNode
from cachesim.engines.sglang.rules.host import BACK
from cachesim.engines.sglang.runtime_context import RuntimeContext

NO_RULE = ""


class PoolTransfer(NamedTuple):
    """Nodes of which a part is copied, and their slots in the pool that they are copied to. ``is_of_request``: it is
    copied to the slot of a request, and no node gets it."""

    component_type: int
    nodes: Sequence[UnifiedTreeNode]
    value: Any = None
    is_of_request: bool = False


class OngoingLoadBack(NamedTuple):
    """Locks that are held until a load is complete."""

    lock: TreeLock
    host_lock: HostLock


class HiCacheController:
    """Host memory behind the radix tree: copies of nodes, their order of eviction, and the transfers.
    ``mem_pool_host``: the pool of each part."""

    def __init__(self, context: RuntimeContext, tree_core: UnifiedTreeCore, mem_pool_host: HostPoolGroup) -> None:
        self.rules = context.rules
        self.write_policy = context.server_args.hicache_write_policy
        self.tree_core = tree_core
        self.changes = tree_core.changes
        self.mem_pool_host = mem_pool_host
        for kind, component in tree_core.components.items():
            component.host_pool = mem_pool_host[kind]
        self.ongoing_write_through: list[TreeLock] = []
        self.ongoing_load_back: list[OngoingLoadBack] = []

    # Device to host.

    def backup_after_hit(self, node: UnifiedTreeNode) -> None:
        """Copy a node that was used, and the nodes before it, if it is time."""
        if not node.backuped and self.changes.decide(self.rules.writes_through(self.write_policy, node)):
            self._write_through([one for one in node.path() if not one.backuped][::-1])

    def backup_after_insert(self, node: UnifiedTreeNode) -> None:
        """Copy a state at the end of an insertion, and windows before it, that have no copies, if the end was there
        before."""
        if not node.backuped or node.write_through_pending:
            return
        further = [kind for kind, component in self.tree_core.components.items() if component.unbacked_nodes(node)]
        if further and self.changes.decide(self.rules.writes_further_parts(self.write_policy, node)):
            self._write_through([node])

    def _write_through(self, nodes: Sequence[UnifiedTreeNode]) -> None:
        """Copy nodes, each after those before it, while there is room; they stay locked until the copies are
        complete."""
        for node in nodes:
            if not self.write_backup(node):
                return
            self.ongoing_write_through.append(self.tree_core.inc_lock_ref(node))

    def check_writes(self) -> None:
        """Unlock the nodes whose copies are complete: all that were written since the last step was chosen."""
        self.finish_write_through()
        for lock in self.ongoing_write_through:
            self.tree_core.dec_lock_ref(lock)
        self.ongoing_write_through.clear()

    def finish_write_through(self) -> None:
        """Note that all copies are complete."""
        for node in self.tree_core.write_through_nodes:
            node.write_through_pending = False
            self.tree_core.update_duplicate_tracking(node)
        self.tree_core.write_through_nodes.clear()

    def backup_for_write_back(self, node: UnifiedTreeNode) -> bool:
        """Copy a node that is being evicted, and wait for the copy; return True if there was room."""
        has_room = self.write_backup(node)
        self.finish_write_through()
        return has_room

    def backup_inside(self, node: UnifiedTreeNode, component_type: int) -> None:
        """Copy an inner node that loses a part, after copies of this part made room."""
        component = self.tree_core.components[component_type]
        needed = _size(PoolTransfer(component_type, component.unbacked_nodes(node)))
        if self.mem_pool_host[component_type].available_size() < needed:
            self.evict_host(needed, component_type)
        self.backup_for_write_back(node)

    def write_backup(self, node: UnifiedTreeNode) -> bool:
        """Copy the parts of a node that have no copy, and the window before its end, after others made room; return
        True if there was room."""
        components = self.tree_core.components
        transfers = [PoolTransfer(kind, components[kind].unbacked_nodes(node))
                     for kind in HOST_PARTS if kind in components]  # fmt: skip
        lacking = _size(transfers[0]) - self.mem_pool_host[FULL].available_size()
        if lacking > 0 and self.evict_host(lacking, FULL) < lacking:
            return False
        written = self._allocate_host_transfers(transfers)
        if written is None:
            return False
        for transfer in written:
            self._commit_backup(transfer)
        self.tree_core.mark_write_through_pending(node)
        return True

    def _allocate_host_transfers(self, transfers: Sequence[PoolTransfer]) -> list[PoolTransfer] | None:
        """Return the transfers with their slots in host memory; None if a pool has no room, also after eviction."""
        made = list[PoolTransfer]()
        for transfer in transfers:
            if not transfer.nodes:
                continue
            kind = transfer.component_type
            pool = self.mem_pool_host[kind]
            n = _size(transfer)
            value = pool.alloc_host(n)
            if value is None and kind != FULL:
                self.evict_host(n, kind)
                value = pool.alloc_host(n)
            if value is None:
                for earlier in made:
                    self.mem_pool_host[earlier.component_type].free_host(earlier.value)
                return None
            made.append(transfer._replace(value=value))
        return made

    def _commit_backup(self, transfer: PoolTransfer) -> None:
        """Copy a part of nodes."""
        kind = transfer.component_type
        for node, value in _values(transfer):
            self.mem_pool_host[kind].backup_from_device(node.value[kind], value)
            node.host_value[kind] = value
            self.tree_core.mark_write_through_pending(node)
            if kind == FULL:
                self.changes.record(ev.BackedUp(node.id, len(node.key)))

    # Eviction from host memory.

    def evict_host(self, n: int, component_type: int) -> int:
        """Evict copies of a part until ``n`` slots of its pool are free; return the number of freed slots."""
        freed = [0] * NUM_COMPONENT_TYPES
        if component_type != FULL:
            self._evict_listed_copies(n, component_type, freed)
            return freed[component_type]
        if self.rules.reclaims_doubles(self.write_policy):
            freed[FULL] += self._reclaim_full_host_duplicates(n)
        leaves = self.tree_core.evictable_host_leaves.in_order()
        while freed[FULL] < n and (leaf := next(leaves, None)) is not None:
            self._evict_host_leaf(leaf, freed)
        return freed[FULL]

    def _evict_listed_copies(self, n: int, component_type: int, freed: list[int]) -> None:
        """Evict copies of windows or states, the least recent first. A leaf that is in host memory only loses all."""
        component = self.tree_core.components[component_type]
        assert isinstance(component, ListedComponent)
        lru = component.host_lru_list
        node = lru.get_lru_no_lock()
        while freed[component_type] < n and node is not None and node in lru:
            later = lru.get_prev_no_lock(node)
            if node in self.tree_core.evictable_host_leaves:
                self._evict_host_leaf(node, freed)
            else:
                decision = self.rules.drop_copies_inside(component_type, node)
                for letter in self.changes.decide(decision):
                    kind = LETTERS.index(letter)
                    freed[kind] += self.tree_core.evict_host_component(node, kind, decision.rule)
            node = later

    def _reclaim_full_host_duplicates(self, n: int) -> int:
        """Drop copies of nodes that have slots, too, until ``n`` slots are free: those of leaves that can be evicted
        last. Return the freed slots."""
        core = self.tree_core
        freed = 0
        past = list[UnifiedTreeNode]()
        for spares_leaves in (True, False):
            for node in core.full_host_duplicates:
                if freed >= n:
                    break
                if node.evicted or not node.backuped:
                    past.append(node)
                elif not (spares_leaves and node in core.evictable_device_leaves) and self._is_reclaimable(node):
                    freed += core.evict_host_component(node, FULL, NO_RULE)
                    past.append(node)
        for node in past:
            core.full_host_duplicates.pop(node, None)
        return freed

    def _is_reclaimable(self, node: UnifiedTreeNode) -> bool:
        """True if nothing needs the copy of a node with slots."""
        return node not in self.tree_core.loading and not node.host_lock_ref[FULL] and not node.write_through_pending

    def _evict_host_leaf(self, node: UnifiedTreeNode, freed: list[int]) -> None:
        """Remove a leaf that has copies only."""
        decision = self.rules.drop_host_leaf(node)
        self.changes.decide(decision)
        for kind in self.tree_core.components:
            freed[kind] += self.tree_core.evict_host_component(node, kind, decision.rule)
        self.tree_core.remove_leaf_from_parent(node)

    # Eviction from the device.

    def drop_subtree_no_host(self, node: UnifiedTreeNode, rule: str) -> list[int] | None:
        """Remove a leaf of the device that found no room in host memory, with the nodes behind it that are only there;
        return what each part freed on the device. Return None, and remove nothing, if one of them is in use."""
        core = self.tree_core
        behind = list[UnifiedTreeNode]()
        todo = [node]
        while todo:
            one = todo.pop()
            if one in core.loading or one.write_through_pending or any(one.lock_ref) or any(one.host_lock_ref):
                return None
            behind.append(one)
            todo += one.children.values()
        for one in behind[:0:-1]:
            core.delete_leaf(one, rule)
        return core.delete_leaf(node, rule)

    # Host to device.

    def loaded_parts(self, last_node: UnifiedTreeNode, req_slot: int | None) -> list[PoolTransfer]:
        """Return the parts that must come back for a match that ends at a node. ``req_slot``: slot of the running state
        of the request, which gets the state, too."""
        parts = list[PoolTransfer]()
        for kind, component in self.tree_core.components.items():
            nodes = component.nodes_to_load(last_node)
            if nodes or kind == FULL:
                parts.append(PoolTransfer(kind, nodes))
            if nodes and kind == MAMBA and req_slot is not None:
                parts.append(PoolTransfer(kind, nodes, req_slot, is_of_request=True))
        return parts

    def is_pinned(self, last_node: UnifiedTreeNode, parts: Sequence[PoolTransfer]) -> bool:
        """True if a load in progress that ends at another node needs one of the copies."""
        loading = self.tree_core.loading
        return any(loading.get(node, last_node) is not last_node for part in parts for node in part.nodes)

    def load(self, parts: Sequence[PoolTransfer], make_room: Callable[[int, int], None]) -> list[PoolTransfer] | None:
        """Take the slots of the device for parts that come back; return the parts with them, None if there is no room.
        ``make_room`` evicts from a part until so many of its slots are free."""
        made = list[PoolTransfer]()
        for part in parts:
            if part.is_of_request:
                made.append(part)
                continue
            component = self.tree_core.components[part.component_type]
            n = _size(part)
            value = component.alloc_on_device(n)
            if value is None and part.component_type != FULL:
                make_room(part.component_type, n)
                value = component.alloc_on_device(n)
            if value is None:
                for earlier in made[::-1]:
                    if not earlier.is_of_request:
                        self.tree_core.components[earlier.component_type].free_on_device(earlier.value)
                return None
            made.append(part._replace(value=value))
        return made

    def commit_load_back(self, last_node: UnifiedTreeNode, parts: Sequence[PoolTransfer]) -> None:
        """Copy parts to the device. Their copies are kept until the load ends."""
        core = self.tree_core
        for part in parts:
            kind = part.component_type
            for node, value in _values(part):
                self.mem_pool_host[kind].load_to_device(node.host_value[kind], value)
                if part.is_of_request:
                    continue
                if kind == FULL:
                    core.unevict_node(node, value)
                    self.changes.record(ev.Loaded(node.id, len(node.key)))
                    if self.write_policy == BACK:
                        core.loading[node] = last_node
                else:
                    core.components[kind].set_device_value(node, value)
                self.changes.touch(node)
        core.update_evictable_leaf_sets(last_node)

    def check_loads(self) -> None:
        """End all loads, and unlock their paths."""
        core = self.tree_core
        for lock, host_lock in self.ongoing_load_back:
            core.dec_lock_ref(lock)
            core.dec_host_lock_ref(host_lock)
            for node in lock.node.path():
                if core.loading.get(node) is lock.node:
                    del core.loading[node]
                    core.update_duplicate_tracking(node)
        self.ongoing_load_back.clear()


def _size(transfer: PoolTransfer) -> int:
    """Return the number of slots of a transfer."""
    if transfer.component_type == MAMBA:
        return len(transfer.nodes)
    return sum(len(node.key) for node in transfer.nodes)


def _values(transfer: PoolTransfer) -> list[tuple[UnifiedTreeNode, Any]]:
    """Return the nodes of a transfer with their slots."""
    if transfer.component_type == MAMBA:
        return [(node, transfer.value) for node in transfer.nodes]
    values: list[Slots] = np.split(transfer.value, np.cumsum([len(node.key) for node in transfer.nodes]))
    return list(zip(transfer.nodes, values[:-1], strict=True)) if transfer.nodes else []
