"""Rule table of a version."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Mapping, Sequence

from cachesim.engines.rule import Decision
from cachesim.engines.shared.rule_set import RuleSet

Rule = Callable[..., Decision]


@dataclass(frozen=True)
class Rules(RuleSet):
    """A version. Fields in the order in which they apply to a request."""

    name: str
    build: str
    source: str
    waits_for_twin: Callable[..., bool]
    queue_order: Rule
    keys_are_pairs: Callable[..., bool]
    retained_window: Callable[..., int]
    accept_node: Callable[..., tuple[int, bool]]
    best_hit: Rule
    branch_point: Callable[..., int | None]
    recent_span: Callable[..., int]
    stays_full: Callable[..., bool]
    admission: Rule
    next_chunk: Callable[..., int]
    chunk_share: Callable[..., int]
    reserve_later: Callable[..., int]
    evict_quota: Callable[..., int]
    evict_first: Callable[..., Any]
    drop_leaf: Rule
    stays_above: Callable[..., bool]
    drop_inside: Rule
    copy_unlock: Callable[..., int | None]
    reserved_ahead: Callable[..., int]
    track_prefill: Rule
    track_decode: Rule
    taken_after: Callable[..., int]
    give_at_chunk: Callable[..., int]
    owned_tokens: Callable[..., int]
    keeps_stopped: Callable[..., bool]
    give_at_end: Callable[..., int]
    insert_to_branch: Callable[..., int]
    publish_pages: Rule
    window_frontier: Callable[..., tuple[int, int]]
    chunk_frontier: Callable[..., tuple[int, int]]
    slides: Callable[..., bool]
    live_from: Callable[..., int | None]
    revive: Callable[..., bool]
    capped_leaf: Callable[..., int]
    host_slots: Callable[..., int]
    counts_uses: Callable[..., bool]
    writes_through: Rule
    leave_device: Rule
    reclaims_doubles: Callable[..., bool]
    drop_host_leaf: Rule
    drop_below: Rule
    load_back: Rule
    keep_state: Rule
    drop_excess: Rule
    counts_hit: Callable[..., bool]
    prompt_boundary: Callable[..., int]
    settle_order: Callable[..., Sequence[int]]
    retract_order: Rule
    kept_order: Callable[..., Sequence[int]]
    many_waiting: int = 128         # more waiting requests than this are not matched
    refresh: int = 32               # passes over the queue from one refresh of waiting prefixes to the next
    refreshed: frozenset[str] = frozenset({"lru"})     # eviction policies under which waiting prefixes are refreshed
    spare_pages: int = 1            # pages per request that are evicted beyond the need of a prefill step
    decode_pages: int = 1           # pages per request that are evicted for a decode step
    retract_steps: int = 20         # tokens of each remaining request that are evicted after a retraction
    rematches: bool = False         # after a chunk a request matches its tokens again, and holds what it finds
    decode_order: tuple[str, ...] = ("retract", "slide_windows")
    inferred: tuple[str, ...] = ()
    ended: Mapping[str, str] = field(default_factory=dict, hash=False)
    defaults: Mapping[str, Any] = field(default_factory=dict, hash=False)
