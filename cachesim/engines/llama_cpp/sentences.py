"""Sentences for decisions of llama.cpp's server. Each is built from the decision's numbers, in the words of the
server's log where the log reports the decision."""

from __future__ import annotations

from typing import Any

from cachesim.base.errors import counted
from cachesim.engines.llama_cpp import sentences_checkpoint as checkpoint
from cachesim.engines.llama_cpp import sentences_older as older
from cachesim.engines.llama_cpp import sentences_slot as slot
from cachesim.engines.llama_cpp.sentences_adapters import ADAPTERS
from cachesim.engines.llama_cpp.sentences_media import MEDIA
from cachesim.engines.shared.sentences import Because, NoEffect, Say, Sentences


def _moved(blocks: Any, because: Because) -> str:
    if blocks is None:
        return "cache reuse is not supported by this memory (recurrent state)"
    if not blocks:
        return NoEffect(f"no block of {because['least']} tokens or more to reuse")
    n_tokens, n_blocks = counted(sum(one.n for one in blocks), "token"), counted(len(blocks), "block")
    return f"reuses {n_tokens} in {n_blocks} at shifted positions (--cache-reuse)"


def _task(value: Any, because: Because) -> str:
    kind = because["kind"]
    if "n_ubatch" not in because:
        uses = "uses prompt cache and checkpoints"
        return NoEffect(f"{kind}: {uses}") if value else f"{kind}: no prompt cache, no checkpoints"
    n_tokens, n_ubatch = because["n_tokens"], because["n_ubatch"]
    if not value:
        return NoEffect(f"{kind}: may be split into micro-batches")
    if value == "whole":
        return f"{kind}: evaluated in one micro-batch ({n_tokens} tokens, n_ubatch {n_ubatch})"
    return f"{kind}: {n_tokens} tokens are too large to process (n_ubatch {n_ubatch})"


def _decode(value: int, because: Because) -> str:
    if not value:
        return "no free KV cells: Context size has been exceeded"
    purged = " after purging an idle slot" if because["purged"] else ""
    return f"no free KV cells: retries with n_batch = {value}{purged}"


def _end(value: Any, because: Because) -> str:
    at = f"token {because['n_gen']} of {because['n_predict']}"
    if not value[0]:
        return f"{at}: continues"
    return f"{at}: stops ({'context full' if value[1] else value[0]})"


def _shared(value: int | None, because: Because) -> str:
    if value is None:
        return NoEffect("several prompts in one request are not supported")
    return f"{counted(value, 'token')} shared by {because['prompts']} prompts, evaluated once" if value else NoEffect(
        f"{counted(because['prompts'], 'prompt')} share no token")


def _marks(value: bool, because: Because) -> str:
    if value:
        return NoEffect("user messages are known from the chat template or message_delimiters")
    return "message_delimiters of a plain completion are ignored"


def _shift(plan: Any, because: Because) -> str:
    if plan is None:
        return NoEffect(f"no context shift: {because['held']} of {because['n_ctx']} tokens")
    return f"context shift at {because['held']} tokens: n_keep = {plan.n_keep}, n_discard = {plan.n_discard}"


PROMPT: dict[str, Say] = {
    "LC-NPAST-LCP": lambda v, b: f"n_past = {v} (common prefix of slot and prompt)" if b["cache_prompt"] else (
        f"n_past = 0: cache_prompt is false (common prefix {b['lcp']})"),
    "LC-NPAST-ONE": lambda v, b: NoEffect(f"n_past = {v} of {b['n_tokens']}") if v == b["n_past"] else (
        f"n_past - 1 = {v}: at least one token must be evaluated for logits"),
    "LC-NPAST-REUSE": _moved,
    "LC-TASK": _task,
    "LC-TASK-REUSE": lambda v, b: NoEffect(f"{b['kind']}: cached tokens are reused") if v else (
        f"{b['kind']}: no cached token is reused"),
    "LC-SHARED": _shared,
    "LC-MARKS": _marks,
    "LC-TRIM": lambda v, b: f"seq_rm from {b['n_past']} on failed: " + (
        "slot cleared, the whole prompt is re-evaluated" if v else "the server aborts"),
    "LC-DECODE": _decode,
    "LC-VIEW-LEAD": lambda v, b: (
        f"the request that leads the batch has ended before its next part, and the process ends: {v}") if v else (
        NoEffect("the request that leads the batch has ended before its next part")),
    "LC-END": _end,
    "LC-SHIFT": _shift,
    "LC-DISCARD": lambda v, b: v or NoEffect(f"n_discard = {b['n_discard']} is accepted"),
}

PROMPT_VARIANTS: dict[str, Say] = {
    "LC-DISCARD.FREE": lambda v, b: NoEffect(f"n_discard = {b['n_discard']} is accepted: the build does not check it"),
    "LC-SHIFT.SHARED": lambda v, b: v or NoEffect("context shift allowed: the prompt is not shared"),
    "LC-MARKS.CHAT": lambda v, b: _marks(v, b) if not v else NoEffect("user messages are known from the chat template"),
}

