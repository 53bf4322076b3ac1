"""Rule table of a version."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Callable, Mapping, NamedTuple, Sequence

from cachesim.engines.rule import Decision
from cachesim.engines.sglang.compressed_pools import PADDED, CompressedForm
from cachesim.engines.sglang.rules import host as h
from cachesim.engines.sglang.rules import reported
from cachesim.engines.sglang.rules import request as r
from cachesim.engines.sglang.rules import schedule as s
from cachesim.engines.sglang.rules import tree as t
from cachesim.engines.shared.rule_set import RuleSet

if TYPE_CHECKING:
    from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_node import UnifiedTreeNode

Rule = Callable[..., Decision]


class ChunkSize(NamedTuple):
    """Default size of a chunk on a device with less memory than ``below`` [GiB], 0 = on any larger one."""

    below: int
    tokens: int


CHUNK_SIZES = (ChunkSize(20, 2048), ChunkSize(60, 4096), ChunkSize(160, 8192), ChunkSize(0, 16384))
"""Source: SGLang arg_groups/memory_hook.py handle_gpu_memory_settings, 87 (0.5.23), 87 (0.5.20)."""
EARLIER_CHUNK_SIZES = (ChunkSize(35, 2048), ChunkSize(60, 4096), ChunkSize(160, 8192), ChunkSize(0, 16384))
"""Source: SGLang server_args.py ServerArgs._handle_gpu_memory_settings, 935 (0.5.9)."""


@dataclass(frozen=True, repr=False)
class Rules(RuleSet):
    """A version. Fields in the order in which they apply to a request."""

    state_source: Callable[[bool, bool, int], str] = r.state_source
    overlaps: Callable[[bool, bool, bool, bool], bool | None] = r.overlaps
    keeps_states: Callable[[bool, bool], bool] = r.keeps_states
    tracking_slots: Callable[[str, bool, int], r.TrackingSlots] = r.tracking_slots
    waits_for_twin: Callable[[int, int], bool] = s.waits_for_twin
    queue_order: Callable[[str, Sequence[s.WaitingRequest]], Decision] = s.queue_order
    keys_are_pairs: Callable[[str, tuple[int, ...]], bool] = t.keys_are_pairs
    retained_window: Callable[[int, int], int] = t.retained_window
    accept_node: Callable[[int, UnifiedTreeNode, tuple[int, ...], int], tuple[int, bool]] = t.accept_node
    accept_copy: Callable[[int, UnifiedTreeNode, tuple[int, ...], int], tuple[int, bool]] = t.accept_copy
    best_hit: Callable[[t.PrefixMatch], Decision] = t.best_hit
    branch_point: Callable[[t.PrefixMatch, int], int | None] = t.branch_point
    recent_span: Callable[[int, bool, int, int], int] = t.recent_span
    split_recent: Callable[[int], bool] = t.split_keeps
    split_created: Callable[[tuple[int, ...]], bool] = t.split_is_old
    stays_full: Callable[[bool], bool] = s.stays_full
    spent_stops: Callable[[], bool] = s.stops_when_spent
    held_rows: Callable[[int], int] = s.counts_held_rows
    admission: Callable[[s.AdmissionCandidate], Decision] = s.admission
    cut_waits: Callable[[str, bool, bool], bool] = s.cut_waits_if_shortest
    next_chunk: Callable[[int, float, float | None, int], int] = s.next_chunk
    chunk_share: Callable[[int, Sequence[s.WaitingRequest], int, int], int] = s.chunk_share
    reserve_later: Callable[[int, int], int] = reported.reserve_chunk
    evict_quota: Callable[[int, int, int, int], int] = t.evict_quota
    evict_stop: Callable[[], bool] = t.stops_when_enough
    eviction_policy: Callable[[str, tuple[int, ...]], str] = t.named_policy
    evict_first: Callable[[str, UnifiedTreeNode], Any] = t.evict_first
    frees_windows_with_rows: Callable[[], bool] = t.rows_leave_alone
    drop_leaf: Callable[[int, UnifiedTreeNode], Decision] = t.drop_leaf
    stays_above: Callable[[UnifiedTreeNode, tuple[int, ...]], bool] = t.keeps_above
    drop_inside: Callable[[int, UnifiedTreeNode], Decision] = t.drop_inside
    copy_unlock: Callable[[int | None], int | None] = reported.unlock_to_mark
    room_for_states: Callable[[int, int, bool], int] = r.states_needed
    state_unlock: Callable[[bool], bool] = r.unlocks_if_lazy
    reserved_ahead: Callable[[int], int] = r.reserved_ahead
    track_prefill: Callable[[int, int, int | None, int], Decision] = r.track_prefill
    track_decode: Callable[[int, int, int, int], Decision] = r.track_decode
    takes_other_place: Callable[[bool, bool], bool] = reported.place_after_launch
    forgets_overwritten: Callable[[], bool] = r.forgets_overwritten
    taken_after: Callable[[reported.TrackedState], int] = reported.taken_at_own
    give_at_chunk: Callable[[int, int | None, bool], int] = r.give_at_chunk
    owned_tokens: Callable[[reported.EndingRequest], int] = reported.owned_prompt
    frees_published: Callable[[], bool] = r.ends_below_published
    window_gone_from: Callable[[int], int] = r.gone_from_published
    keeps_stopped: Callable[[int, int, bool, tuple[int, ...]], bool] = r.keeps_stopped
    give_at_end: Callable[[int, int | None, int | None, bool], int] = r.give_at_end
    insert_to_branch: Callable[[int, int | None, int], int] = r.insert_to_branch
    publish_pages: Callable[[int, int], Decision] = r.publish_pages
    window_frontier: Callable[[r.RequestWindow], tuple[int, int]] = r.window_frontier
    chunk_frontier: Callable[[r.RequestWindow], tuple[int, int]] = r.window_frontier
    slides: Callable[[r.DecodeStep], bool] = r.slides_each_step
    live_from: Callable[[int, int, int], int | None] = t.live_from
    revive: Callable[[bool], bool] = t.revive_repointed
    capped_leaf: Callable[[int, int, int], int] = t.capped_leaf
    host_slots: Callable[[int, float, int], int] = h.host_slots
    counts_uses: Callable[[str], bool] = h.counts_uses
    writes_through: Callable[[str, UnifiedTreeNode], Decision] = h.writes_through
    writes_further_parts: Callable[[str, UnifiedTreeNode], Decision] = h.writes_further_parts
    copies_inside: Callable[[str, int, UnifiedTreeNode], bool] = h.copies_inside
    leave_device: Callable[[str, UnifiedTreeNode], Decision] = h.leave_device
    reclaims_doubles: Callable[[str], bool] = h.reclaims_doubles
    drop_host_leaf: Callable[[UnifiedTreeNode], Decision] = h.drop_host_leaf
    drop_copies_inside: Callable[[int, UnifiedTreeNode], Decision] = h.drop_copies_inside
    load_back: Callable[[int, int, bool], Decision] = h.load_back
    takes_state_of_prefix: Callable[[], bool] = h.state_as_matched
    keep_state: Callable[[bool, int], Decision] = t.keep_state
    drop_excess: Callable[[int, int, UnifiedTreeNode], Decision] = t.drop_excess
    counts_hit: Callable[[int, int, bool], bool] = t.counts_others
    prompt_boundary: Callable[[int, int, int], int] = t.prompt_boundary
    settles_chunk: Callable[[], bool] = r.settles_next_step
    leaves_each_step: Callable[[], bool] = r.leaves_each_step
    skips_finishing: Callable[[bool], bool] = r.skips_finishing
    retract_order: Callable[[Sequence[tuple[int, int]]], Decision] = r.retract_order
    kept_order: Callable[[Sequence[int]], Sequence[int]] = r.kept_in_order
    strategies: frozenset[str] = frozenset({"auto", "no_buffer", "extra_buffer", "extra_buffer_lazy"})
    queue_policies: frozenset[str] = frozenset(s.ORDERS)              # --schedule-policy
    eviction_policies: frozenset[str] = frozenset(t.PRIORITIES)       # --radix-eviction-policy
    chunk_sizes: tuple[ChunkSize, ...] = CHUNK_SIZES      # --chunked-prefill-size by the memory of the device
    least_tokens: int = 2           # slots of rows for each request that runs; 0 = rows do not cap the requests
    states_cap_requests: bool = True    # states do, too
    caps_states: bool = True        # there is --mamba-max-states-per-path
    counts_drafter: bool = True     # rows of an EAGLE drafter share the memory of the pools, and are counted
    compressed_form: CompressedForm | None = PADDED     # of compressed rows; None = their sizes are not known
    fills_context: bool = True      # a prompt and max_tokens may be as long as the context, together
    many_waiting: int = 128         # more waiting requests than this are not matched
    refresh: int = 32               # passes over the queue from one refresh of waiting prefixes to the next
    refreshed: frozenset[str] = frozenset({"lru"})     # eviction policies under which waiting prefixes are refreshed
    spare_pages: int = 1            # pages per request that are evicted beyond the need of a prefill step
    decode_pages: int = 1           # pages per request that are evicted for a decode step
    retract_steps: int = 20         # tokens of each remaining request that are evicted after a retraction
    hosts_parts: bool = True        # HiCache for windows and states is modelled
    publishes_events: bool = True   # its KV events are modelled
    rematches: bool = False         # after a chunk a request matches its tokens again, and holds what it finds
    ends_retracted_prompts: bool = True     # a node ends at the prompt of a retracted request that continues, too
    remembers_previous: bool = True     # a request remembers the length of its tracked state before the last one
    rematches_at_end: bool = False  # a request that ends does, too
    decode_order: tuple[str, ...] = ("retract", "slide_windows")
    inferred: tuple[str, ...] = ()
    ended: Mapping[str, str] = field(default_factory=dict, hash=False)
    defaults: Mapping[str, Any] = field(default_factory=dict, hash=False)
