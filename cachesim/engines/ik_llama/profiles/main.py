"""The newest rules that were read and recorded, and the versions between them and the base of #1889."""

from __future__ import annotations

from dataclasses import replace

from cachesim.engines.ik_llama.profiles.rule_table import READ_ONLY, Rules
from cachesim.engines.ik_llama.rules import micro_batch, repaired

MAIN = Rules(
    name="ik_llama@main",
    build="2026-08-15",
    source="ikawrakow/ik_llama.cpp 8337e4cd3861406fc04e0854b1409cd1b027fbc9",
    unlogged={
        "slot_by_lcp": frozenset({"thold", "f_keep"}),
        "pc_save": frozenset({"mib_draft"}),
        "launch": frozenset({"is_child"}),
        "batch": frozenset({"n_tokens"}),
        "need_one": frozenset({"n_past", "n_tokens"}),
        "cache_lcp": frozenset({"slot", "task"}),
        "media_encode": frozenset({"slot", "task", "idx", "n_chunks"}),
        "ckpt_search": frozenset({"n_swa"}),
        "ckpt_invalidate": frozenset({"n_tokens", "n_swa", "pos_next"}),
        "spec_step": frozenset({"drafted"}),
    },
    late=frozenset({
        "ckpt_search", "ckpt_restore", "full_reprocess", "ckpt_invalidate", "ckpt_create", "ckpt_evict",
    }),
    most_images=64,
    inferred=("window", *READ_ONLY),
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
        "ckpt_cells", "spec_steps", "spec_row", "slot_save", *READ_ONLY,
    ),
)
