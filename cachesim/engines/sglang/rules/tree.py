"""Rules of the radix tree: how far a prompt matches, what an insertion and an eviction change."""

from __future__ import annotations

from typing import Any, Callable, Mapping, NamedTuple

from cachesim.engines.rule import Decision, Role, rule
from cachesim.engines.sglang.mem_cache.unified_cache.component_type import FULL, LETTERS, MAMBA, SWA
from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_node import UnifiedTreeNode
from cachesim.engines.sglang.rules import (
    CACHE,
    CORE,
    MIDDLE,
    OLD,
    OLD_STATES,
    OLD_WINDOW,
    PLAIN,
    STATES,
    WINDOW,
    source,
)


class PrefixMatch(NamedTuple):
    """A match of a prefix."""

    key_len: int              # tokens to match
    device_hit_length: int    # tokens up to the last node that all parts accept
    full_kv_hit_length: int   # tokens with slots of full attention


@rule("SG-KEY-PAIRS.EAGLE", Role.MEMORY, source(CORE, "UnifiedTreeCore.__init__", spec="S-KEY-4"))
def keys_are_pairs(algorithm: str, parts: tuple[int, ...]) -> bool:
    """True if prefixes are compared as pairs of adjacent tokens: with EAGLE drafts and without states. The drafter's
    row of a token depends on the next one. A prefix of n tokens has n - 1 pairs and as many slots."""
    return algorithm == "EAGLE" and MAMBA not in parts


@rule("SG-WINDOW-RETAIN.DRAFT", Role.MEMORY,
      source("mem_cache/cache_init_params.py", "swa_retain_window", spec="S-SWA-2"))
def retained_window(window: int, draft: int) -> int:
    """Return the window [tokens] that the tree keeps, asks for and locks: the larger of model and drafter."""
    return max(window, draft)


@rule("SG-WINDOW-RETAIN.MODEL", Role.MEMORY,
      source(WINDOW, "SWAComponent.__init__", MIDDLE, spec="S-SWA-2"), until="0.5.23")
def model_window(window: int, draft: int) -> int:
    """Return the window [tokens] that the tree keeps, asks for and locks: that of the model, although the drafter may
    read further back."""
    return window


@rule("SG-MATCH-HIT.BEST", Role.PREFIX, source(CORE, "_match_prefix_helper", spec="S-MATCH-1"))
def best_hit(found: PrefixMatch) -> Decision:
    """Return the reused tokens: those up to the deepest matched node that all parts of the memory accept."""
    because = {"n": found.key_len, "hit": found.device_hit_length, "full": found.full_kv_hit_length}
    return Decision(found.device_hit_length, because)


@rule("SG-MATCH-ACCEPT.ALL", Role.MEMORY, source(WINDOW, "create_match_validator", spec="S-SWA-1"))
def accept_node(run: int, node: UnifiedTreeNode, parts: tuple[int, ...], window: int) -> tuple[int, bool]:
    """Return the live tokens up to the end of a node, and whether a match can end there: if the node has a state, and
    if the window slots of the last W tokens before its end, or of all tokens since the root, are live."""
    run = run + len(node.key) if node.value[SWA] is not None else 0
    live = SWA not in parts or (run >= window and node.value[SWA] is not None)
    return run, live and (MAMBA not in parts or node.value[MAMBA] is not None)


@rule("SG-MATCH-ACCEPT-COPY.ALL", Role.MEMORY, source(WINDOW, "create_match_validator", spec="S-MATCH-1"))
def accept_copy(run: int, node: UnifiedTreeNode, parts: tuple[int, ...], window: int) -> tuple[int, bool]:
    """Return like SG-MATCH-ACCEPT, if copies in host memory count as well, which are loaded before the request
    starts."""
    has_window = node.value[SWA] is not None or node.host_value[SWA] is not None
    run = run + len(node.key) if has_window else 0
    live = SWA not in parts or (run >= window and has_window)
    return run, live and (MAMBA not in parts or node.value[MAMBA] is not None or node.host_value[MAMBA] is not None)


@rule("SG-MATCH-BRANCH.GRID", Role.PLAN, source(STATES, "finalize_match_result_in_tree_core", spec="S-MATCH-6"))
def branch_point(found: PrefixMatch, grid: int) -> int | None:
    """Return the length [tokens] up to which full attention matched, rounded down to the grid, if it is longer than
    the hit. A state or a window there would give a longer hit."""
    aligned = found.full_kv_hit_length // grid * grid
    return aligned if aligned > found.device_hit_length else None


