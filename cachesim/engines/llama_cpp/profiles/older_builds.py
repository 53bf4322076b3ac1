"""Builds before the bases of the pull requests, newest first, back to the first build with checkpoints.

Each is derived from its newer neighbour; a comment names the change that ended the older behaviour.
Source: ggml-org/llama.cpp at the commits that the rules name, recordings of these builds, and source trees near them:
llama-cpp-python 0.3.16 (b6170), xllamacpp 0.2.12 (2026-02-27, without #19924) and 0.2.13
(2026-03-17, between #20288 and #20671).

Build numbers are those of the recorded binaries: number of commits up to the named commit. Other lists have larger
numbers for some changes (#15293: b6160 here, b6173 there; #19924: b8166, b8172; #20671: b8393, b8400; #22288: b8916,
b8925). No source tree that states its number lies between them. The recorded b8916 is the commit of #22288 itself,
which confirms the numbers used here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Mapping

from cachesim.engines.llama_cpp.flags import NGRAM_TYPES
from cachesim.engines.llama_cpp.profiles import adapter_tables
from cachesim.engines.llama_cpp.profiles.adapter_tables import NOT_RUN
from cachesim.engines.llama_cpp.profiles.pull_requests import B9473
from cachesim.engines.llama_cpp.profiles.rule_table import Rules
from cachesim.engines.llama_cpp.rules import before_checkpoints as old
from cachesim.engines.llama_cpp.rules import (
    cell_faults,
    context_shift,
    older_slot_selection,
    prompt_lifecycle,
    seq_rm_and_state,
    slot_file,
    slot_selection,
    speculative,
    startup,
)
from cachesim.engines.llama_cpp.rules import checkpoint_create as make
from cachesim.engines.llama_cpp.rules import checkpoint_restore as use
from cachesim.engines.llama_cpp.rules import older_checkpoint_create as old_make
from cachesim.engines.llama_cpp.rules import older_checkpoint_restore as old_use
from cachesim.engines.llama_cpp.rules import prompt_cache as pc


def without(rules: Rules, **fields: str) -> Mapping[str, frozenset[str]]:
    """Return the profile's ``unlogged`` with further fields, given as blank-separated names by kind of event."""
    known = rules.unlogged
    return {**known, **{kind: known.get(kind, frozenset()) | set(names.split()) for kind, names in fields.items()}}


B9231 = replace(
    B9473,
    name="llama_cpp@b9231",
    build="b9231",
    source="ggml-org/llama.cpp ccee42642 (2026-05-19)",
    ckpt_break=old_make.break_cr5,           # until #22929
    ckpt_periodic=old_make.periodic_cr5,     # until #22929
    ckpt_create=old_make.create_cr6,         # until #22929
    rs_split=seq_rm_and_state.split_equally,   # until #23269; read in b9093 and b9294, not in this build
    kv_state=seq_rm_and_state.keep_ring,               # until #23981
    min_step=8192,                           # until #22929: the step of periodic checkpoints
    no_cells_line="failed to find available cells in kv cache",    # until #23981; seen on the real b9294
    mtp_row_bits=0,                          # until #23646; seen on the real b9294, and no more on b9538
    defaults={"spec_draft_n_max": 16},       # until #23269
    silent=B9473.silent - {"ckpt_search"} | {"user_pos"},
    ended={"min_step": "#22929", "mtp_row_bits": "#23646", "defaults": "#23269", "silent.user_pos": "#22929",
           "silent.ckpt_search": "#22929", "no_cells_line": "#23981"},
    inferred=(*NOT_RUN, "rs_split"),
)

B9230 = replace(
    B9231,
    name="llama_cpp@b9230",
    build="b9230",
    source="ggml-org/llama.cpp before ccee42642 (2026-05-19), rules between #22673 (b9180) and #23280; read only",
    ckpt_need=old_use.need_th2,              # until #23280
    inferred=(*NOT_RUN, "rs_split", "rs_plane"),
)

