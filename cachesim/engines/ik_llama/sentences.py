"""Sentences of decisions of ik_llama.cpp, with the server's names for the numbers."""

from __future__ import annotations

from typing import Any

from cachesim.base.errors import counted
from cachesim.engines.ik_llama import sentences_checkpoint as checkpoint
from cachesim.engines.ik_llama.sentences_media import MEDIA
from cachesim.engines.shared.sentences import Because, NoEffect, Say, Sentences


def _slot(choice: Any, because: Because) -> str:
    if choice is None:
        named = because["id_slot"]
        return "no slot is available: the request waits" if named < 0 else f"slot {named} is not available"
    how = {"name": "by id_slot", "lru": "by LRU",
           "lcp": f"by LCP similarity: {choice.f_sim:.3f} > {because['sps']:.3f}"}  # fmt: skip
    return f"selected slot {choice.slot} {how[choice.by]}"


def _common(found: Any, because: Because) -> str:
    held, asked = because["held"], because["asked"]
    if found.cache == found.prompt:
        return f"n_past = {found.cache} (common prefix; slot {held}, prompt {asked} tokens)"
    return f"n_past = {found.cache} of {held} in the slot, {found.prompt} of {asked} in the prompt (same text)"


def _one(back: int, because: Because) -> str:
    n_past = because["n_past_prompt"]
    if not back:
        return NoEffect(f"n_past = {n_past} of {because['asked']}")
    when = "after" if because["searched"] else "before"
    return f"n_past - 1 = {n_past - 1}: at least one token must be evaluated for logits ({when} the checkpoint search)"


def _load(value: int | None, because: Because) -> str:
    share = f"f_keep {because['f_keep']:.3f}, sim {because['f_sim']:.3f}"
    if not because["entries"]:
        return "the prompt cache is empty"
    if value is None:
        return f"no better prompt among {counted(because['entries'], 'entry', 'entries')} (slot: {share})"
    return f"found a better prompt: entry {value} of {because['entries']} with {share}"


def _save(value: bool, because: Because) -> str:
    held = counted(because["held"], "token")
    if value:
        return f"slot of {held} offered to prompt cache: f_keep {because['f_keep']:.3f} < {because['least_keep']:.3f}"
    if not because["held"]:
        return "slot not offered to prompt cache: it is empty"
    if because["held"] < because["n_min"]:
        return f"slot of {held} not offered to prompt cache: fewer than {because['n_min']} tokens"
    return f"slot of {held} not offered to prompt cache: f_keep {because['f_keep']:.3f} >= {because['least_keep']:.3f}"


def _alloc(plan: Any, because: Because) -> str:
    before = f"{counted(because['entries'], 'entry', 'entries')} before"
    gone = len(plan.obsolete)
    removed = f"; removes {counted(gone, 'entry that is a prefix', 'entries that are prefixes')} of it" if gone else ""
    if plan.verdict == "already":
        return f"not saved: an entry of the prompt cache contains the prompt ({before}){removed}"
    return f"saved to prompt cache ({before}){removed}"


def _update(gone: Any, because: Because) -> str:
    n, size = gone.for_size + gone.for_tokens, f"{because['size']:,} of {because['limit_size']:,} bytes"
    if not n:
        return NoEffect(f"nothing evicted ({size})")
    return f"evicts {counted(n, 'oldest entry', 'oldest entries')} ({size})"


def _full(value: str, because: Because) -> str:
    at = f"{because['held']} of {because['n_ctx']} tokens"
    then = {"shift": "context shift", "error": "the request fails"}
    return f"context full ({at}): {then[value]}" if value else NoEffect(f"context not full ({at})")


def _discards(plan: Any) -> str:
    return "n_discard = 0, no context shift" if plan is None else (
        f"n_keep = {plan.n_keep}, n_discard = {plan.n_discard}")


def _failed(repair: Any, because: Because) -> str:
    if repair.reset:
        return "seq_rm failed: target and draft context cleared, checkpoints erased"
    if repair.wipe:
        return "seq_rm of the draft context failed: only the draft context is cleared"
    return NoEffect("seq_rm worked")


def _graph(again: bool, because: Because) -> str:
    rows, last = (", ".join(map(str, because[name] or ())) for name in ("rows", "last"))
    if not again:
        return NoEffect(f"graph built for recurrent row {rows}")
    reset = "zeroes" if any(because["zeroes"]) else "does not zero"
    return f"graph of the last micro-batch used again: it {reset} recurrent row {last}; the tokens belong to row {rows}"


