"""Builds since b10809, oldest first. Each is derived from its older neighbour.

Read in the source trees of PyPI's xllamacpp (2026.9.10809, 2026.9.11063, 2026.10.11549) and, for b11312, of
llama-cpp-python 0.3.36. b11549 was also recorded.
"""

from __future__ import annotations

from dataclasses import replace

from cachesim.engines.llama_cpp.memory.context import BAD_BATCH_LINE
from cachesim.engines.llama_cpp.profiles.b10587 import B10587
from cachesim.engines.llama_cpp.profiles.rule_table import OUTSIDE, AdapterRules, FailedDrafterLine, MediaRules
from cachesim.engines.llama_cpp.rules import adapter_repairs as keyed
from cachesim.engines.llama_cpp.rules import checkpoint_create as make
from cachesim.engines.llama_cpp.rules import checkpoint_restore as use
from cachesim.engines.llama_cpp.rules import (
    media_repairs,
    prompt_lifecycle,
    repaired,
    seq_rm_and_state,
    slot_file,
    speculative,
    startup,
)
from cachesim.engines.llama_cpp.rules import newest_memories as newest
from cachesim.engines.shared.rule_set import differences

B10809 = replace(
    B10587,
    name="llama_cpp@b10809",
    build="b10809",
    source="ggml-org/llama.cpp b10809 (2026-09-06), tree in xllamacpp 2026.9.10809",
    ctx_pool=startup.ctx_pool_per_slot,
    slot_ctx=startup.slot_ctx_capped,
    rs_back=seq_rm_and_state.back_once,
    outside={**OUTSIDE, "preserve_reasoning": "on"},       # #28174
    state_form=3,
    ext_bytes=12,
    image_bytes=145,
    memories=(*B10587.memories, "dsa_iswa", "hybrid_idx"),       # both are in this tree
    rows_read=newest.own_emptied,
    index_shift=newest.index_shift_done,
    ended={**B10587.ended, "pool_keys": "#28330", "pool_tensors": "#28330"},
)

B11063 = replace(
    B10809,
    name="llama_cpp@b11063",
    build="b11063",
    source="ggml-org/llama.cpp b11063 (2026-09-21), tree in xllamacpp 2026.9.11063",
    ckpt_replace=make.replace_same,
    ckpt_spacing=make.space_when_full,
    pool_keys=1,
    pool_tensors=1,
)

B11312 = replace(
    B11063,
    name="llama_cpp@b11312",
    build="b11312",
    source="ggml-org/llama.cpp 0c1e57098 (2026-10-01), tree in llama-cpp-python 0.3.36; read, not run",
    task_whole=prompt_lifecycle.whole_unless_last,
    task_reuse=prompt_lifecycle.stateless_start_anew,
    spec_accept=speculative.accept_until_eog,
    kv_fail=seq_rm_and_state.fail_undoes,
    bad_batch_lines=(BAD_BATCH_LINE,),
    failed_drafter=FailedDrafterLine("error", call="llama_process", counts_first=True),
    ended={"data_header": "#28498", "state_form": "#28498"},
)

B11549 = replace(
    B11312,
    name="llama_cpp@b11549",
    build="b11549",
    source="ggml-org/llama.cpp b11549 (2026-10-10), tree in xllamacpp 2026.10.11549",
    shared=prompt_lifecycle.shared_prefix,
    media=MediaRules(),
    marks=prompt_lifecycle.marks_of_chats,
    ckpt_unread=use.unread_of_file_resets,
    spec_unread=speculative.unread_asserts,
    rs_back=seq_rm_and_state.back_alone,
    file_ckpts=slot_file.newest_checkpoints,
    outside={**B11312.outside, "port": "9931"},
    state_form=4,
    data_header=16,
    pool_read=newest.pools_whole,
    pool_keys=2,
    inferred=(),
)

