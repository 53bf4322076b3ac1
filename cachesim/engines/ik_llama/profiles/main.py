"""The newest rules that were read and recorded, and the versions between them and the base of #1889."""

from __future__ import annotations

from dataclasses import replace

from cachesim.engines.ik_llama.profiles.rule_table import Rules
from cachesim.engines.ik_llama.rules import (
    carried_over,
    common_prefix,
    context_shift,
    micro_batch,
    repaired,
    slot_file,
    slot_selection,
    speculative,
    trim,
)
from cachesim.engines.ik_llama.rules import checkpoint_create as make
from cachesim.engines.ik_llama.rules import checkpoint_restore as use
from cachesim.engines.ik_llama.rules import prompt_cache as pc

MAIN = Rules(
    name="ik_llama@main",
    build="2026-08-15",
    source="ikawrakow/ik_llama.cpp 8337e4cd3861406fc04e0854b1409cd1b027fbc9",
    compare=slot_selection.compare_without_reasoning,
    slot_select=slot_selection.slot_select,
    shifted=slot_selection.compare_shifted,
    pc_save=slot_selection.save_if_little_kept,
    pc_alloc=pc.admit,
    pc_peek=pc.peek_moves,
    pc_load=pc.pick_kept,
    pc_after_hit=pc.take_entry,
    pc_failed=pc.failed_keeps,
    pc_update=pc.evict,
    parser=carried_over.parser_own,
    system=carried_over.system_clears_all,
    prompt_empty=common_prefix.prompt_empty,
    keep=context_shift.keep_tokens,
    full=context_shift.context_full,
    refused=context_shift.refused_reads,
    shift=context_shift.shift_context,
    prompt_shift=context_shift.shift_prompt,
    shift_find=context_shift.shift_in_cache,
    prompt_cut=context_shift.prompt_cut_block,
    shift_list=context_shift.shift_list_cached,
    reuse=common_prefix.reuse_asked,
    prefix=common_prefix.prefix_loose,
    one=common_prefix.one_before,
    ckpt_need=use.need_or_private,
    ckpt_pick=use.pick_pos_max,
    ckpt_resume=use.resume_prompt_end,
    ckpt_reset=use.reset_tokens,
    ckpt_erase=use.erase_thold,
    trim=trim.trim_in_turn,
    trim_failed=trim.failed_reset,
    seq_rm=trim.rm_refused,
    window=trim.window_compact,
    ckpt_on=make.on_with_states,
    ckpt_break=make.break_tolerance,
    spec_start=speculative.start_with_one_slot,
    ubatch_split=micro_batch.split_repeated,
    kv_seen=micro_batch.seen_by_block_ends,
    kv_window=micro_batch.window_in_last_blocks,
    kv_blind=micro_batch.blind_is_not_a_number,
    state_zero=micro_batch.zero_at_start,
    graph=micro_batch.graph_by_sequences,
    abort=micro_batch.abort_cuts,
    decode_retry=micro_batch.next_attempt,
    decode_again=micro_batch.again_from_view,
    give_up=micro_batch.give_up_keeps,
    ckpt_cells=trim.cells_claimed,
    ckpt_interval=make.interval_exact,
    ckpt_first=make.first_without_tolerance,
    ckpt_create=make.create_by_tokens,
    ckpt_evict=make.evict_by_option,
    draft_max=speculative.draft_max,
    spec_save=speculative.save_or_root_only,
    spec_purge=speculative.purge_keep,
    spec_commit=speculative.commit_ahead,
    spec_steps=speculative.steps_by_place,
    spec_row=speculative.row_first,
    end=trim.end_of_generation,
    slot_save=slot_file.save_side_file,
    slot_restore=slot_file.restore_side_file,
    slot_erase=slot_file.erase_all,
    unlogged={
        "slot_by_lcp": frozenset({"thold", "f_keep"}),
        "pc_save": frozenset({"mib_draft"}),
        "launch": frozenset({"is_child"}),
        "batch": frozenset({"n_tokens"}),
        "need_one": frozenset({"n_past", "n_tokens"}),
        "cache_lcp": frozenset({"slot", "task"}),
        "ckpt_search": frozenset({"n_swa"}),
        "ckpt_invalidate": frozenset({"n_tokens", "n_swa", "pos_next"}),
        "spec_step": frozenset({"drafted"}),
    },
    late=frozenset({
        "ckpt_search", "ckpt_restore", "full_reprocess", "ckpt_invalidate", "ckpt_create", "ckpt_evict",
    }),
    inferred=("window",),
)


# Repairs proposed on top of 8337e4cd3: with these rules the cached rows and states equal those of an empty server.
# Without any of them a scenario in scenarios/ik_llama/repairs fails. Rows moved by a context shift keep their values,
# by design.

MAIN_REPAIRED = replace(
    MAIN,
    name="ik_llama@main-repaired",
    source="8337e4cd3 with the edits that its rules name, proposed here",
    pc_failed=repaired.failed_clears,
    refused=repaired.refused_leaves,
    prompt_cut=repaired.prompt_cut_none,
    shift_list=repaired.shift_list_all,
    kv_seen=micro_batch.seen_exact,
    kv_window=micro_batch.window_in_all_cells,
    decode_again=repaired.again_from_rest,
    ckpt_cells=repaired.cells_kept,
    spec_steps=repaired.steps_by_position,
    spec_row=repaired.row_own,
    slot_save=repaired.save_always,
    inferred=(
        "window", "pc_failed", "refused", "prompt_cut", "shift_list", "kv_seen", "kv_window", "decode_again",
        "ckpt_cells", "spec_steps", "spec_row", "slot_save",
    ),
)
