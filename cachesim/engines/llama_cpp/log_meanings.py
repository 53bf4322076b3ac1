"""Meanings of llama-server's log lines: their numbers, usual causes, related flags and rules.

The kinds are those of `log_lines`. `cachesim explain` looks up the rule families.
"""

from __future__ import annotations

from typing import Mapping

from cachesim.engines.shared.log_grammar import Meaning

CLIENT = "the client sent another prompt than before: reasoning removed, a date or an id in it, tools in another order"
SHARED = "several conversations take turns in one slot"

MEANINGS: Mapping[str, Meaning] = {
    "slot_by_id": Meaning("the request names its slot (id_slot); no similarity was computed",
        flags=("-np",), rules=("LC-SLOT-SELECT",)),
    "slot_skip_busy": Meaning("a slot is not considered: it is processing another request",
        flags=("-np",), rules=("LC-SLOT-SELECT",)),
    "slot_skip_empty": Meaning("a slot is not considered for similarity: it holds no tokens",
        rules=("LC-SLOT-SELECT",)),
    "slot_sim": Meaning("similarity of a slot: f_sim = common prefix / prompt length; it is a candidate above the "
        "threshold", flags=("-sps",), rules=("LC-SLOT-SELECT",)),
    "slot_by_lcp": Meaning("the slot with the longest common prefix was selected; f_sim (sim_best) = common prefix / "
        "prompt length, f_keep = common prefix / tokens in the slot. f_keep below 1 means that the prompt does not "
        "simply extend what the slot holds",
        causes=(CLIENT, SHARED), flags=("-sps", "-np"), rules=("LC-SLOT-SELECT",)),
    "slot_by_lru": Meaning("no free slot shares enough of the prompt, so the least recently used slot was selected; "
        "t_last = -1: never used. Its contents are saved to the prompt cache, if enabled, and overwritten",
        causes=("the first request of a conversation", "more conversations than slots", CLIENT),
        flags=("-np", "-sps", "-cram"), rules=("LC-SLOT-SELECT", "LC-PC-ASK")),
    "no_slot": Meaning("every slot is busy; the request waits", flags=("-np",), rules=("LC-SLOT-SELECT",)),
    "launch": Meaning("a request starts in this slot", rules=("LC-TASK",)),
    "release": Meaning("the request is over; n_tokens = tokens now in the slot, prompt and answer (without the last "
        "generated token); truncated = 1: the context was shifted or full",
        flags=("-c",), rules=("LC-END",)),
    "idle": Meaning("no slot is processing; nothing happens until the next request"),
    "pc_begin": Meaning("the prompt cache in host memory is used: the slot's conversation is saved, then the cache is "
        "searched for an entry that fits the new prompt better", flags=("-cram",), rules=("LC-PC-ASK",)),
    "pc_save": Meaning("the slot's conversation of n_tokens tokens is saved to the prompt cache, with its checkpoints",
        flags=("-cram",), rules=("LC-PC-ALLOC",)),
    "pc_already": Meaning("an entry of the prompt cache already holds this conversation", rules=("LC-PC-ALLOC",)),
    "pc_too_big": Meaning("the conversation's state is larger than the whole prompt cache and is not saved",
        causes=("checkpoints count, too: many checkpoints make an entry large",), flags=("-cram", "-ctxcp"),
        rules=("LC-PC-ALLOC",)),
    "pc_obsolete": Meaning("a shorter entry is removed: it is a prefix of the conversation that is saved now",
        rules=("LC-PC-ALLOC",)),
    "pc_evict": Meaning("the oldest entry of the prompt cache is removed to keep its size limit; that conversation "
        "will be evaluated from its start when it returns",
        causes=("the limit is too small for the conversations in use",), flags=("-cram", "-ctxcp"),
        rules=("LC-PC-UPDATE", "LC-PC-ALLOC")),
    "pc_evict_tokens": Meaning("the oldest entry is removed because the entries together hold more tokens than the "
        "limit (est: the size limit divided by the mean size of a token)",
        flags=("-cram", "-c"), rules=("LC-PC-UPDATE",)),
    "pc_search": Meaning("the prompt cache is searched for an entry that fits better than the slot's contents; base = "
        "the slot's own f_keep and similarity (-1: the slot is empty)", flags=("-cram",), rules=("LC-PC-LOAD",)),
    "pc_cand": Meaning("an entry of n_tokens tokens shares lcp tokens with the prompt; it becomes the best entry only "
        "if both numbers are better than the best so far", rules=("LC-PC-LOAD",)),
    "pc_load": Meaning("the best entry is loaded into the slot; it is moved, so it leaves the prompt cache",
        flags=("-cram",), rules=("LC-PC-LOAD",)),
    "pc_load_failed": Meaning("a saved state did not fit into the KV cache; the slot starts empty",
        causes=("a unified cache filled by other slots",), flags=("-c", "-kvu"),
        rules=("LC-RESTORE-FAIL", "LC-KV-STATE")),
    "pc_state": Meaning("prompt cache contents and limits; est = tokens that fit at the mean size of a token",
        flags=("-cram",), rules=("LC-PC-UPDATE",)),
    "pc_entry": Meaning("an entry of the prompt cache: its tokens, checkpoints and size", flags=("-cram", "-ctxcp")),
    "pc_took": Meaning("saving and loading took this long"),
    "idle_save": Meaning("idle slots are saved to the prompt cache when a request starts in another slot",
        flags=("--cache-idle-slots",), rules=("LC-IDLE-SAVE",)),
    "slot_clear": Meaning("the slot's tokens and its memory are cleared",
        causes=("its state was saved as an idle slot", "a removal was refused (the line before)"),
        rules=("LC-CLEAR", "LC-TRIM", "LC-IDLE-SAVE")),
    "slot_purge": Meaning("the KV cache is full: an idle slot is cleared to make room, and its conversation is lost "
        "unless it was saved",
        causes=("a unified cache too small for the slots' conversations",), flags=("-c", "-kvu", "-np"),
        rules=("LC-IDLE-PURGE", "LC-KV-FULL")),
    "new_prompt": Meaning("a prompt of n_tokens tokens (n_prompt_tokens) starts; n_ctx_slot = context of a slot"),
    "n_past": Meaning("the prompt shares n_past tokens with the slot, which holds `held` tokens "
        "(slot.prompt.tokens.size()). pos_min = first position that the memory still holds: 0 with full attention, "
        "the end for a recurrent state, the end minus the window for SWA. If pos_min is after the position that n_past "
        "needs, a checkpoint must be restored",
        causes=(CLIENT,), rules=("LC-CKPT-NEED", "LC-NPAST-LCP")),
    "in_cache": Meaning("n_past tokens of the prompt are in the slot, the rest is evaluated", rules=("LC-NPAST-LCP",)),
    "reuse_chunk": Meaning("a block after the common prefix is moved to a new position instead of being evaluated. "
        "The answer differs from a cold run: its rows were computed after different tokens",
        flags=("--cache-reuse",), rules=("LC-NPAST-REUSE",)),
    "reuse_result": Meaning("tokens reused after blocks were moved",
        flags=("--cache-reuse",), rules=("LC-NPAST-REUSE",)),
    "reuse_unsupported": Meaning("this memory cannot shift positions, --cache-reuse has no effect",
        flags=("--cache-reuse",), rules=("LC-NPAST-REUSE",)),
    "ckpt_check": Meaning("the checkpoint [pos_min, pos_max] is examined, newest first; it can be restored only if "
        "its pos_min is below the number after `against` (pos_min_thold: what the common prefix needs)",
        causes=(CLIENT,), flags=("-ctxcp", "-cms"), rules=("LC-CKPT-PICK",)),
    "ckpt_restore": Meaning("evaluation continues from this checkpoint: n_past tokens are reused, all later tokens are "
        "evaluated",
        causes=(CLIENT,), flags=("-ctxcp", "-cms"), rules=("LC-CKPT-PICK", "LC-CKPT-RESTORE")),
    "ckpt_restore_failed": Meaning("a checkpoint could not be restored; the prompt is evaluated from its start",
        rules=("LC-RESTORE-FAIL", "LC-CKPT-UNREAD")),
    "full_reprocess": Meaning("the slot shares a prefix with the prompt, but its memory cannot go back to it and no "
        "checkpoint lies at or before it: n_past = 0, the whole prompt is evaluated",
        causes=(CLIENT, "no checkpoint was created before the point where the prompts differ: checkpoints are created "
                "near the end of each prompt, and old ones are erased", "the number of checkpoints is 0"),
        flags=("-ctxcp", "-cms", "--swa-full"), rules=("LC-CKPT-RESET", "LC-CKPT-PICK", "LC-CKPT-NEED")),
    "ckpt_invalidate": Meaning("a checkpoint after the point where evaluation continues (pos_next) is erased: it "
        "belongs to the old continuation", rules=("LC-CKPT-ERASE",)),
    "need_one": Meaning("the whole prompt is in the slot; its last token is re-evaluated, because its logits are "
        "needed", rules=("LC-NPAST-ONE",)),
    "too_long": Meaning("the prompt does not fit into the slot's context and is refused (400)",
        causes=("a context divided by the number of slots",), flags=("-c", "-np", "--context-shift")),
    "assertion": Meaning("a condition of the source code does not hold; the process of the server ends, and all its "
        "caches are lost"),
    "no_pos_min": Meaning("the memory of a slot is empty although the slot has tokens; the server aborts",
        causes=("a failed restore, or rows purged by another slot",), rules=("LC-CKPT-NEED",)),
    "trim_failed": Meaning("the memory refuses to remove the end of the slot's tokens (seq_rm), so it is cleared and "
        "the whole prompt is evaluated",
        causes=("a recurrent state cannot be rolled back",), rules=("LC-TRIM", "LC-RS-RM")),
    "prompt_size": Meaning("the prompt has n_tokens tokens; generation starts"),
    "spans": Meaning("start of the last user message; a checkpoint is due there", rules=("LC-MARKS",)),
    "batch": Meaning("evaluation continues at position p0; the first such line of a request shows how much of the "
        "prompt was reused. The memory removes all rows from this position on",
        rules=("LC-TRIM",)),
    "progress": Meaning("progress of a prompt. done = tokens of it that are evaluated, which newer builds print as "
                        "n_tokens; n_tokens here = tokens in the slot, with reused ones; share = part of the prompt "
                        "in the slot, done_share = evaluated part"),
    "prompt_done": Meaning("the rest of the prompt is in the batch; generation starts"),
    "do_ckpt": Meaning("whether a checkpoint is created before this batch",
        flags=("-ctxcp", "-cms"), rules=("LC-CKPT-CREATE",)),
    "ckpt_create": Meaning("the state before this batch is saved as checkpoint n of max: n_tokens tokens, positions "
        "pos_min to pos_max", flags=("-ctxcp", "-cms", "-ub"), rules=("LC-CKPT-CREATE",)),
    "ckpt_every": Meaning("a periodic checkpoint in a long prompt",
        flags=("-cms",), rules=("LC-CKPT-PERIODIC", "LC-CKPT-CREATE")),
    "ckpt_too_close": Meaning("a checkpoint is erased because another is closer than the minimum distance",
        flags=("-cms",), rules=("LC-CKPT-SPACING",)),
    "ckpt_evict": Meaning("the slot has its maximum number of checkpoints; the oldest is erased. A prompt that differs "
        "before the oldest remaining checkpoint is evaluated from its start",
        causes=("many turns, or a small limit",), flags=("-ctxcp", "-cms"), rules=("LC-CKPT-LIMIT",)),
    "ckpt_supersede": Meaning("a checkpoint of the same number of tokens is replaced", rules=("LC-CKPT-REPLACE",)),
    "copy_shared": Meaning("the shared prompt is evaluated once and copied to the further completions (n_cmpl)",
        rules=("LC-SHARED",)),
    "copy_to_child": Meaning("state and tokens are copied to a further completion of the same request",
        rules=("LC-SHARED",)),
    "kv_full": Meaning("too few free cells in the KV cache for this batch; the server retries with half of it, then "
        "purges idle slots",
        causes=("a unified cache that is too small",), flags=("-c", "-kvu", "-np"), rules=("LC-KV-FULL", "LC-KV-FAIL")),
    "positions_bad": Meaning("a batch is refused before evaluation: its first position Y does not follow X, the last "
        "position that the memory holds for the sequence (Y must be X + 1; with M-RoPE larger than X). llama_decode "
        "returns -1",
        causes=("the memory kept or lost tokens that the server did not count: a refused removal, a failed restore",
                "rejected drafts that could not be removed"), rules=("LC-TRIM",)),
    "spec_ckpt": Meaning("the state before the drafted tokens is saved, for a memory that cannot be rolled back",
        rules=("LC-SPEC-CKPT",)),
    "spec_restore": Meaning("drafted tokens were rejected: the state before them is restored",
        rules=("LC-SPEC-CKPT", "LC-SPEC-REPLAY")),
    "spec_step": Meaning("number of accepted tokens of a draft", rules=("LC-SPEC-ACCEPT",)),
    "spec_failed": Meaning("the draft context could not evaluate its batch"),
    "drafts": Meaning("drafted and accepted tokens of the request"),
    "ctx_shift": Meaning("the context is full: n_discard tokens after the first n_keep are discarded and the rest "
        "moves. Rows still depend on the discarded tokens: answers differ from a cold run",
        flags=("-c", "--context-shift"), rules=("LC-SHIFT",)),
    "cancel": Meaning("the client disconnected", rules=("LC-TASK",)),
    "prompt_time": Meaning("prompt_n prompt tokens were evaluated; the rest of the prompt was reused (cache_n)"),
    "eval_time": Meaning("predicted_n tokens were generated"),
    "total_time": Meaning("total time and tokens of the request"),
    "ckpt_append": Meaning("checkpoints are saved with the slot file",
        flags=("--slot-save-path",), rules=("LC-SLOT-FILE",)),
    "ckpt_from_file": Meaning("checkpoints are restored with the slot file",
        flags=("--slot-save-path",), rules=("LC-SLOT-FILE",)),
    "reuse_try": Meaning("blocks of at least n tokens after the common prefix are searched for that occur again "
        "(--cache-reuse)", flags=("--cache-reuse",), rules=("LC-NPAST-REUSE",)),
    "cut_off": Meaning("the prompt is longer than the slot's context and loses its middle, a different part each time",
        causes=("a context that is too small",), flags=("-c",)),
    "ckpt_file_bad": Meaning("checkpoints of a slot file were not written or not read: a prompt after a restore may be "
        "evaluated from its start", flags=("--slot-save-path",), rules=("LC-SLOT-FILE",)),
    "lora_clear": Meaning("the request has other adapters than the slot's last one, so the slot's tokens and "
        "checkpoints are forgotten, without being saved",
        causes=("requests with other adapters take turns in one slot",), flags=("-np", "--lora-scaled"),
        rules=("LC-LORA-CLEAR",)),
    "lora_keep": Meaning("the adapters differ, but only those that their invocation tokens activate (aLoRA): the slot "
        "is kept", rules=("LC-LORA-CLEAR",)),
    "lora_set": Meaning("POST /lora-adapters set the scale of an adapter, for requests without a list of their own",
        rules=("LC-LORA-LIST",)),
    "alora_start": Meaning("the invocation tokens of an aLoRA begin at this token of the prompt; it is on from the "
        "token before", rules=("LC-ALORA-SCAN",)),
    "alora_absent": Meaning("the prompt lacks the invocation tokens of an aLoRA, which is off for this request",
        rules=("LC-ALORA-SCAN",)),
    "alora_cap": Meaning("only tokens before the invocation of the aLoRA are reused", rules=("LC-ALORA-CAP",)),
    "alora_pre": Meaning("the tokens before the invocation are evaluated without the aLoRA", rules=("LC-ALORA-SPLIT",)),
    "alora_stop": Meaning("the batch ends before the invocation of the aLoRA", rules=("LC-ALORA-SPLIT",)),
    "alora_again": Meaning("the aLoRA is on again after the tokens before its invocation",
                           rules=("LC-ALORA-SPLIT", "LC-ALORA-BACK")),
    "media_encode": Meaning("images from this token of the prompt on are encoded", flags=("--mmproj",)),
    "media_decode": Meaning("a part of an image is evaluated, before the batch of text", flags=("--mmproj",),
        rules=("LC-MEDIA-ITER",)),
    "media_failed": Meaning("an image could not be evaluated, and its request ends with an error (500). No idle slot "
        "is emptied for an image, even if that would make room",
        causes=("a memory that is too small",), flags=("-c", "-np"), rules=("LC-MEDIA-KV",)),
    "start_media": Meaning("with a projector for images this flag has no effect, also for requests without an image",
        flags=("--mmproj", "--context-shift", "--cache-reuse"), rules=("LC-MEDIA-OFF",)),
    "at_end": Meaning("the slot is full; the answer ends here", flags=("-c",), rules=("LC-END",)),
    "kv_gap": Meaning("positions of a sequence have a gap, as after an image or a context shift"),
    "cache_clear": Meaning("all slots lose their contents"),
    "pc_no_room": Meaning("an entry of the prompt cache could not be allocated; the size limit is lowered",
        flags=("-cram",), rules=("LC-PC-ALLOC",)),
    "generating": Meaning("number of tokens generated so far"),
    # Facts logged at startup.
    "server": Meaning("sizes of the server: slots, context of a slot (n_ctx_slot, n_ctx_seq), batch, micro-batch, "
        "window (n_swa); or its memory: index rows (dsa, dsa_iswa, msa, hybrid_idx), compressed rows (dsv4)",
        flags=("-np", "-c", "-kvu", "-b", "-ub"), rules=("LC-SLOT-CTX",)),
    "memory": Meaning("a part of the memory: rows of attention layers (llama_kv_cache) or recurrent states",
        flags=("-c", "-np")),
    "start_cache": Meaning("the prompt cache and its limit", flags=("-cram",)),
    "no_limit": Meaning("the prompt cache has no limit", flags=("-cram",)),
    "no_cache": Meaning("the prompt cache is off: an overwritten slot is lost", flags=("-cram",)),
    "no_ckpt": Meaning("checkpoints are switched off", flags=("-ctxcp",)),
    "start_ckpt": Meaning("checkpoints, their number and distance", flags=("-ctxcp", "-cms")),
    "start_seq_rm": Meaning("whether this model's memory can remove a part of a sequence; if not, only a checkpoint "
        "can go back", rules=("LC-RS-RM",)),
    "start_idle": Meaning("idle slots are saved only with a unified cache",
        flags=("--cache-idle-slots", "-kvu"), rules=("LC-IDLE-SAVE",)),
    "start_reuse": Meaning("this model's memory cannot shift positions, --cache-reuse has no effect",
        flags=("--cache-reuse",)),
    "version": Meaning("the build of the server"),
    "verbosity": Meaning("the log level: 3 is the default, 4 adds checkpoints and the prompt cache",
        flags=("-lv",)),
    "memory_part": Meaning("size of a part of the memory on one device: rows of attention layers, of window layers, or "
        "states", flags=("-c", "-np", "-ctk", "-ctv")),
    "capped": Meaning("context of a slot, and the limit that determines it", flags=("-c", "-np", "-kvu")),
    "no_drafts": Meaning("this server drafts no tokens"),
}
