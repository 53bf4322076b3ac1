"""Log lines about slots, caches and checkpoints of every llama-server build that has a rule set.

``GRAMMAR`` combines the lines, their meanings and the options that follow from them, to read a pasted log. Lines of
recorded builds are in `log_events.EVENTS`. This module adds older spellings of these events, and lines that are not
recorded as events: timings, progress, startup, errors. Source: llama.cpp tools/server/server.cpp, later
server-context.cpp, server-task.cpp, and logs in public threads.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from math import isfinite
from typing import Mapping, Sequence

from cachesim.engines.llama_cpp import log_others
from cachesim.engines.llama_cpp.log_events import EVENTS, OLDER_SPELLINGS
from cachesim.engines.llama_cpp.log_events import START as FACTS
from cachesim.engines.llama_cpp.log_meanings import MEANINGS
from cachesim.engines.llama_cpp.log_signatures import SIGNATURES, UNLOGGED
from cachesim.engines.llama_cpp.log_totals import totals
from cachesim.engines.llama_cpp.log_verdicts import FATAL, ORDINARY, VERDICTS, WARNINGS
from cachesim.engines.shared.log_grammar import Line, LogGrammar, Number, PrintedNumber, PromptHint
from cachesim.engines.shared.log_memory import holds_last_position, lacks_first_positions
from cachesim.engines.shared.log_verdicts import HARMLESS

_ENDS = "pos_min = {pos_min}, pos_max = {pos_max}"
_SWA = f"{_ENDS}, size = {{mib}} MiB"
_END = f"{_ENDS}, pos_end = {{pos_end}}, n_tokens = {{n_tokens}}"

LINES = (
    Line("slot_by_lru", "selected slot by LRU, t_last = {t_last}"),
    Line("cancel", "cancel task, id_task = {id_task}"),
    *EVENTS, *OLDER_SPELLINGS, *FACTS, *log_others.OTHERS,
    # Slot selection, launch and release.
    Line("slot_by_lcp", "selected slot by LCP similarity, f_sim = {f_sim} (> {thold} thold), f_keep = {f_keep}"),
    Line("slot_by_lcp", "selected slot by lcs similarity, lcs_len = {lcp}, similarity = {f_sim} (> {thold} thold)"),
    Line("slot_by_lcp", "selected slot by lcs similarity, lcs_len = {lcp}, similarity = {f_sim}"),
    Line("slot_by_lcp", "selected slot by lcp similarity"),
    Line("slot_by_lcp", "selected slot by lcs similarity"),
    Line("slot_by_lru", "selected slot by LRU"),
    Line("launch", "processing task"), Line("launch", "slot is processing task", until=3600),
    Line("launch", "slot {slot} is processing [task id: {task}]", until=3000),
    Line("no_slot", "slot unavailable"),
    Line("no_slot", "no slot is available, defer task, id_task = {}"),
    Line("no_slot", "requested slot is unavailable, defer task, id_task = {}"),
    Line("no_slot", "not enough free slots for child tasks, {}"),
    Line("release", "stop processing: n_past = {n_tokens}, truncated = {truncated}"),
    Line("release", "slot {slot} released ({n_tokens} tokens in cache)", until=3000),
    Line("release", "**slot {slot} released ({n_tokens} tokens in cache)**"),
    Line("release", "n_tokens = {n_tokens}"),
    Line("release", "slot released", until=3600),
    Line("idle", "all slots are idle"),
    Line("idle", "all slots are idle and system prompt is empty, clear the KV cache"),
    # Reuse and evaluation of a prompt.
    Line("new_prompt", "new prompt, n_ctx_slot = {n_ctx_slot}, n_keep = {n_keep}, n_prompt_tokens = {n_tokens}"),
    Line("new_prompt", "prompt tokenized, n_ctx_slot = {n_ctx_slot}, n_keep = {n_keep}, n_prompt_tokens = {n_tokens}"),
    Line("n_past", "n_past = {n_past}, slot.prompt.tokens.size() = {held}, seq_id = {seq_id}, "
         "pos_min = {pos_min}, n_swa = {n_swa}", until=9315),
    Line("n_past", "n_past = {n_past}, slot.prompt.tokens.size() = {held}, seq_id = {seq_id}, pos_min = {pos_min}"),
    Line("n_past", "n_past = {n_past}, cache_tokens.size() = {held}, seq_id = {seq_id}, pos_min = {pos_min}, "
         "n_swa = {n_swa}"),
    Line("in_cache", "slot {slot} : in cache: {n_past} tokens | to process: {prompt_n} tokens", until=3000),
    Line("full_reprocess", "forcing full prompt re-processing due to lack of cache data (likely due to SWA, see {}"),
    Line("full_reprocess",
         "forcing full prompt re-processing due to lack of cache data (likely due to SWA or hybrid{}"),
    Line("full_reprocess", "forcing full prompt re-processing due to lack of cache data"),
    Line("trim_failed", "failed to truncate tokens with position >= {p0} - clearing the memory"),
    Line("slot_clear", "clearing slot with {n_tokens} tokens"),
    Line("batch", "n_tokens = {n_tokens}, memory_seq_rm [{p0}, end)"),
    Line("batch", "n_past = {n_tokens}, memory_seq_rm [{p0}, end)"),
    Line("batch", "kv cache rm [p0, end)", until=3600),
    Line("batch", "kv cache rm [{p0}, end)"),
    Line("batch", "slot {slot} : kv cache rm - [{p0}, end)", until=3000),
    Line("progress",
         "prompt processing progress, n_tokens = {n_tokens}, batch.n_tokens = {batch}, progress = {share}"),
    Line("progress", "prompt processing progress, n_past = {n_tokens}, n_tokens = {batch}, progress = {done_share}"),
    Line("progress", "prompt processing, n_tokens = {done}, progress = {share}{}"),
    Line("prompt_done", "prompt done, n_tokens = {n_tokens}, batch.n_tokens = {batch}"),
    Line("prompt_done", "prompt processing done, n_tokens = {n_tokens}, batch.n_tokens = {batch}"),
    Line("prompt_done", "prompt done, n_past = {n_tokens}, n_tokens = {batch}"),
    Line("prompt_size", "init sampler, took {} ms, tokens: text = {}, total = {n_tokens}"),
    Line("spans", "message_spans: last user message: byte_pos={}, text_n_tokens={}, checkpoint_n_tokens={n_tokens}"),
    Line("need_one", "we have to evaluate at least 1 token to generate logits"),
    Line("need_one", "need to evaluate at least 1 token to generate logits, n_past = {n_past}, "
         "n_prompt_tokens = {n_tokens}"),
    Line("need_one", "need to evaluate at least 1 token for each active slot, n_past = {n_past}, "
         "n_prompt_tokens = {n_tokens}"),
    Line("need_one", "n_past was set to {n_past}"),
    Line("too_long", "task id = {id_task}, error: request ({n_tokens} tokens) exceeds the available context size "
         "({n_ctx} tokens){}"),
    Line("too_long", "error: request ({n_tokens} tokens) exceeds the available context size ({n_ctx} tokens){}"),
    Line("too_long", "request ({n_tokens} tokens) exceeds the available context size ({n_ctx} tokens){}"),
    Line("too_long", "the request exceeds the available context size{}"),
    Line("at_end", "stopped due to running out of context capacity{}"),
    Line("cut_off", "input truncated, n_ctx = {n_ctx}, n_keep = {n_keep}, n_left = {n_left}, "
         "n_prompt_tokens = {n_tokens}"),
    Line("reuse_try", "trying to reuse chunks with size > {n}, n_past = {n_past}"),
    Line("reuse_try", "trying to reuse chunks with size > {n}, slot.n_past = {n_past}"),
    Line("cache_clear", "clearing KV cache"),
    Line("no_pos_min", "pos_min == -1, but n_past > 0{}"),
    Line("assertion", "GGML_ASSERT({}) failed"),
    Line("assertion", "{}:{}: GGML_ASSERT({}) failed"),
    Line("no_pos_min", "{}:{}: pos_min == -1, but n_past > 0{}"),
    # Checkpoints, in their spelling since August 2025; forks add fields.
    Line("ckpt_restore", f"restored context checkpoint ({_SWA})", until=8218),
    Line("ckpt_restore", f"restored context checkpoint ({_END}, n_past = {{n_past}}, size = {{mib}} MiB)"),
    Line("ckpt_restore", f"restored context checkpoint ({_ENDS}, n_tokens = {{n_tokens}}, size = {{mib}} MiB)"),
    Line("ckpt_restore", f"SWA checkpoint restore, {_SWA}"),
    Line("ckpt_restore_failed", f"failed to restore context checkpoint ({_ENDS}, {{}}"),
    Line("ckpt_invalidate", f"erased invalidated context checkpoint ({_ENDS}, n_swa = {{n_swa}}, size = {{mib}} MiB)"),
    Line("ckpt_invalidate", f"erased invalidated context checkpoint ({_END}, n_swa = {{n_swa}}, "
         "prefix_end = {prefix_end}, pos_next = {pos_next}, size = {mib} MiB)"),
    Line("ckpt_invalidate", f"erased invalidated context checkpoint ({_ENDS}, n_tokens = {{n_tokens}}, "
         "n_swa = {n_swa}, size = {mib} MiB)"),
    Line("ckpt_invalidate", f"erased invalidated context checkpoint ({_SWA})"),
    Line("ckpt_invalidate", f"SWA checkpoint erase, {_SWA}"),
    Line("ckpt_evict", f"erasing old context checkpoint ({_SWA})"),
    Line("ckpt_create", f"created context checkpoint {{n}} of {{max}} ({_SWA})", until=8218),
    Line("ckpt_create", f"created context checkpoint {{n}} of {{max}} ({_END}, size = {{mib}} MiB)"),
    Line("ckpt_create", f"created prompt processing context checkpoint {{n}} of {{max}} ({_SWA})"),
    Line("ckpt_create", f"saved context checkpoint {{n}} of {{max}} ({_SWA})"),
    Line("ckpt_create", f"SWA checkpoint create, {_SWA}, total = {{n}}/{{max}} ({{}}"),
    Line("ckpt_file_bad", "failed to append context checkpoints to '{}"),
    Line("ckpt_file_bad", "invalid context checkpoint appendix in '{}"),
    Line("ckpt_file_bad", "truncated context checkpoint appendix in '{}"),
    Line("ckpt_file_bad", "draft context checkpoint data in '{}"),
    Line("ckpt_every", "{since} tokens since last checkpoint at {last}, creating new checkpoint during processing at "
         "position {n_tokens}"),
    # The prompt cache in host memory.
    Line("pc_save", " - saving prompt with length {n_tokens}, total state size = {mib} MiB"),
    Line("pc_took", "prompt cache update took {} ms"),
    Line("pc_no_room", "failed to allocate memory for prompt cache state: {}"),
    Line("pc_no_room", " - cache size limit reduced to {mib} MiB"),
    Line("pc_load_failed", "state_read_meta: failed to find available cells in kv cache"),
    Line("pc_load_failed", "state_seq_set_data: error loading state: {}"),
    Line("pc_load_failed", "state_read_meta: failed to find {} available cells in kv cache"),
    Line("idle_save", "idle slots will be saved to prompt cache upon starting a new task"),
    Line("idle_save", "init: idle slots will be saved to prompt cache and cleared upon starting a new task"),
    Line("idle_save", "idle slots will be saved to prompt cache and cleared upon starting a new task"),
    # Timings and errors of a request.
    Line("prompt_time", "prompt eval time = {prompt_ms} ms / {prompt_n} tokens{}"),
    Line("prompt_time", "print_timings: prompt eval time = {prompt_ms} ms / {prompt_n} tokens{}"),
    Line("eval_time", "eval time = {} ms / {predicted_n} tokens{}"),
    Line("eval_time", "eval time = {} ms / {predicted_n} runs{}"),
    Line("eval_time", "print_timings: eval time = {} ms / {predicted_n} runs{}"),
    Line("total_time", "total time = {} ms / {total} tokens{}"),
    Line("total_time", "total time = {} ms"),
    Line("total_time", "print_timings: total time = {} ms{}"),
    Line("generating", "n_decoded = {predicted_n}, tg = {}"),
    Line("generating", "n_gen = {predicted_n}, tg = {}"),
    Line("spec_step", "accepted {accepted}/{drafted} draft tokens"),
    Line("spec_step", "accepted {accepted}/{drafted} draft tokens (restore checkpoint)"),
    Line("drafts", "draft acceptance rate = {rate} ({accepted} accepted / {drafted} generated){}"),
    Line("drafts", "draft acceptance = {rate} ({accepted} accepted / {drafted} generated){}"),
    Line("ctx_shift", "slot {slot}: context shift - n_keep = {n_keep}, n_left = {n_left}, n_discard = {n_discard}"),
    Line("kv_full", "decode: failed to find a memory slot for batch of size {n_batch}"),
    Line("kv_full", "init_batch: failed to prepare attention ubatches"),
    Line("kv_full", "failed to find free space in the KV cache, retrying with smaller batch size{}"),
    Line("kv_gap", "find_slot: non-consecutive token position {} after {} for sequence {} with {} new tokens"),
    Line("positions_bad", "init: the tokens of sequence {} in the input batch have inconsistent sequence positions{}"),
    Line("positions_bad", "the tokens of sequence {} in the input batch have inconsistent sequence positions{}"),
    Line("media_failed", "failed to decode image"),
    Line("media_failed", "failed to {} mtmd {}"),
    Line("spec_failed", "failed to process speculative batch"),
    Line("spec_failed", "process: llama_decode(ctx_dft) failed rc={}"),
    # Facts logged at startup.
    Line("server", "initializing slots, n_slots = {n_slots}"),
    Line("server", "llama_context: n_ctx = {n_ctx}"),
    Line("server", "llama_context: kv_unified = {kv_unified}"),
    Line("memory", "llama_kv_cache: size = {mib} MiB ({cells} cells, {attention_layers} layers, {}"),
    Line("memory", "llama_kv_cache_unified: size = {mib} MiB ({cells} cells, {attention_layers} layers, {}"),
    Line("memory", "llama_memory_recurrent: size = {mib} MiB ({cells} cells, {recurrent_layers} layers, {}"),
    Line("memory_part", "llama_kv_cache: {} KV buffer size = {mib} MiB"),
    Line("memory_part", "llama_kv_cache_unified: {} KV buffer size = {mib} MiB"),
    Line("memory_part", "llama_kv_cache_init: {} KV buffer size = {mib} MiB"),
    Line("memory_part", "llama_memory_recurrent: {} RS buffer size = {mib} MiB"),
    Line("memory_part", "llama_kv_cache_unified: KV self size = {mib} MiB, {}"),
    Line("memory_part", "llama_new_context_with_model: KV self size = {mib} MiB, {}"),
    Line("memory_part", "llama_kv_cache_unified: kv_size = {cells}, {}"),
    Line("memory_part", "llama_kv_cache_iswa: creating {} KV cache, size = {cells} cells"),
    Line("memory_part", "llama_kv_cache_unified_iswa: creating {} KV cache, size = {cells} cells"),
    Line("server", "llama_context: n_ctx_per_seq {}= {n_ctx_seq}"),
    Line("server", "llama_new_context_with_model: n_ctx = {n_ctx}"),
    Line("server", "llama_new_context_with_model: n_batch = {n_batch}"),
    Line("server", "llama_new_context_with_model: n_ubatch = {n_ubatch}"),
    Line("capped", "capping per-slot context ({n_ctx_seq}) to --kv-unified-per-slot ({most})"),
    Line("capped", "--kv-unified-per-slot ({most}) exceeds the per-slot pool capacity ({n_ctx_seq}){}"),
    Line("capped", "the slot context ({n_ctx_seq}) exceeds the training context of the model ({most}) - capping"),
    Line("capped", "--kv-unified-per-slot: sizing KV pool to n_parallel * kv_unified_per_slot = {}"),
    Line("server", "new slot, n_ctx = {n_ctx_slot}"),
    Line("server", "new slot n_ctx_slot = {n_ctx_slot}"),
    Line("start_cache", "prompt cache is enabled, size limit: {limit_mib} MiB"),
    Line("no_limit", "prompt cache is enabled, size limit: no limit"),
    Line("no_cache", "prompt cache is disabled - use `--cache-ram N` to enable it"),
    Line("start_cache", "use `--cache-ram 0` to disable the prompt cache"),
    Line("start_ckpt", "context checkpoints enabled, max = {max}, min spacing = {step}"),
    Line("no_ckpt", "context checkpoints disabled"),
    Line("start_ckpt", "speculative decoding will use checkpoints"),
    Line("start_seq_rm", "the context does not support partial sequence removal"),
    Line("start_seq_rm", "the context supports bounded partial sequence removal"),
    Line("start_seq_rm", "common_speculative_is_compat: the target context does not support partial sequence removal"),
    Line("no_drafts", "speculative decoding context not initialized"),
    Line("no_drafts", "speculative decoding not supported by this context"),
    Line("no_drafts", "no implementations specified for speculative decoding"),
    Line("start_idle", "--clear-idle requires --kv-unified, disabling"),
    Line("start_idle", "init: --clear-idle requires --kv-unified, disabling"),
    Line("start_idle", "init: --cache-idle-slots requires --kv-unified, disabling"),
    Line("start_idle", "--cache-idle-slots requires --kv-unified, disabling"),
    Line("start_media", "{} is not supported by multimodal, it will be disabled"),
    Line("start_reuse", "cache_reuse is not supported by this context, it will be disabled"),
    Line("version", "build: {build} ({}) with {}"),
    Line("version", "version: {build} ({}){}"),
    Line("version", "build_info: b{build}-{}"),
    Line("version", "build_info: b{build}"),
    Line("version", "build: b{build}-{}"),
    Line("version", "build: b{build}"),
    Line("version", "build: {build} ({})"),
    Line("version", "common_params_print_info: build {build} ({}) with {}"),
    Line("version", "common_params_print_info: build: {build} ({}) with {}"),
    Line("verbosity", "common_params_print_info: verbosity = {verbosity} (adjust {}"),
)

OPTION_BY_NUMBER = {
    "n_batch": "batch_size", "n_ubatch": "ubatch_size", "n_slots": "parallel", "kv_unified": "kv_unified",
    "max": "ctx_checkpoints", "step": "checkpoint_min_step", "limit_mib": "cache_ram",
    "similarity": "slot_prompt_similarity",
}  # fmt: skip
"""Server option by the name of the logged number."""


def options(facts: Mapping[str, Number | str]) -> dict[str, Number | str]:
    """Return the options of a server that logged these numbers. Slots share a context that is not unified. A context
    that was not logged is assumed to be large enough for the longest prompt (``needed``)."""
    found = {
        OPTION_BY_NUMBER[name]: value for name, value in facts.items()
        if name in OPTION_BY_NUMBER and (not isinstance(value, float) or isfinite(value))
    }  # fmt: skip
    each, slots = facts.get("n_ctx_slot"), facts.get("n_slots", 1)
    whole = facts.get("n_ctx") or facts.get("limit_tokens")       # the prompt cache is limited to as many tokens
    if isinstance(whole, int) and whole:
        found["ctx_size"] = whole
        if slots != 1 and each == whole:
            found.setdefault("kv_unified", True)
        if isinstance(each, int) and isinstance(slots, int) and each > 0 and each * slots < whole and not whole % each:
            found["parallel"] = whole // each                     # equal shares of a context that is not unified
    elif isinstance(each, int) and isinstance(slots, int):
        found["ctx_size"] = each if facts.get("kv_unified") else each * slots
    elif isinstance(needed := facts.get("needed"), int) and isinstance(slots, int):
        found["ctx_size"] = max(4096, 2 << (needed * slots).bit_length())
    integers = {name: int(value) if isinstance(value, float) else value for name, value in found.items()}
    return {**integers, **{name: value for name, value in found.items() if name == "slot_prompt_similarity"}}


TAIL, MAX_HINTS = 4, 3        # tokens between a prompt's last checkpoint and its end; number of values to try
USUAL = (256, 512, 1024, 2048, 4096)     # micro-batches that people set [tokens]


def hints(prompts: Sequence[PromptHint]) -> dict[str, Sequence[Number]]:
    """Return the micro-batch sizes that would explain the reused lengths and the checkpoints: these are created TAIL
    tokens before the end of a prompt, and a micro-batch before that. Return also the number of checkpoints of a slot
    that would explain why none before the examined ones is left, and the spacing that keeps as many."""
    found: Counter[int] = Counter()
    full = {len(prompt.checked): None for prompt in prompts if prompt.is_full and len(prompt.checked) > 1}
    for number, prompt in enumerate(prompts):
        found.update(prompt.length - TAIL - at for at in prompt.created)
        if prompt.reused:
            found.update({before.length - TAIL - prompt.reused for before in prompts[:number]})
        ends = sorted(prompt.checked)
        found.update(after - before for before, after in pairwise(ends) if after - before in USUAL)
    common = [size for size, _ in found.most_common() if 8 <= size <= 8192 and size % 8 == 0]
    sizes: dict[str, Sequence[Number]] = {"ubatch_size": tuple(common[:MAX_HINTS])}
    if not full:
        return sizes
    return {**sizes, "ctx_checkpoints": tuple(full)[:MAX_HINTS], "checkpoint_min_step": (USUAL[0],)}


_REFUSED, _REUSE = ("trim_failed",), ("reuse_chunk", "reuse_result")
_CUT = ("cut_off", "ctx_shift")
GIVES = (
    PrintedNumber("new_prompt", "n_tokens", ("n_tokens",), unless=("cut_off",), cuts="n_prompt_tokens"),
    PrintedNumber("cut_off", "n_tokens", ("n_tokens",)),
    PrintedNumber("too_long", "n_tokens", ("n_tokens",)),
    PrintedNumber("need_one", "n_tokens", ("n_tokens",)),
    PrintedNumber("prompt_done", "n_tokens", ("n_tokens",)),
    PrintedNumber("prompt_size", "n_tokens", ("n_tokens",)),
    PrintedNumber("prompt_time", "prompt_n", ("prompt_n",)),
    PrintedNumber("eval_time", "predicted_n", ("predicted_n",)),
    PrintedNumber("n_past", "lcp", ("n_past",), unless=_REUSE),
    PrintedNumber("n_past", "held", ("held",)),
    PrintedNumber("full_reprocess", "cache_n"),
    PrintedNumber("full_reprocess", "lcp", plus=1, unless=_REUSE, bound="least"),
    PrintedNumber("trim_failed", "cache_n"),
    PrintedNumber("ckpt_invalidate", "lcp", ("prefix_end",), unless=_REUSE),
    PrintedNumber("ckpt_restore", "cache_n", ("n_past",), absent=(*_REFUSED, "need_one"), inside=True),
    PrintedNumber("batch", "cache_n", ("n_tokens", "p0"), absent=_REFUSED, first=True, spelled="memory_seq_rm"),
    PrintedNumber("release", "end", ("n_tokens",)),
    PrintedNumber("batch", "cache_n", ("n_tokens", "p0"), bound="most"),
    PrintedNumber("batch", "n_tokens", ("n_tokens", "p0"), unless=_CUT, bound="least"),
    PrintedNumber("ckpt_create", "n_tokens", ("n_tokens", "pos_max"), unless=_CUT, bound="least"),
    PrintedNumber("generating", "predicted_n", ("predicted_n",), bound="least"),
    *log_others.GIVES,
)
"""Numbers of a request that lines print. A restored position may be the end of the prompt, whose last token is then
evaluated; a refused removal clears the slot. Neither happens within the prompt, after the end of a restored state.
A batch begins after the reused tokens and within the prompt, as checkpoints are created."""

FLAGS = {
    ("server", "n_batch"): "batch_size", ("server", "n_ubatch"): "ubatch_size", ("server", "n_slots"): "parallel",
    ("server", "kv_unified"): "kv_unified", ("ckpt_create", "max"): "ctx_checkpoints",
    ("start_ckpt", "max"): "ctx_checkpoints", ("start_ckpt", "step"): "checkpoint_min_step",
    ("start_cache", "limit_mib"): "cache_ram", ("no_limit", "limit_mib"): "cache_ram",
    ("no_cache", "limit_mib"): "cache_ram", ("no_ckpt", "max"): "ctx_checkpoints",
    ("slot_by_lcp", "thold"): "slot_prompt_similarity", ("slot_sim", "thold"): "slot_prompt_similarity",
}
"""Printed numbers that are values of options. A limit of 0 in `cache state` means that it is not set."""
AUTOMATIC = {"parallel": 4}          # -np 4, no -np, or -np 1 of b6925 to b7432
CONSTANTS: Mapping[str, Mapping[str, Number]] = {
    "no_limit": {"limit_mib": -1}, "no_cache": {"limit_mib": 0}, "no_ckpt": {"max": 0},
}


def memory(numbers: Mapping[str, Number | str]) -> str:
    """Return what the positions in a line show that the memory allows."""
    return "none" if holds_last_position(numbers) else "window" if lacks_first_positions(numbers) else ""


_PATHS = {
    "completion": ("/completion", "/completions", "/v1/completions", "/chat/completions", "/v1/chat/completions",
                   "/api/chat", "/v1/messages", "/v1/responses", "/responses"),
    "infill": ("/infill",),
    "embedding": ("/embedding", "/embeddings", "/v1/embeddings"),
    "rerank": ("/rerank", "/reranking", "/v1/rerank", "/v1/reranking"),
}  # fmt: skip
TASKS = {path: kind for kind, paths in _PATHS.items() for path in paths}
"""Kind of task by the path of its request. Source: llama.cpp tools/server/server.cpp, routes."""
_TASK_LIMITS = "create no checkpoints and do not use the prompt cache (LC-TASK.COMPLETION, read in the source)"
TASK_LIMITS = {kind: _TASK_LIMITS for kind in _PATHS if kind != "completion"}
"""Kind of task -> what a server does not do for it."""

GRAMMAR = LogGrammar(
    LINES, {**MEANINGS, **log_others.MEANINGS},
    signs=("get_availabl", "operator()", "update_slots", "print_timing", "launch_slot_:", "create_check:", "f_sim_best",
           "prompt_clear", "print_timings:"),
    starts=("build:", "build_info:", "version:", "initializing", "loading model", "system info", "main: "),
    common=frozenset({"media_failed", "release", "total_time"}),
    options=options, hints=hints, memory=memory, totals=totals, gives=GIVES, flags=FLAGS, constants=CONSTANTS,
    automatic=AUTOMATIC, loads_below=0.5,
    warnings=WARNINGS | log_others.WARNINGS, fatal=FATAL, verdicts=VERDICTS, harmless=HARMLESS,
    ordinary=ORDINARY,
    signatures=SIGNATURES, window_flags=("--swa-full",), unlogged=UNLOGGED, tasks=TASKS, task_limits=TASK_LIMITS, open={
        "ubatch_size": (512, 1024, 2048, 256, 128, 64, 32, 16), "ctx_checkpoints": (32, 0, 8, 4, 3, 2, 1),
        "checkpoint_min_step": (256, 64, 0), "swa_full": (True,), "cache_ram": (0, 1), "cache_reuse": (256, 16, 4, 1),
        "cache_idle_slots": (False,), "slot_prompt_similarity": (0.0,),
    },
)  # fmt: skip
