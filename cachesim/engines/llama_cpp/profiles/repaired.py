"""What was proposed here on top of the newest build: the smallest set of changed rules under which what is cached is
what a cold run would have computed, and no request ends the server.

Put any one of them back, and a scenario in scenarios/llama_cpp/repairs fails. With ``--cache-reuse`` the rows of moved
blocks stay what they were elsewhere: an attention model answers otherwise then, by design.
"""

from __future__ import annotations

from dataclasses import replace

from cachesim.engines.llama_cpp.profiles.builds_after_head import B11549
from cachesim.engines.llama_cpp.rules import repaired

LATEST_REPAIRED = replace(
    B11549,
    name="llama_cpp@latest-repaired",
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
    spec_unread=repaired.unread_is_an_error,
    kv_shift=repaired.shift_skips,
    inferred=(
        "slot_select", "reuse", "ckpt_pick", "ckpt_restore", "ckpt_erase", "draft_max", "kv_copy", "kv_undo", "kv_full",
        "kv_shift", "spec_unread",
    ),
)
