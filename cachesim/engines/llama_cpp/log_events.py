"""Log lines of llama-server and the events that they report, in a table that is used for reading and for writing.

A template is the message after the line's prefix. `{name}` is a field of the event, `{}` a number or word that is not
recorded. Build numbers are those that print the line at log level 5. Field names are those of the recorded traces and
of `cachesim.events`. Source: llama.cpp tools/server/server-context.cpp, server-task.cpp, server-queue.cpp (b10068 to
b11549).
"""

from __future__ import annotations

import re
from contextlib import suppress
from functools import cache
from typing import Any, Iterable, Iterator, Mapping, NamedTuple

from cachesim.engines.shared.log_grammar import LONGEST, Line


class Entry(NamedTuple):
    """Log line without its prefix. ``level``: D, I, W or E, "" if the log has no levels. ``slot`` and ``task`` are None
    if the line does not name them."""

    level: str
    slot: int | None
    task: int | None
    text: str


_CKPT = "pos_min = {pos_min}, pos_max = {pos_max}, n_tokens = {n_tokens}"

EVENTS = (
    # Slot choice.
    Line("slot_by_id", "selected slot by id ({slot_arg})"),
    Line("slot_skip_busy", " - skipping, is_processing = {}"),
    Line("slot_skip_empty", " - skipping, slot is empty"),
    Line("slot_sim", " - checking sim = {f_sim} ({lcp}/{n}) > {thold}"),
    Line("slot_by_lcp", "selected slot by LCP similarity, f_sim_best = {f_sim} (> {thold} thold), f_keep = {f_keep}"),
    Line("slot_by_lru", "selected slot by LRU, t_last = {}"),
    # The prompt cache in host memory.
    Line("pc_begin", "updating prompt cache"),
    Line("pc_save", " - saving prompt with length {n_tokens}, total state size = {mib} MiB (draft: {mib_draft} MiB)"),
    Line("pc_already", " - prompt is already in the cache, skipping"),
    Line("pc_too_big", " - prompt state size {mib} MiB exceeds cache size limit {limit_mib} MiB, skipping"),
    Line("pc_obsolete", " - removing obsolete cached prompt with length {n_tokens}"),
    Line("pc_evict", " - making room for prompt cache entry, removing oldest entry (size = {mib} MiB)"),
    Line("pc_evict", " - cache size limit reached, removing oldest entry (size = {mib} MiB)"),
    Line("pc_evict_tokens",
         " - cache token limit ({limit_tokens}, est: {est}) reached, removing oldest entry (size = {mib} MiB)"),
    Line("pc_search", " - looking for better prompt, base f_keep = {f_keep}, f_sim = {f_sim}", since=10229),
    Line("pc_cand", "   - prompt with length {n_tokens}, lcp = {lcp}, f_keep = {f_keep}, f_sim = {f_sim}"),
    Line("pc_load", " - found better prompt with f_keep = {f_keep}, f_sim = {f_sim}", since=10229),
    Line("pc_load_failed", "failed to restore state with size {}"),
    Line("pc_load_failed", "failed to load prompt from cache"),
    Line("pc_state", " - cache state: {prompts} prompts, {mib} MiB "
         "(limits: {limit_mib} MiB, {limit_tokens} tokens, {est} est)"),
    Line("pc_entry", "   - prompt {}: {n_tokens} tokens, checkpoints: {checkpoints}, {mib} MiB"),
    Line("idle_save", "saving idle slot to prompt cache"),
    Line("slot_clear", "clearing prompt with {n_tokens} tokens"),
    Line("slot_purge", "purging slot {slot_arg} with {n_tokens} tokens"),
    # Adapters.
    Line("lora_clear", "clearing cache for lora change. {n_slot} loras -> {n_request} loras"),
    Line("lora_keep", "keeping cache for alora. {n} target loras"),
    Line("alora_absent", "alora {id} requested, but not found. deactivating"),
    Line("alora_start", "alora {id} activated starting at {start}"),
    Line("alora_cap", "only caching to alora invocation start (n_past = {n_past}, alora_invocation_start = {start})"),
    Line("alora_pre", "processing pre-alora tokens without the adapter (n_tokens = {n_tokens}, "
         "alora_invocation_start = {start})"),
    Line("alora_stop", "stop prompt batch filling at (n_tokens = {n_tokens}, alora_invocation_start = {start})"),
    Line("alora_again", "re-enabling alora with scale {scale}"),
    Line("lora_set", "set lora adapter idx={id} scale={scale}"),
    # Images.
    Line("media_encode", "encoding mtmd batch from idx = {idx}, n_chunks = {n_chunks}"),
    Line("media_decode", "decoding image batch {n}/{of}, n_tokens_batch = {n_tokens}"),
    # Start of a prompt.
    Line("launch", "processing task, is_child = {is_child}"),
    Line("new_prompt", "new prompt, n_ctx_slot = {n_ctx_slot}, n_keep = {n_keep}, task.n_tokens = {n_tokens}"),
    Line("reuse_chunk", "reusing chunk with size {n}, shifting KV cache [{c0}, {c1}) -> [{p0}, {p1})"),
    Line("reuse_result", "after context reuse, new n_past = {n_past}"),
    Line("reuse_unsupported", "cache reuse is not supported - ignoring n_cache_reuse = {}"),
    Line("ckpt_check", "checking checkpoint with [{pos_min}, {pos_max}] against {thold}..."),
    Line("ckpt_restore", f"restored context checkpoint ({_CKPT}, n_past = {{n_past}}, size = {{mib}} MiB)"),
    Line("full_reprocess", "forcing full prompt re-processing due to lack of cache data (likely due to SWA or "
         "hybrid/recurrent memory, see {}"),
    Line("ckpt_invalidate", f"erased invalidated context checkpoint ({_CKPT}, n_swa = {{n_swa}}, "
         "pos_next = {pos_next}, size = {} MiB)"),
    Line("need_one", "need to evaluate at least 1 token for each active slot "
         "(n_past = {n_past}, task.n_tokens() = {n_tokens})"),
    # Batches and checkpoints of a prompt.
    Line("batch", "cached n_tokens = {n_tokens}, memory_seq_rm [{p0}, end)"),
    Line("do_ckpt", "main/do_checkpoint = {yes}, pos_min = {pos_min}, pos_max = {pos_max}"),
    Line("ckpt_too_close", f"erasing context checkpoint too close to an earlier one ({_CKPT}, size = {{}} MiB)"),
    Line("ckpt_evict", f"erasing old context checkpoint ({_CKPT}, size = {{}} MiB)"),
    Line("ckpt_supersede", "superseding context checkpoint at n_tokens = {n_tokens}", since=11063),
    Line("ckpt_create", f"created context checkpoint {{n}} of {{max}} ({_CKPT}, size = {{mib}} MiB)"),
    Line("copy_shared", " - copying shared prompt ({n_tokens} tokens) to child {child}", since=11549),
    Line("copy_to_child", " - copying state to child {child}"),
    Line("kv_full", "failed to find free space in the KV cache, retrying with smaller batch size, off = {}, "
         "n_batch = {n_batch}, ret = {ret}"),
    # Generation and end of a request.
    Line("spec_ckpt", f"created speculative checkpoint ({_CKPT}, size = {{}} MiB, draft = {{}} MiB)"),
    Line("spec_restore", "restoring speculative checkpoint (pos_min = {pos_min}, pos_max = {pos_max}, size = {})"),
    Line("spec_step", "accepted {accepted}/{drafted} draft tokens, new n_tokens = {n_tokens}"),
    Line("ctx_shift", "slot context shift, n_keep = {n_keep}, n_left = {n_left}, n_discard = {n_discard}"),
    Line("cancel", "cancel task, id_task = {}"),
    Line("release", "stop processing: n_tokens = {n_tokens}, truncated = {truncated}"),
    # Slot files.
    Line("ckpt_append", "appended {n} context checkpoint(s) ({mib} MiB) to '{}'", since=11549),
    Line("ckpt_from_file", "restored {n} context checkpoint(s) from '{}'", since=11549),
)