PR29117_ON_B9230 = replace(
    B9230,
    name="llama_cpp@pr29117-on-b9230",
    source="ggml-org/llama.cpp#29117 on the build before #23280",
    rs_plane=seq_rm_and_state.plane_of_position,
    inferred=(*NOT_RUN, "rs_split", "rs_plane"),
)

DRAFT_22673 = replace(
    B9230,
    name="llama_cpp@22673-draft",
    source="ggml-org/llama.cpp#22673 before it was merged (am17an/llama.cpp#15, thread only), on b9230",
    rs_saved=seq_rm_and_state.saved_aborts,
    inferred=(*NOT_RUN, "rs_split", "rs_plane", "rs_saved"),
)

B8916 = replace(
    B9230,
    name="llama_cpp@b8916",
    build="b8916",
    source="ggml-org/llama.cpp ffdd983fb (2026-04-24)",
    trim=prompt_lifecycle.clear_if_refused,            # until #22673
    rm_refused=context_shift.refusal_ignored,          # until #22673
    ckpt_unread=use.unread_resets,           # until #22838
    spec_full=speculative.has_own_memory,              # until #22838
    rs_planes=seq_rm_and_state.planes_none,            # until #22673
    rs_rm=seq_rm_and_state.rs_rm_2,                    # until #22673
    spec_types=("none", *NGRAM_TYPES),       # draft-mtp: #22673; the draft context is saved since #22838
    host_header=0,                           # until #22679
    unlogged=without(B9231, pc_save="mib_draft"),
    ended={"spec_types": "#22838", "ckpt_unread": "#22838", "unlogged.pc_save": "#22838", "host_header": "#22679"},
    inferred=NOT_RUN,
)

B9063 = replace(
    B8916,
    name="llama_cpp@b9063",
    build="b9063",
    source="ggml-org/llama.cpp before e43431b38 (2026-05-07), rules between #22679 (b9028) and #22805; read only",
    spec_place=speculative.place_of_first_save,        # until #22805
    host_header=B9231.host_header,           # since #22679
    inferred=(*NOT_RUN, "spec_place"),
)

B8450 = replace(
    B8916,
    name="llama_cpp@b8450",
    build="b8450",
    source="ggml-org/llama.cpp ab9d4c367 (2026-03-20), the last profile before #21510",
    n_swa=startup.n_swa_of_model,              # until #22288
    pc_ask=pc.ask_if_held,                   # until #20993
    idle_save=older_slot_selection.idle_save_none,     # until #20993
    ckpt_pick=old_use.pick_pk1,              # until #21510
    context_shift=old.shift_unchecked,       # until #22267
    ckpt_on=old_make.ckpt_on_by_architecture,      # until #22114
    spec_on=speculative.drafts_where_cut,           # until #19493
    rs_split=seq_rm_and_state.split_neighbours,        # until #21224
    reuse_start=context_shift.reuse_kept,    # until #19493; seen on the real b8672, and no more on b8929
    silent=B8916.silent | {"do_ckpt"},
    ended={"silent.do_ckpt": "#19493"},
)

B8392 = replace(
    B8450,
    name="llama_cpp@b8392",
    build="b8392",
    source="ggml-org/llama.cpp 627670601 (2026-03-17), the last build before #20671",
    n_swa=startup.n_swa_at_least_one,          # until #20726
    ckpt_need=old_use.need_th1,              # until #20726
    ckpt_erase=old_use.erase_er1,            # until #20671
    ckpt_create=old_make.create_cr5,         # until #20726
    unlogged=without(B8450, ckpt_invalidate="pos_next"),
    ended={"unlogged.ckpt_invalidate": "#20671"},
)

B8271 = replace(
    B8392,
    name="llama_cpp@b8271",
    build="b8271",
    source="ggml-org/llama.cpp a7b3dee7a (2026-03-10); the same rules as before-20671, and as a tree between the two",
)

