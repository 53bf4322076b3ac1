"""Events in the log of ik_llama.cpp's server, in the format of a recording.

The server writes in two ways. ``LEVEL [function] text | key=value ...`` and the library's lines are written at once;
lines that begin with ``slot`` go through a queue and may arrive later. Source: ik_llama.cpp
examples/server/server-context.cpp, server-task.cpp, server-common.cpp server_log (8337e4c).
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from cachesim.engines.shared.log_grammar import collapsed, pattern, value

VERBOSE = ("--verbosity", "1")
"""Flags with which all of these lines are written."""

SERVER = re.compile(r"^ *(VERB|INFO|WARN|ERR) \[ *([^\]]*)\] (.*?) \| tid=\"\d+\" timestamp=\d+(.*)$", re.S)
SLOT = re.compile(r"^slot +\S+: id +(\d+) \| task (-?\d+) \| (.*)$", re.S)
_KEY = re.compile(r" ([\w.]+)=")
_DECODER = json.JSONDecoder()


class Entry(NamedTuple):
    """A line without its prefix. ``level``: VERB, INFO, WARN or ERR, "SLOT" for a queued line and "" for a library
    line; ``tail``: the fields as written."""

    level: str
    text: str
    slot: int | None = None
    task: int | None = None
    tail: str = ""

    @property
    def fields(self) -> dict[str, Any]:
        """The fields after the bar."""
        out, at = {}, 0
        while (key := _KEY.match(self.tail, at)) is not None:
            out[key[1]], at = _DECODER.raw_decode(self.tail, key.end())
        return out


def read_line(line: str) -> Entry:
    """Parse a line."""
    found = SERVER.match(line)
    if found is not None:
        return Entry(found[1], found[3], tail=found[4])
    found = SLOT.match(line)
    if found is not None:
        task = int(found[2])
        return Entry("SLOT", found[3], int(found[1]), task if task >= 0 else None)
    return Entry("", line)


SAID = {
    "selected slot by lcp similarity": ("slot_by_lcp", {"lcp": "max_lcp_len", "f_sim": "similarity"}),
    "selected slot by lru": ("slot_by_lru", {}),
    "slot is processing task": ("launch", {}),
    "kv cache rm [p0, end)": ("batch", {"p0": "p0"}),
    "we have to evaluate at least 1 token to generate logits": ("need_one", {}),
    "slot released": ("release", {"n_tokens": "n_cache_tokens", "truncated": "truncated"}),
    "slot context shift": ("ctx_shift", {"n_keep": "n_keep", "n_left": "n_left", "n_discard": "n_discard"}),
    "input truncated": ("prompt_truncated", {"n_keep": "n_keep", "n_left": "n_left", "n_tokens": "n_prompt_tokens"}),
    "speculative decoding result": ("spec_step", {"accepted": "accepted", "n_tokens": "new_n_past"}),
}
"""Text -> event, and its fields by the names in the log."""

_CKPT = "pos_min = {pos_min}, pos_max = {pos_max}"
_AT = f"{_CKPT}, n_tokens = {{n_tokens}}"
TEMPLATES = tuple(
    (kind, pattern(template))
    for kind, template in (
        ("pc_info", "======== Prompt cache: cache size: {n_tokens}, n_keep: {n_keep}, n_discarded_prompt: "
                    "{n_discarded}, cache_ram_n_min: {n_min}, f_keep: {f_keep}, cache_ram_similarity: {thold}"),
        ("pc_begin", "updating prompt cache"),
        ("pc_save", "- saving prompt with length {n_tokens}, total state size = {mib} MiB"),
        ("pc_already", "- prompt is already in the cache, skipping"),
        ("pc_obsolete", "- removing obsolete cached prompt with length {n_tokens}"),
        ("pc_search", "- looking for better prompt, base f_keep = {f_keep}, sim = {f_sim}, n_keep = {}"),
        ("pc_load", "- found better prompt with f_keep = {f_keep}, sim = {f_sim}, n_keep = {}"),
        ("pc_load_failed", "failed to restore state with size {}"),
        ("pc_load_failed", "failed to load prompt from cache"),
        ("pc_evict", "- cache size limit reached, removing oldest entry (size = {mib} MiB)"),
        ("pc_state", "- cache state: {prompts} prompts, {mib} MiB (limits: {limit_mib} MiB, {limit_tokens} tokens, "
                     "{est} est)"),
        ("pc_entry", "- prompt {}: {n_tokens} tokens, {discarded} discarded, checkpoints: {checkpoints}, {mib} MiB"),
        ("cache_lcp", "======== Cache: cache_size = {n_tokens}, n_past = {n_past}, n_past_prompt = {n_past_prompt}"),
        ("ckpt_search", "n_past = {n_past}, slot.prompt.tokens.size() = {n_tokens}, seq_id = {seq_id}, "
                        "pos_min = {pos_min}"),
        ("ckpt_restore", f"restored context checkpoint took {{}} ms ({_AT}, n_past = {{n_past}}, size = {{mib}} MiB)"),
        ("full_reprocess", "forcing full prompt re-processing due to lack of cache data{}"),
        ("ckpt_invalidate", f"erased invalidated context checkpoint ({_CKPT}, size = {{}} MiB)"),
        ("ckpt_create", f"created context checkpoint {{n}} of {{max}} ({_AT}, size = {{mib}} MiB, took {{}} ms)"),
        ("ckpt_evict", f"erasing old context checkpoint ({_AT}, size = {{}} MiB)"),
    )
)  # fmt: skip
"""Lines without fields after a bar: event and form of its text."""

MIXED = "qwen3next mixed-sequence batch contains repeated seq_id values; falling back to single-token chunking"
UNHEARD = ("%s",)
"""Warnings at the start of a request about flags without an effect; recordings omit them."""
_FUNCTION = re.compile(r"^\w+: ")

IDLE, LOOKED, DECODE, TOKEN = "all slots are idle", "slot data", "decoding batch", "next token"
LAUNCHED = "slot is processing task"


def read_event(entry: Entry) -> dict[str, Any] | None:
    """Return the event of a line, None if it reports none. An unknown error becomes an event of its text."""
    if entry.level in ("VERB", "INFO"):
        return _said(entry)
    if entry.level in ("WARN", "ERR"):
        if entry.text.startswith(UNHEARD):
            return None
        kind = "warn" if entry.level == "WARN" else "error"
        return {"ev": kind, "slot": None, "task": None, "text": f"{entry.text}{entry.tail}"}
    text = collapsed(entry.text)
    for kind, form in TEMPLATES:
        found = form.fullmatch(text)
        if found is not None:
            numbers = {name: value(word) for name, word in found.groupdict().items()}
            return {"ev": kind, "slot": entry.slot, "task": entry.task, **numbers}
    if _FUNCTION.sub("", entry.text) == MIXED:
        return {"ev": "warn", "slot": None, "task": None, "text": MIXED}
    return None


def _said(entry: Entry) -> dict[str, Any] | None:
    if entry.text not in SAID:
        return None
    kind, names = SAID[entry.text]
    fields = entry.fields
    task = None if kind.startswith("slot_") else fields.get("id_task")
    return {"ev": kind, "slot": fields["id_slot"], "task": task, **{name: fields[key] for name, key in names.items()}}