OLDER_SPELLINGS = (
    Line("slot_by_lcp", "selected slot by LCP similarity, sim_best = {f_sim} (> {thold} thold), f_keep = {f_keep}",
         until=10229),
    Line("pc_search", " - looking for better prompt, base f_keep = {f_keep}, sim = {f_sim}", until=10229),
    Line("pc_load", " - found better prompt with f_keep = {f_keep}, sim = {f_sim}", until=10229),
    Line("ckpt_check", "Checking checkpoint with [{pos_min}, {pos_max}] against {thold}..."),
)
"""Spellings of events by older builds whose servers are recorded."""

RECORDED_SPELLINGS = (
    Line("launch", "processing task"),
    Line("slot_clear", "clearing slot with {n_tokens} tokens"),
    Line("batch", "n_tokens = {n_tokens}, memory_seq_rm [{p0}, end)"),
    Line("trim_refused", "failed to truncate tokens with position >= {p0} - clearing the memory"),
    Line("ckpt_search", "n_past = {n_past}, slot.prompt.tokens.size() = {n_tokens}, seq_id = {seq_id}, "
         "pos_min = {pos_min}, n_swa = {n_swa}"),
    Line("ckpt_periodic", "{every} tokens since last checkpoint at {last}, creating new checkpoint during processing "
         "at position {n_tokens}"),
    Line("ckpt_restore", "restored context checkpoint (pos_min = {pos_min}, pos_max = {pos_max}, size = {mib} MiB)"),
    Line("ckpt_restore", "restored context checkpoint (pos_min = {pos_min}, pos_max = {pos_max}, "
         "n_tokens = {n_tokens}, size = {mib} MiB)"),
    Line("ckpt_invalidate", "erased invalidated context checkpoint (pos_min = {pos_min}, pos_max = {pos_max}, "
         "n_swa = {n_swa}, size = {} MiB)"),
    Line("ckpt_invalidate", "erased invalidated context checkpoint (pos_min = {pos_min}, pos_max = {pos_max}, "
         "n_tokens = {n_tokens}, n_swa = {n_swa}, size = {} MiB)"),
    Line("ckpt_evict", "erasing old context checkpoint (pos_min = {pos_min}, pos_max = {pos_max}, size = {} MiB)"),
    Line("ckpt_create", "created context checkpoint {n} of {max} (pos_min = {pos_min}, pos_max = {pos_max}, "
         "size = {mib} MiB)"),
    Line("pc_save", " - saving prompt with length {n_tokens}, total state size = {mib} MiB"),
    Line("kv_full", "failed to find free space in the KV cache, retrying with smaller batch size, i = {}, "
         "n_batch = {n_batch}, ret = {ret}"),
)
"""Spellings of events by wheels from b7376 on. The reader of pasted logs has its own rows for these lines."""