LORA_TRIED = AdapterRules(
    clear=keyed.clear_always,
    cap=keyed.cap_at_first,
    split=keyed.split_if_leading,
    save=keyed.save_before_change,
    forget=keyed.forget_memory,
    entry=keyed.entry_notes_list,
    file=keyed.restored_under_unknown,
    start=keyed.start_resets,
    rows=keyed.cap_at_rows,
    chunks=keyed.chunks_without_start,
)
MEDIA_TRIED = MediaRules(adapters=media_repairs.own_adapters)
LORA_CHANGED = (*(f"adapters.{name}" for name, _, _ in differences(AdapterRules(), LORA_TRIED)), "media.adapters")

B11549_LORA_TRIED = replace(
    B11549,
    name="llama_cpp@b11549-lora-tried",
    source="b11549 with the changes for adapters that were tried on a patched server: not upstream, in no build",
    adapters=LORA_TRIED,
    media=MEDIA_TRIED,
    inferred=LORA_CHANGED,
)
"""Reuse depends on the adapters. Missing: an entry of the prompt cache does not say from which token on its rows were
computed with an aLoRA."""


# Changes proposed here for the newest build: the smallest set of changed rules under which cached contents equal those
# of a cold run, and no request ends the server.
#
# If a rule of this set is reverted, a scenario in scenarios/llama_cpp/repairs fails. With ``--cache-reuse`` the rows of
# moved blocks keep the values of their old place: an attention model then answers differently, by design.

B11549_REPAIRED = replace(
    B11549,
    name="llama_cpp@b11549-repaired",
    source="b11549 with the edits that its rules name, proposed here",
    slot_select=repaired.slot_select_idle,
    reuse=repaired.reuse_if_cuttable,
    ckpt_pick=repaired.pick_whole,
    ckpt_restore=repaired.resume_behind,
    ckpt_erase=repaired.erase_rewritten,
    draft_max=repaired.draft_max_in_batch,
    kv_copy=repaired.copy_at_once,
    kv_undo=repaired.undo_all,
    kv_full=repaired.full_keeps,
    kv_shared=repaired.shared_reused,
    kv_shift=repaired.shift_skips,
    waiting=repaired.waiting_is_cleared,
    children_at=repaired.copied_after_output,
    file_empty=slot_file.empty_clears,
    adapters=replace(
        LORA_TRIED, entry=keyed.entry_notes_rows, file=keyed.restored_under_noted, back=keyed.back_to_split,
    ),
    media=replace(
        MEDIA_TRIED, last=media_repairs.last_is_no_image, size=media_repairs.size_in_micro_batch,
        back=media_repairs.back_to_start, again=media_repairs.tried_after_purge,
    ),
    task_first=media_repairs.valid_before_slot,
    inferred=(
        "slot_select", "reuse", "ckpt_pick", "ckpt_restore", "ckpt_erase", "draft_max", "kv_copy", "kv_undo", "kv_full",
        "kv_shared", "kv_shift", "waiting", "children_at", "file_empty", "task_first", "media.last", "media.size",
        "media.back", "media.again", "adapters.back", *LORA_CHANGED,
    ),
)


B11549_PROPOSED = replace(
    B11549,
    name="llama_cpp@b11549-proposed",
    source="b11549 with rules of cachesim for open reports: not upstream, in no build",
    slot_select=repaired.slot_select_usable,
    trim=prompt_lifecycle.clear_if_refused,
    ckpt_break=repaired.break_quarters,
    file_torn=slot_file.torn_freed,
    media=MediaRules(reason=media_repairs.image_is_reason, ckpt=media_repairs.kept_after_image),
    kv_index=newest.index_turned,
    kv_quant=newest.quantized_shift_lives,
    inferred=("slot_select", "trim", "ckpt_break", "file_torn", "media.reason", "media.ckpt", "kv_index", "kv_quant"),
)
"""Proposals for open reports of lost reuse, a refused removal, slot files and K-shifts. Not part of the repaired rule
set, whose edits a real server ran."""