# Sentences for decisions about memories, startup and drafts.

ALL = 2**31 - 1          # p1 of a removal up to the end


def _seq_rm(because: Because) -> str:
    return f"seq_rm({because['p0']}, {-1 if because['p1'] >= ALL else because['p1']})"


def _rs_rm(refused: bool, because: Because) -> str:
    at = f"the recurrent state is at position {because['pos']}"
    return f"{_seq_rm(because)} " + (f"refused: {at} and cannot go back" if refused else f"accepted: {at}")


def _rs_rm_1(refused: bool, because: Because) -> str:
    if not refused and 0 < because["p0"] == because["pos"]:
        return f"{_seq_rm(because)} accepted: it drops the whole recurrent state at position {because['pos']}"
    return _rs_rm(refused, because)


def _rs_back(goes: bool, because: Because) -> str:
    back, planes = counted(because["back"], "token"), f"n_rs_seq {because['n_rs_seq']}"
    if goes:
        return f"recurrent state rolled back by {back} ({planes})"
    if not 1 <= because["back"] <= because["n_rs_seq"]:
        return f"no rollback by {back}: {planes}"
    return f"no rollback by {back}: {'a rollback is pending' if because['pending'] else 'the cell is shared'}"


def _plane(plane: int, because: Because) -> str:
    back = f"rollback by {counted(because['back'], 'token')}"
    also = f"{because['pending']} pending, {counted(because['since'], 'token')} after the planes"
    return f"{back} reads plane {plane} ({also})" if plane else f"{back}: no plane holds this state ({also})"


def _count(count: int, because: Because) -> str:
    return NoEffect(f"{counted(count, 'accepted draft token')} counted" + (
        ", in a replayed batch" if because["replayed"] else ""))


def _split(split: Any, because: Because) -> str:
    if split.alone:
        return "a micro-batch holds tokens of one sequence"
    ids = "consecutive sequences" if split.sequential else "any sequences"
    tail = f", the last {split.n_keep_tail} tokens of a sequence stay together" if split.n_keep_tail else ""
    return f"a micro-batch holds equally many tokens of {ids}{tail}"


def _spec_ckpt(saved: bool, because: Because) -> str:
    draft = f"a draft of {counted(because['n_draft'], 'token')} (n_rs_seq {because['n_rs_seq']})"
    return f"state saved before {draft}" if saved else NoEffect(f"no state saved before {draft}")


def _replay(replays: bool, because: Because) -> str:
    rejected = counted(because["n_rollback"], "rejected token")
    if replays:
        return f"{rejected}: restores the state saved before the draft and re-evaluates the accepted tokens"
    return NoEffect(f"{rejected}: removed with seq_rm")


def _room(text: str, because: Because) -> str:
    fits = f"{counted(because['n_batch'], 'token')} in a batch of {because['capacity']}"
    return f"{fits}: {text}" if text else NoEffect(f"{fits}: they fit")


