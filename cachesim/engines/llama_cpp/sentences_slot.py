"""Sentences for decisions about slots, the prompt cache and slot files of llama.cpp's server."""

from __future__ import annotations

from math import isnan
from typing import Any

from cachesim.base.errors import counted
from cachesim.engines.shared.sentences import Because, NoEffect, Say

ANY = -1                 # id_slot of a request that does not name a slot


def _slot(choice: Any, because: Because) -> str:
    if choice is None:
        named = because.get("id_slot", ANY)
        return "no slot is available: the request waits" if named == ANY else f"no slot is available (id_slot {named})"
    share = f"f_sim {choice.f_sim:.3f}, f_keep {choice.f_keep:.3f}"
    how = {
        "lru": "by LRU", "lcp": f"by LCP similarity: {share}",
        "id": f"by id_slot: {'the slot is empty' if isnan(choice.f_keep) else share}",
    }.get(choice.by, "by id_slot")
    search = "asks for a prompt cache search" if choice.update else "no prompt cache search"
    return f"selected slot {choice.slot} {how}; {search}"


def _slot_0(choice: Any, because: Because) -> str:
    if choice is not None and choice.by == "lcp":
        share = f"{choice.f_keep:.3f} of the slot's tokens > {because['sps']:.3f}"
        return f"selected slot {choice.slot} by LCP similarity: {share}"
    text = _slot(choice, because)
    return text.partition(";")[0]                # these builds have no prompt cache


def _slot_idle(choice: Any, because: Because) -> str:
    text = _slot(choice, because)
    if choice is None or choice.update or choice.by == "lcp":
        return text
    return f"{text} (f_keep >= 0.5, or the slot is busy)"


def _better(value: Any, because: Because) -> str:
    if "entries" not in because:
        return "the entry is removed from the prompt cache on load" if value else (
            "the entry stays in the prompt cache; the slot gets a copy")
    entries = counted(because["entries"], "entry", "entries")
    if not because["entries"]:
        return "the prompt cache is empty"
    share = f"f_keep {because['f_keep']:.3f}, f_sim {because['f_sim']:.3f}"
    if value is not None:
        return f"found a better prompt: entry {value} of {because['entries']} with {share}"
    empty = because["f_keep"] < 0
    return f"no better prompt among {entries} ({'the slot is empty' if empty else f'slot: {share}'})"


def _alloc(plan: Any, because: Because) -> str:
    tokens, size = because["n_tokens"], because["size"]
    if plan.verdict == "already":
        return f"not saved: an entry of the prompt cache starts with these {counted(tokens, 'token')}"
    if plan.verdict == "too_big":
        return f"not saved: {size:,} bytes exceed the prompt cache's limit of {because['limit_size']:,}"
    before = counted(because["entries"], "entry", "entries")
    text = f"saved to prompt cache: {counted(tokens, 'token')} ({before} before)"
    if plan.obsolete:
        text += f"; removes {counted(len(plan.obsolete), 'entry that is a prefix', 'entries that are prefixes')} of it"
    return text + (f"; evicts {counted(plan.evict, 'oldest entry', 'oldest entries')}" if plan.evict else "")


def _update(plan: Any, because: Because) -> str:
    gone = plan.for_size + plan.for_tokens
    if not gone and not because["tokens"]:
        return NoEffect("nothing evicted: the prompt cache is empty")
    if not gone:
        return NoEffect(f"nothing evicted ({because['tokens']:,} of {plan.est:,} tokens)")
    limits = [f"{because['size']:,} bytes, limit {because['limit_size']:,}"] if plan.for_size else []
    limits += [f"{because['tokens']:,} tokens, limit {plan.est:,}"] if plan.for_tokens else []
    return f"evicts {counted(gone, 'oldest entry', 'oldest entries')} ({'; '.join(limits)})"


