"""Lines that builds print for the events of a recording or of the simulator, with their prefix.

The templates are written here a second time, from the sources and from logs in public threads, not taken from the
grammar under test: their fields have the names of the events. ``NAMES`` maps them to the names that the grammar gives
to the kinds and fields which it calls otherwise.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Mapping, NamedTuple, Sequence

from tests.replay.log_writer import BASE, BEFORE, BY_SERVER, DEBUG, FUNCTIONS, WARNED

Fields = Mapping[str, Any]


class Spelling(NamedTuple):
    """Template of an event in builds from ``since`` on and before ``until`` (0 = all later builds)."""

    ev: str
    template: str
    since: int = 0
    until: int = 0


_SEE = "see https://github.com/ggml-org/llama.cpp/pull/13194#issuecomment-2868343055)"
_FULL = "forcing full prompt re-processing due to lack of cache data (likely due to SWA"
_ENDS = "pos_min = {pos_min}, pos_max = {pos_max}"
_CKPT = f"{_ENDS}, n_tokens = {{n_tokens}}"
_LIMITS = "(limits: {limit_mib} MiB, {limit_tokens} tokens, {est} est)"

LLAMA = (
    Spelling("slot_by_id", "selected slot by id ({slot_arg})"),
    Spelling("slot_skip_busy", " - skipping, is_processing = 1"),
    Spelling("slot_skip_empty", " - skipping, slot is empty"),
    Spelling("slot_sim", " - checking sim = {f_sim} ({lcp}/{n}) > {thold}"),
    Spelling(
        "slot_by_lcp",
        "selected slot by lcs similarity, lcs_len = {lcp}, similarity = {f_sim} (> {thold} thold)",
        until=7000,
    ),
    Spelling("slot_by_lcp", "selected slot by lcs similarity, lcs_len = {lcp}, similarity = {f_sim}", until=7000),
    Spelling(
        "slot_by_lcp",
        "selected slot by LCP similarity, sim_best = {f_sim} (> {thold} thold), f_keep = {f_keep}",
        until=10229,
    ),
    Spelling(
        "slot_by_lcp",
        "selected slot by LCP similarity, f_sim_best = {f_sim} (> {thold} thold), f_keep = {f_keep}",
        10229,
    ),
    Spelling("slot_by_lru", "selected slot by LRU, t_last = 123456789"),
    Spelling("pc_begin", "updating prompt cache"),
    Spelling(
        "pc_save", " - saving prompt with length {n_tokens}, total state size = {mib} MiB (draft: {mib_draft} MiB)"
    ),
    Spelling("pc_save", " - saving prompt with length {n_tokens}, total state size = {mib} MiB"),
    Spelling("pc_already", " - prompt is already in the cache, skipping"),
    Spelling("pc_too_big", " - prompt state size {mib} MiB exceeds cache size limit {limit_mib} MiB, skipping"),
    Spelling("pc_obsolete", " - removing obsolete cached prompt with length {n_tokens}"),
    Spelling("pc_evict", " - making room for prompt cache entry, removing oldest entry (size = {mib} MiB)", 9829),
    Spelling("pc_evict", " - cache size limit reached, removing oldest entry (size = {mib} MiB)"),
    Spelling(
        "pc_evict_tokens",
        " - cache token limit ({limit_tokens}, est: {est}) reached, removing oldest entry (size = {mib} MiB)",
    ),
    Spelling("pc_search", " - looking for better prompt, base f_keep = {f_keep}, sim = {f_sim}", until=10229),
    Spelling("pc_search", " - looking for better prompt, base f_keep = {f_keep}, f_sim = {f_sim}", 10229),
    Spelling("pc_cand", "   - prompt with length {n_tokens:7}, lcp = {lcp:7}, f_keep = {f_keep}, f_sim = {f_sim}"),
    Spelling("pc_load", " - found better prompt with f_keep = {f_keep}, sim = {f_sim}", until=10229),
    Spelling("pc_load", " - found better prompt with f_keep = {f_keep}, f_sim = {f_sim}", 10229),
    Spelling("pc_load_failed", "failed to load prompt from cache"),
    Spelling("pc_state", f" - cache state: {{prompts}} prompts, {{mib}} MiB {_LIMITS}"),
    Spelling("pc_entry", "   - prompt 0x5b1d0c0de3f0: {n_tokens:7} tokens, checkpoints: {checkpoints:2}, {mib:9} MiB"),
    Spelling("idle_save", "saving idle slot to prompt cache"),
    Spelling("slot_clear", "clearing slot with {n_tokens} tokens", until=7900),
    Spelling("slot_clear", "clearing prompt with {n_tokens} tokens"),
    Spelling("slot_purge", "purging slot {slot_arg} with {n_tokens} tokens"),
    Spelling("launch", "processing task, is_child = {is_child}"),
    Spelling("launch", "processing task"),
    Spelling(
        "new_prompt",
        "new prompt, n_ctx_slot = {n_ctx_slot}, n_keep = {n_keep}, n_prompt_tokens = {n_tokens}",
        until=6900,
    ),
    Spelling("new_prompt", "new prompt, n_ctx_slot = {n_ctx_slot}, n_keep = {n_keep}, task.n_tokens = {n_tokens}"),
    Spelling(
        "ckpt_search",
        "n_past = {n_past}, cache_tokens.size() = {n_tokens}, seq_id = {seq_id}, pos_min = {pos_min}, n_swa = {n_swa}",
        until=6700,
    ),
    Spelling(
        "ckpt_search",
        "n_past = {n_past}, slot.prompt.tokens.size() = {n_tokens}, seq_id = {seq_id}, "
        "pos_min = {pos_min}, n_swa = {n_swa}",
        until=9315,
    ),
    Spelling("reuse_chunk", "reusing chunk with size {n}, shifting KV cache [{c0}, {c1}) -> [{p0}, {p1})"),
    Spelling("reuse_result", "after context reuse, new n_past = {n_past}"),
    Spelling("reuse_unsupported", "cache reuse is not supported - ignoring n_cache_reuse = 256"),
    Spelling("ckpt_check", "Checking checkpoint with [{pos_min}, {pos_max}] against {thold}...", until=9829),
    Spelling("ckpt_check", "checking checkpoint with [{pos_min}, {pos_max}] against {thold}..."),
    Spelling("ckpt_restore", f"SWA checkpoint restore, {_ENDS}, size = {{mib}} MiB", until=6300),
    Spelling("ckpt_restore", f"restored context checkpoint ({_CKPT}, n_past = {{n_past}}, size = {{mib}} MiB)"),
    Spelling("ckpt_restore", f"restored context checkpoint ({_CKPT}, size = {{mib}} MiB)"),
    Spelling("ckpt_restore", f"restored context checkpoint ({_ENDS}, size = {{mib}} MiB)"),
    Spelling("full_reprocess", f"{_FULL}, {_SEE}", until=6300),
    Spelling("full_reprocess", f"{_FULL} or hybrid/recurrent memory, {_SEE}"),
    Spelling("ckpt_invalidate", f"SWA checkpoint erase, {_ENDS}, size = 0.127 MiB", until=6300),
    Spelling(
        "ckpt_invalidate",
        f"erased invalidated context checkpoint ({_CKPT}, n_swa = {{n_swa}}, "
        "pos_next = {pos_next}, size = 0.127 MiB)",
    ),
    Spelling(
        "ckpt_invalidate", f"erased invalidated context checkpoint ({_CKPT}, n_swa = {{n_swa}}, size = 0.127 MiB)"
    ),
    Spelling(
        "ckpt_invalidate", f"erased invalidated context checkpoint ({_ENDS}, n_swa = {{n_swa}}, size = 0.127 MiB)"
    ),
    Spelling(
        "need_one",
        "need to evaluate at least 1 token for each active slot, n_past = {n_past}, n_prompt_tokens = {n_tokens}",
        until=7000,
    ),
    Spelling(
        "need_one",
        "need to evaluate at least 1 token for each active slot (n_past = {n_past}, task.n_tokens() = {n_tokens})",
    ),
    Spelling("trim_refused", "failed to truncate tokens with position >= {p0} - clearing the memory"),
    Spelling("batch", "kv cache rm [{p0}, end)", until=6900),
    Spelling("batch", "n_tokens = {n_tokens}, memory_seq_rm [{p0}, end)", until=10573),
    Spelling("batch", "cached n_tokens = {n_tokens}, memory_seq_rm [{p0}, end)"),
    Spelling("do_ckpt", "main/do_checkpoint = {yes}, pos_min = {pos_min}, pos_max = {pos_max}"),
    Spelling(
        "ckpt_periodic",
        "{every} tokens since last checkpoint at {last}, creating new checkpoint during "
        "processing at position {n_tokens}",
    ),
    Spelling("ckpt_too_close", f"erasing context checkpoint too close to an earlier one ({_CKPT}, size = 0.127 MiB)"),
    Spelling("ckpt_evict", f"erasing old context checkpoint ({_CKPT}, size = 0.127 MiB)"),
    Spelling("ckpt_evict", f"erasing old context checkpoint ({_ENDS}, size = 0.127 MiB)"),
    Spelling("ckpt_supersede", "superseding context checkpoint at n_tokens = {n_tokens}"),
    Spelling(
        "ckpt_create",
        f"SWA checkpoint create, {_ENDS}, size = {{mib}} MiB, total = {{n}}/{{max}} (0.127 MiB)",
        until=6300,
    ),
    Spelling("ckpt_create", f"created context checkpoint {{n}} of {{max}} ({_CKPT}, size = {{mib}} MiB)"),
    Spelling("ckpt_create", f"created context checkpoint {{n}} of {{max}} ({_ENDS}, size = {{mib}} MiB)"),
    Spelling("copy_shared", " - copying shared prompt ({n_tokens} tokens) to child {child}"),
    Spelling("copy_to_child", " - copying state to child {child}"),
    Spelling(
        "kv_full",
        "failed to find free space in the KV cache, retrying with smaller batch size, off = 0, "
        "n_batch = {n_batch}, ret = {ret}",
    ),
    Spelling("spec_ckpt", f"created speculative checkpoint ({_CKPT}, size = 0.032 MiB, draft = 0.000 MiB)"),
    Spelling(
        "spec_restore", "restoring speculative checkpoint (pos_min = {pos_min}, pos_max = {pos_max}, size = 33964)"
    ),
    Spelling("spec_step", "accepted {accepted}/{drafted} draft tokens, new n_tokens = {n_tokens}"),
    Spelling("ctx_shift", "slot context shift, n_keep = {n_keep}, n_left = {n_left}, n_discard = {n_discard}"),
    Spelling("cancel", "cancel task, id_task = 999999"),
    Spelling("release", "stop processing: n_past = {n_tokens}, truncated = {truncated}", until=6900),
    Spelling("release", "stop processing: n_tokens = {n_tokens}, truncated = {truncated}"),
    Spelling("ckpt_append", "appended {n} context checkpoint(s) ({mib} MiB) to 'slot.bin'"),
    Spelling("ckpt_from_file", "restored {n} context checkpoint(s) from 'slot.bin'"),
    # Timings: events of this generator, not of a recording.
    Spelling(
        "prompt_time",
        "prompt eval time =     {ms} ms / {prompt_n:5} tokens (    2.22 ms per token,   449.76 tokens per second)",
    ),
    Spelling(
        "eval_time",
        "       eval time =     {ms} ms / {predicted_n:5} tokens (   26.90 ms per token,    37.18 tokens per second)",
    ),
    Spelling("total_time", "      total time =     {ms} ms / {total:5} tokens"),
    Spelling(
        "progress",
        "prompt processing progress, n_past = {n_tokens}, n_tokens = {batch}, progress = {done_share:.6}",
        until=6900,
    ),
    Spelling(
        "progress",
        "prompt processing progress, n_tokens = {n_tokens}, batch.n_tokens = {batch}, progress = {share:.6}",
        until=9315,
    ),
    Spelling("prompt_done", "prompt done, n_past = {n_tokens}, n_tokens = {batch}", until=6900),
    Spelling("prompt_done", "prompt done, n_tokens = {n_tokens}, batch.n_tokens = {batch}", until=8500),
    Spelling("prompt_done", "prompt processing done, n_tokens = {n_tokens}, batch.n_tokens = {batch}", 8500, 9315),
    Spelling("prompt_size", "init sampler, took 0.63 ms, tokens: text = {n_tokens}, total = {n_tokens}", 7700),
    Spelling("idle", "all slots are idle"),
)

_IK_WHERE = 'tid="137313738805248" timestamp=1783304164 id_slot={slot} id_task={task}'
IK = (
    Spelling(
        "slot_by_lcp",
        "INFO [      get_available_slot] selected slot by lcp similarity | "
        'tid="137313738805248" timestamp=1783304164 id_slot={slot} max_lcp_len={lcp} similarity={f_sim}',
    ),
    Spelling(
        "slot_by_lru",
        "INFO [      get_available_slot] selected slot by lru | "
        'tid="137313738805248" timestamp=1783304164 id_slot={slot} t_last=-1',
    ),
    Spelling(
        "pc_info",
        "======== Prompt cache: cache size: {n_tokens}, n_keep: {n_keep}, n_discarded_prompt: "
        "{n_discarded}, cache_ram_n_min: {n_min}, f_keep: {f_keep:.2}, cache_ram_similarity: {thold:.2}",
    ),
    Spelling("pc_begin", "updating prompt cache"),
    Spelling("pc_save", " - saving prompt with length {n_tokens}, total state size = {mib} MiB"),
    Spelling("pc_already", " - prompt is already in the cache, skipping"),
    Spelling("pc_obsolete", " - removing obsolete cached prompt with length {n_tokens}"),
    Spelling("pc_evict", " - cache size limit reached, removing oldest entry (size = {mib} MiB)"),
    Spelling(
        "pc_search",
        " - looking for better prompt, base f_keep = {f_keep}, sim = {f_sim}, n_keep = 0, n_discarded_prompt = 0",
    ),
    Spelling(
        "pc_load", " - found better prompt with f_keep = {f_keep}, sim = {f_sim}, n_keep = 0, n_discarded_prompt = 0"
    ),
    Spelling("pc_state", f" - cache state: {{prompts}} prompts, {{mib}} MiB {_LIMITS}"),
    Spelling(
        "pc_entry",
        "   - prompt 0x5b1d0c0de3f0: {n_tokens:7} tokens, {discarded:7} discarded, checkpoints: "
        "{checkpoints:2}, {mib:9} MiB",
    ),
    Spelling("launch", f"INFO [   launch_slot_with_task] slot is processing task | {_IK_WHERE}"),
    Spelling(
        "cache_lcp", "======== Cache: cache_size = {n_tokens}, n_past =  {n_past}, n_past_prompt = {n_past_prompt}"
    ),
    Spelling(
        "ckpt_search",
        "n_past = {n_past}, slot.prompt.tokens.size() = {n_tokens}, seq_id = {seq_id}, pos_min = {pos_min}",
    ),
    Spelling(
        "ckpt_restore", f"restored context checkpoint took  34.38 ms ({_CKPT}, n_past = {{n_past}}, size = {{mib}} MiB)"
    ),
    Spelling("full_reprocess", f"{_FULL}, {_SEE}"),
    Spelling("ckpt_invalidate", f"erased invalidated context checkpoint ({_ENDS}, size = 0.127 MiB)"),
    Spelling(
        "need_one",
        f"INFO [            update_slots] we have to evaluate at least 1 token to generate logits | {_IK_WHERE}",
    ),
    Spelling("batch", f"INFO [    batch_pending_prompt] kv cache rm [p0, end) | {_IK_WHERE} p0={{p0}}"),
    Spelling(
        "ckpt_create", f"created context checkpoint {{n}} of {{max}} ({_CKPT}, size = {{mib}} MiB, took 77.24 ms)"
    ),
    Spelling("ckpt_evict", f"erasing old context checkpoint ({_CKPT}, size = 0.127 MiB)"),
    Spelling("ckpt_evict", f"erasing old context checkpoint ({_ENDS}, size = 0.127 MiB)"),
    Spelling(
        "release",
        f"INFO [            release_slots] slot released | {_IK_WHERE} n_ctx=2048 "
        "n_past={n_tokens} n_system_tokens=0 n_cache_tokens={n_tokens} truncated={truncated}",
    ),
    Spelling(
        "prompt_time",
        "prompt eval time =     {ms} ms / {prompt_n:5} tokens (    2.22 ms per token,   449.76 tokens per second)",
    ),
    Spelling(
        "eval_time",
        "       eval time =     {ms} ms / {predicted_n:5} tokens (   26.90 ms per token,    37.18 tokens per second)",
    ),
    Spelling("total_time", "      total time =     {ms} ms / {total:5} tokens"),
    Spelling("idle", 'INFO [            update_slots] all slots are idle | tid="137313738805248" timestamp=1783304164'),
)
MLX = (
    Spelling("fetch", "2026-09-02 10:11:12,345 - INFO - Prompt Cache: {prompts} sequences, {gb:.2} GB"),
    Spelling("progress_of", "2026-09-02 10:11:12,345 - INFO - Prompt processing progress: {n_tokens}/{total}"),
    Spelling(
        "reused",
        "2026-05-20 14:18:57 [DEBUG] [cache_wrapper][INFO]: Prompt cache: using {cache_n}/{n_tokens} tokens from cache",
    ),
)
TABLES: Mapping[str, Sequence[Spelling]] = {"llama_cpp": LLAMA, "ik_llama": IK, "mlx_lm": MLX}

NAMES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "ckpt_search": ("n_past", {"n_tokens": "held"}),
    "ckpt_periodic": ("ckpt_every", {"every": "since"}),
    "trim_refused": ("trim_failed", {}),
    "pc_info": ("pc_begin", {"n_tokens": "held", "n_discarded": "discarded", "n_min": "least", "thold": "similarity"}),
    "cache_lcp": ("prefix", {"n_tokens": "held"}),
}
"""Events that the grammar calls otherwise: its name of the kind, and its names of the fields."""
CACHE_KINDS = frozenset(line.ev for table in TABLES.values() for line in table) - {
    "idle", "prompt_time", "eval_time", "total_time", "cancel"}  # fmt: skip
"""Kinds of lines about slots, checkpoints, prompt caches and batches."""
_FIELD = re.compile(r"\{(\w+)(?::(\.?)(\d+))?\}")
WITHOUT_TASK = BEFORE - {"slot_skip_busy"}  # of a slot that has no task, so that -1 is printed
_BARE = {"pc_info", "cache_lcp"}  # ik_llama.cpp prints these without a prefix


@cache
def _needs(template: str) -> frozenset[str]:
    return frozenset(name for name, _, _ in _FIELD.findall(template))


def spell(engine: str, build: int, ev: str, fields: Fields) -> tuple[str, dict[str, Any]] | None:
    """Return the message of an event in a build and the fields that it prints; None if the build has no such line."""
    for line in TABLES[engine]:
        fits = line.ev == ev and line.since <= build and (not line.until or build < line.until)
        if fits and _needs(line.template) <= set(fields):
            return _filled(line.template, fields)
    return None


def _filled(template: str, fields: Fields) -> tuple[str, dict[str, Any]]:
    """Return a template with the values of its fields, and the printed values."""
    words = {name: _word(fields[name], point, int(width or 0)) for name, point, width in _FIELD.findall(template)}
    text = _FIELD.sub(lambda place: words[place[1]], template)
    return text, {name: _read(word.strip()) for name, word in words.items() if name not in UNREAD}


UNREAD = ("slot", "task", "ms")
"""Fields of templates that are no fields of their events."""


def _read(word: str) -> Any:
    """Return the number that a printed word denotes."""
    if word in ("yes", "no"):
        return word == "yes"
    return float(word) if "." in word or "nan" in word else int(word)


def _word(value: Any, point: str, width: int) -> str:
    if isinstance(value, float):
        return f"{value:.{width if point else 3}f}".rjust(0 if point else width)
    word = ("yes" if value else "no") if isinstance(value, bool) else str(value)
    return word.rjust(width)


def visible(ev: str, build: int, verbosity: int) -> bool:
    """True if a llama-server prints an event at this verbosity. Before b9829 the default prints most."""
    if ev in DEBUG:
        return verbosity >= 5
    quiet = build >= 9829 and verbosity < 4
    return not quiet or ev in BASE | {"warn", "error", "prompt_time", "eval_time", "total_time"}


class Style(NamedTuple):
    """Prefix of the lines of a server: ``stamps`` = time stamp and level letter, as since spring 2026."""

    engine: str
    build: int
    stamps: bool
    port: str = ""


def prefixed(style: Style, ev: str, text: str, slot: int, task: int, clock: int) -> str:
    """Return a message with the prefix that its server prints. ``clock``: microseconds since the start."""
    if style.engine == "mlx_lm" or text.startswith("INFO ["):
        return text
    if style.engine == "ik_llama" and (ev in _BARE or ev in ("prompt_time", "eval_time", "total_time")):
        return text
    stamp = ""
    if style.stamps:
        minutes, rest = divmod(clock, 60_000_000)
        level = ev[0].upper() if ev in ("warn", "error") else "W" if ev in WARNED else "I"
        stamp = f"{minutes}.{rest // 1_000_000:02}.{rest // 1000 % 1000:03}.{rest % 1000:03} {level} "
    if ev in ("warn", "error"):
        return f"{style.port}{stamp}{text}"
    function = _function(style, ev)
    if ev in BY_SERVER or ev == "idle":
        return f"{style.port}{stamp}srv  {function:>12}: {text}"
    return f"{style.port}{stamp}slot {function:>12}: id {slot:>2} | task {-1 if ev in WITHOUT_TASK else task} | {text}"


def _function(style: Style, ev: str) -> str:
    if ev in ("prompt_time", "eval_time", "total_time"):
        return "print_timing"
    if ev == "prompt_size":
        return "init_sampler"
    if style.engine == "ik_llama" and ev in ("ckpt_search", "ckpt_restore", "full_reprocess", "ckpt_invalidate"):
        return "apply_checkp"
    if ev == "idle":
        return "update_slots"
    known = "stop" if ev == "cancel" else FUNCTIONS.get(ev, "")
    return (
        known
        if known and (ev[:5] != "ckpt_" or style.build >= 8200)
        else ("update_slots" if style.build < 9752 else "operator()")
    )
