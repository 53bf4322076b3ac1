"""vLLM 0.33.0."""

from __future__ import annotations

from cachesim.engines.vllm.profiles.rule_table import Rules
from cachesim.engines.vllm.rules import blocks, lookup, pool, schedule, sizes

V0_33_0 = Rules(
    name="vllm@0.33.0",
    build="2026-11",
    source="vLLM 0.33.0 (PyPI)",
    speculation=sizes.speculation,
    scheduler_block=sizes.scheduler_block,
    hash_unit=sizes.hash_unit,
    partial_hits=sizes.partial_hits,
    cap=blocks.admission_cap,
    hash=pool.hash_unit,
    prefill_cap=schedule.prefill_cap,
    surely_ends=schedule.surely_ends,
    next_waiting=schedule.next_waiting,
    most_tokens=lookup.most_tokens,
    reconcile=lookup.reconcile_all,
    look_up_one=lookup.look_up_one,
    find={"full": lookup.find_full, "swa": lookup.find_window, "chunked": lookup.find_chunk,
          "mamba": lookup.find_state},
    pad_drafts=schedule.pad_drafts,
    split=schedule.split_states,
    leave_lookahead=schedule.leave_lookahead,
    reserve=blocks.reserve,
    needed=blocks.blocks_needed,
    states_needed=blocks.states_needed,
    state_inside=blocks.state_inside,
    wait_for_state=blocks.wait_for_state,
    admit=schedule.admit,
    preempt=schedule.preempt,
    evict=pool.evict,
    skipped=blocks.skipped,
    reference_gap=blocks.reference_gap,
    side=pool.free_side,
    publishable=blocks.publishable,
    publishable_one=blocks.publishable_one,
    boundaries=blocks.boundaries,
    keep={"full": blocks.keep_all, "rswa": blocks.keep_all, "chunked": blocks.keep_all, "swa": blocks.keep_window,
          "mamba": blocks.keep_states},
    partial_rows=blocks.partial_rows,
    publish_again=blocks.publish_again,
    reset_preempts=schedule.reset_preempts,
)  # fmt: skip