def _idle(plan: Any, because: Because) -> str:
    held = counted(because["held"], "token")
    if not because["held"]:
        return NoEffect("idle slot is empty")
    if not plan.save:
        return NoEffect(f"idle slot of {held} not offered to the prompt cache")
    clear = ", then cleared (unified KV cache)" if plan.clear else ""
    return f"idle slot of {held} offered to the prompt cache{clear}"


def _slot_id(value: int | None, because: Because) -> str:
    if value == because["id_slot"]:
        return NoEffect(f"id_slot {value}")
    if value is None:
        return f"no slot {because['id_slot']}: the request is refused"
    return f"id_slot {because['id_slot']} modulo {counted(because['n_slots'], 'slot')} is slot {value}"


def _cleared(value: Any, because: Because) -> str:
    n = because["checkpoints"]
    if not n:
        return NoEffect("slot cleared")
    return f"slot cleared; {counted(n, 'checkpoint')} {'erased' if value else 'not erased'}"


def _slot_file(value: Any, because: Because) -> str:
    text = f"slot file: {len(value)} of {counted(because['n'], 'checkpoint')}"
    return text if because["n"] else NoEffect(text)


TORN = {"ends": "the server ends", "stays": "its cells stay taken", "freed": "its cells are freed"}

FAMILIES: dict[str, Say] = {
    "LC-SLOT-SELECT": _slot,
    "LC-SLOT-ID": _slot_id,
    "LC-PC-ASK": lambda v, b: NoEffect("prompt cache used") if v else "the slot is empty: prompt cache not used",
    "LC-PC-ALLOC": _alloc,
    "LC-PC-LOAD": _better,
    "LC-PC-UPDATE": _update,
    "LC-PC-FAILED": lambda v, b: "the entry cannot be read: " + (
        "the slot is cleared" if v else f"the slot keeps its list of {counted(b['held'], 'token')} without cells"),
    "LC-IDLE-SAVE": _idle,
    "LC-IDLE-PURGE": lambda v, b: NoEffect("idle slots may be purged to make room") if v else (
        "no idle slot may be purged: the KV cache is not unified"),
    "LC-WAIT": lambda v, b: f"a slot with {counted(b['held'], 'token')} has a request that waits: " + (
        "it is cleared" if v else "it keeps its cells"),
    "LC-CHILDREN-COUNT": lambda v, b: (
        f"the other completions report {counted(v, 'evaluated token')}: {b['evaluated']} so far, {b['batched']} in "
        "the batch"),
    "LC-CHILDREN-AT": lambda v, b: (
        f"{counted(b['output'] + 1 - b['stop'], 'token')} of the prompt not evaluated yet: "
        f"{'copied without them' if v else 'not copied yet'} to the other completions"),
    "LC-CLEAR": _cleared,
    "LC-RESTORE-FAIL": lambda v, b: f"{v[0]}: tokens dropped, " + (
        "memory cleared, checkpoints erased" if v[1] else "memory and checkpoints stay"),
    "LC-SLOT-FILE": _slot_file,
    "LC-FILE-EMPTY": lambda v, b: f"the slot file is empty: the slot's {counted(b['held'], 'token')} " + (
        "and their cells are removed" if v else "are removed, their cells stay"),
    "LC-FILE-TORN": lambda v, b: f"the slot file ends too early: {TORN[v]}",
}

VARIANTS: dict[str, Say] = {
    "LC-SLOT-SELECT.SL0": _slot_0,
    "LC-SLOT-SELECT.IDLE": _slot_idle,
    "LC-PC-ASK.PC4": lambda v, b: NoEffect("prompt cache used, by an empty slot too"),
    "LC-IDLE-SAVE.NONE": lambda v, b: NoEffect("idle slots are not saved"),
    "LC-IDLE-PURGE.NONE": lambda v, b: "no idle slot may be purged",
    "LC-SLOT-FILE.BARE": lambda v, b: "slot file: checkpoints are not part of it" if b["n"] else NoEffect(
        "slot file: no checkpoints"),
}