MEMORY: dict[str, Say] = {
    "LC-N-SWA": lambda v, b: f"n_swa = {v} for thresholds (model: {b['n_swa']})",
    "LC-SLOTS-OPEN": lambda v, b: "the number of slots is left open" if v else f"-np {b['parallel']}",
    "LC-SLOT-CTX": lambda v, b: f"n_ctx of a slot = {v}",
    "LC-CTX-POOL": lambda v, b: f"n_ctx = {v}",
    "LC-RS-PLANES": lambda v, b: f"n_rs_seq = {v}",
    "LC-RS-RM": _rs_rm,
    "LC-RS-BACK": _rs_back,
    "LC-RS-PLANE": _plane,
    "LC-RS-SAVED": lambda v, b: f"state saved while a rollback by {b['pending']} is pending: " + (
        "the server aborts" if v < 0 else f"plane {v}"),
    "LC-RS-SPLIT": _split,
    "LC-KV-COPY": lambda v, b: "seq_cp between streams: rows are copied " + ("by the next decode" if v else "at once"),
    "LC-KV-STATE": lambda v, b: "saved state of a window cache: " + f"pos_max {b['pos_max']}, n_swa {b['n_swa']}",
    "LC-KV-READ": lambda v, b: f"a saved state is read into {'contiguous' if v else 'any free'} cells",
    "LC-KV-FAIL": lambda v, b: "a state cannot be read: the parts that were read before are " + (
        "cleared" if v else "kept"),
    "LC-KV-UNDO": lambda v, b: "undoing a prepared batch " + (
        "does not restore cells that it purged" if v else "brings back every cell"),
    "LC-KV-SHARED": lambda v, b: "a cell outside the windows of all its sequences is " + (
        "reused only if it has one" if v else "reused"),
    "LC-KV-FULL": lambda v, b: "--swa-full: cells outside the window are " + (
        "reused and not saved" if v else "kept and saved"),
    "LC-N-SWA-TOLD": lambda v, b: f"the library tells a window of {v} (model: {b['n_swa']}): compressed rows",
    "LC-KV-STREAMS": lambda v, b: "the slots share the cells" if v else "every slot has cells of its own",
    "LC-MSA-READ": lambda v, b: "all rows are read" if v else "only the chosen blocks are read",
    "LC-KV-INDEX": lambda v, b: "a K-shift " + ("spoils index keys" if v else "turns index keys"),
    "LC-INDEX-SHIFT": lambda v, b: "a K-shift of index rows " + ("ends the process" if v else "is done"),
    "LC-POOL-READ": lambda v, b: "a token reads " + ("pools cut by the order of cells" if v else "whole pools"),
    "LC-ROWS-READ": lambda v, b: f"reading a state empties the compressed rows of {'all slots' if v else 'its slot'}",
    "LC-KV-MROPE": lambda v, b: "2-D positions count as movable; moving one ends the process" if v == "ends" else (
        NoEffect("2-D positions " + ("can be moved" if v == "moves" else "cannot be moved"))),
    "LC-REUSE-START": lambda v, b: NoEffect(f"--cache-reuse {v} for requests that name none") if v == b["least"] else (
        f"--cache-reuse {b['least']} is switched off: this memory cannot move positions"),
    "LC-KV-QUANT": lambda v, b: "a K-shift of quantized rows " + ("ends the process" if v else "is done"),
    "LC-KV-SHIFT": lambda v, b: "a K-shift of a cache without layers " + ("aborts the server" if v else "is skipped"),
    "LC-SPEC-ON": lambda v, b: "speculative decoding enabled" if v else (
        "speculative decoding not supported by this context"),
    "LC-SPEC-MAX": lambda v, b: f"drafts at most {counted(v, 'token')}",
    "LC-SPEC-FULL": lambda v, b: NoEffect("the drafter's memory has room") if v is None else (
        f"the drafter's memory has no free cell: the draft ends after {counted(v, 'token')}"),
    "LC-SPEC-BATCH": lambda v, b: f"the draft is {'a batch of its own' if v else 'in the batch of all slots'}",
    "LC-SPEC-CKPT": _spec_ckpt,
    "LC-SPEC-COUNT": _count,
    "LC-SPEC-PLACE": lambda v, b: f"state before the draft of slot {b['slot']}: in " + (
        "the slot's own cell" if v else "the cell of its first save, which another slot has now"),
    "LC-SPEC-REPLAY": _replay,
    "LC-SPEC-UNREAD": lambda v, b: "too few free cells for the state saved before the draft: " + (
        f"the server aborts ({v})" if v else "all running requests fail"),
    "LC-SPEC-ACCEPT": lambda v, b: NoEffect("draft token accepted" if v else "draft token not accepted"),
    "LC-SPEC-ROOM": _room,
    "LC-SPEC-SPLIT": lambda v, b: NoEffect("the draft lies in the batch view") if v is None else (
        f"token {v} of the draft is not in the batch view: the request fails"),
}

MEMORY_VARIANTS: dict[str, Say] = {
    "LC-N-SWA.FULL0": lambda v, b: f"n_swa = {v} for thresholds" + (" (--swa-full)" if b["swa_full"] else ""),
    "LC-SLOT-CTX.SHARE": lambda v, b: f"n_ctx of a slot = {v}: {b['n_ctx']} / {b['n_slots']}",
    "LC-SLOT-CTX.CAPPED": lambda v, b: f"n_ctx of a slot = {v}" + (
        f" (--kv-unified-per-slot {b['per_slot']})" if b["per_slot"] > 0 else ""),
    "LC-CTX-POOL.PER-SLOT": lambda v, b: f"n_ctx = {v}" + (
        f": {b['n_slots']} * --kv-unified-per-slot {b['per_slot']}" if not b["n_ctx"] and b["per_slot"] > 0 else ""),
    "LC-RS-PLANES.NONE": lambda v, b: "n_rs_seq = 0: a recurrent state has no rollback planes",
    "LC-RS-RM.RM1": _rs_rm_1,
    "LC-KV-STATE.WINDOW": lambda v, b: f"saves cells with pos > pos_max {b['pos_max']} - n_swa {b['n_swa']}",
    "LC-KV-STATE.RING": lambda v, b: "saves every cell of the sequence",
    "LC-SPEC-MAX.ROOM": lambda v, b: f"drafts at most {counted(v, 'token')} (share of a batch: {b['share']})",
    "LC-SPEC-ACCEPT.EOG": lambda v, b: NoEffect(
        "draft token not accepted: it follows an end of generation" if b["same"] and not v else
        "draft token accepted" if v else "draft token not accepted"),
    "LC-SPEC-SPLIT.NONE": lambda v, b: NoEffect("drafts are not compared with the batch view"),
}

SENTENCES = Sentences(
    {**PROMPT, **slot.FAMILIES, **checkpoint.FAMILIES, **MEMORY, **older.OLDER, **ADAPTERS, **MEDIA},
    {**PROMPT_VARIANTS, **slot.VARIANTS, **checkpoint.VARIANTS, **MEMORY_VARIANTS, **older.OLDER_VARIANTS},
)
