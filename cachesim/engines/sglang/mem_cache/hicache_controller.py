"""Copies of nodes in host memory (HiCache): written, dropped and loaded.

A node is locked until its copy is complete. Copies take no time here: they are complete when the next step is chosen.
Source: sgl-project/sglang python/sglang/srt/managers/cache_controller.py HiCacheController,
mem_cache/unified_cache/unified_tree_core.py (0.5.23).
"""

from __future__ import annotations

from cachesim.engines.sglang.mem_cache import tree_events as ev
from cachesim.engines.sglang.mem_cache.allocator import Slots
from cachesim.engines.sglang.mem_cache.base_prefix_cache import TreeLock
from cachesim.engines.sglang.mem_cache.pool_host import HostKVCache
from cachesim.engines.sglang.mem_cache.unified_cache.component_type import FULL
from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_core import UnifiedTreeCore
from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_node import UnifiedTreeNode
from cachesim.engines.sglang.rules.host import DEMOTE, WRITE
from cachesim.engines.sglang.runtime_context import RuntimeContext

NO_RULE = ""


class HiCacheController:
    """Host memory behind the radix tree: copies of nodes, their order of eviction, and the transfers."""

    def __init__(self, context: RuntimeContext, tree_core: UnifiedTreeCore, mem_pool_host: HostKVCache) -> None:
        self.rules = context.rules
        self.write_policy = context.server_args.hicache_write_policy
        self.tree_core = tree_core
        self.changes = tree_core.changes
        self.mem_pool_host = mem_pool_host
        self.ongoing_write_through: list[TreeLock] = []
        self.ongoing_load_back: list[TreeLock] = []

    # Device to host.

    def backup_after_hit(self, node: UnifiedTreeNode) -> None:
        """Copy a node that was used, and the nodes before it, if it is time."""
        if node.backuped or not self.changes.decide(self.rules.writes_through(self.write_policy, node)):
            return
        for one in [one for one in node.path() if not one.backuped][::-1]:
            if not self.write_backup(one):
                return
            self.ongoing_write_through.append(self.tree_core.inc_lock_ref(one))

    def check_writes(self) -> None:
        """Unlock the nodes whose copies are complete: all that were written since the last step was chosen."""
        for lock in self.ongoing_write_through:
            self.tree_core.dec_lock_ref(lock)
        self.ongoing_write_through.clear()

    def write_backup(self, node: UnifiedTreeNode) -> bool:
        """Copy a node to host memory, after others made room; return True if there was room."""
        lacking = len(node.key) - self.mem_pool_host.available_size()
        if lacking > 0 and self.rules.reclaims_doubles(self.write_policy):
            lacking -= self._reclaim_full_host_duplicates(lacking)
        leaves = self.tree_core.evictable_host_leaves.in_order()
        while lacking > 0 and (leaf := next(leaves, None)) is not None:
            lacking -= self._evict_host_leaf(leaf)
        if lacking > 0:
            return False
        node.host_value = self.mem_pool_host.backup_from_device(node.value[FULL])
        self.changes.record(ev.BackedUp(node.id, len(node.key)))
        self.tree_core.update_duplicate_tracking(node)
        return True

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
                elif not (spares_leaves and node in core.evictable_device_leaves) and node not in core.loading:
                    freed += self._release_host_value(node, NO_RULE)
                    past.append(node)
        for node in past:
            core.full_host_duplicates.pop(node, None)
        return freed

    def _evict_host_leaf(self, node: UnifiedTreeNode) -> int:
        """Remove a leaf that has a copy only; return its number of slots."""
        decision = self.rules.drop_host_leaf(node)
        self.changes.decide(decision)
        freed = self._release_host_value(node, decision.rule)
        self.tree_core.remove_leaf_from_parent(node)
        return freed

    def _release_host_value(self, node: UnifiedTreeNode, rule: str) -> int:
        """Free the copy of a node; return its number of slots."""
        self.mem_pool_host.free(node.host_value)
        node.host_value = None
        self.changes.record(ev.Dropped(node.id, "H", len(node.key)))
        if node.evicted:
            self.changes.lose(node, FULL, rule)
            self.changes.touch(node)
        return len(node.key)

    # Eviction from the device.

    def keeps_evicted_leaf(self, node: UnifiedTreeNode) -> bool:
        """True if an evicted leaf stays in the tree with its copy, which is written if necessary."""
        what = self.changes.decide(self.rules.leave_device(self.write_policy, node))
        return bool(what == DEMOTE or (what == WRITE and self.write_backup(node)))

    def demote(self, node: UnifiedTreeNode) -> int:
        """Free the slots of a leaf that has a copy; return their number."""
        core = self.tree_core
        assert node.parent is not None
        freed = core.full.evict_component(node)
        node.value[FULL] = None
        self.changes.record(ev.Demoted(node.id, len(node.key)))
        self.changes.touch(node)
        core.evictable_device_leaves.pop(node)
        core.update_evictable_leaf_sets(node)
        core.update_evictable_leaf_sets(node.parent)
        return freed

    # Host to device.

    def evicted_path(self, last_node: UnifiedTreeNode) -> list[UnifiedTreeNode]:
        """Return the nodes without slots on the path to a node, the nearest to the root first."""
        return [node for node in last_node.path() if node.evicted][::-1]

    def load(self, last_node: UnifiedTreeNode, slots: Slots) -> None:
        """Copy the rows of the nodes without slots on the path to a node into these slots. Their copies are kept until
        the load ends."""
        at = 0
        for node in self.evicted_path(last_node):
            taken = slots[at : at + len(node.key)]
            self.mem_pool_host.load_to_device(node.host_value, taken)
            self.tree_core.unevict_node(node, taken)
            self.tree_core.loading[node] = last_node
            self.changes.record(ev.Loaded(node.id, len(node.key)))
            at += len(node.key)
        self.ongoing_load_back.append(self.tree_core.inc_lock_ref(last_node))

    def check_loads(self) -> None:
        """End all loads, and unlock their paths."""
        for lock in self.ongoing_load_back:
            self.tree_core.dec_lock_ref(lock)
        self.ongoing_load_back.clear()
        loading = self.tree_core.loading
        ended = dict(loading)
        loading.clear()
        for last_node in dict.fromkeys(ended.values()):
            for node in last_node.path():
                if ended.get(node) is last_node:
                    self.tree_core.update_duplicate_tracking(node)