IGNORED_WARNINGS = (
    "n_past was set to {}",                                  # reported by `need_one`
    "LLAMA_TRACE = {}",
)
"""Warnings that do not become events."""

OWNED_ERRORS = ("failed to decode mtmd chunk", "failed to process mtmd chunk, ")
"""Beginnings of the errors that become events of a slot."""

START = (
    Line("server", "print_info: n_swa {}= {n_swa}"),
    Line("server", "llama_context: n_ctx_seq {}= {n_ctx_seq}"),
    Line("server", "llama_context: n_batch {}= {n_batch}"),
    Line("server", "llama_context: n_ubatch {}= {n_ubatch}"),
    Line("server", "llama_context: n_rs_seq {}= {n_rs_seq}"),
    Line("server", "initializing, n_slots = {n_slots}, n_ctx_slot = {n_ctx_slot}, kv_unified = '{kv_unified}'"),
)
"""Facts that a server logs at startup. With two contexts (target and draft), the first line counts."""

CELLS = "llama_kv_cache_iswa: creating {part} KV cache, size = {cells} cells"
SEQ_RM = {
    "the context does not support partial sequence removal": "full_only",
    "the context supports bounded partial sequence removal": "bounded",
}
"""Results of the startup probe of `seq_rm`; `partial` is not logged."""
DISABLED = ("disabling", "it will be disabled")
"""Endings of the lines that report a disabled flag."""

