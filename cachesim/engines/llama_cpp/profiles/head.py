"""The version that was read and run most thoroughly (head), and changes proposed for it.

``head`` is frozen at commit 3f545be: a newer master gets a new name.
"""

from __future__ import annotations

from dataclasses import replace

from cachesim.engines.llama_cpp.profiles.rule_table import Rules
from cachesim.engines.llama_cpp.rules import checkpoint_create as make
from cachesim.engines.llama_cpp.rules import checkpoint_restore as use
from cachesim.engines.llama_cpp.rules import (
    context_shift,
    prompt_lifecycle,
    seq_rm_and_state,
    slot_file,
    slot_selection,
    speculative,
    startup,
)
from cachesim.engines.llama_cpp.rules import prompt_cache as pc

HEAD = Rules(
    name="llama_cpp@head",
    build="b10587",
    source="ggml-org/llama.cpp 3f545beccee69d9975f466ec7e45fd9aacd8ba90 (2026-08-22)",
    n_swa=startup.n_swa_unless_full,
    ctx_pool=startup.ctx_pool_given,
    slot_ctx=startup.slot_ctx_whole,
    slot_select=slot_selection.slot_select_3,
    slot_id=slot_selection.slot_id_modulo,
    task_caches=prompt_lifecycle.completions_only,
    task_whole=prompt_lifecycle.whole_prompt,
    task_reuse=prompt_lifecycle.all_reuse,
    shared=prompt_lifecycle.no_decisions,
    marks=prompt_lifecycle.marks_of_any,
    pc_ask=pc.ask_always,
    pc_alloc=pc.admit_strict,
    pc_load=pc.pick_entry,
    pc_after_hit=pc.take_entry,
    pc_update=pc.evict_strict,
    idle_save=slot_selection.idle_save_all,
    clear=prompt_lifecycle.clear_both,
    restore_failed=prompt_lifecycle.restore_failed,
    n_past=prompt_lifecycle.n_past_lcp,
    reuse=context_shift.reuse_chunks,
    ckpt_need=use.need_th4,
    ckpt_pick=use.pick_pk3,
    ckpt_restore=use.resume_re4,
    ckpt_unread=use.unread_aborts,
    ckpt_reset=use.resume_nothing,
    ckpt_erase=use.erase_er2,
    erase_told=make.told_gone,
    need_one=prompt_lifecycle.need_one,
    trim=prompt_lifecycle.abort_if_refused,
    ckpt_on=make.ckpt_on,
    ckpt_break=make.break_cr10,
    ckpt_periodic=make.periodic_none,
    ckpt_create=make.create_cr10,
    ckpt_replace=make.replace_none,
    ckpt_spacing=make.space_older,
    ckpt_limit=make.limit_oldest,
    ckpt_note=make.note_nothing,
    limit_told=make.told_gone,
    ckpt_count=make.count_own,
    idle_purge=slot_selection.purge_if_unified,
    decode_retry=prompt_lifecycle.next_attempt,
    ckpt_after=make.nothing_after_prompt,
    end=prompt_lifecycle.end_of_generation,
    context_shift=context_shift.context_shift,
    shift_of_shared=context_shift.shift_of_shared,
    spec_on=speculative.drafts_anywhere,
    draft_max=speculative.draft_max,
    spec_accept=speculative.accept_while_same,
    spec_ckpt=speculative.needs_checkpoint,
    spec_room=speculative.draft_has_room,
    spec_split=speculative.draft_is_split,
    spec_replay=speculative.must_replay,
    spec_unread=speculative.unread_says_size,
    rs_planes=seq_rm_and_state.planes_for_mtp,
    rs_rm=seq_rm_and_state.rs_rm_3,
    rs_back=seq_rm_and_state.back_any,
    rs_split=seq_rm_and_state.split_keeps_tail,
    kv_copy=seq_rm_and_state.copy_waits,
    kv_state=seq_rm_and_state.keep_window,
    kv_read=seq_rm_and_state.read_anywhere,
    kv_undo=seq_rm_and_state.undo_used,
    kv_fail=seq_rm_and_state.fail_keeps,
    kv_full=seq_rm_and_state.full_forgets,
    kv_shift=seq_rm_and_state.shift_dies,
    file_ckpts=slot_file.no_checkpoints,
    silent=frozenset({"ckpt_search"}),
    unlogged={"slot_by_lcp": frozenset({"task", "lcp"}), "slot_by_lru": frozenset({"task"})},
    ended={"ext_bytes": "#27762", "state_form": "#27762"},
)

PR24143_ON_HEAD = replace(
    HEAD,
    name="llama_cpp@pr24143-on-head",
    source="3f545be with ggml-org/llama.cpp#24143 applied locally",
    pc_after_hit=pc.clone_entry,
)

V3_24035 = replace(
    HEAD,
    name="llama_cpp@24035-v3",
    source="ggml-org/llama.cpp#24035, third version (thread only), on head",
    ckpt_pick=use.pick_v3,
    ckpt_restore=use.resume_count,
    ckpt_erase=use.erase_v3,
    ckpt_break=make.break_v3,
    ckpt_create=make.create_v3,
    ckpt_limit=make.limit_densest,
    inferred=("ckpt_pick", "ckpt_restore", "ckpt_erase", "ckpt_break", "ckpt_create", "ckpt_limit"),
)
