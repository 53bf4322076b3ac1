"""Signatures of llama-server: the lines that show why tokens of a common prefix were evaluated again, and the rules
that no line reports."""

from __future__ import annotations

from typing import Mapping

from cachesim.engines.shared.log_signatures import (
    NO_STATE,
    NO_TEXT,
    SAME_TOKENS,
    Signature,
    behind_refused,
    behind_restored,
    changed_prompt,
    cleared_prefix,
    held_prompt,
    lost_beginning,
    removed_checkpoint,
    same_prompt,
    whole_prefix,
)

_CKPT = ("-ctxcp", "-cms")

SIGNATURES = (
    Signature("no-checkpoint", ("full_reprocess",), ("LC-CKPT-RESET", "LC-CKPT-NEED", "LC-CKPT-PICK"), (
        "no checkpoint can be restored: the lowest pos_min is {nearest}, not below {thold}",
        "no checkpoint ends at or before the {lcp} common tokens",
        "the memory cannot go back to the common prefix, and no checkpoint can be restored",
    ), whole_prefix, (*_CKPT, "--swa-full")),
    Signature("checkpoint-too-late", ("ckpt_restore",), ("LC-CKPT-RESTORE", "LC-CKPT-PICK"), (
        "the nearest checkpoint that can be restored ends at {restored}, before the {lcp} common tokens",
        "the nearest checkpoint that can be restored ends at {restored}, before the common prefix does",
    ), behind_restored, _CKPT),
    Signature("trim-refused", ("trim_failed",), ("LC-TRIM", "LC-RS-RM", "LC-RS-BACK"), (
        "the memory refused to remove the tokens from position {p0} on, so the slot was cleared",
    ), behind_refused),
    Signature("restore-failed", ("ckpt_restore_failed", "pc_load_failed"), (
        "LC-RESTORE-FAIL", "LC-CKPT-UNREAD", "LC-KV-STATE", "LC-PC-FAILED"), ("a saved state could not be restored",),
              unproved=NO_STATE),
    Signature("identical-prompt", ("need_one",), ("LC-NPAST-ONE",), (
        "the slot holds the whole prompt; its last token is evaluated for its logits",), held_prompt),
    Signature("identical-prompt", (), (), ("the slot holds all {n_tokens} tokens of the prompt",), same_prompt),
    Signature("edited-prompt", (), (), (
        "the prompt differs from the slot's contents after {lcp} tokens, the slot held {held}",), changed_prompt),
    Signature("lost-prefix", (), (), (
        "the prompt shares {lcp} tokens with the slot, which held {held}: another conversation, or a changed beginning",
    ), lost_beginning),
    Signature("checkpoint-erased", ("ckpt_invalidate",), ("LC-CKPT-ERASE",), (
        "an earlier prompt erased a checkpoint behind the position that it resumed from",),
        removed=removed_checkpoint),
    Signature("checkpoint-evicted", ("ckpt_evict",), ("LC-CKPT-LIMIT",), (
        "the slot had its maximum number of checkpoints, and one was erased",), flags=("-ctxcp",),
        removed=removed_checkpoint),
    Signature("checkpoint-too-close", ("ckpt_too_close",), ("LC-CKPT-SPACING",), (
        "a checkpoint was erased because another is close",), flags=("-cms",), removed=removed_checkpoint),
    Signature("checkpoint-superseded", ("ckpt_supersede",), ("LC-CKPT-REPLACE",), ("a checkpoint was replaced",),
              unproved=SAME_TOKENS),
    Signature("checkpoint-not-created", ("do_ckpt", "no_ckpt"), (
        "LC-CKPT-CREATE", "LC-CKPT-ON", "LC-CKPT-PERIODIC", "LC-CKPT-BREAK", "LC-CKPT-AFTER", "LC-CKPT-COUNT"),
        ("no checkpoint was created there",), flags=_CKPT, removed=removed_checkpoint),
    Signature("entry-evicted", ("pc_evict", "pc_evict_tokens"), ("LC-PC-UPDATE",), (
        "an entry left the prompt cache to keep its limit",), flags=("-cram",), unproved=NO_TEXT),
    Signature("entry-too-big", ("pc_too_big",), ("LC-PC-ALLOC",), (
        "the conversation is larger than the prompt cache and was not saved",), flags=("-cram",), unproved=NO_TEXT),
    Signature("entry-obsolete", ("pc_obsolete",), ("LC-PC-ALLOC",), (
        "a shorter entry was removed from the prompt cache",), unproved=NO_TEXT),
    Signature("entry-consumed", ("pc_load",), ("LC-PC-LOAD",), ("an entry left the prompt cache when it was loaded",),
              unproved=NO_TEXT),
    Signature("entry-not-found", ("pc_search",), ("LC-PC-LOAD", "LC-PC-ASK"), (
        "no entry of the prompt cache fits better than the slot",), unproved=NO_STATE),
    Signature("cache-disabled", ("no_cache",), ("LC-PC-ASK", "LC-IDLE-SAVE"), ("the prompt cache is off",),
              flags=("-cram",), unproved=NO_TEXT),
    Signature("slot-overwritten", ("slot_by_lru", "slot_by_lcp", "slot_by_id"), ("LC-SLOT-SELECT",), (
        "the slot's conversation was overwritten",), flags=("-np",), unproved=NO_TEXT),
    Signature("slot-cleared", ("slot_clear",), ("LC-CLEAR", "LC-IDLE-SAVE"), ("the slot was cleared",),
              unproved=NO_TEXT),
    Signature("slot-purged", ("slot_purge", "kv_full"), ("LC-IDLE-PURGE", "LC-KV-FULL", "LC-KV-FAIL", "LC-DECODE"), (
        "the slot was cleared to make room in the KV cache",), flags=("-c", "-kvu", "-np"), unproved=NO_TEXT),
    Signature("context-shift", ("ctx_shift",), (
        "LC-SHIFT", "LC-KV-SHIFT", "LC-KV-INDEX", "LC-INDEX-SHIFT", "LC-KV-QUANT",
        "LC-KV-MROPE"), (
        "the context was shifted",),
              flags=("-c",), unproved=NO_TEXT),
    Signature("chunks-moved", ("reuse_chunk",), ("LC-NPAST-REUSE",), ("chunks of the slot were moved",),
              flags=("--cache-reuse",), unproved="moved tokens are reused, not lost"),
    Signature("adapters-changed", ("lora_clear",), ("LC-LORA-CLEAR",), (
        "the request's adapters differ from the slot's, whose tokens were forgotten",), cleared_prefix,
              ("-np", "--lora-scaled")),
    Signature("adapter-invoked", ("alora_cap", "alora_pre"), ("LC-ALORA-CAP", "LC-ALORA-SPLIT"), (
        "tokens from the invocation of an aLoRA on are evaluated with the adapter",), unproved=NO_TEXT),
    Signature("image-evaluated", ("media_encode", "media_decode"), ("LC-MEDIA-ITER", "LC-MEDIA-CKPT"), (
        "an image was evaluated, and no checkpoint was created before the text after it",), unproved=NO_STATE),
    Signature("server-warning", (
        "start_reuse", "reuse_unsupported", "start_seq_rm", "start_idle", "no_cache", "no_ckpt", "pc_too_big",
        "pc_load_failed", "ckpt_restore_failed", "kv_full", "trim_failed", "full_reprocess",
    ), (), (), is_quoted=True),
)
"""Signatures, in the order in which they are named if several apply."""

