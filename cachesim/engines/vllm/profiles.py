"""The rules of a version, and the versions, newest first: each is its successor with what changed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Callable, Hashable, Mapping, Sequence

from cachesim.engines.rule import Decision
from cachesim.engines.shared.rule_set import RuleSet, newest_first, rule_sets_in
from cachesim.engines.vllm.history import BESIDE, LINE
from cachesim.engines.vllm.rules import blocks, lookup, offload, schedule, start, states

UNSCALED = frozenset({"su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling"})
"""Source: vllm/config/model.py _get_and_verify_max_len, 2545 (0.33.0)."""
UNSCALED_WITHOUT_YARN = frozenset({"su", "longrope", "llama3"})
"""Source: vllm/config/model.py _get_and_verify_max_len, 2218 (0.26.0 and 0.29.0)."""


@dataclass(frozen=True, repr=False)
class Rules(RuleSet):
    """A version. ``find_``, ``mask_``: rules of a kind of group."""

    async_scheduling: Callable[[str], bool] = start.async_scheduling
    starts_async: Callable[[str], bool] = start.starts_async
    batch_size: Callable[[int], start.BatchSize] = start.batch_size
    prefix_caching: Callable[[bool, bool], bool] = start.prefix_caching
    mamba_cache_mode: Callable[[str, bool, bool], str] = start.mamba_cache_mode
    states_align: Callable[[str], bool | None] = schedule.states_at_ends
    speculation: Callable[[schedule.Drafter], schedule.Speculation] = schedule.speculation
    drafter_group: Callable[[str], bool] = schedule.knows_drafter_group
    attention_block: Callable[[blocks.Pages], int] = blocks.attention_block
    page_block: Callable[[int, int, int], int] = blocks.page_block
    scheduler_block: Callable[[Sequence[int]], int] = schedule.scheduler_block
    chunk_block: Callable[[Sequence[int], Sequence[int]], int] = schedule.chunk_block
    hashes_beside_states: Callable[[Sequence[int], int], bool] = schedule.hash_beside_states
    hash_block_size: Callable[[Sequence[int], int, bool], int] = schedule.hash_block_size
    partial_hits: Callable[[Sequence[int], Sequence[int], int, bool], bool] = schedule.partial_hits
    admission_cap: Callable[[blocks.Admission], int] = blocks.admission_cap
    hash_block_tokens: Callable[[int, Sequence[int], str, str], Hashable] = blocks.hash_block_tokens
    prefill_cap: Callable[[int, int], int] = schedule.prefill_cap
    surely_ends: Callable[[int, int, int], bool] = schedule.surely_ends
    next_waiting: Callable[[str, schedule.WaitingQueue], Decision] = schedule.next_waiting
    most_tokens: Callable[[int], int] = lookup.most_tokens
    counts_again: Callable[[], bool] = lookup.count_once
    unread_junction: Callable[[int], int] = lookup.no_junction
    look_at: Callable[[int, int], int] = lookup.look_at_all
    reach: Callable[[int, int], int] = lookup.reach_known
    reconcile: Callable[[lookup.PromptQuery, lookup.GroupLookup], lookup.CacheHit] = lookup.reconcile_all
    look_up_one: Callable[[lookup.PromptQuery, lookup.GroupLookup], lookup.CacheHit] = lookup.look_up_one
    find_full: Callable[[lookup.GroupQuery], lookup.GroupMatch] = lookup.find_full
    find_swa: Callable[[lookup.GroupQuery], lookup.GroupMatch] = lookup.find_window
    find_chunked: Callable[[lookup.GroupQuery], lookup.GroupMatch] = lookup.find_chunk
    find_mamba: Callable[[lookup.GroupQuery], lookup.GroupMatch] = lookup.find_state
    offloaded_kinds: Callable[[], tuple[str, ...]] = offload.offloaded_kinds
    wait_for_chunks: Callable[[bool], Decision] = offload.wait_for_chunks
    load_chunks: Callable[[int, int], Decision] = offload.load_chunks
    load_end: Callable[[int, int], int] = offload.end_of_others
    reserve_for_prompts: Callable[[Sequence[int]], int] = offload.reserve_for_prompts
    reserve_drafts: Callable[[offload.DraftStep], offload.LoadReserve] = offload.reserve_draft_step
    pad_drafts: Callable[[schedule.DraftPadding], bool] = schedule.pad_drafts
    padded_fits: Callable[[schedule.PaddedRequest], bool] = schedule.padded_fits
    unpads_clipped: Callable[[], bool] = schedule.unpad_clipped
    split: Callable[[schedule.ChunkSplit], Decision] = schedule.split_states
    cuts_images_last: Callable[[], bool] = schedule.cut_images_last
    stops_at_tail: Callable[[bool, bool], bool] = schedule.stop_for_partial_hits
    before_image: Callable[[int, int, int, int], int] = schedule.before_image
    keep_image: Callable[[int], int] = schedule.keep_image
    holds_repeated: Callable[[], bool] = schedule.hold_repeated
    leave_lookahead: Callable[[int, int, int], int] = schedule.leave_lookahead
    reserve: Callable[[float, int, bool, bool], int] = blocks.reserve
    needed: Callable[[blocks.BlockNeed], int] = blocks.blocks_needed
    states_needed: Callable[[blocks.BlockNeed, int, bool, bool], int] = states.states_needed
    begins_without_block: Callable[[], bool] = states.begin_without_block
    state_inside: Callable[[states.StateExport], bool] = states.state_inside
    last_boundary: Callable[[int, int, bool, int], int] = states.last_boundary
    checkpoint: Callable[[states.StateBoundary], int] = states.checkpoint
    reserves_inside: Callable[[int, int, int], bool] = states.reserve_last
    left_behind: Callable[[int, bool], int] = states.left_behind
    start_column: Callable[[int, int, int], int] = states.start_column
    exports_inside: Callable[[bool], bool] = states.export_alone
    keeps_inside: Callable[[states.StateInside], bool] = states.keep_inside
    counted_blocks: Callable[[int, int], int] = states.counted_blocks
    tail_length: Callable[[int, int], int] = states.tail_length
    state_tail: Callable[[states.StateTail], bool] = states.state_tail
    key_again: Callable[[], bool] = states.keyed_once
    wait_for_state: Callable[[str, bool, bool], Decision] = states.wait_for_state
    admit: Callable[[int, int, int, int], Decision] = schedule.admit
    preempt: Callable[[str, Sequence[tuple[int, int]], int, int], Decision] = schedule.preempt
    steps_back: Callable[[bool], bool] = schedule.step_back
    stale_output: Callable[[schedule.OutputInFlight], schedule.StaleOutput] = schedule.stale_by_tokens
    takes_back_discarded: Callable[[], bool] = schedule.keep_discarded_drafts
    goes_on: Callable[[str], bool] = schedule.goes_on
    passes_over: Callable[[], bool] = schedule.passes_over
    evict: Callable[[int, int], Decision] = blocks.evict
    settled: Callable[[int, int], int] = blocks.settled_tokens
    settled_states: Callable[[int, int], int] = states.settled_states
    skipped: Callable[[str, int, int], int] = blocks.skipped
    retires_further: Callable[[bool], bool] = states.retire_behind_gaps
    reference_gap: Callable[[int, int, int, int], tuple[int, int]] = blocks.reference_gap
    free_side: Callable[[bool], str] = blocks.free_side
    free_side_uncached: Callable[[bool], str] = blocks.free_side_uncached
    zeroes: Callable[[str], bool] = blocks.zero_rows
    publishable: Callable[[blocks.PublishableBlocks], int] = blocks.publishable
    publishable_one: Callable[[blocks.PublishableBlocks], int] = blocks.publishable_one
    boundaries: Callable[[int, int, bool], list[int]] = blocks.boundaries
    junction_ends: Callable[[int, int, bool], list[int]] = blocks.junction_ends
    mask_alignment: Callable[[int, int], int] = blocks.mask_by_hits
    mask_full: Callable[[blocks.PublicationMask], list[bool] | None] = blocks.keep_all
    mask_swa: Callable[[blocks.PublicationMask], list[bool] | None] = blocks.keep_window
    mask_mamba: Callable[[blocks.PublicationMask], list[bool] | None] = blocks.keep_states
    partial_rows: Callable[[int, int, int, bool], int] = blocks.partial_rows
    uncounted: Callable[[int], int] = schedule.uncount_extra
    publish_again: Callable[[blocks.NewTokens], int | None] = blocks.publish_again
    free_now: Callable[[int, int], bool] = offload.free_after_steps
    offered: Callable[[int, int, bool], int] = offload.offered
    offers_again: Callable[[], bool] = offload.offer_again
    stores_chunk: Callable[[Sequence[bool], Sequence[bool]], bool] = offload.chunk_with_reachable
    store_chunks: Callable[[int, int, int], Decision] = offload.store_chunks
    chunk_order: Callable[[], str] = offload.order_by_request
    touches: Callable[[int, int], int | None] = offload.touch_nothing
    keeps_offered: Callable[[int, int], bool] = offload.keep_offered
    unread_waits: Callable[[], bool] = offload.unread_waits
    reset_preempts: Callable[[bool], bool] = schedule.reset_preempts
    tags_hash_keys: bool = True     # published hashes include an adapter's path, and the source of each key
    seeds_hashes: bool = True       # hashes of published blocks are the same in every process
    limits_sum: bool = False        # a prompt and max_tokens above max_model_len are refused; else the answer is cut
    unscaled: frozenset[str] = UNSCALED     # scaling of positions whose factor is not applied to the model's length
    absent: frozenset[str] = frozenset()    # options that the release lacks, or with which it is not simulated
    inferred: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict, hash=False)
    ended: Mapping[str, str] = field(default_factory=dict, hash=False)


V0_33_0 = Rules("vllm@0.33.0", "2026-11-02", "vLLM 0.33.0 (PyPI)")

V0_32_0 = replace(
    V0_33_0, name="vllm@0.32.0", build="2026-10-18", source="vLLM 0.32.0 (PyPI)",
    speculation=schedule.speculation_drops, drafter_group=schedule.knows_mtp_group, junction_ends=blocks.junction_only,
    uncounted=schedule.count_extra, publish_again=blocks.publish_overlapped, key_again=states.keyed_again,
    async_scheduling=start.async_scheduling_drafts, starts_async=start.starts_async_drafts,
    goes_on=schedule.stops, passes_over=schedule.waits, before_image=schedule.before_image_ahead,
    keep_image=schedule.keep_image_ahead, offers_again=offload.offer_once,
    stores_chunk=offload.chunk_with_last, chunk_order=offload.order_by_store,
)

V0_31_0 = replace(
    V0_32_0, name="vllm@0.31.0", build="2026-10-05", source="vLLM 0.31.0 (PyPI)",
    states_align=schedule.states_at_blocks, mamba_cache_mode=start.mamba_cache_mode_asked,
    reach=lookup.reach_prompt, partial_rows=blocks.partial_rows_end,
    checkpoint=states.checkpoint_unit, keeps_inside=states.keep_own, state_tail=states.state_tail_end,
    states_needed=states.states_needed_fresh, left_behind=states.left_behind_alone,
    last_boundary=states.last_boundary_whole, start_column=states.start_column_smallest,
    reserve_drafts=offload.reserve_one_step, limits_sum=True,
)

V0_30_0 = replace(
    V0_31_0, name="vllm@0.30.0", build="2026-09-22", source="vLLM 0.30.0 (PyPI)",
    prefill_cap=schedule.prefill_cap_always, next_waiting=schedule.next_skipped, drafter_group=schedule.knows_no_group,
    reserves_inside=states.reserve_every, keeps_inside=states.keep_end,
    state_tail=states.state_tail_own, states_needed=states.states_needed_set,
    reserve_drafts=offload.reserve_no_step, chunk_order=offload.order_by_idleness, touches=offload.touch_window,
    tags_hash_keys=False, keeps_offered=offload.keep_often_offered, unread_waits=offload.unread_waits_for_own,
    ended={"tags_hash_keys": "#51899, #59335"},
)

V0_29_0 = replace(
    V0_30_0, name="vllm@0.29.0", build="2026-09-09", source="vLLM 0.29.0 (PyPI)",
    pad_drafts=schedule.pad_drafts_beside, boundaries=blocks.boundary_of_prompt,
    tail_length=states.tail_length_whole, state_tail=states.state_tail_end, retires_further=states.retire_run,
    absent=frozenset({"disable_eagle_block_drop", "enable_mamba_shared_prefix_checkpoint",
                      "mamba_prefill_checkpoint_alignment", "num_cpu_chunks"}),
    unscaled=UNSCALED_WITHOUT_YARN,
    ended={"tail_length": "#53945", "state_tail": "#53945", "retires_further": "#55450", "unscaled.yarn": "#56446",
           "unscaled.deepseek_yarn": "#56446", "unscaled.deepseek_llama_scaling": "#56446",
           "absent.disable_eagle_block_drop": "#53388", "absent.mamba_prefill_checkpoint_alignment": "#53614",
           "absent.enable_mamba_shared_prefix_checkpoint": "#53945"},
)

V0_28_0 = replace(
    V0_29_0, name="vllm@0.28.0", build="2026-08-25", source="vLLM 0.28.0 (PyPI)",
    partial_hits=schedule.partial_hits_alone, reconcile=lookup.reconcile_one, mask_alignment=blocks.mask_by_step,
    pad_drafts=schedule.pad_any, padded_fits=schedule.padded_fits_length, unpads_clipped=schedule.keep_clipped,
    holds_repeated=schedule.give_up_repeated, seeds_hashes=False,
    defaults={"prefix_cache_retention_interval": blocks.DENSE},
    ended={**V0_29_0.ended, "defaults.prefix_cache_retention_interval": "#52216", "seeds_hashes": "#51875",
           "partial_hits": "#50493", "mask_alignment": "#53598"},
)

V0_27_1 = replace(
    V0_28_0, name="vllm@0.27.1", build="2026-08-11", source="vLLM 0.27.1 (PyPI)",
    hashes_beside_states=schedule.hash_beside_smallest, partial_hits=schedule.partial_hits_any,
    find_swa=lookup.find_window_whole, free_side_uncached=blocks.free_side_uncached_back, zeroes=blocks.zero_full,
    begins_without_block=states.begin_with_block, steps_back=schedule.step_back_if_scheduled,
    cuts_images_last=schedule.cut_images_first, stops_at_tail=schedule.stop_for_finer_hashes,
    async_scheduling=start.async_scheduling_eagle,
    batch_size=start.batch_size_large, prefix_caching=start.prefix_caching_of_rows,
    mamba_cache_mode=start.mamba_cache_mode_of_kernel,
    absent=V0_28_0.absent | {"multi_module_mtp"},
    ended={**V0_28_0.ended, "prefix_caching": "#50991", "mamba_cache_mode": "#50991", "async_scheduling": "#48341",
           "batch_size": "#51726", "hashes_beside_states": "#51108", "partial_hits": "#51843", "find_swa": "#51843",
           "stops_at_tail": "#51843", "cuts_images_last": "#51603", "begins_without_block": "#51766",
           "zeroes": "#51749", "absent.multi_module_mtp": "#50062"},
)

V0_27_0 = replace(V0_27_1, name="vllm@0.27.0", build="2026-08-10", source="vLLM 0.27.0 (PyPI)")

V0_26_0 = replace(
    V0_27_0, name="vllm@0.26.0", build="2026-07-25", source="vLLM 0.26.0 (PyPI)",
    split=schedule.split_before_last, free_side_uncached=blocks.free_side_uncached,
    stale_output=schedule.stale_by_places, attention_block=blocks.attention_block_of_rows,
)

V0_25_1 = replace(
    V0_26_0, name="vllm@0.25.1", build="2026-07-14", source="vLLM 0.25.1 (PyPI)",
    partial_hits=schedule.partial_hits_none, split=schedule.split_first, reconcile=lookup.reconcile_with_states,
    admission_cap=blocks.admission_cap_step, settled=blocks.scheduled_tokens,
    settled_states=states.settled_without_drafts, junction_ends=blocks.junction_none,
    partial_rows=blocks.partial_rows_none, state_tail=states.state_tail_none, counts_again=lookup.count_again,
    unread_junction=lookup.last_junction,
    absent=V0_26_0.absent | {"prefix_match_unit"},
    ended={**V0_26_0.ended, "partial_hits": "#46384", "state_tail": "#46384", "absent.prefix_match_unit": "#46384"},
)

V0_25_0 = replace(V0_25_1, name="vllm@0.25.0", build="2026-07-11", source="vLLM 0.25.0 (PyPI)")

V0_24_0 = replace(
    V0_25_0, name="vllm@0.24.0", build="2026-06-30", source="vLLM 0.24.0 (PyPI)",
    pad_drafts=schedule.pad_never, takes_back_discarded=schedule.take_back_discarded_drafts,
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

PROFILES = newest_first(rule_sets_in(Rules, globals()), LINE, BESIDE)
