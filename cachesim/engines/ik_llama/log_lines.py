"""Log lines of ik_llama.cpp's server about slots, caches and checkpoints, with their meaning.

Lines of the form ``INFO [ function] text | key=value`` have their numbers after the bar; the reader passes them by
these names (``p0``, ``n_past``, ``n_cache_tokens``). Source: ik_llama.cpp examples/server/server-context.cpp,
server-task.cpp (a1e8f94 to 8337e4c).
"""

from __future__ import annotations

from typing import Mapping

from cachesim.engines.ik_llama.log_signatures import SIGNATURES, UNLOGGED
from cachesim.engines.shared.log_grammar import Line, LogGrammar, Meaning, Number, PrintedNumber
from cachesim.engines.shared.log_memory import holds_last_position
from cachesim.engines.shared.log_verdicts import HARMLESS, VERDICTS

_CKPT = "pos_min = {pos_min}, pos_max = {pos_max}"
_AT = f"{_CKPT}, n_tokens = {{n_tokens}}"

LINES = (
    Line("slot_by_lcp", "selected slot by lcp similarity"),
    Line("slot_by_lru", "selected slot by lru"),
    Line("pc_begin", "======== Prompt cache: cache size: {held}, n_keep: {n_keep}, n_discarded_prompt: {discarded}, "
         "cache_ram_n_min: {least}, f_keep: {f_keep}, cache_ram_similarity: {similarity}"),
    Line("pc_begin", "updating prompt cache"),
    Line("pc_save", " - saving prompt with length {n_tokens}, total state size = {mib} MiB"),
    Line("pc_already", " - prompt is already in the cache, skipping"),
    Line("pc_obsolete", " - removing obsolete cached prompt with length {n_tokens}"),
    Line("pc_evict", " - cache size limit reached, removing oldest entry (size = {mib} MiB)"),
    Line("pc_evict", " - cache token limit reached, removing oldest entry (size = {mib} MiB)"),
    Line("pc_search", " - looking for better prompt, base f_keep = {f_keep}, sim = {f_sim}, n_keep = {n_keep}, "
         "n_discarded_prompt = {discarded}"),
    Line("pc_load", " - found better prompt with f_keep = {f_keep}, sim = {f_sim}{}"),
    Line("pc_load_failed", "failed to restore state with size {}"),
    Line("pc_load_failed", "failed to load prompt from cache"),
    Line("pc_no_room", "failed to allocate memory for prompt cache state: {}"),
    Line("pc_no_room", " - cache size limit reduced to {mib} MiB"),
    Line("pc_state", " - cache state: {prompts} prompts, {mib} MiB "
         "(limits: {limit_mib} MiB, {limit_tokens} tokens, {est} est)"),
    Line("pc_entry", "   - prompt {}: {n_tokens} tokens, {discarded} discarded, checkpoints: {checkpoints}, {mib} MiB"),
    Line("pc_took", "prompt cache save took {} ms"),
    Line("pc_took", "prompt cache load took {} ms"),
    Line("launch", "slot is processing task"),
    Line("prefix", "======== Cache: cache_size = {held}, n_past = {n_past}, n_past_prompt = {n_past_prompt}"),
    Line("prefix", "======== Cache: cache_size = {held}, n_past0 = {n_past}, n_past1 = {}, n_past_prompt1 = {}, "
         "n_past2 = {}, n_past_prompt2 = {n_past_prompt}"),
    Line("prefix_differs", "Common part does not match fully"),
    Line("n_past", "n_past = {n_past}, slot.prompt.tokens.size() = {held}, seq_id = {seq_id}, pos_min = {pos_min}"),
    Line("ckpt_restore", f"restored context checkpoint took {{}} ms ({_AT}, n_past = {{n_past}}, size = {{mib}} MiB)"),
    Line("ckpt_restore", f"restored context checkpoint took {{}} ms ({_CKPT}, size = {{mib}} MiB)"),
    Line("ckpt_restore_failed", "failed to restore context checkpoint ({}"),
    Line("ckpt_restore_failed", "{}restore position mismatch: cache pos_max={} != checkpoint pos_max={pos_max} {}"),
    Line("ckpt_restore_failed", "checkpoint rewind to {n_past} was refused; reprocessing from scratch"),
    Line("full_reprocess", "forcing full prompt re-processing due to lack of cache data{}"),
    Line("full_reprocess", "no checkpoint before divergence point - reprocessing from scratch"),
    Line("full_reprocess", "{}: cached sequence diverges at {n_past}/{held} and this model does not support partial KV "
         "reuse - reprocessing from scratch"),
    Line("full_reprocess", "{}: request drafts with more MTP heads than the cached prefix was warmed with - "
         "reprocessing from scratch"),
    Line("ckpt_invalidate", f"erased invalidated context checkpoint ({_CKPT}, size = {{mib}} MiB)"),
    Line("ckpt_invalidate", f"erased invalidated context checkpoint ({_AT}, size = {{mib}} MiB)"),
    Line("ckpt_create", f"created context checkpoint {{n}} of {{max}} ({_AT}, size = {{mib}} MiB, took {{}} ms)"),
    Line("ckpt_create", f"created context checkpoint {{n}} of {{max}} ({_CKPT}, size = {{mib}} MiB, took {{}} ms)"),
    Line("ckpt_evict", f"erasing old context checkpoint ({_CKPT}, size = {{mib}} MiB)"),
    Line("ckpt_evict", f"erasing old context checkpoint ({_AT}, size = {{mib}} MiB)"),
    Line("need_one", "we have to evaluate at least 1 token to generate logits"),
    Line("batch", "kv cache rm [p0, end)", needs="p0"),
    Line("companion", "MTP companion ctx out-of-sync at p0={p0}; wiping companion only, primary cache preserved"),
    Line("window", "--swa-compress cannot rewind to position {p0}: the compacted window starts at {pos_min}{}"),
    Line("spec_ckpt", "spec checkpoint saved (mode={}), n_past_pre_spec={n_past}"),
    Line("ctx_shift", "slot context shift{}"),
    Line("prompt_time", "prompt eval time = {prompt_ms} ms / {prompt_n} tokens{}"),
    Line("eval_time", "generation eval time = {} ms / {predicted_n} runs{}"),
    Line("eval_time", "eval time = {} ms / {predicted_n} tokens{}"),
    Line("total_time", "total time = {} ms / {total} tokens{}"),
    Line("total_time", "total time = {} ms{}"),
    Line("release", "slot released"),
    Line("idle", "all slots are idle"),
    Line("slot_data", "slot data"),
    Line("no_slot", "no slot is available"),
    Line("no_slot", "requested slot is unavailable"),
    Line("empty", "empty prompt - releasing slot"),
    Line("cut_off", "input truncated"),
    Line("no_cache", "cache_prompt is not supported with group-attention"),
    Line("in_full", "prompt processing progress", needs="n_past"),
    Line("in_full", "prompt tokenized"),
    Line("in_full", "prompt done"),
    Line("media_encode", "processing image..."),
    Line("media_decode", "decoding image batch {n}/{of}, n_tokens_batch = {n_tokens}"),
    Line("media_failed", "failed to process image, res = {}"),
    Line("cache_clear", "clearing KV cache"),
    Line("cache_clear", "hotswap: tensors reloaded; KV cache and cached prompts cleared"),
    Line("kv_full", "failed to find free space in the KV cache, retrying with smaller batch size{}"),
    Line("kv_full", "failed to decode the batch: KV cache is full{}"),
    Line("drafts", "draft acceptance rate = {rate} ({accepted} accepted / {drafted} generated)"),
    Line("server", "initializing slots"),
    Line("server", "new slot"),
    Line("server", "llama_new_context_with_model: n_ctx = {n_ctx}"),
    Line("server", "llama_new_context_with_model: n_batch = {n_batch}"),
    Line("server", "llama_new_context_with_model: n_ubatch = {n_ubatch}"),
    Line("memory_part", "llama_kv_cache_init: {} KV buffer size = {mib} MiB"),
    Line("memory_part", "llama_new_context_with_model: KV self size = {mib} MiB, {}"),
    Line("compared", "Exclude reasoning tokens when selecting slot based on similarity: start: {}, end: {}"),
    Line("compared", "Include reasoning tokens when selecting slot based on similarity"),
    Line("start_cache", "prompt cache is enabled, size limit: {limit_mib} MiB"),
    Line("start_cache", "prompt cache is enabled, size limit: no limit"),
    Line("start_cache", "use `--cache-ram 0` to disable the prompt cache"),
    Line("no_cache", "prompt cache is disabled - use `--cache-ram N` to enable it"),
    Line("no_cache", "prompt cache is disabled because this model has private state outside the generic KV cache"),
    Line("no_cache", "context checkpoints and prompt cache are disabled for openPangu while MTP is enabled{}"),
    Line("start_shift", "ctx_shift is not supported by {}"),
    Line("start_shift", "cache_reuse is not supported by multimodal, it will be disabled"),
)

