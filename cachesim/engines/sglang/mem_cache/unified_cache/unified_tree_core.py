"""The nodes of the radix tree, their locks, and the leaves that can be evicted.

Source: sgl-project/sglang python/sglang/srt/mem_cache/unified_cache/unified_tree_core.py UnifiedTreeCore (0.5.23).
"""

from __future__ import annotations

from typing import Any, Iterable, Iterator, Mapping, Sequence

import numpy as np

from cachesim.base.errors import Crash, ProcessAborted
from cachesim.base.tokens import Tokens
from cachesim.engines.sglang.mem_cache import tree_events as ev
from cachesim.engines.sglang.mem_cache.allocator import NO_SLOTS, Slots
from cachesim.engines.sglang.mem_cache.base_prefix_cache import HostLock, TreeLock
from cachesim.engines.sglang.mem_cache.kv_event_recorder import KVCacheEventRecorder
from cachesim.engines.sglang.mem_cache.memory_pool import MemoryPools
from cachesim.engines.sglang.mem_cache.unified_cache.component_type import (
    FULL,
    HOST_LETTERS,
    LETTERS,
    MAMBA,
    NUM_COMPONENT_TYPES,
    SWA,
)
from cachesim.engines.sglang.mem_cache.unified_cache.components.base import TreeComponent
from cachesim.engines.sglang.mem_cache.unified_cache.components.full import FullComponent
from cachesim.engines.sglang.mem_cache.unified_cache.components.mamba import MambaComponent
from cachesim.engines.sglang.mem_cache.unified_cache.components.swa import SWAComponent
from cachesim.engines.sglang.mem_cache.unified_cache.evictable_leaves import EvictableLeaves, Rank
from cachesim.engines.sglang.mem_cache.unified_cache.tree_changes import TreeChanges
from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_node import UnifiedTreeNode
from cachesim.engines.sglang.runtime_context import RuntimeContext


