"""Rule table of a version."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Mapping

from cachesim.engines.rule import Decision
from cachesim.engines.shared.rule_set import RuleSet

Rule = Callable[..., Decision]


@dataclass(frozen=True)
class Rules(RuleSet):
    """A version. Fields in the order in which they apply to a request."""

    name: str
    build: str
    source: str
    active_policy: Callable[..., str]
    waits_for_twin: Callable[..., bool]
    queue_order: Rule
    refreshes_waiting: Callable[..., bool]
    match_limit: Callable[..., int]
    accept_window: Callable[..., tuple[int, bool]]
    accept_state: Callable[..., bool]
    best_hit: Rule
    branch_point: Callable[..., int | None]
    recent_span: Callable[..., int]
    stops_pass: Callable[..., bool]
    admission: Rule
    next_chunk: Callable[..., int]
    alloc_need: Callable[..., int]
    evict_quota: Callable[..., int]
    evict_first: Callable[..., Any]
    drop_leaf: Rule
    drop_inside: Rule
    track_prefill: Rule
    track_decode: Rule
    give_at_chunk: Callable[..., int]
    give_at_end: Callable[..., int]
    insert_to_branch: Callable[..., int]
    publish_pages: Rule
    window_frontier: Callable[..., tuple[int, int]]
    live_from: Callable[..., int | None]
    capped_leaf: Callable[..., int]
    keep_state: Rule
    drop_excess: Rule
    prompt_boundary: Callable[..., int]
    counted_length: Callable[..., int]
    slides_before: Callable[[], bool]
    release_window: Callable[..., bool]
    decode_need: Callable[..., int]
    decode_room: Callable[..., int]
    retract_order: Rule
    batch_order: Callable[..., list[int]]
    retract_room: Callable[..., int]
    inferred: tuple[str, ...] = ()
    ended: Mapping[str, str] = field(default_factory=dict, hash=False)
    defaults: Mapping[str, Any] = field(default_factory=dict, hash=False)