CLIENT = "the client sent another prompt than before: reasoning removed, a date or an id in it, tools in another order"
OPTION_FIELDS = {"max": "ctx_checkpoints", "n_slots": "parallel", "n_batch": "batch_size", "n_ubatch": "ubatch_size",
        "limit_mib": "cache_ram"}  # fmt: skip
"""Name of a logged number -> option."""
_FLAGS = ("--ctx-checkpoints", "--ctx-checkpoints-interval")

MEANINGS: Mapping[str, Meaning] = {
    "slot_by_lcp": Meaning("the slot whose tokens share most with the prompt was selected",
                           flags=("-sps",), rules=("IK-SLOT",)),
    "slot_by_lru": Meaning("the slot used least recently was selected",
                           causes=("more conversations than slots",), flags=("-np",), rules=("IK-SLOT",)),
    "pc_begin": Meaning(
        "the prompt cache in host memory is searched; f_keep = share of the slot's tokens that the new prompt keeps",
        flags=("-cram", "-crs", "-cram-n-min"), rules=("IK-PC",)),
    "pc_save": Meaning("the slot's conversation is saved to the prompt cache", flags=("-cram",), rules=("IK-PC",)),
    "pc_already": Meaning("an entry of the prompt cache already holds this conversation", rules=("IK-PC",)),
    "pc_obsolete": Meaning("a shorter entry is removed: the conversation that is saved now begins with it",
                           rules=("IK-PC",)),
    "pc_evict": Meaning("the oldest entry of the prompt cache is removed to keep its limit",
                        causes=("a small limit",), flags=("-cram",), rules=("IK-PC",)),
    "pc_search": Meaning("the prompt cache is searched for an entry that fits better than the slot",
                         flags=("-cram",), rules=("IK-PC",)),
    "pc_load": Meaning("the best entry is loaded into the slot and leaves the prompt cache",
                       flags=("-cram",), rules=("IK-PC",)),
    "pc_load_failed": Meaning("a saved state did not fit; the slot begins empty", flags=("-c",)),
    "pc_state": Meaning("contents and limits of the prompt cache", flags=("-cram",)),
    "pc_entry": Meaning("an entry of the prompt cache"),
    "pc_took": Meaning("saving or loading took this long"),
    "launch": Meaning("a request starts in this slot"),
    "prefix": Meaning(
        "the slot holds cache_size tokens, n_past of them agree with the prompt, which is n_past_prompt of its "
        "own tokens (the two differ where texts agree and tokens do not)",
        causes=(CLIENT,), rules=("IK-PREFIX",)),
    "prefix_differs": Meaning("slot and prompt differ here; tokens around the place follow",
                              causes=(CLIENT,), rules=("IK-PREFIX",)),
    "n_past": Meaning(
        "the prompt shares n_past tokens with the slot, which holds `held`; pos_min = first position still in "
        "memory. A recurrent state has only its end, so a checkpoint must be found",
        causes=(CLIENT,), rules=("IK-CKPT",)),
    "ckpt_restore": Meaning("this checkpoint is restored; the tokens after it are evaluated again",
                            causes=(CLIENT,), flags=_FLAGS, rules=("IK-CKPT",)),
    "ckpt_restore_failed": Meaning("a checkpoint could not be restored; the prompt is evaluated from its start",
                                   rules=("IK-CKPT",)),
    "full_reprocess": Meaning(
        "no checkpoint lies at or before the point where the prompts differ: n_past = 0, the whole prompt is "
        "evaluated",
        causes=(CLIENT, "checkpoints were erased or are too far apart"), flags=_FLAGS, rules=("IK-CKPT",)),
    "ckpt_invalidate": Meaning("a checkpoint after the position of the restart is erased", rules=("IK-CKPT",)),
    "ckpt_create": Meaning("the state is saved as checkpoint n of max: positions pos_min to pos_max",
                           flags=_FLAGS, rules=("IK-CKPT",)),
    "ckpt_evict": Meaning("the slot has its full number of checkpoints; one is erased",
                          flags=(*_FLAGS, "--ctx-checkpoints-eviction"), rules=("IK-CKPT",)),
    "need_one": Meaning("the whole prompt is in the slot; its last token is evaluated again"),
    "batch": Meaning("evaluation continues at position p0; the first such line of a request shows how much was reused",
                     rules=("IK-TRIM",)),
    "companion": Meaning("the draft model's memory could not follow the removal and was cleared; drafts may be worse",
                         rules=("IK-TRIM",)),
    "window": Meaning("the compacted window of --swa-compress begins after the common prefix: all is evaluated again",
                      flags=("--swa-compress",)),
    "spec_ckpt": Meaning("the state is saved before drafted tokens are verified",
                         flags=("--spec-ckpt-mode",), rules=("IK-SPEC",)),
    "ctx_shift": Meaning("the context is full and loses its middle; answers differ from a cold run",
                         flags=("--context-shift", "-c"), rules=("IK-SHIFT",)),
    "prompt_time": Meaning("prompt_n prompt tokens were evaluated; the rest of the prompt was reused"),
    "eval_time": Meaning("predicted_n tokens were generated"),
    "total_time": Meaning("the request's time"),
    "release": Meaning("the request is over; n_cache_tokens = tokens now in the slot"),
    "idle": Meaning("no slot is processing"),
    "slot_data": Meaning("how many slots are idle and how many are processing", flags=("-np",)),
    "no_slot": Meaning("every slot is busy; the request waits", flags=("-np",)),
    "empty": Meaning("the prompt has no tokens; nothing is evaluated"),
    "cut_off": Meaning("the prompt is longer than the slot's context and loses its middle, a different part each time",
                       causes=("a context that is too small",), flags=("-c",)),
    "in_full": Meaning("n_past = tokens of the prompt that are in the slot by now (only with -v)"),
    "media_encode": Meaning("the image at which the prompt continues is encoded", flags=("--mmproj",)),
    "media_decode": Meaning("a part of an image is evaluated, before the batch of text", flags=("--mmproj",),
                            rules=("IK-MEDIA-ITER",)),
    "media_failed": Meaning("an image was not evaluated; the slot tries it again", flags=("--mmproj", "-c"),
                            rules=("IK-MEDIA-KV",)),
    "cache_clear": Meaning("the contents of all slots are cleared"),
    "kv_full": Meaning("the batch finds no free rows: it is tried in smaller pieces, or ends with an error",
                       causes=("more tokens in all slots than the context has",), flags=("-c", "-np")),
    "drafts": Meaning("drafted and accepted tokens of the request"),
    "server": Meaning("sizes of the server: slots, tokens a slot may hold (n_ctx_slot), batch, micro-batch",
                      flags=("-np", "-c", "-b", "-ub")),
    "memory_part": Meaning("the size of the rows of attention layers, of all or on one device",
                           flags=("-c", "-ctk", "-ctv")),
    "compared": Meaning("whether reasoning counts when slot and prompt are compared", rules=("IK-PREFIX",)),
    "start_cache": Meaning("the prompt cache and its limit", flags=("-cram",)),
    "pc_no_room": Meaning("there was no memory for an entry of the prompt cache; its limit becomes smaller",
                          flags=("-cram",), rules=("IK-PC",)),
    "no_cache": Meaning("the prompt cache is off: the content of an overwritten slot is lost", flags=("-cram",)),
    "start_shift": Meaning("a flag has no effect with this model's memory", flags=("--context-shift",)),
}