B8260 = replace(
    B8271,
    name="llama_cpp@b8260",
    build="b8260",
    source="ggml-org/llama.cpp 96cfc4992 (2026-03-09)",
    ckpt_break=old_make.break_cr3,           # until #20288
    ckpt_periodic=old_make.periodic_cr4,     # until #20288
    ckpt_create=old_make.create_cr4,         # until #20288
)

B8152 = replace(
    B8260,
    name="llama_cpp@b8152",
    build="b8152",
    source="ggml-org/llama.cpp d7d826b3c (2026-02-25); read in xllamacpp 0.2.12 too, which has the same rules",
    ckpt_restore=old_use.resume_re2,         # until #19924
    ckpt_periodic=make.periodic_none,        # until #20087
    ckpt_create=old_make.create_cr2,         # until #20087
    ckpt_count=old_make.count_less_batch,    # until #20287
    kv_mrope=seq_rm_and_state.mrope_ends,              # until #19928
    ext_bytes=0,                             # until #20132
    defaults={**B8260.defaults, "ctx_checkpoints": 8},         # until #20087
    silent=B8260.silent | {"ckpt_check", "warn"},
    unlogged=without(B8260, ckpt_restore="n_past"),
    ended={
        "ckpt_restore": "#19924", "ckpt_periodic": "#20087", "ext_bytes": "#20132", "defaults": "#20087",
        "silent.ckpt_check": "#20087", "unlogged.ckpt_restore": "#20279",
    },
)

B7789 = replace(
    B8152,
    name="llama_cpp@b7789",
    build="b7789",
    source="ggml-org/llama.cpp ad8d85bd9 (2026-01-21)",
    slot_select=older_slot_selection.slot_select_1,    # until #19207
    slot_id=slot_selection.slot_id_exact,            # until #19207
    ckpt_restore=old_use.resume_re1,         # until #19849
    ckpt_break=old_make.break_cr2,           # until #19408
    ckpt_count=make.count_own,               # until #19849: not stored and not used
    spec_on=speculative.drafts_anywhere,            # until #19270: no startup probe; no drafts either
    start_batch=0,                           # until #19270
    spec_types=("none",),                    # ngram-simple is #18471; draft models of that time are not modelled
    memories=("A", "W", "R", "H"),           # HW is #18601 (b7789), but b7964 still has no architecture that uses it
    unlogged=without(B8152, ckpt_create="n_tokens", ckpt_evict="n_tokens", ckpt_invalidate="n_tokens",
                     ckpt_restore="n_tokens"),
    ended={"ckpt_count": "#19849", "spec_on": "#19270", "start_batch": "#19270", "spec_types": "#18471",
           "unlogged": "#19849"},
)