IDLE = "all slots are idle"
ROUND = "processing new tasks"
UPDATE = "posting NEXT_RESPONSE"
DECODE = ("n_batch (effective) = ", "decoding batch, n_tokens = ")
SLOTS_REPORT = "n_idle_slots = "
"""Start of an iteration of the main loop; start of the update after the tasks; decode of a part of the batch, in two
spellings; answer to a request for the slots."""
ENDING_TOKEN = "print_info: EOG token {}= {token} '{}'"
NEXT_TOKEN = "n_{} = {}, n_remaining = {}, next token: {token} '{}"
DRAFT = "generate_draft: id={}, #tokens={n_tokens}, #draft={drafted}, pos_next={}"

UNENDED = "assuming pure content parser."
"""End of a message without a line end. In a log without time stamps the next message follows it directly."""

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_STAMP = re.compile(r"(?:^|(?<=\D))\d+\.\d{2}\.\d{3}\.\d{3} (?=[DIWE] )")
_LEVEL = re.compile(r"([DIWE]) ")
_PART = re.compile(r"(?:slot|srv|cmn|spec|que|res|ui) +\S+: ")
_SLOT = re.compile(r"id +(-?[0-9]{1,18}) \| task (-?[0-9]{1,18}) \| ")
_BOOLEAN = {"yes": True, "no": False, "true": True, "false": False}
_WHOLE = re.compile(r"-?[0-9]{1,18}")
_TASK = re.compile(r"task id = (-?\d+), (?=error: )")


def entries(line: str) -> Iterator[Entry]:
    """Yield the messages of a log line. A line has several messages if an earlier message had no line end. A line
    without a prefix continues the previous message and yields an entry of level ""."""
    pieces = _STAMP.split(_COLOUR.sub("", line.rstrip("\r\n")))
    for piece in pieces if pieces[0] else pieces[1:]:
        before, unended, rest = piece.partition(UNENDED)
        yield _entry(before + unended)
        if rest:
            yield _entry(rest)


def _entry(text: str) -> Entry:
    found = _LEVEL.match(text)
    level, text = (found[1], text[found.end() :]) if found else ("", text)
    part = _PART.match(text)
    if part is None:
        return Entry(level, None, None, text)
    text = text[part.end() :]
    slot = _SLOT.match(text)
    if slot is None:
        return Entry(level, None, None, _TASK.sub("", text))
    task = int(slot[2])
    return Entry(level, int(slot[1]), task if task >= 0 else None, text[slot.end() :])


def read_event(entry: Entry) -> dict[str, Any] | None:
    """Return the event of an entry as in a recorded trace (``slot`` and ``task`` as logged, None if absent), None if
    the line reports no event. A warning or error that is not in the table becomes an event with its text."""
    found = match(entry.text)
    if found is not None:
        line, fields = found
        if line.ev == "spec_step" and (entry.task is None or fields["drafted"] == 0):
            return None                 # b9713 logs a verification after its release, b8672 a decode without a draft
        return {"ev": line.ev, "slot": entry.slot, "task": entry.task, **fields}
    if entry.level in ("W", "E") and not any(_pattern(known).fullmatch(entry.text) for known in IGNORED_WARNINGS):
        kind = "warn" if entry.level == "W" else "error"
        owner = (entry.slot, entry.task) if entry.text.startswith(OWNED_ERRORS) else (None, None)
        return {"ev": kind, "slot": owner[0], "task": owner[1], "text": entry.text}
    return None


