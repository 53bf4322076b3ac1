"""Signatures of ik_llama.cpp: the lines that show why tokens of a common prefix were evaluated again, and the rules
that no line reports."""

from __future__ import annotations

from typing import Mapping

from cachesim.engines.shared.log_signatures import (
    NO_STATE,
    NO_TEXT,
    Signature,
    behind_restored,
    changed_prompt,
    held_prompt,
    lost_beginning,
    removed_checkpoint,
    same_prompt,
    when_measured,
    whole_prefix,
)

_CKPT = ("--ctx-checkpoints", "--ctx-checkpoints-interval")

SIGNATURES = (
    Signature("no-checkpoint", ("full_reprocess",), ("IK-CKPT-RESET", "IK-CKPT-NEED", "IK-CKPT-PICK"), (
        "no checkpoint ends at or before the {lcp} common tokens",
        "the memory cannot go back to the common prefix, and no checkpoint can be restored",
    ), when_measured(whole_prefix), _CKPT),
    Signature("checkpoint-too-late", ("ckpt_restore",), ("IK-CKPT-RESUME", "IK-CKPT-PICK"), (
        "the nearest checkpoint that can be restored ends at {restored}, before the {lcp} common tokens",
        "the nearest checkpoint that can be restored ends at {restored}, before the common prefix does",
    ), when_measured(behind_restored), _CKPT),
    Signature("restore-failed", ("ckpt_restore_failed", "pc_load_failed"), ("IK-REFUSED", "IK-PC-FAILED"), (
        "a saved state could not be restored",), unproved=NO_STATE),
    Signature("identical-prompt", ("need_one",), ("IK-ONE",), (
        "the slot holds the whole prompt; its last token is evaluated for its logits",), held_prompt),
    Signature("identical-prompt", (), (), ("the slot holds all {n_tokens} tokens of the prompt",), same_prompt),
    Signature("edited-prompt", (), (), (
        "the prompt differs from the slot's contents after {lcp} tokens, the slot held {held}",), changed_prompt),
    Signature("lost-prefix", (), (), (
        "the prompt shares {lcp} tokens with the slot, which held {held}: another conversation, or a changed beginning",
    ), lost_beginning),
    Signature("trim-refused", ("companion", "window"), ("IK-TRIM", "IK-SEQ-RM", "IK-WINDOW"), (
        "the memory could not remove the tokens behind the common prefix",),
              unproved="such a line is about a draft model or a compacted window, not about the slot's prefix"),
    Signature("checkpoint-erased", ("ckpt_invalidate",), ("IK-CKPT-ERASE",), (
        "an earlier prompt erased a checkpoint behind the position that it resumed from",),
        removed=removed_checkpoint),
    Signature("checkpoint-evicted", ("ckpt_evict",), ("IK-CKPT-EVICT",), (
        "the slot had its maximum number of checkpoints, and one was erased",), flags=_CKPT,
        removed=removed_checkpoint),
    Signature("entry-evicted", ("pc_evict",), ("IK-PC-UPDATE",), ("an entry left the prompt cache to keep its limit",),
              flags=("-cram",), unproved=NO_TEXT),
    Signature("entry-obsolete", ("pc_obsolete",), ("IK-PC-ALLOC",), (
        "a shorter entry was removed from the prompt cache",), unproved=NO_TEXT),
    Signature("entry-consumed", ("pc_load",), ("IK-PC-HIT", "IK-PC-PEEK", "IK-PC-LOAD"), (
        "an entry left the prompt cache when it was loaded",), unproved=NO_TEXT),
    Signature("entry-not-found", ("pc_search",), ("IK-PC-LOAD",), (
        "no entry of the prompt cache fits better than the slot",), unproved=NO_STATE),
    Signature("cache-disabled", ("no_cache",), ("IK-PC-SAVE",), ("the prompt cache is off",), flags=("-cram",),
              unproved=NO_TEXT),
    Signature("slot-overwritten", ("slot_by_lru", "slot_by_lcp"), ("IK-SLOT-SELECT",), (
        "the slot's conversation was overwritten",), flags=("-np",), unproved=NO_TEXT),
    Signature("slot-cleared", ("cache_clear",), ("IK-SLOT-ERASE",), ("the slots were cleared",), unproved=NO_TEXT),
    Signature("slot-purged", ("kv_full",), ("IK-DECODE", "IK-GIVE-UP"), ("the KV cache is full",), flags=("-c", "-np"),
              unproved=NO_TEXT),
    Signature("context-shift", ("ctx_shift",), ("IK-SHIFT",), ("the context was shifted",), flags=("-c",),
              unproved=NO_TEXT),
    Signature("server-warning", (
        "no_cache", "start_shift", "window", "companion", "pc_load_failed", "ckpt_restore_failed", "kv_full",
        "full_reprocess",
    ), (), (), is_quoted=True),
)
"""Signatures, in the order in which they are named if several apply."""

UNLOGGED: Mapping[str, str] = {
    "IK-CKPT-ON": "not logged: in the lack of lines about created checkpoints",
    "IK-CKPT-CREATE": "not logged: in the lack of a line about a created checkpoint",
    "IK-CKPT-BREAK": "not logged: in the positions of created checkpoints",
    "IK-CKPT-FIRST": "not logged: in the positions of created checkpoints",
    "IK-CKPT-INTERVAL": "not logged: in the positions of created checkpoints",
    "IK-CKPT-CELLS": "not logged: in the answers",
    "IK-ABORT": "not logged: in the tokens that the next request reuses",
    "IK-COMPARE": "not logged: in the selected slot",
    "IK-GRAPH": "not logged: in the answers",
    "IK-MEDIA": "not logged: in the batches, in the created checkpoints, or in the end of the process",
    "IK-PARSER": "not logged: in the end of the process",
    "IK-SYSTEM": "not logged: in the answers",
    "IK-KV": "not logged: in the answers",
    "IK-STATE": "not logged: in the answers",
    "IK-UBATCH": "not logged: in the number of batches",
}
"""Beginnings of rule ids without a line, and where the decision becomes visible."""
