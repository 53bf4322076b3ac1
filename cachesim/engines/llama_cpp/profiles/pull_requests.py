"""Bases of the two open pull requests, and the pull requests applied to them.

Each is derived from its newer neighbour; a comment names the change that ended the older behaviour.
"""

from __future__ import annotations

from dataclasses import replace

from cachesim.engines.llama_cpp.profiles import adapter_tables
from cachesim.engines.llama_cpp.profiles.adapter_tables import NOT_RUN
from cachesim.engines.llama_cpp.profiles.b10587 import B10587
from cachesim.engines.llama_cpp.profiles.rule_table import FailedDrafterLine
from cachesim.engines.llama_cpp.rules import before_checkpoints as old
from cachesim.engines.llama_cpp.rules import checkpoint_create as make
from cachesim.engines.llama_cpp.rules import checkpoint_restore as use
from cachesim.engines.llama_cpp.rules import context_shift as shifts
from cachesim.engines.llama_cpp.rules import older_checkpoint_create as old_make
from cachesim.engines.llama_cpp.rules import prompt_cache as pc
from cachesim.engines.llama_cpp.rules import prompt_lifecycle, seq_rm_and_state, slot_selection, speculative

B9765 = replace(
    B10587,
    name="llama_cpp@b9765",
    build="b9765",
    source="ggml-org/llama.cpp 73618f27a (2026-06-23)",
    pc_alloc=pc.admit_any,                   # until #25070
    pc_update=pc.evict_spare_one,            # until #25070
    clear=prompt_lifecycle.clear_tokens,               # until #25649
    view_lead=prompt_lifecycle.part_is_led,  # until #25649
    children_count=slot_selection.count_of_batch,    # until #26920
    restore_failed=prompt_lifecycle.restore_failed_tokens,   # until #26640
    ckpt_break=old_make.break_cr8,           # until #25420
    ckpt_create=old_make.create_cr8,         # until #25472
    ckpt_spacing=make.space_none,            # until #25472
    rs_split=seq_rm_and_state.split_alone,             # until #25278
    spec_count=speculative.count_all,        # until #26320
    adapters=adapter_tables.OF_B9765,        # until #25649
    memories=("A", "W", "R", "H", "HW"),     # others: b10229, b10566
    failed_drafter=FailedDrafterLine("warn", call="draft: llama_decode", counts_first=True),      # until #25078
    most_images=0,                           # images in this build and older ones were not read
    slot_file_header=12,                     # until the packed tokens of #26640
    silent=B10587.silent | {"slot_sim", "slot_skip_busy", "slot_skip_empty", "pc_cand"},
    ended={
        "failed_drafter": "#25078", "slot_file_header": "#26640", "restore_failed": "#26640",
        "silent.pc_cand": "#26218",
        **dict.fromkeys(("silent.slot_sim", "silent.slot_skip_busy", "silent.slot_skip_empty"), "#26271"),
    },
)

B9518 = replace(
    B9765,
    name="llama_cpp@b9518",
    build="b9518",
    source="ggml-org/llama.cpp 7c158fbb4 (2026-06-04), the base of #24143",
    slot_select=slot_selection.slot_select_2,        # until #24755
    idle_save=slot_selection.idle_save_unified,      # until #24190
    context_shift=old.shift_up_to_any,       # until #24786
    ckpt_pick=use.pick_pk2,                  # until #24411
    ckpt_break=make.break_cr7,               # until #24176
    ckpt_create=make.create_cr7,             # until #24176
    marks=prompt_lifecycle.marks_of_spans,           # until #24176
    discard_fit=shifts.discard_free,         # until #24150
    spec_room=speculative.batch_has_room,           # until #24843
    spec_split=speculative.split_is_not_seen,       # until #24843
    view_lead=prompt_lifecycle.batch_is_led,        # until #24843
    min_step=256,                            # until #24176
    fatal_lines=("{text} i = {off}, n_batch = {n_batch}, ret = {ret}",),     # recorded at b8152; until #24843
    empty_batch_line="no tokens to decode",   # recorded at b9713; until #24843
    failed_drafter=FailedDrafterLine("warn", call="draft: llama_decode", counts_first=False),     # until #24340
    silent=B9765.silent | {"slot_by_id"},
    ended={
        "failed_drafter": "#24340", "min_step": "#24176", "fatal_lines": "#24843", "empty_batch_line": "#24843",
        "silent.slot_by_id": "#24755",
    },
)

PR24143_ON_B9518 = replace(
    B9518,
    name="llama_cpp@pr24143-on-b9518",
    source="ggml-org/llama.cpp#24143 on its own base",
    pc_after_hit=pc.clone_entry,
    inferred=(*NOT_RUN, "pc_after_hit"),
)

B9473 = replace(
    B9518,
    name="llama_cpp@b9473",
    build="b9473",
    source="ggml-org/llama.cpp 236531595 (2026-06-02), the base of #24035",
    ckpt_need=use.need_th3,                  # until #24110
)

V1_24035 = replace(
    B9473,
    name="llama_cpp@24035-v1",
    source="ggml-org/llama.cpp#24035, first version (750c8d8), derived from its text and log",
    ckpt_pick=use.pick_v1,
    ckpt_restore=use.resume_count,
    ckpt_erase=use.erase_v1,
    inferred=(*NOT_RUN, "ckpt_pick", "ckpt_restore", "ckpt_erase"),
)
