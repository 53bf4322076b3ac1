"""The rules of a version, in the order in which they apply."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Mapping

from cachesim.engines.contract import RuleSet
from cachesim.engines.rule import Decision
from cachesim.engines.vllm.rules import blocks, lookup, schedule, states

Rule = Callable[..., Decision]
Plain = Callable[..., Any]


@dataclass(frozen=True)
class Rules(RuleSet):
    """A version. ``find_``, ``mask_``: rules of a kind of group."""

    states_align: Plain = schedule.states_at_ends
    speculation: Plain = schedule.speculation
    scheduler_block: Plain = schedule.scheduler_block
    chunk_block: Plain = schedule.chunk_block
    hash_unit: Plain = schedule.hash_unit
    partial_hits: Plain = schedule.partial_hits
    cap: Plain = blocks.admission_cap
    hash: Plain = blocks.hash_unit
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
    pad_drafts: Plain = schedule.pad_drafts
    split: Rule = schedule.split_states
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
    side: Plain = blocks.free_side
    publishable: Plain = blocks.publishable
    publishable_one: Plain = blocks.publishable_one
    boundaries: Plain = blocks.boundaries
    junction_ends: Plain = blocks.junction_ends
    mask_full: Plain = blocks.keep_all
    mask_swa: Plain = blocks.keep_window
    mask_mamba: Plain = blocks.keep_states
    partial_rows: Plain = blocks.partial_rows
    publish_again: Plain = blocks.publish_again
    reset_preempts: Plain = schedule.reset_preempts
    inferred: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict, hash=False)
