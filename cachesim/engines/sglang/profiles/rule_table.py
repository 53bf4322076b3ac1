"""Rule table of a version."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Mapping, Sequence

from cachesim.engines.rule import Decision
from cachesim.engines.sglang.rules import host as h
from cachesim.engines.sglang.rules import reported
from cachesim.engines.sglang.rules import request as r
from cachesim.engines.sglang.rules import schedule as s
from cachesim.engines.sglang.rules import tree as t
from cachesim.engines.shared.rule_set import RuleSet

Rule = Callable[..., Decision]


@dataclass(frozen=True, repr=False)
class Rules(RuleSet):
    """A version. Fields in the order in which they apply to a request."""

    state_source: Callable[..., str] = r.state_source
    overlaps: Callable[..., bool | None] = r.overlaps
    keeps_states: Callable[[bool, bool], bool] = r.keeps_states
    tracking_slots: Callable[..., r.TrackingSlots] = r.tracking_slots
    waits_for_twin: Callable[..., bool] = s.waits_for_twin
    queue_order: Rule = s.queue_order
    keys_are_pairs: Callable[..., bool] = t.keys_are_pairs
    retained_window: Callable[..., int] = t.retained_window
    accept_node: Callable[..., tuple[int, bool]] = t.accept_node
    accept_copy: Callable[..., tuple[int, bool]] = t.accept_copy
    best_hit: Rule = t.best_hit
    branch_point: Callable[..., int | None] = t.branch_point
    recent_span: Callable[..., int] = t.recent_span
    stays_full: Callable[..., bool] = s.stays_full
    admission: Rule = s.admission
    cut_waits: Callable[..., bool] = s.cut_waits_if_shortest
    next_chunk: Callable[..., int] = s.next_chunk
    chunk_share: Callable[..., int] = s.chunk_share
    reserve_later: Callable[..., int] = reported.reserve_chunk
    evict_quota: Callable[..., int] = t.evict_quota
    evict_first: Callable[..., Any] = t.evict_first
    drop_leaf: Rule = t.drop_leaf
    stays_above: Callable[..., bool] = t.keeps_above
    drop_inside: Rule = t.drop_inside
    copy_unlock: Callable[..., int | None] = reported.unlock_to_mark
    reserved_ahead: Callable[..., int] = r.reserved_ahead
    track_prefill: Rule = r.track_prefill
    track_decode: Rule = r.track_decode
    takes_other_place: Callable[[bool, bool], bool] = reported.place_after_launch
    taken_after: Callable[..., int] = reported.taken_at_own
    give_at_chunk: Callable[..., int] = r.give_at_chunk
    owned_tokens: Callable[..., int] = reported.owned_prompt
    keeps_stopped: Callable[..., bool] = r.keeps_stopped
    give_at_end: Callable[..., int] = r.give_at_end
    insert_to_branch: Callable[..., int] = r.insert_to_branch
    publish_pages: Rule = r.publish_pages
    window_frontier: Callable[..., tuple[int, int]] = r.window_frontier
    chunk_frontier: Callable[..., tuple[int, int]] = r.window_frontier
    slides: Callable[..., bool] = r.slides_each_step
    live_from: Callable[..., int | None] = t.live_from
    revive: Callable[..., bool] = t.revive_repointed
    capped_leaf: Callable[..., int] = t.capped_leaf
    host_slots: Callable[..., int] = h.host_slots
    counts_uses: Callable[..., bool] = h.counts_uses
    writes_through: Rule = h.writes_through
    writes_further_parts: Rule = h.writes_further_parts
    copies_inside: Callable[..., bool] = h.copies_inside
    leave_device: Rule = h.leave_device
    reclaims_doubles: Callable[..., bool] = h.reclaims_doubles
    drop_host_leaf: Rule = h.drop_host_leaf
    drop_copies_inside: Rule = h.drop_copies_inside
    load_back: Rule = h.load_back
    takes_state_of_prefix: Callable[[], bool] = h.state_as_matched
    keep_state: Rule = t.keep_state
    drop_excess: Rule = t.drop_excess
    counts_hit: Callable[..., bool] = t.counts_others
    prompt_boundary: Callable[..., int] = t.prompt_boundary
    settles_chunk: Callable[[], bool] = r.settles_next_step
    leaves_each_step: Callable[[], bool] = r.leaves_each_step
    skips_finishing: Callable[[bool], bool] = r.skips_finishing
    retract_order: Rule = r.retract_order
    kept_order: Callable[..., Sequence[int]] = r.kept_in_order
    strategies: frozenset[str] = frozenset({"auto", "no_buffer", "extra_buffer", "extra_buffer_lazy"})
    eviction_policies: frozenset[str] = frozenset(t.PRIORITIES)       # --radix-eviction-policy
    many_waiting: int = 128         # more waiting requests than this are not matched
    refresh: int = 32               # passes over the queue from one refresh of waiting prefixes to the next
    refreshed: frozenset[str] = frozenset({"lru"})     # eviction policies under which waiting prefixes are refreshed
    spare_pages: int = 1            # pages per request that are evicted beyond the need of a prefill step
    decode_pages: int = 1           # pages per request that are evicted for a decode step
    retract_steps: int = 20         # tokens of each remaining request that are evicted after a retraction
    hosts_parts: bool = True        # HiCache for windows and states is modelled
    rematches: bool = False         # after a chunk a request matches its tokens again, and holds what it finds
    decode_order: tuple[str, ...] = ("retract", "slide_windows")
    inferred: tuple[str, ...] = ()
    ended: Mapping[str, str] = field(default_factory=dict, hash=False)
    defaults: Mapping[str, Any] = field(default_factory=dict, hash=False)
