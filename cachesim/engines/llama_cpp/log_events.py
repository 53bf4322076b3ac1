"""Which event does a line of llama-server's log report? One table, read in both directions by whoever needs it.

A template is the message behind the line's prefix; `{name}` is a field of the event, `{}` a number or word that no
event holds. The builds are those in which a line is printed at log level 5. Field names are those of the recorded
traces and of `cachesim.events`. Source: llama.cpp tools/server/server-context.cpp, server-task.cpp, server-queue.cpp
(b10566 to b11549).
"""

from __future__ import annotations

import re
from contextlib import suppress
from functools import cache
from typing import Any, Iterable, Iterator, Mapping, NamedTuple

from cachesim.engines.shared.log_grammar import LONGEST, Line


class Entry(NamedTuple):
    """A line of a log without its prefix. ``level`` is D, I, W or E, "" where the log has none; ``slot`` and ``task``
    are None where the line names none."""

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
    Line("pc_search", " - looking for better prompt, base f_keep = {f_keep}, f_sim = {f_sim}"),
    Line("pc_cand", "   - prompt with length {n_tokens}, lcp = {lcp}, f_keep = {f_keep}, f_sim = {f_sim}"),
    Line("pc_load", " - found better prompt with f_keep = {f_keep}, f_sim = {f_sim}"),
    Line("pc_load_failed", "failed to restore state with size {}"),
    Line("pc_load_failed", "failed to load prompt from cache"),
    Line("pc_state", " - cache state: {prompts} prompts, {mib} MiB "
         "(limits: {limit_mib} MiB, {limit_tokens} tokens, {est} est)"),
    Line("pc_entry", "   - prompt {}: {n_tokens} tokens, checkpoints: {checkpoints}, {mib} MiB"),
    Line("idle_save", "saving idle slot to prompt cache"),
    Line("slot_clear", "clearing prompt with {n_tokens} tokens"),
    Line("slot_purge", "purging slot {slot_arg} with {n_tokens} tokens"),
    # A prompt begins.
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
    # Its batches and checkpoints.
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
    # Generation and the end.
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

UNHEARD = (
    "n_past was set to {}",                                  # said by `need_one`
    "LLAMA_TRACE = {}",
)
"""Warnings that are no events of their own."""

START = (
    Line("server", "print_info: n_swa {}= {n_swa}"),
    Line("server", "llama_context: n_ctx_seq {}= {n_ctx_seq}"),
    Line("server", "llama_context: n_batch {}= {n_batch}"),
    Line("server", "llama_context: n_ubatch {}= {n_ubatch}"),
    Line("server", "llama_context: n_rs_seq {}= {n_rs_seq}"),
    Line("server", "initializing, n_slots = {n_slots}, n_ctx_slot = {n_ctx_slot}, kv_unified = '{kv_unified}'"),
)
"""What a server says of itself when it starts; of two contexts (a draft's) the first counts."""

CELLS = "llama_kv_cache_iswa: creating {part} KV cache, size = {cells} cells"
SEQ_RM = {
    "the context does not support partial sequence removal": "full_only",
    "the context supports bounded partial sequence removal": "bounded",
}
"""What the start-up probe of `seq_rm` says; nothing for `partial`."""
DISABLED = ("disabling", "it will be disabled")
"""How the notes end that say which flag was switched off."""

IDLE = "all slots are idle"
ROUND, UPDATE, DECODE = "processing new tasks", "posting NEXT_RESPONSE", "n_batch (effective) = "
"""A round of the main loop begins, its tasks are taken and slots are busy, and it decodes a part of its batch."""
NEXT_TOKEN = "n_gen = {}, n_remaining = {}, next token: {token} '{}"
DRAFT = "generate_draft: id={}, #tokens={n_tokens}, #draft={drafted}, pos_next={}"

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_STAMP = re.compile(r"(?:^|(?<=\D))\d+\.\d{2}\.\d{3}\.\d{3} (?=[DIWE] )")
_LEVEL = re.compile(r"([DIWE]) ")
_PART = re.compile(r"(?:slot|srv|cmn|spec|que|res|ui) +\S+: ")
_SLOT = re.compile(r"id +(-?[0-9]{1,18}) \| task (-?[0-9]{1,18}) \| ")
_BOOLEAN = {"yes": True, "no": False, "true": True, "false": False}
_WHOLE = re.compile(r"-?[0-9]{1,18}")
_TASK = re.compile(r"task id = (-?\d+), (?=error: )")


def entries(line: str) -> Iterator[Entry]:
    """The messages in a line of a log: mostly one; more where an earlier one had no line's end. A line without a
    prefix goes on with the message before it and yields an entry of level ""."""
    pieces = _STAMP.split(_COLOUR.sub("", line.rstrip("\r\n")))
    for piece in pieces if pieces[0] else pieces[1:]:
        yield _entry(piece)


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
    """The event of an entry as a recorded trace holds it (``slot`` and ``task`` as logged, None where absent); None
    for a line that reports none. Warnings and errors that the table does not know are events of their text."""
    found = match(entry.text)
    if found is not None:
        line, fields = found
        return {"ev": line.ev, "slot": entry.slot, "task": entry.task, **fields}
    if entry.level in ("W", "E") and not any(_pattern(known).fullmatch(entry.text) for known in UNHEARD):
        kind = "warn" if entry.level == "W" else "error"
        return {"ev": kind, "slot": None, "task": None, "text": entry.text}
    return None


def match(text: str) -> tuple[Line, dict[str, Any]] | None:
    """The kind of line of a message, and its fields; None for any other message, and for one with a word where the
    server writes a number."""
    for line in _by_head().get(text[:HEAD], ()):
        found = _pattern(line.template).fullmatch(text)
        if found is not None:
            with suppress(ValueError):
                return line, {name: _value(word) for name, word in found.groupdict().items()}
    return None


def fields_of(template: str, text: str) -> dict[str, str] | None:
    """The words at the places of a template's fields, None where the text does not fit."""
    found = _pattern(template).fullmatch(text)
    return None if found is None else found.groupdict()


def numbers_of(template: str, text: str) -> dict[str, int] | None:
    """The same as whole numbers, None also where one of them is none."""
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
    """`{name}` is one word, padded on its left; `{}` anything."""
    out = []
    for literal, place, name in re.findall(r"([^{]*)(\{(\w*)\}|$)", template):
        out.append(re.escape(literal))
        if place:
            out.append(rf" *(?P<{name}>[^\s,()\[\]/']+)" if name else ".*")
    return re.compile("".join(out))


HEAD = 6        # every template begins with so many characters of text


@cache
def _by_head() -> Mapping[str, tuple[Line, ...]]:
    heads = {line.template[:HEAD] for line in EVENTS}
    return {head: tuple(line for line in EVENTS if line.template.startswith(head)) for head in heads}


def server_facts(messages: Iterable[str]) -> dict[str, Any]:
    """What a recording's header says of the server, from the messages of its start."""
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
    """Events as a step of a recording holds them: no ``slot`` on a server with one, tasks numbered by their first
    appearance and only where there are several."""
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
    """The number that each task of a log has in a step of a recording."""
    tasks: dict[int, int] = {}
    for event in events:
        if event["task"] is not None:
            tasks.setdefault(event["task"], len(tasks))
    return tasks
