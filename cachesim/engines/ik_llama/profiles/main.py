"""The newest rules that were read and recorded, and the versions between them and the base of #1889."""

from __future__ import annotations

from cachesim.engines.ik_llama.profiles.table import Rules
from cachesim.engines.ik_llama.rules import checkpoint_make as make
from cachesim.engines.ik_llama.rules import checkpoint_use as use
from cachesim.engines.ik_llama.rules import choice, prefix, shift, slot_file, spec, trim
from cachesim.engines.ik_llama.rules import prompt_cache as pc

MAIN = Rules(
    name="ik_llama@main",
    build="2026-08-15",
    source="ikawrakow/ik_llama.cpp 8337e4cd3861406fc04e0854b1409cd1b027fbc9",
    slot_select=choice.slot_select,
    shifted=choice.compare_shifted,
    pc_save=choice.save_if_little_kept,
    pc_alloc=pc.admit,
    pc_peek=pc.peek_moves,
    pc_load=pc.pick_kept,
    pc_after_hit=pc.take_entry,
    pc_update=pc.evict,
    prompt_empty=prefix.prompt_empty,
    keep=shift.keep_tokens,
    full=shift.context_full,
    shift=shift.shift_context,
    prompt_shift=shift.shift_prompt,
    shift_find=shift.shift_in_cache,
    reuse=prefix.reuse_asked,
    prefix=prefix.prefix_loose,
    one=prefix.one_before,
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
    decode_retry=trim.next_attempt,
    ckpt_interval=make.interval_exact,
    ckpt_first=make.first_without_tolerance,
    ckpt_create=make.create_by_tokens,
    ckpt_evict=make.evict_by_option,
    draft_max=spec.draft_max,
    spec_save=spec.save_or_root_only,
    spec_purge=spec.purge_keep,
    spec_commit=spec.commit_ahead,
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
        "ckpt_search": frozenset({"n_swa"}),
        "ckpt_invalidate": frozenset({"n_tokens", "n_swa", "pos_next"}),
        "spec_step": frozenset({"drafted"}),
    },
    late=frozenset({
        "ckpt_search", "ckpt_restore", "full_reprocess", "ckpt_invalidate", "ckpt_create", "ckpt_evict",
    }),
    inferred=("window",),
)