def _spec_save(value: Any, because: Because) -> str:
    n = f"{counted(because['n_batch'], 'token')}, {counted(because['capacity'], 'saved state')}"
    if value[0]:
        return NoEffect(f"states saved for the draft ({n})")
    return f"states not saved ({n}): " + ("drafts all the same" if value[1] else "evaluates only the sampled token")


FAMILIES: dict[str, Say] = {
    "IK-SLOT-SELECT": _slot,
    "IK-COMPARE": lambda v, b: "slot and prompt compared " + ("as text" if v.text else "by token ids") + (
        f", {b['held'] - b['left']} tokens of reasoning left out" if v.without_reasoning else ", reasoning included"),
    "IK-PARSER": lambda v, b: (
        "the chat parser of an earlier request is applied to the answer" if v and not b["chat"] else
        NoEffect(f"the answer is {'parsed' if v else 'plain text'}")),
    "IK-SYSTEM": lambda v, b: f"system prompt of {counted(b['n_tokens'], 'token')} set: the memory is cleared" + (
        ", and so are slots, draft context and prompt cache" if v.slots else
        "; slots, draft context and prompt cache keep their content"),
    "IK-GRAPH": _graph,
    "IK-ABORT": lambda v, b: NoEffect("a disconnected client does not stop the evaluation") if v < 0 else (
        f"evaluation stopped by the client: {v} of {counted(b['held'], 'token')} stay listed"),
    "IK-SHIFTED": lambda v, b: "slot compared with the prompt as the context shift would leave it" if v else NoEffect(
        "slot compared with the whole prompt"),
    "IK-PROMPT-EMPTY":
        lambda v, b: "empty prompt: answered at once" if v else NoEffect(f"prompt of {b['asked']} tokens"),
    "IK-REUSE": lambda v, b: NoEffect("cache_prompt is true") if v else "n_past = 0: cache_prompt is false",
    "IK-PREFIX": _common,
    "IK-ONE": _one,
    "IK-PC-SAVE": _save,
    "IK-PC-ALLOC": _alloc,
    "IK-PC-PEEK": lambda v, b: "comparing moves the tokens out of the slot and of every entry" if v else NoEffect(
        "comparing leaves the token lists alone"),
    "IK-PC-LOAD": _load,
    "IK-PC-HIT": lambda v, b: "the entry is removed from the prompt cache on load" if v else (
        "the entry stays in the prompt cache; the slot gets a copy"),
    "IK-PC-UPDATE": _update,
    "IK-UBATCH-SPLIT": lambda v, b: NoEffect(
        f"micro-batch of {counted(v, 'token')} (window of {b['tokens']}, {counted(b['sequences'], 'sequence')})"),
    "IK-KV-SEEN": lambda v, b: f"attention reads cells 0..{v - 1} of {b['size']} (blocks of {b['pad']})",
    "IK-KV-WINDOW": lambda v, b: f"window layers read cells {v}..{b['n_kv'] - 1} only: rows of a window lie below",
    "IK-KV-BLIND": lambda v, b: f"{counted(b['tokens'], 'token')} without a visible cell: the result is " + (
        "not a number" if v else "a wrong number"),
    "IK-DECODE-AGAIN": lambda v, b: f"the next attempt begins at token {v} ({b['evaluated']} evaluated)",
    "IK-DECODE-RETRY": lambda v, b: f"no free KV cells: retries with n_batch = {v}" if v else (
        "no free KV cells: the request fails"),
    "IK-END": lambda v, b: f"token {b['n_decoded']} of {b['n_predict']}: " + (f"stops ({v})" if v else "continues"),
    "IK-FULL": _full,
    "IK-KEEP": lambda v, b: NoEffect(f"n_keep = {v}") if b["asked"] is not None else (
        f"n_keep = {v}, from the slot's last request"),
    "IK-SHIFT": lambda v, b: f"context {'full' if v is None else 'shift'} at {b['held']} tokens: {_discards(v)}",
    "IK-PROMPT-SHIFT": lambda v, b: (
        f"prompt of {b['asked']} tokens does not fit n_ctx {b['n_ctx']}: {_discards(v)}"),
    "IK-SHIFT-FIND": lambda v, b: f"in the KV cache: n_keep = {v.n_keep}, n_discard = {v.n_discard}",
    "IK-SEQ-RM": lambda v, b: f"seq_rm({b['p0']}, {b['p1']}) refused: the recurrent state is at position {b['tail']}"
        if v else NoEffect(f"seq_rm({b['p0']}, {b['p1']}) accepted"),
    "IK-TRIM": lambda v, b: NoEffect("draft context trimmed, too") if v else (
        "draft context not trimmed: seq_rm of the target failed"),
    "IK-TRIM-FAILED": _failed,
    "IK-SLOT-SAVE": lambda v, b: f"slot file: {counted(b['ckpts'], 'checkpoint')} written to a side file" if v else (
        "slot file: no checkpoints"),
    "IK-SLOT-RESTORE": lambda v, b: "slot file: checkpoints read from the side file" if v else (
        "slot file: no side file with checkpoints"),
    "IK-SLOT-ERASE": lambda v, b: f"slot erased; {counted(b['ckpts'], 'checkpoint')} {'erased' if v else 'not erased'}",
    "IK-SPEC-MAX": lambda v, b: f"drafts at most {counted(v, 'token')}",
    "IK-DRAFT-FROM": lambda v, b: NoEffect(f"drafts for position {v}") if v == b["held"] else (
        f"drafts for position {v}; the target continues at {b['held']}"),
    "IK-WARM-UP": lambda v, b: (
        NoEffect(f"draft context: row {b['pos']} conditioned on state {v}") if v <= b["pos"] else
        f"draft context: row {b['pos']} conditioned on a later state ({v})"),
    "IK-SPEC-SAVE": _spec_save,
    "IK-SPEC-COMMIT": lambda v, b: (
        f"draft context takes the accepted tokens at position {v[0]}, {'after' if v[1] else 'without'} seq_rm"),
    "IK-SPEC-PURGE": lambda v, b: NoEffect("draft context keeps its rows") if v is None else (
        f"draft context: seq_rm({v[0]}, {v[1]}) removes drafted tokens"),
    "IK-PC-FAILED": lambda v, b: "no free cells for the entry: the memory is empty, the slot's " + (
        f"{counted(b['held'], 'token')} {'are dropped' if v else 'stay'}"),
    "IK-GIVE-UP": lambda v, b: f"no free KV cells, the request fails: {v} of {counted(b['held'], 'token')} stay listed",
    "IK-PROMPT-CUT": lambda v, b: f"prompt shift: the KV cache discards {counted(v, 'token')}",
    "IK-REFUSED": lambda v, b: f"prompt of {b['asked']} tokens exceeds n_ctx {b['n_ctx']}: error, " + (
        "but the slot evaluates it all the same" if v else "the slot is released"),
    "IK-SHIFT-LIST": lambda v, b: NoEffect("context shift: the slot's tokens are discarded, too") if v else (
        "context shift: the slot's tokens are not discarded (cache_prompt is false)"),
    "IK-SPEC-ROW": lambda v, b: f"draft rejected: state restored into row {v[0]} for sequence {b['seq']}" + (
        f", cell {b['seq']} takes its position" if v[1] else ""),
    "IK-SPEC-STEPS": lambda v, b: NoEffect(f"states of {counted(b['n'], 'token')} saved by {v}" if v else (
        f"no states saved: {b['n']} tokens, capacity {b['capacity']}")),
    "IK-SPEC-START": lambda v, b: NoEffect("the server starts") if v else (
        f"the server does not start: drafts and {b['n_slots']} slots"),
    "IK-STATE-ZERO": lambda v, b: NoEffect(
        "recurrent state zeroed at position 0" if v else f"recurrent state continues at position {b['pos']}"),
    "IK-WINDOW": lambda v, b: NoEffect("window layers keep " + ("compacted rows" if v else "every row")),
}

VARIANTS: dict[str, Say] = {
    "IK-SHIFTED.NO": lambda v, b: NoEffect("slot compared with the whole prompt; shifts are not compared"),
    "IK-SLOT-SELECT.LAST-PROMPT": lambda v, b: _slot(v, b).replace("LCP similarity", "LCP with its last prompt"),
    "IK-PC-SAVE.NEVER": lambda v, b: f"slot of {counted(b['held'], 'token')} not saved: there is no prompt cache",
    "IK-PC-PEEK.DIRECT": lambda v, b: NoEffect("comparing does not copy the token lists"),
    "IK-SLOT-SAVE.STATE-ONLY": lambda v, b: "slot file: checkpoints are not saved",
    "IK-SLOT-RESTORE.STATE-ONLY": lambda v, b: "slot file: no side file is read",
}

SENTENCES = Sentences({**FAMILIES, **checkpoint.FAMILIES, **MEDIA}, {**VARIANTS, **checkpoint.VARIANTS})
