"""What was proposed here on top of 8337e4cd3: changed rules under which what is cached is what an empty server would
have computed.

Put any one of them back, and a scenario in scenarios/ik_llama/repairs fails. Rows that a context shift moves stay what
they were elsewhere, by design.
"""

from __future__ import annotations

from dataclasses import replace

from cachesim.engines.ik_llama.profiles.main import MAIN
from cachesim.engines.ik_llama.rules import micro_batch, repaired

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