UNLOGGED: Mapping[str, str] = {
    "LC-ALORA-ONE": "not logged: in the error",
    "LC-LORA-IDS": "not logged: in the error",
    "LC-ALORA-BACK": "not logged: in the answers",
    "LC-LORA-LEAD": "not logged: in the end of the server, or in the iteration of the next slot",
    "LC-VIEW-LEAD": "not logged: in the end of the server",
    **dict.fromkeys(("LC-LORA-SAVE", "LC-LORA-ENTRY", "LC-LORA-FILE"),
                    "not logged: in the reused tokens of the next request"),
    "LC-CHILDREN-COUNT": "not logged: in the reply",
    **dict.fromkeys(("LC-WAIT", "LC-CHILDREN-AT", "LC-FILE-EMPTY", "LC-KV-SHARED"), "not logged: in the error"),
    "LC-LORA-FORGET": "not logged: in the cells that the next prompt finds",
    "LC-TASK-VALID": "not logged: in the error",
    "LC-DISCARD": "not logged: in the error",
    **dict.fromkeys(("LC-TASK-FIRST", "LC-MEDIA-CUT", "LC-MEDIA-LAST", "LC-MEDIA-SIZE", "LC-MEDIA-AGAIN"),
                    "not logged: in the error"),
    "LC-MEDIA-REASON": "not logged: in the checkpoints of the next request",
    "LC-MEDIA-FILE": "not logged: in the error",
    "LC-MEDIA-KV": "not logged: in the error",
    "LC-MEDIA-LORA": "not logged: in the answers",
    "LC-MEDIA-NONCAUSAL": "not logged: in the end of the server",
    "LC-MEDIA-NULL": "not logged: in the end of the server",
    "LC-MEDIA-POS": "not logged: in the position of the next batch",
    "LC-MEDIA-RESUME": "not logged: in the n_past of the restored checkpoint",
    "LC-BATCH-CHECK": "not logged: in the answers",
    "LC-CKPT-NOTE": "not logged: in the checkpoints that are examined",
    "LC-KV-COPY": "not logged: in the answers of further completions",
    "LC-FILE-TORN": "not logged: in the cells of the slot after a refused file, or in the end of the server",
    "LC-FAIL": "not logged: in the reused tokens of the next request of the slot",
    "LC-KV-MASK": "not logged: in the answers",
    "LC-KV-POS": "not logged: in the answers",
    "LC-KV-READ": "not logged: in the answers",
    "LC-KV-TURN": "not logged: in the answers",
    "LC-POOL-READ": "not logged: in the answers",
    "LC-ROWS-READ": "not logged: in the answers of other slots",
    "LC-KV-UNDO": "not logged: in the reused tokens of the next request of the slot",
    "LC-RS-PLANE": "not logged: in the answers after a rejected draft",
    "LC-RM-REFUSED": "not logged: in the removal that fails after it, or in the end of the server",
    "LC-RS-SAVED": "not logged: in the state of a saved conversation",
    "LC-LIST": "not logged: in the reused tokens of the next request of the slot",
    "LC-PROMPT-FIT": "not logged: in the number of evaluated tokens, or the error",
    "LC-RS-SPLIT": "not logged: in the number of batches",
    "LC-RS-TAIL": "not logged: in the end of the server",
    "LC-TRIM-AT": "not logged: in the answers",
    "LC-SLOT-LIKE": "not logged: in the selected slot",
}
"""Beginnings of rule ids without a line, and where the decision becomes visible."""
