"""Rules of copies in host memory (HiCache): when a node is copied, evicted to its copy, and loaded back."""

from __future__ import annotations

from cachesim.engines.rule import Decision, Role, rule
from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_node import UnifiedTreeNode
from cachesim.engines.sglang.rules import CACHE, CORE, source

THROUGH, SELECTIVE, BACK = POLICIES = "write_through", "write_through_selective", "write_back"
DEMOTE, WRITE, DELETE = "demote", "write", "delete"


@rule("SG-HOST-SIZE.RATIO", Role.MEMORY,
      source("mem_cache/pool_host/base.py", "HostKVCache.__init__", spec="section 12"))
def host_slots(tokens: int, ratio: float, page: int) -> int:
    """Host memory has ``ratio`` slots for each slot of the device, in whole pages, and one page more. Return its
    slots."""
    return (int(tokens * ratio) // page + 1) * page


@rule("SG-HOST-COUNT-USE.THROUGH", Role.MEMORY, source(CORE, "_inc_hit_count_and_check", spec="section 12"))
def counts_uses(policy: str) -> bool:
    """With write_back an insertion counts as no use of its nodes: lfu and slru evict by time alone. Return whether it
    counts."""
    return policy != BACK


@rule("SG-HOST-BACK-UP.HITS", Role.STORE, source(CACHE, "init_hicache", spec="section 12"))
def writes_through(policy: str, node: UnifiedTreeNode) -> Decision:
    """A node is copied to host memory when an insertion uses it: at its first use with write_through, at its second
    with write_through_selective, not at all with write_back."""
    least = {THROUGH: 1, SELECTIVE: 2}.get(policy)
    because = {"node": node.id, "end": node.end, "hits": node.hit_count}
    return Decision(least is not None and node.hit_count >= least, because)


@rule("SG-HOST-DEMOTE.COPY", Role.MEMORY, source(CORE, "evict_device_leaf", spec="section 12"))
def leave_device(policy: str, node: UnifiedTreeNode) -> Decision:
    """An evicted leaf with a copy stays in the tree, in host memory only. With write_back a leaf without one is copied
    first, if there is room; otherwise it is deleted. Return what happens."""
    what = DEMOTE if node.host_value is not None else WRITE if policy == BACK else DELETE
    return Decision(what, {"node": node.id, "tokens": len(node.key), "end": node.end})


@rule("SG-HOST-DROP-DUPLICATES.FIRST", Role.MEMORY, source(CORE, "_reclaim_full_host_duplicates", spec="section 12"))
def reclaims_doubles(policy: str) -> bool:
    """With write_back, full host memory first drops copies of nodes that are on the device, too: those of leaves that
    could be evicted come last. Return whether it does."""
    return policy == BACK


@rule("SG-HOST-EVICT.LEAF", Role.DROP,
      source("mem_cache/unified_cache/components/full.py", "drive_host_eviction", spec="section 12"))
def drop_host_leaf(node: UnifiedTreeNode) -> Decision:
    """Full host memory drops nodes that are there only, from the leaves on, in the order of the eviction policy.
    Return the node's number."""
    return Decision(node.id, {"tokens": len(node.key), "end": node.end})


@rule("SG-HOST-LOAD-BACK.TEN", Role.LOAD, source(CACHE, "_load_back_transfers", spec="section 12"))
def load_back(tokens: int) -> Decision:
    """A request that starts has its tokens in host memory copied back, all of them, if there are at least 10; fewer are
    evaluated again. Return their number, None if they are not loaded."""
    return Decision(tokens if tokens >= 10 else None, {"tokens": tokens})
