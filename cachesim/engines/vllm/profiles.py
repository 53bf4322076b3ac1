"""The rules of a version, and the versions, newest first: each is its successor with what changed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Callable, Mapping

from cachesim.engines.rule import Decision
from cachesim.engines.shared.rule_set import RuleSet, newest_first, rule_sets_in
from cachesim.engines.shared.timeline import UNKNOWN, Commit, Timeline
from cachesim.engines.vllm.rules import blocks, lookup, offload, schedule, start, states

Rule = Callable[..., Decision]
Plain = Callable[..., Any]


@dataclass(frozen=True, repr=False)
class Rules(RuleSet):
    """A version. ``find_``, ``mask_``: rules of a kind of group."""

    async_scheduling: Plain = start.async_scheduling
    batch_size: Plain = start.batch_size
    prefix_caching: Plain = start.prefix_caching
    mamba_cache_mode: Plain = start.mamba_cache_mode
    states_align: Plain = schedule.states_at_ends
    speculation: Plain = schedule.speculation
    attention_block: Plain = blocks.attention_block
    page_block: Plain = blocks.page_block
    scheduler_block: Plain = schedule.scheduler_block
    chunk_block: Plain = schedule.chunk_block
    hash_block_size: Plain = schedule.hash_block_size
    partial_hits: Plain = schedule.partial_hits
    admission_cap: Plain = blocks.admission_cap
    hash_block_tokens: Plain = blocks.hash_block_tokens
    prefill_cap: Plain = schedule.prefill_cap
    surely_ends: Plain = schedule.surely_ends
    next_waiting: Plain = schedule.next_waiting
    most_tokens: Plain = lookup.most_tokens
    look_at: Plain = lookup.look_at_all
    reach: Plain = lookup.reach_known
    reconcile: Plain = lookup.reconcile_all
    look_up_one: Plain = lookup.look_up_one
    find_full: Plain = lookup.find_full
    find_swa: Plain = lookup.find_window
    find_chunked: Plain = lookup.find_chunk
    find_mamba: Plain = lookup.find_state
    offloaded_kinds: Plain = offload.offloaded_kinds
    wait_for_chunks: Rule = offload.wait_for_chunks
    load_chunks: Rule = offload.load_chunks
    load_end: Plain = offload.end_of_others
    reserve_for_prompts: Plain = offload.reserve_for_prompts
    reserve_drafts: Plain = offload.reserve_draft_step
    pad_drafts: Plain = schedule.pad_drafts
    split: Rule = schedule.split_states
    before_image: Plain = schedule.before_image
    keep_image: Plain = schedule.keep_image
    leave_lookahead: Plain = schedule.leave_lookahead
    reserve: Plain = blocks.reserve
    needed: Plain = blocks.blocks_needed
    states_needed: Plain = states.states_needed
    state_inside: Plain = states.state_inside
    last_boundary: Plain = states.last_boundary
    checkpoint: Plain = states.checkpoint
    reserves_inside: Plain = states.reserve_last
    left_behind: Plain = states.left_behind
    start_column: Plain = states.start_column
    exports_inside: Plain = states.export_alone
    keeps_inside: Plain = states.keep_inside
    counted_blocks: Plain = states.counted_blocks
    state_tail: Plain = states.state_tail
    key_again: Plain = states.keyed_once
    wait_for_state: Rule = states.wait_for_state
    admit: Rule = schedule.admit
    preempt: Rule = schedule.preempt
    goes_on: Plain = schedule.goes_on
    passes_over: Plain = schedule.passes_over
    evict: Rule = blocks.evict
    skipped: Plain = blocks.skipped
    reference_gap: Plain = blocks.reference_gap
    free_side: Plain = blocks.free_side
    publishable: Plain = blocks.publishable
    publishable_one: Plain = blocks.publishable_one
    boundaries: Plain = blocks.boundaries
    junction_ends: Plain = blocks.junction_ends
    mask_full: Plain = blocks.keep_all
    mask_swa: Plain = blocks.keep_window
    mask_mamba: Plain = blocks.keep_states
    partial_rows: Plain = blocks.partial_rows
    uncounted: Plain = schedule.uncount_extra
    publish_again: Plain = blocks.publish_again
    free_now: Plain = offload.free_after_steps
    offered: Plain = offload.offered
    offers_again: Plain = offload.offer_again
    stores_chunk: Plain = offload.chunk_with_reachable
    store_chunks: Rule = offload.store_chunks
    chunk_order: Plain = offload.order_by_request
    touches: Plain = offload.touch_nothing
    keeps_offered: Plain = offload.keep_offered
    unread_waits: Plain = offload.unread_waits
    reset_preempts: Plain = schedule.reset_preempts
    inferred: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict, hash=False)


V0_33_0 = Rules("vllm@0.33.0", "2026-11-02", "vLLM 0.33.0 (PyPI)")

V0_32_0 = replace(
    V0_33_0, name="vllm@0.32.0", build="2026-10-18", source="vLLM 0.32.0 (PyPI)",
    speculation=schedule.speculation_drops, junction_ends=blocks.junction_only,
    uncounted=schedule.count_extra, publish_again=blocks.publish_overlapped, key_again=states.keyed_again,
    async_scheduling=start.async_scheduling_drafts,
    goes_on=schedule.stops, passes_over=schedule.waits, before_image=schedule.before_image_ahead,
    keep_image=schedule.keep_image_ahead, offers_again=offload.offer_once,
    stores_chunk=offload.chunk_with_last, chunk_order=offload.order_by_store,
)

V0_31_0 = replace(
    V0_32_0, name="vllm@0.31.0", build="2026-10-05", source="vLLM 0.31.0 (PyPI)",
    states_align=schedule.states_at_blocks, reach=lookup.reach_prompt, partial_rows=blocks.partial_rows_end,
    checkpoint=states.checkpoint_unit, keeps_inside=states.keep_own, state_tail=states.state_tail_end,
    states_needed=states.states_needed_fresh, left_behind=states.left_behind_alone,
    last_boundary=states.last_boundary_whole, start_column=states.start_column_smallest,
    reserve_drafts=offload.reserve_one_step,
)

V0_30_0 = replace(
    V0_31_0, name="vllm@0.30.0", build="2026-09-22", source="vLLM 0.30.0 (PyPI)",
    prefill_cap=schedule.prefill_cap_always, next_waiting=schedule.next_skipped,
    reserves_inside=states.reserve_every, keeps_inside=states.keep_end,
    state_tail=states.state_tail_own, states_needed=states.states_needed_set,
    reserve_drafts=offload.reserve_no_step, chunk_order=offload.order_by_idleness, touches=offload.touch_window,
    keeps_offered=offload.keep_often_offered, unread_waits=offload.unread_waits_for_own,
)

SPLIT_0_23_0 = replace(
    V0_30_0, name="vllm@0.23.0-split-on-0.30.0",
    source="vLLM 0.30.0 with the chunks of 0.23.0 (PyPI), which do not end where prompts part",
    split=schedule.split_alone,
)

REPAIRED = replace(
    V0_33_0, name="vllm@0.33.0-repaired", source="vLLM 0.33.0 without its known faults, proposed by cachesim",
    look_at=lookup.look_at_known, wait_for_state=states.wait_for_copy, chunk_block=schedule.chunk_block_of_states,
    split=schedule.split_in_block, reserves_inside=states.reserve_in_prompt, exports_inside=states.export_reserved,
    counted_blocks=states.counted_with_column, stores_chunk=offload.chunk_without_gap,
    load_end=offload.end_at_state,
    leave_lookahead=schedule.leave_lookahead_if_possible, pad_drafts=schedule.pad_fitting_drafts,
)

BESIDE = {REPAIRED.name: V0_33_0.name, SPLIT_0_23_0.name: V0_30_0.name}
_FOUND = rule_sets_in(Rules, globals())
LINE = tuple(sorted((name for name in _FOUND if name not in BESIDE), key=lambda name: _FOUND[name].build))
PROFILES = newest_first(_FOUND, LINE, BESIDE)
OWN = {name: Commit(UNKNOWN, PROFILES[name].build) for name in LINE}
TIMELINE = Timeline(OWN, {}, {name.partition("@")[2]: at for name, at in OWN.items()})
"""Days of the releases on PyPI. The days on which single changes landed are not known."""