@rule("SG-MATCH-RECENT.USED", Role.MEMORY, source(WINDOW, "refresh_lru", spec="S-SWA-5"))
def recent_span(part: int, insertion: bool, window: int, page: int) -> int:
    """Return the tokens before the end of a match or an insertion that become most recent: W + P for window slots. A
    match refreshes its state, too; nothing else on the path is refreshed."""
    return window + page if part == SWA else int(not insertion)


@rule("SG-MATCH-RECENT.PATH", Role.MEMORY,
      source(OLD_STATES, "_match_post_processor", OLD, spec="S-SWA-5"), until="#31643")
def recent_path(part: int, insertion: bool, window: int, page: int) -> int:
    """Return a span beyond every path [tokens]: a match or an insertion makes all windows and states on its path most
    recent."""
    return 1 << 62


@rule("SG-SPLIT-RECENT.KEPT", Role.MEMORY, source(CORE, "UnifiedTreeCore._split_node", spec="S-MATCH-4"))
def split_keeps(part: int) -> bool:
    """True if windows or states of a node become most recent when it is split: no, both halves keep its place."""
    return False


@rule("SG-SPLIT-RECENT.NEWEST", Role.MEMORY,
      source(OLD_WINDOW, "_split_node", OLD, spec="S-MATCH-4"), until="#38482")
def split_refreshes(part: int) -> bool:
    """True if windows or states of a node become most recent when it is split: always. A prompt that leaves a node
    makes the rest of the node recent, too."""
    return True


@rule("SG-SPLIT-CREATED.KEPT", Role.MEMORY, source(CORE, "UnifiedTreeCore._split_node", spec="S-MATCH-4"))
def split_is_old(parts: tuple[int, ...]) -> bool:
    """True if the first half of a node that is split counts as new, which fifo and filo evict by: no, it has the time
    at which the node was created."""
    return False


@rule("SG-SPLIT-CREATED.NEW-IF-PLAIN", Role.MEMORY,
      source(PLAIN, "RadixCache._split_node", OLD, spec="S-MATCH-4"), until="#35081")
def split_is_new(parts: tuple[int, ...]) -> bool:
    """True if the first half of a node that is split counts as new, which fifo and filo evict by: in a tree of full
    attention only."""
    return parts == (FULL,)


@rule("SG-INSERT-COUNT-HIT.NEW", Role.MEMORY, source(CORE, "_finish_insert_walk_node", spec="section 3"))
def counts_others(end: int, counted: int, chunk: bool) -> bool:
    """True if an insertion counts as a use of a node that ends after ``end`` tokens: unless the same request inserted
    the first ``counted`` tokens before."""
    return end > counted


@rule("SG-INSERT-COUNT-HIT.EACH", Role.MEMORY,
      source(CORE, "_inc_hit_count_and_check", MIDDLE, spec="section 3"), until="0.5.22")
def counts_each(end: int, counted: int, chunk: bool) -> bool:
    """True if an insertion counts as a use of its nodes: always, except for that of a chunk. A single request uses its
    prompt twice, so slru spares it."""
    return not chunk


@rule("SG-INSERT-PROMPT-END.SPLIT", Role.MEMORY, source(CACHE, "checkpoint_into_tree", spec="section 3"))
def prompt_boundary(prompt: int, inserted: int, parts: int) -> int:
    """Return the length of the prompt if a node must end there, else 0. In a tree of full attention only, eviction can
    then drop the answer alone."""
    return prompt if parts == 1 and prompt < inserted else 0


@rule("SG-INSERT-PROMPT-END.WHOLE", Role.MEMORY,
      source(PLAIN, "cache_finished_req", OLD, spec="section 3"), until="0.5.20")
def no_boundary(prompt: int, inserted: int, parts: int) -> int:
    """Return 0: prompt and answer form one node, without a boundary between them."""
    return 0


@rule("SG-WINDOW-LIVE.FRONTIER", Role.PUBLISH, source(WINDOW, "_clip_to_window", spec="S-SWA-4"))
def live_from(frontier: int, start: int, end: int) -> int | None:
    """Return the first position of an inserted node whose window slots are live, if any. They are live from
    the request's frontier on; the tokens before it become a tombstone."""
    live = max(start, frontier)
    return live if live < end else None