class UnifiedTreeCore:
    """The tree. ``full``, ``swa``, ``mamba``: its parts, None = the nodes lack it. A node without slots of full
    attention has a copy in host memory; all nodes before a node with slots have slots. ``write_through_nodes``: nodes
    whose copies are being written. ``kv_events``: what other programs learn, None = nothing."""

    kv_events: KVCacheEventRecorder | None = None

    def __init__(self, context: RuntimeContext, pools: MemoryPools) -> None:
        self.rules = context.rules
        self.page_size = context.page_size
        policy = context.server_args.radix_eviction_policy
        self.eviction_policy = self.rules.eviction_policy(policy, context.tree_components)
        self.split_is_new = self.rules.split_created(context.tree_components)
        self.changes = TreeChanges()
        self.root_node = UnifiedTreeNode(0)
        self.next_node_id = 1
        self.time_counter = 2.0
        self.nodes_by_id: dict[int, UnifiedTreeNode] = {}
        self.evictable_device_leaves = EvictableLeaves(self.leaf_rank, self.nodes_by_id)
        self.evictable_host_leaves = EvictableLeaves(self.leaf_rank, self.nodes_by_id)
        self.full_host_duplicates: dict[UnifiedTreeNode, None] = {}     # in the order in which they got both
        self.loading: dict[UnifiedTreeNode, UnifiedTreeNode] = {}       # node -> last node of its load, with write_back
        self.write_through_nodes: list[UnifiedTreeNode] = []
        self.components: dict[int, TreeComponent] = {}
        self.swa: SWAComponent | None = None
        self.mamba: MambaComponent | None = None
        allocator = pools.token_to_kv_pool_allocator
        self.full = FullComponent(context, allocator, self.evictable_device_leaves)
        self.components[FULL] = self.full
        if SWA in context.tree_components:
            self.swa = SWAComponent(context, pools.swa_allocator, pools.req_to_token_pool)
            self.components[SWA] = self.swa
        if MAMBA in context.tree_components:
            self.mamba = MambaComponent(context, pools.req_to_token_pool)
            self.components[MAMBA] = self.mamba

    def get_and_increase_time_counter(self) -> float:
        """Return the time of the logical clock and advance it."""
        self.time_counter += 1
        return self.time_counter - 1

    def nodes(self) -> Iterator[UnifiedTreeNode]:
        """Yield all nodes but the root, breadth first."""
        level = [self.root_node]
        while level:
            level = [child for node in level for child in node.children.values()]
            yield from level

    def dfs_weight_order(self, ends: Mapping[UnifiedTreeNode, Sequence[int]]) -> list[int]:
        """Return the numbers that end at nodes in a depth-first order: of the children, the one with most numbers
        behind it first; a node after its children."""
        weight: dict[UnifiedTreeNode, int] = {}
        for node, numbers in ends.items():
            for one in (*node.path(), self.root_node):
                weight[one] = weight.get(one, 0) + len(numbers)
        order = list[int]()
        todo = [(self.root_node, False)]
        while todo:
            node, done = todo.pop()
            if done:
                order += ends.get(node, ())
                continue
            near = sorted((child for child in node.children.values() if child in weight), key=lambda one: -weight[one])
            todo += [(node, True), *((child, False) for child in reversed(near))]
        return order

    def collect_full_device_indices(self, node: UnifiedTreeNode, start: int = 0) -> Slots:
        """Return the slots of the path to a node, from position ``start`` on."""
        parts = list[Slots]()
        first = node.end
        for one in node.path():
            if first <= start:
                break
            parts.append(one.value[FULL])
            first = one.start
        return np.concatenate(parts[::-1])[start - first :] if parts else NO_SLOTS

    # Nodes and their parts.

    def add_new_node(self, parent: UnifiedTreeNode, key: Tokens, *, extra_key: Any, priority: int,
                     text: Tokens) -> UnifiedTreeNode:  # fmt: skip
        """Add a node without parts."""
        accessed = self.get_and_increase_time_counter()
        created = self.get_and_increase_time_counter()
        node = UnifiedTreeNode(
            self.next_node_id, last_access_time=accessed, creation_time=created, priority=priority,
            end=parent.end + len(key), key=key, text=text, extra_key=extra_key, parent=parent,
        )  # fmt: skip
        self.nodes_by_id[node.id] = node
        self.next_node_id += 1
        parent.children[extra_key, key[: self.page_size]] = node
        self.changes.touch(node)
        return node

    def split_node(self, child: UnifiedTreeNode, n: int) -> UnifiedTreeNode:
        """Split a node after its first ``n`` tokens; return the new node that holds them, with their slots and locks.
        The state stays below."""
        assert child.parent is not None
        upper = self.add_new_node(child.parent, child.key[:n], extra_key=child.extra_key, priority=child.priority,
                                  text=child.text)  # fmt: skip
        upper.hit_count = child.hit_count
        if not self.split_is_new:
            upper.creation_time = child.creation_time
        child.key = child.key[n:]
        child.parent = upper
        upper.children[child.extra_key, child.key[: self.page_size]] = child
        if self.kv_events is not None:
            self.kv_events.record_split(upper, child)
        for component in self.components.values():
            component.redistribute_on_node_split(upper, child)
        child.last_access_time = self.get_and_increase_time_counter()
        self.update_evictable_leaf_sets(child)
        self.changes.record(ev.Split(child.id, upper.id, n))
        self.changes.touch(child)
        if child in self.loading:
            self.loading[upper] = self.loading[child]
        if child.write_through_pending:
            self.mark_write_through_pending(upper)
        self.update_duplicate_tracking(upper)
        return upper

    def evict_component(self, node: UnifiedTreeNode, component_type: int, rule: str) -> int:
        """Take a part from a node and free its slots; return the number of freed tokens or states. Its copy stays."""
        if node.value[component_type] is None:
            return 0
        letter = LETTERS[component_type]
        if node.lock_ref[component_type]:
            raise ProcessAborted(f"AssertionError: part {letter} of node {node.id} is locked", "locked-part")
        size = self.components[component_type].evict_component(node)
        self.changes.record(ev.Dropped(node.id, letter, len(node.key)))
        if node.host_value[component_type] is None:
            self.changes.lose(node, component_type, rule)
        self.changes.touch(node)
        return size

    def evict_host_component(self, node: UnifiedTreeNode, component_type: int, rule: str) -> int:
        """Free the copy of a part of a node; return the number of freed tokens or states."""
        if node.host_value[component_type] is None:
            return 0
        letter = LETTERS[component_type]
        if node.host_lock_ref[component_type]:
            raise ProcessAborted(f"AssertionError: copy {letter} of node {node.id} is locked", "locked-part")
        size = self.components[component_type].evict_host_component(node)
        self.changes.record(ev.Dropped(node.id, HOST_LETTERS[component_type], len(node.key)))
        if node.value[component_type] is None:
            self.changes.lose(node, component_type, rule)
            self.changes.touch(node)
        return size

    def demote(self, node: UnifiedTreeNode, rule: str) -> list[int]:
        """Evict a leaf with a copy from the device; return what each part freed. It stays in the tree."""
        assert node.parent is not None
        freed = [0] * NUM_COMPONENT_TYPES
        for kind, component in self.components.items():
            if kind == FULL:
                freed[kind] = component.evict_component(node)
            else:
                freed[kind] = self.evict_component(node, kind, rule)
        node.value[FULL] = None
        self.changes.record(ev.Demoted(node.id, len(node.key)))
        self.changes.touch(node)
        self.evictable_device_leaves.pop(node)
        self.update_evictable_leaf_sets(node)
        self.update_evictable_leaf_sets(node.parent)
        return freed

    def delete_leaf(self, node: UnifiedTreeNode, rule: str) -> list[int]:
        """Free all parts of a leaf and their copies, and remove it; return what each part freed on the device."""
        if self.kv_events is not None:
            self.kv_events.record_remove(node)
        freed = [0] * NUM_COMPONENT_TYPES
        for kind in self.components:
            freed[kind] = self.evict_component(node, kind, rule)
            self.evict_host_component(node, kind, rule)
        self.remove_leaf_from_parent(node)
        return freed

    def record_store(self, node: UnifiedTreeNode) -> None:
        """Let other programs learn that a node got slots."""
        if self.kv_events is not None:
            self.kv_events.record_store(node)

    def mark_write_through_pending(self, node: UnifiedTreeNode) -> None:
        """Note that a copy of a node is being written."""
        if not node.write_through_pending:
            node.write_through_pending = True
            self.write_through_nodes.append(node)

    def remove_leaf_from_parent(self, node: UnifiedTreeNode) -> UnifiedTreeNode:
        """Remove a leaf whose slots are free; return its parent."""
        parent = node.parent
        assert parent is not None
        self.evictable_host_leaves.pop(node, None)
        self.full_host_duplicates.pop(node, None)
        del parent.children[node.extra_key, node.key[: self.page_size]]
        node.value[FULL] = None
        del self.nodes_by_id[node.id]
        if self.kv_events is not None:
            self.kv_events.forget(node)
        self.evictable_device_leaves.pop(node, None)
        self.update_evictable_leaf_sets(parent)
        self.changes.record(ev.Gone(node.id))
        return parent

    # Locks.

    def inc_lock_ref(self, node: UnifiedTreeNode) -> TreeLock:
        """Lock the path to a node for full attention, its last window, and its state."""
        self._lock_full(node.path())
        return self._lock_end(node)

    def dec_lock_ref(self, lock: TreeLock | None) -> None:
        """Release a lock; do nothing without one."""
        if lock is None:
            return
        self._unlock_end(lock)
        for one in lock.node.path():
            self.full.count_lock(one, -1)
            self.update_evictable_leaf_sets(one)

    def move_lock(self, lock: TreeLock | None, node: UnifiedTreeNode) -> TreeLock:
        """Release a lock, and lock the path to a node. If the locked path is a part of it, only its end is touched:
        each of its nodes would be unlocked and locked again."""
        further = list[UnifiedTreeNode]()
        for one in node.path():
            if lock is not None and one is lock.node and one.lock_ref[FULL] > 0:
                self._unlock_end(lock)
                self._lock_full(further)
                return self._lock_end(node)
            further.append(one)
        self.dec_lock_ref(lock)
        return self.inc_lock_ref(node)

    def _lock_full(self, nodes: Iterable[UnifiedTreeNode]) -> None:
        """Lock nodes for full attention."""
        for node in nodes:
            self.full.count_lock(node, 1)
            self.evictable_device_leaves.pop(node, None)

    def _lock_end(self, node: UnifiedTreeNode) -> TreeLock:
        """Lock the last window and the state of a path that is locked for full attention."""
        self.evictable_host_leaves.pop(node, None)
        uuid = None if self.swa is None else self.swa.acquire_component_lock(node)
        if self.mamba is not None and node is not self.root_node:
            self.mamba.count_lock(node, 1)
        return TreeLock(node, uuid)

    def _unlock_end(self, lock: TreeLock) -> None:
        """Release the last window and the state of a locked path."""
        self._unlock_state(lock)
        if self.swa is not None:
            self.swa.release_component_lock(lock.node, lock.window_lock_uuid)

    def _unlock_state(self, lock: TreeLock) -> None:
        """Release the state at the end of a locked path, if the lock holds it."""
        if self.mamba is not None and lock.node is not self.root_node and lock.holds_state:
            self.mamba.count_lock(lock.node, -1)

    def release_state(self, lock: TreeLock) -> TreeLock:
        """Release the state that a lock holds; return the rest of the lock."""
        self._unlock_state(lock)
        self.update_evictable_leaf_sets(lock.node)
        return lock._replace(holds_state=False)

    def inc_host_lock_ref(self, node: UnifiedTreeNode) -> HostLock:
        """Lock the copies in host memory that a match at a node needs."""
        uuids = tuple(component.acquire_host_lock(node) for component in self.components.values())
        self.evictable_host_leaves.pop(node, None)
        return HostLock(node, uuids)

    def dec_host_lock_ref(self, lock: HostLock) -> None:
        """Release a lock on copies."""
        for component, uuid in zip(self.components.values(), lock.uuids, strict=True):
            component.release_host_lock(lock.node, uuid)
        self.update_evictable_leaf_sets(lock.node)

    # Leaves.

    def leaf_rank(self, node: UnifiedTreeNode) -> Rank:
        """Return the place of a leaf in the order of eviction: by the policy, then by time."""
        return self.rules.evict_first(self.eviction_policy, node), node.last_access_time, node.id

    def update_evictable_leaf_sets(self, node: UnifiedTreeNode) -> None:
        """Keep the sets of leaves: of the device, nodes with slots, without locks and without children that have slots;
        of the host, nodes without slots, locks and children. A leaf is ranked again."""
        on_device = node.value[FULL] is not None or node.parent is None
        leaves = self.evictable_device_leaves if on_device else self.evictable_host_leaves
        has_child = bool(node.children) and (node.has_device_child or not on_device)
        is_held = any(node.lock_ref) or (not on_device and any(node.host_lock_ref))
        if node.parent is None or is_held or has_child:
            leaves.pop(node, None)
        else:
            leaves.put(node)

    def update_duplicate_tracking(self, node: UnifiedTreeNode) -> None:
        """Record whether a node has slots and a copy, unless its copy is being written or loaded."""
        is_settled = not node.write_through_pending and node not in self.loading
        if not node.evicted and node.backuped and is_settled:
            self.full_host_duplicates.setdefault(node)
        else:
            self.full_host_duplicates.pop(node, None)

    def unevict_node(self, node: UnifiedTreeNode, slots: Slots) -> None:
        """Give a node without slots these."""
        assert node.parent is not None
        self.full.set_device_value(node, slots)
        self.evictable_host_leaves.pop(node, None)
        self.changes.touch(node)
        self.update_evictable_leaf_sets(node)
        self.update_evictable_leaf_sets(node.parent)

    def unevict_node_on_insert(self, node: UnifiedTreeNode, slots: Slots) -> None:
        """Give a node without slots those of a request, which has evaluated the tokens again."""
        self.unevict_node(node, slots)
        self.update_duplicate_tracking(node)
        self.changes.record(ev.Revived(node.id, len(slots)))
        self.record_store(node)

    # Invariants.

    def check(self) -> None:
        """Raise Crash unless sizes, leaves and recency lists agree with the nodes."""
        nodes = list(self.nodes())
        for component in self.components.values():
            component.check(nodes)
        unlocked = [node for node in nodes if not any(node.lock_ref)]
        if {node for node in unlocked if not node.evicted and not node.has_device_child} != {
                *self.evictable_device_leaves}:  # fmt: skip
            raise Crash("the set of evictable leaves is not that of the tree")
        for node in nodes:
            self._check_node(node)
        idle = [node for node in unlocked if not any(node.host_lock_ref)]
        if {node for node in idle if node.evicted and not node.children} != {*self.evictable_host_leaves}:
            raise Crash("the set of host leaves is not that of the tree")
        for node in nodes:
            if node.evicted and node.has_device_child:
                raise Crash(f"node {node.id} has no slots, a child has")

    def _check_node(self, node: UnifiedTreeNode) -> None:
        page = self.page_size
        above = node.parent
        if (len(node.key) % page or above is None or above.end != node.start or not node.key
                or above.children.get((node.extra_key, node.key[:page])) is not node):  # fmt: skip
            raise Crash(f"node {node.id} does not continue its parent by whole pages")
        slots = node.host_value[FULL] if node.evicted else node.value[FULL]
        if slots is None or len(slots) != len(node.key):
            raise Crash(f"node {node.id} has {slots} for {len(node.key)} tokens")
        locks = node.lock_ref
        if not locks[FULL] >= max(locks) >= min(locks) >= 0:
            raise Crash(f"node {node.id} has the locks {locks}: those of full attention are not the most")
        if above.parent is not None and above.lock_ref[FULL] < locks[FULL]:
            raise Crash(f"node {node.id} has more locks than its parent")
