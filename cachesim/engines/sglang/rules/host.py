"""Rules of copies in host memory (HiCache): when a node is copied, evicted to its copy, and loaded back."""

from __future__ import annotations

from cachesim.engines.rule import Decision, Role, rule
from cachesim.engines.sglang.mem_cache.unified_cache.component_type import FULL, LETTERS, MAMBA, SWA
from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_node import UnifiedTreeNode
from cachesim.engines.sglang.rules import CACHE, CORE, OLD, WINDOW, source

THROUGH = "write_through"
SELECTIVE = "write_through_selective"
BACK = "write_back"
POLICIES = (THROUGH, SELECTIVE, BACK)
DEMOTE = "demote"
WRITE = "write"
DELETE = "delete"


@rule("SG-HOST-SIZE.RATIO", Role.MEMORY,
      source("mem_cache/pool_host/base.py", "HostKVCache.__init__", spec="section 12"))
def host_slots(tokens: int, ratio: float, page: int) -> int:
    """Return the slots of host memory [tokens]: ``ratio`` slots for each slot of the device, in whole pages, and one
    page more."""
    return (int(tokens * ratio) // page + 1) * page


@rule("SG-HOST-COUNT-USE.THROUGH", Role.MEMORY, source(CORE, "_inc_hit_count_and_check", spec="section 12"))
def counts_uses(policy: str) -> bool:
    """True if an insertion counts as a use of its nodes. With write_back it does not, so lfu and slru evict by time
    alone. ``policy``: when nodes are copied to host memory, "" = without host memory."""
    return policy != BACK


@rule("SG-HOST-COUNT-USE.HOST", Role.MEMORY,
      source("mem_cache/hiradix_cache.py", "_inc_hit_count", OLD, spec="sglang#18843"), until="#18843")
def counts_uses_on_host(policy: str) -> bool:
    """True if an insertion counts as a use of its nodes: only with host memory. Without it no release class counts, so
    lfu evicts by time alone."""
    return policy not in ("", BACK)


@rule("SG-HOST-BACK-UP.HITS", Role.STORE, source(CACHE, "init_hicache", spec="section 12"))
def writes_through(policy: str, node: UnifiedTreeNode) -> Decision:
    """True if an insertion copies a node to host memory: at its first use with write_through, at its second with
    write_through_selective, never with write_back."""
    least = {THROUGH: 1, SELECTIVE: 2}.get(policy)
    because = {"node": node.id, "end": node.end, "hits": node.hit_count}
    return Decision(least is not None and node.hit_count >= least, because)


@rule("SG-HOST-BACK-UP-PARTS.AT-END", Role.STORE, source(CORE, "_should_backup_after_insert", spec="section 12"))
def writes_further_parts(policy: str, node: UnifiedTreeNode) -> Decision:
    """True if an insertion that ends at a node with a copy also copies its state, and windows before its end, that have
    none: always, except with write_back."""
    return Decision(policy != BACK, {"node": node.id, "end": node.end})


@rule("SG-HOST-COPY-INSIDE.UNBACKED", Role.MEMORY, source(WINDOW, "_evict_device_next_node", spec="section 12"))
def copies_inside(policy: str, part: int, node: UnifiedTreeNode) -> bool:
    """True if an inner node that loses its window or its state is copied to host memory first: with write_back, unless
    it has a copy of its rows already. A state that came later is then lost."""
    return policy == BACK and node.host_value[part] is None and node.host_value[FULL] is None


@rule("SG-HOST-DEMOTE.COPY", Role.MEMORY, source(CORE, "evict_device_leaf", spec="section 12"))
def leave_device(policy: str, node: UnifiedTreeNode) -> Decision:
    """Return what happens to an evicted leaf. A leaf with a copy stays in the tree, in host memory only. With
    write_back a leaf without a copy is copied first if there is room; otherwise it is deleted."""
    what = DEMOTE if node.host_value[FULL] is not None else WRITE if policy == BACK else DELETE
    return Decision(what, {"node": node.id, "tokens": len(node.key), "end": node.end})


@rule("SG-HOST-DROP-DUPLICATES.FIRST", Role.MEMORY, source(CORE, "_reclaim_full_host_duplicates", spec="section 12"))
def reclaims_doubles(policy: str) -> bool:
    """True if full host memory first drops copies of nodes that are also on the device, as with write_back. Copies of
    leaves that could be evicted are dropped last."""
    return policy == BACK


@rule("SG-HOST-EVICT.LEAF", Role.DROP,
      source("mem_cache/unified_cache/components/full.py", "drive_host_eviction", spec="section 12"))
def drop_host_leaf(node: UnifiedTreeNode) -> Decision:
    """Return the number of the node that full host memory drops. It drops nodes that are only there, from the leaves
    on, in the order of the eviction policy."""
    return Decision(node.id, {"tokens": len(node.key), "end": node.end})


@rule("SG-HOST-EVICT-INSIDE.RANK", Role.DROP, source(WINDOW, "drive_host_eviction", spec="section 12"))
def drop_copies_inside(part: int, node: UnifiedTreeNode) -> Decision:
    """Return the copies that a node loses when host memory for windows or states is full: that of the window and of its
    state, or of the state alone. Only nodes without that part on the device lose copies, the least recent first."""
    gone = [kind for kind in ((SWA, MAMBA) if part == SWA else (MAMBA,)) if node.host_value[kind] is not None]
    return Decision(tuple(LETTERS[kind] for kind in gone), {"node": node.id, "tokens": len(node.key), "end": node.end})


@rule("SG-HOST-LOAD-BACK.TEN", Role.LOAD, source(CACHE, "_load_back_transfers", spec="section 12"))
def load_back(tokens: int, parts: int, pinned: bool) -> Decision:
    """Return the number of tokens that are copied from host memory to the device when a request starts: all of them,
    None if there are fewer than 10, which are evaluated again. ``parts``: windows and states that must come back, too;
    with any, few tokens are copied as well. Nothing is copied if another load has ``pinned`` one of the copies."""
    is_worth = tokens >= 10 or parts > 0
    return Decision(tokens if is_worth and not pinned else None, {"tokens": tokens, "parts": parts, "pinned": pinned})


@rule("SG-HOST-LOAD-FAILED.AS-MATCHED", Role.MEMORY, source(CACHE, "init_load_back", spec="section 12"))
def state_as_matched() -> bool:
    """True if a request whose load was declined gets the state at the end of the prefix that it has on the device:
    never. It starts with the state that the match gave it: that of the node whose parts were not loaded, or none."""
    return False