def options(facts: Mapping[str, Number | str]) -> dict[str, Number | str]:
    """Return the server options that these logged numbers determine."""
    found = {name: facts[field] for field, name in OPTION_FIELDS.items() if field in facts}
    needed = facts.get("needed", 0)
    slots = facts.get("n_slots", 1)
    n_ctx = facts.get("n_ctx")
    if isinstance(n_ctx, int):
        found["ctx_size"] = n_ctx
    elif isinstance(needed, int) and isinstance(slots, int):
        found["ctx_size"] = max(4096, 2 << (needed * slots).bit_length())
    return found


GIVES = (
    PrintedNumber("prompt_time", "prompt_n", ("prompt_n",)),
    PrintedNumber("eval_time", "predicted_n", ("predicted_n",)),
    PrintedNumber("prefix", "lcp", ("n_past",)),
    PrintedNumber("prefix", "held", ("held",)),
    PrintedNumber("prefix", "n_tokens", ("n_past_prompt",), beside=("need_one",)),
    PrintedNumber("prefix", "n_tokens", ("n_past_prompt",), bound="least"),
    PrintedNumber("full_reprocess", "held", ("held",)),
    PrintedNumber("full_reprocess", "lcp", ("n_past",)),
    PrintedNumber("n_past", "held", ("held",)),
    PrintedNumber("n_past", "lcp", ("n_past",), plus=1),
    PrintedNumber("batch", "cache_n", ("p0",), first=True),
    PrintedNumber("batch", "cache_n", ("p0",), bound="most"),
    PrintedNumber("ckpt_restore", "lcp", ("n_past", "pos_max"), bound="least"),
    PrintedNumber("release", "end", ("n_cache_tokens",)),
)
"""Numbers of a request that lines print. Its first batch shows best what was reused: a restored state may be dropped
without a line, and builds #1673 to #1698 reuse the prefix although they report full re-processing. A batch begins after
the reused tokens, and a restored checkpoint ends within the common prefix. A prompt has all shared tokens, and
no others if a line says that its last token must be evaluated; not all builds print that line."""