B6685 = replace(
    B7789,
    name="llama_cpp@b6685",
    build="b6685",
    source="ggml-org/llama.cpp f6dcda390 (2025-10-03)",
    slot_ctx=startup.slot_ctx_share,           # until #16736
    slot_select=older_slot_selection.slot_select_0,    # until #16391
    children=older_slot_selection.children_ignored,    # until #17775
    ckpt_break=old_make.break_cr0,           # until #16440
    ckpt_create=old_make.create_never,       # until #16440
    ckpt_after=old_make.create_after_prompt,       # until #16440
    prompt_fit=old.cut_long,                 # until #16391
    end=old.end_untold,                      # until #16812
    fail_clears=old.failure_keeps,           # until #17267
    idle_purge=slot_selection.purge_none,            # until #16736
    ckpt_erase=old_use.erase_er1_newest_first,     # the order only
    rs_rm=seq_rm_and_state.rs_rm_1,                    # until #17009
    reuse_start=context_shift.reuse_off,     # until #18263
    kv_mrope=seq_rm_and_state.mrope_moves,             # until #16825
    kv_read=seq_rm_and_state.read_together,            # until #17982
    file_torn=slot_file.torn_stays,                    # until #18801
    spec_batch=speculative.batch_is_own,               # until #17808
    auto_slots=1,                            # until #16736
    least_batch=64,                          # recorded (server.n_batch); until #17505
    ctx_pad=32,                              # until #16812
    window_pad=32,                           # until #16812
    rs_split=seq_rm_and_state.split_any_ids,           # until #16442
    defaults={**B7789.defaults, "ctx_checkpoints": 3, "ctx_size": 4096},       # until #16391, #16653
    adapters=adapter_tables.OF_B6685,        # until #16391, #16818, #18263, #18547
    silent=B7789.silent | {"slot_clear", "trim_refused", "lora_set"},
    unlogged={
        **without(B7789, launch="is_child"), "slot_by_lcp": frozenset({"f_keep"}), "slot_by_lru": frozenset(),
    },
    ended={
        "auto_slots": "#16736", "least_batch": "#17505", "ctx_pad": "#16812", "window_pad": "#16812",
        "trim": "#17267", "pc_update": "#16391", "ckpt_erase": "#16391",
        "defaults.ctx_checkpoints": "#16391", "defaults.ctx_size": "#16653",
        "silent.slot_clear": "#17267", "silent.trim_refused": "#16736", "silent.lora_set": "#18263",
        "unlogged.launch": "#18663",
        "unlogged.slot_by_lcp": "#16391", "unlogged.slot_by_lru": "#16391",
    },
)

B6388 = replace(
    B6685,
    name="llama_cpp@b6388",
    build="b6388",
    source="ggml-org/llama.cpp 5d6688de0 (2025-09-05), rules between #15798 (b6384) and #15811 (b6389); read only",
    n_swa=startup.n_swa_of_model,              # until #16382
    ckpt_need=old_use.need_th0,              # until #16382
    ckpt_pick=old_use.pick_pk0,              # until #16382
    ckpt_restore=old_use.resume_re0,         # until #16382
    ckpt_reset=old_use.resume_nothing_forget,      # until #16382
    ckpt_erase=old_use.erase_er0,            # until #16382
    ckpt_on=old_make.ckpt_on_with_window,    # until #16382
    erase_told=old_make.told_next,           # until #16382; seen in recordings
    limit_told=old_make.told_newest,         # until #16382, as recorded
    rs_rm=seq_rm_and_state.rs_rm_0,                    # until #16382
    kv_mask=cell_faults.mask_model,          # until #15811
    adapters=adapter_tables.OF_B6388,        # until #15327
    share_digits=6,
    defaults={**B6685.defaults, "slot_prompt_similarity": 0.5},      # until #15913
    silent=B6685.silent | {"lora_clear", "lora_keep"},
    unlogged={
        **without(B6685, batch="n_tokens", slot_by_lcp="thold", ckpt_invalidate="n_swa"),
    },
    ended={
        "n_swa": "#16382", "kv_mask": "#15811", "defaults.slot_prompt_similarity": "#15913", "defaults": "#15913",
        "erase_told": "#16382", "limit_told": "#16382", "share_digits": "#15913", "unlogged": "#16382",
        "unlogged.slot_by_lcp": "#15913", "silent.lora_clear": "#15327", "silent.lora_keep": "#15327",
    },
    inferred=(*NOT_RUN, "rs_rm"),           # no recurrent model was recorded
)

B6160 = replace(
    B6388,
    name="llama_cpp@b6160",
    build="b6160",
    source="ggml-org/llama.cpp d32e03f44 (2025-08-14), the first with checkpoints; read in 4227c9be4 (b6170) too",
    kv_mask=cell_faults.mask_own,            # since #15798 only
    defaults={**B6388.defaults, "context_shift": True},      # until #15416
    ended={
        "n_swa": "#16382", "kv_mask": "#15798", "defaults.slot_prompt_similarity": "#15913",
        "defaults.context_shift": "#15416",
        "erase_told": "#16382", "limit_told": "#16382", "share_digits": "#15913", "unlogged": "#16382",
        "unlogged.slot_by_lcp": "#15913",
    },
)