def match(text: str) -> tuple[Line, dict[str, Any]] | None:
    """Return the kind of line of a message and its fields; None for an unknown message, or if a field that must be a
    number is a word."""
    lines = _by_head()
    for line in (*lines.get(text[:HEAD], ()), *lines[""]):
        found = _pattern(line.template).fullmatch(text)
        if found is not None:
            with suppress(ValueError):
                return line, {name: _value(word) for name, word in found.groupdict().items()}
    return None


def fields_of(template: str, text: str) -> dict[str, str] | None:
    """Return the words in the fields of a template, None if the text does not match."""
    found = _pattern(template).fullmatch(text)
    return None if found is None else found.groupdict()


def numbers_of(template: str, text: str) -> dict[str, int] | None:
    """Return the integers in the fields of a template, None if the text does not match or a field is not an integer."""
    words = fields_of(template, text) or {}
    if not words or not all(map(_WHOLE.fullmatch, words.values())):
        return None
    return {name: int(word) for name, word in words.items()}


def _value(word: str) -> bool | int | float:
    if word in _BOOLEAN:
        return _BOOLEAN[word]
    if _WHOLE.fullmatch(word):
        return int(word)
    if len(word) > LONGEST:
        raise ValueError("more digits than any number of a log has")
    return float(word)


@cache
def _pattern(template: str) -> re.Pattern[str]:
    """Compile a template: `{name}` matches a word with leading spaces, `{}` anything."""
    out = []
    for literal, place, name in re.findall(r"([^{]*)(\{(\w*)\}|$)", template):
        out.append(re.escape(literal))
        if place:
            out.append(rf" *(?P<{name}>[^\s,()\[\]/']+)" if name else ".*")
    return re.compile("".join(out))


HEAD = 6        # literal characters at the start of a template by which it is found


@cache
def _by_head() -> Mapping[str, tuple[Line, ...]]:
    """Return the lines by the start of their template. Those that start with a field are under ""."""
    found: dict[str, list[Line]] = {"": []}
    for line in (*EVENTS, *OLDER_SPELLINGS, *RECORDED_SPELLINGS):
        starts_with_field = "{" in line.template[:HEAD]
        found.setdefault("" if starts_with_field else line.template[:HEAD], []).append(line)
    return {head: tuple(lines) for head, lines in found.items()}


def server_facts(messages: Iterable[str]) -> dict[str, Any]:
    """Return the server's facts for a recording's header, read from its startup messages."""
    out: dict[str, Any] = {"seq_rm": "partial"}
    cells: dict[str, int] = {}
    notes = []
    for text in messages:
        for line in START:
            found = _pattern(line.template).fullmatch(text)
            if found is not None:
                out = {**{name: _value(word) for name, word in found.groupdict().items()}, **out}
        part = _pattern(CELLS).fullmatch(text)
        if part is not None:
            cells.setdefault(part["part"], int(part["cells"]))
        out["seq_rm"] = SEQ_RM.get(text, out["seq_rm"])
        if text.endswith(DISABLED):
            notes.append(text)
    return {**out, **({"kv_cells": cells} if cells else {}), **({"notes": notes} if notes else {})}


def numbered(events: Iterable[Mapping[str, Any]], one_slot: bool) -> list[dict[str, Any]]:
    """Return events in the form of a recording's step: without ``slot`` on a single-slot server, with tasks numbered in
    order of appearance, and without task numbers if all belong to the same task."""
    kept = list(events)
    tasks = task_numbers(kept)
    out = []
    for event in kept:
        held = dict(event)
        slot, task = held.pop("slot"), held.pop("task")
        if slot is not None and not one_slot:
            held["slot"] = slot
        if task is not None and len(tasks) > 1:
            held["task"] = tasks[task]
        out.append(held)
    return out


def task_numbers(events: Iterable[Mapping[str, Any]]) -> dict[int, int]:
    """Return the number of each task id in a recording's step."""
    tasks: dict[int, int] = {}
    for event in events:
        if event["task"] is not None:
            tasks.setdefault(event["task"], len(tasks))
    return tasks