FLAGS = {
    ("ckpt_create", "max"): "ctx_checkpoints", ("start_cache", "limit_mib"): "cache_ram",
    ("server", "n_slots"): "parallel",
}
"""Printed numbers that are values of options."""

WARNINGS = frozenset({"full_reprocess", "pc_load_failed", "ckpt_restore_failed", "kv_full", "pc_no_room", "cut_off",
                      "media_failed", "window", "companion", "start_shift", "cache_clear"})  # fmt: skip
"""Kinds of line that warn of lost tokens, of a flag without effect, or of an error."""


def memory(numbers: Mapping[str, Number | str]) -> str:
    """Return what the positions in a line show that the memory allows. Without recurrent layers the server prints the
    position in the first cell as the first position, which may be any: only a checkpoint shows both ends."""
    return "none" if "pos_max" in numbers and holds_last_position(numbers) else ""


GRAMMAR = LogGrammar(LINES, MEANINGS, memory=memory, signs=(
    "apply_checkp", "batch_pending_prompt", "launch_slot_with_task", "======== ", "tid=",
    "restored context checkpoint took", "MiB, took ",
), words=("task error id_multi=",), common=frozenset({"cut_off", "in_full", "media_encode", "release", "total_time"}),
    starts=("build info", "system info", "initializing slots", "main: "), options=options, gives=GIVES, flags=FLAGS,
    warnings=WARNINGS, verdicts=VERDICTS, harmless=HARMLESS, is_sim_symmetric=True,
    end_slack=1, same_tokens=("prefix", "n_past", "n_past_prompt"), signatures=SIGNATURES, unlogged=UNLOGGED,
    end=5)  # fmt: skip