@rule("SG-WINDOW-REVIVE.REPOINT", Role.MEMORY, source(WINDOW, "_recover_from_incoming", spec="S-SWA-3"))
def revive_repointed(locked: bool) -> bool:
    """True if a tombstone that becomes live takes over all slots of the request. If a running request reads the
    tombstone's own slots, only its window slots are replaced."""
    return not locked


@rule("SG-WINDOW-REVIVE.ADOPT", Role.MEMORY, source(OLD_WINDOW, "_insert_helper", OLD, spec="S-SWA-3"), until="#29352")
def revive_adopted(locked: bool) -> bool:
    """True if a tombstone that becomes live takes over all slots of the request: always. Its own slots are freed, even
    if a running request reads them."""
    return True


@rule("SG-INSERT-LEAF.WHOLE", Role.MEMORY,
      source(OLD_WINDOW, "_insert_helper", OLD, spec="S-SWA-4"), until="#30468")
def uncapped_leaf(length: int, window: int, page: int) -> int:
    """Return 0, the tokens that are split off before a new leaf: a leaf has any length."""
    return 0


@rule("SG-INSERT-LEAF.WINDOW", Role.MEMORY, source(WINDOW, "_maybe_split_leaf_for_swa_lock", spec="S-SWA-4"))
def capped_leaf(length: int, window: int, page: int) -> int:
    """Return the tokens that are split off before a new leaf. The leaf holds one window, rounded up to pages, so a lock
    on it pins no more."""
    return max(0, length - -(-window // page) * page)


PRIORITIES: Mapping[str, Callable[[UnifiedTreeNode], Any]] = {
    "lru": lambda node: node.last_access_time,
    "lfu": lambda node: (node.hit_count, node.last_access_time),
    "fifo": lambda node: node.creation_time,
    "mru": lambda node: -node.last_access_time,
    "filo": lambda node: -node.creation_time,
    "priority": lambda node: (node.priority, node.last_access_time),
    "slru": lambda node: (node.hit_count >= 2, node.last_access_time),
}
"""Sort key of a leaf by eviction policy: the smallest is evicted first."""


@rule("SG-EVICT-ORDER.POLICY", Role.MEMORY, source("mem_cache/evict_policy.py", "get_priority", spec="S-EV-2"))
def evict_first(policy: str, node: UnifiedTreeNode) -> Any:
    """Return the sort key of a leaf; the smallest is evicted first. The order is that of the policy; slru spares nodes
    that two requests inserted."""
    return PRIORITIES[policy](node)


@rule("SG-EVICT-POLICY.NAMED", Role.MEMORY, source(CORE, "UnifiedTreeCore.__init__", spec="S-EV-2"))
def named_policy(policy: str, parts: tuple[int, ...]) -> str:
    """Return the policy by which leaves are evicted: that of --radix-eviction-policy."""
    return policy


@rule("SG-EVICT-POLICY.LRU-IF-PARTS", Role.MEMORY,
      source(OLD_WINDOW, "SWARadixCache.evict", OLD, spec="S-EV-2"), until="#30468")
def policy_of_plain_tree(policy: str, parts: tuple[int, ...]) -> str:
    """Return the policy by which leaves are evicted: that of --radix-eviction-policy in a tree of full attention only;
    with windows or states the least recent leaf, whatever the flag says."""
    return policy if parts == (FULL,) else "lru"


@rule("SG-EVICT-QUOTA.TARGET", Role.MEMORY, source(CACHE, "_evict_components", spec="S-EV-6"))
def evict_quota(part: int, asked: int, freed: int, evictable: int) -> int:
    """Return the most tokens to evict from a part of the memory. Full attention is evicted until the allocator has what
    it needs, even beyond the requested number; other parts up to that number."""
    if part == FULL and asked:
        return max(asked, freed + evictable)
    return asked if freed < asked else 0


@rule("SG-EVICT-QUOTA.ASKED", Role.MEMORY, source(OLD_WINDOW, "evict", OLD, spec="S-EV-6"), until="#30468")
def asked_quota(part: int, asked: int, freed: int, evictable: int) -> int:
    """Return the most tokens to evict from a part of the memory: the requested number, for every part. States that went
    with evicted leaves do not count, so that the requested number of further ones is evicted."""
    if part == MAMBA:
        return asked + freed
    return asked if freed < asked else 0


@rule("SG-EVICT-STOP.ENOUGH", Role.MEMORY, source(CACHE, "_evict_components", spec="S-EV-6"))
def stops_when_enough() -> bool:
    """True if eviction ends as soon as enough slots are free."""
    return True


@rule("SG-EVICT-STOP.QUOTA", Role.MEMORY,
      source(OLD_STATES, "MambaRadixCache.evict", OLD, spec="S-EV-6"), until="#30468")
def stops_at_quota() -> bool:
    """Return False: eviction does not look at the free slots."""
    return False


@rule("SG-EVICT-ANCESTORS.KEPT", Role.MEMORY, source(CORE, "_iteratively_delete_tombstone_ancestors", spec="S-EV-3"))
def keeps_above(node: UnifiedTreeNode, parts: tuple[int, ...]) -> bool:
    """True if a node that became a leaf stays in the tree: always, whatever parts it has."""
    return True


@rule("SG-EVICT-ANCESTORS.TOMBSTONE", Role.MEMORY,
      source(OLD_WINDOW, "_iteratively_delete_tombstone_leaf", OLD, spec="S-EV-3"), until="#30468")
def drops_tombstones_above(node: UnifiedTreeNode, parts: tuple[int, ...]) -> bool:
    """True if a node that became a leaf stays in the tree. It is removed if it is a tombstone of a part."""
    return all(node.value[part] is not None for part in parts)


@rule("SG-EVICT-ROWS.ALONE", Role.MEMORY,
      source("mem_cache/unified_cache/components/full.py", "apply_component_action", spec="not named"))
def rows_leave_alone() -> bool:
    """Return False: slots of full attention that leave the tree are freed without their window slots. These are another
    part of the node, and stay taken where it has lost them."""
    return False


@rule("SG-EVICT-ROWS.WINDOWS", Role.MEMORY, source(OLD_WINDOW, "evict", "0.5.15", spec="not named"), until="#30468")
def rows_leave_with_windows() -> bool:
    """Return True: slots of full attention that leave the tree are freed with all window slots that they still have."""
    return True


@rule("SG-EVICT-LEAF.WHOLE", Role.DROP, source(CORE, "_delete_unbacked_device_leaf", spec="S-EV-3"))
def drop_leaf(part: int, node: UnifiedTreeNode) -> Decision:
    """Return the number of an evicted leaf. It loses all of its parts, whichever part asked for the eviction."""
    return Decision(node.id, {"part": LETTERS[part], "tokens": len(node.key), "end": node.end})


@rule("SG-EVICT-INSIDE.RANK", Role.DROP, source(CORE, "_cascade_evict", spec="S-EV-4"))
def drop_inside(part: int, node: UnifiedTreeNode) -> Decision:
    """Return the parts that an inner node loses. It keeps full attention. Losing the window takes its state with it;
    losing the state takes nothing else."""
    gone = [kind for kind in ((SWA, MAMBA) if part == SWA else (MAMBA,)) if node.value[kind] is not None]
    return Decision(tuple(LETTERS[kind] for kind in gone), {"node": node.id, "tokens": len(node.key), "end": node.end})


@rule("SG-STATE-PATH.CAP", Role.DROP, source(STATES, "_evict_excess_path_states", spec="S-MAM-5"))
def drop_excess(held: int, cap: int, node: UnifiedTreeNode) -> Decision:
    """True if the state of a node is dropped because its path holds more than ``cap`` states (below 0: any number).
    States nearest to the root are dropped first, but none at a fork, at a leaf or in use."""
    spared = node.lock_ref[MAMBA] > 0 or len(node.children) != 1
    return Decision(0 <= cap < held and not spared, {"node": node.id, "end": node.end, "held": held, "cap": cap})


@rule("SG-STATE-KEEP.FIRST", Role.STORE, source(STATES, "commit_insert_component_data", spec="S-MAM-2"))
def keep_state(exists: bool, end: int) -> Decision:
    """True if a node takes a new state. A node keeps the state that it has; a second state of the same prefix is
    freed."""
    return Decision(not exists, {"start": end, "exists": exists})
