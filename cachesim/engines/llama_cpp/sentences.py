"""What did a rule of llama.cpp's server say, in words? The sentence is built here, from the decision's numbers."""

from __future__ import annotations

from typing import Any

from cachesim.counted import counted
from cachesim.engines.llama_cpp import sentences_checkpoint as checkpoint
from cachesim.engines.shared.sentences import Because, Sentences


def _slot(choice: Any, because: Because) -> str:
    if choice is None:
        return "every slot is busy"
    how = {
        "id": "named by the request",
        "name": "named by the request, nothing else looked at",
        "lcp": f"shares {choice.f_sim:.3f} of the prompt, {choice.f_keep:.3f} of it would stay",
        "lru": "used longest ago",
    }[choice.by]
    return f"slot {choice.slot}: {how}; the prompt cache is {'asked' if choice.update else 'not asked'}"


def _load(value: Any, because: Because) -> str:
    if "entries" not in because:
        return "the entry is moved out of the cache" if value else "the entry is copied and stays"
    what = "no entry is better than the slot" if value is None else f"entry {value} is better than the slot"
    return f"{what}: best f_keep {because['f_keep']:.3f}, f_sim {because['f_sim']:.3f} of {because['entries']} entries"


def _create(value: Any, because: Because) -> str:
    made = "a" if value else "no"
    if "start" not in because:
        return f"{made} checkpoint of the whole prompt"
    near = ", near the prompt's end" if because.get("near") else ""
    chunk = f" (chunk to {because['stop']}{near})" if "stop" in because else ""
    return f"{made} checkpoint of {because['start']} tokens{chunk}"


def _gone(value: Any, because: Because) -> str:
    if not value:
        return "no checkpoint goes"
    return f"{counted(len(value), 'checkpoint goes', 'checkpoints go')}: number {', '.join(map(str, value))}"


def _alloc(plan: Any, because: Because) -> str:
    gone = f"{len(plan.obsolete)} obsolete, {plan.evict} evicted"
    return f"{plan.verdict}: {because['n_tokens']} tokens, {because['entries']} entries before; {gone}"


def _update(plan: Any, because: Because) -> str:
    gone = plan.for_size + plan.for_tokens
    return f"{gone} of the oldest go; {because['tokens']} tokens against a limit of {plan.est}"


def _idle(plan: Any, because: Because) -> str:
    done = "saved" if plan.save else "left"
    return f"idle slot of {because['held']} tokens: {done}{', cleared' if plan.clear else ''}"


def _lcp(value: Any, because: Because) -> str:
    return f"{value} tokens are shared with the slot" + ("" if because["cache_prompt"] else " but not wanted")


def _one(value: Any, because: Because) -> str:
    back = ", one is given back" if value != because["n_past"] else ""
    return f"{because['n_past']} of {because['n_tokens']} are held{back}"


def _behind(because: Because) -> str:
    return counted(because["checkpoints"], "checkpoint stays behind", "checkpoints stay behind")


def _rs_rm(refused: bool, because: Because) -> str:
    if not refused:
        return f"the state ends at {because['pos']}: removing {because['p0']} and behind changes nothing"
    until = "behind" if because["p1"] > because["pos"] else f"up to {because['p1'] - 1}"
    return f"the state ends at {because['pos']}: removing {because['p0']} and {until} is refused"


def _rs_back(goes: bool, because: Because) -> str:
    planes = f"(n_rs_seq {because['n_rs_seq']})"
    if goes:
        return f"the state is rolled back by {because['back']} {planes}"
    why = "a rollback is pending" if because["pending"] else "the state is shared"
    if because["back"] > because["n_rs_seq"]:
        why = "too few planes"
    return f"no rollback by {because['back']}: {why} {planes}"


def _due(value: int | None, because: Because) -> str:
    return "" if value is None else f"a checkpoint is due at {because['start']}: the last one holds {value} tokens"


def _replace(value: Any, because: Because) -> str:
    return f"{_gone(value, because)}, with as many tokens as the new one" if value else ""


def _unread(words: str, because: Because) -> str:
    return f"the checkpoint cannot be read: {f'the process ends, {words}' if words else 'all is evaluated again'}"


def _moved(blocks: Any, because: Because) -> str:
    if not blocks:
        return ""
    n_tokens = sum(one.n for one in blocks)
    return f"{n_tokens} tokens in {counted(len(blocks), 'block')} are moved to where the prompt has them"


def _shift(plan: Any, because: Because) -> str:
    if plan is None:
        return ""
    return f"context shift at {because['held']} tokens: {plan.n_keep} stay, the next {plan.n_discard} go"


def _slot_id(value: int | None, because: Because) -> str:
    if value == because["id_slot"]:
        return ""
    return f"there is no slot {because['id_slot']}" + ("" if value is None else f": slot {value} is meant")


def _restore_failed(value: Any, because: Because) -> str:
    return f"{value[0]}: the tokens are forgotten" + (", memory and checkpoints go too" if value[1] else "")


def _spec_ckpt(saved: bool, because: Because) -> str:
    return f"the state is saved before a draft of {counted(because['n_draft'], 'token')}" if saved else ""


def _replay(replays: bool, because: Because) -> str:
    return f"{counted(because['n_rollback'], 'rejected token')}: back to the saved state" if replays else ""


SENTENCES = Sentences({
    "LC-SLOT-SELECT": _slot,
    "LC-PC-ALLOC": _alloc,
    "LC-PC-LOAD": _load,
    "LC-PC-UPDATE": _update,
    "LC-IDLE-SAVE": _idle,
    "LC-NPAST-LCP": _lcp,
    "LC-NPAST-ONE": _one,
    "LC-CKPT-RESTORE": lambda v, b: f"evaluation goes on at {v.n_past}, from a checkpoint of {b['n_tokens']} tokens",
    "LC-CKPT-RESET": lambda v, b: f"nothing fits: all is evaluated again, although {b['n_past']} tokens are shared",
    "LC-CKPT-ERASE": _gone,
    "LC-CKPT-SPACING": _gone,
    "LC-CKPT-LIMIT": _gone,
    "LC-CKPT-NOTE": lambda v, b: f"noted on the checkpoint: {v}",
    "LC-CKPT-ON": lambda v, b: "checkpoints are made" if v else "no checkpoints are made for this memory",
    "LC-CKPT-BREAK": lambda v, b: f"the chunk goes from {b['start']} to {v}",
    "LC-CKPT-CREATE": _create,
    "LC-CLEAR": lambda v, b: "the checkpoints go with the tokens" if v else _behind(b),
    "LC-RS-BACK": _rs_back,
    "LC-RS-RM": _rs_rm,
    "LC-TASK": lambda v, b: f"a task of the kind {b['kind']}" + (f": {v}" if isinstance(v, str) else ""),
    "LC-DECODE": lambda v, b: f"no room: next attempt with {v} tokens" + (" after a purge" if b["purged"] else ""),
    "LC-END": lambda v, b: f"token {b['n_gen']} of {b['n_predict']}: " + (v[0] or "goes on"),
    "LC-CKPT-PERIODIC": _due,
    "LC-CKPT-REPLACE": _replace,
    "LC-CKPT-UNREAD": _unread,
    "LC-CTX-POOL": lambda v, b: f"the context holds {counted(v, 'token')}",
    "LC-SLOT-CTX": lambda v, b: f"a slot may hold {counted(v, 'token')}",
    "LC-IDLE-PURGE": lambda v, b: "" if v else "no idle slot may be emptied to make room",
    "LC-MARKS": lambda v, b: "" if v else "message_delimiters of a plain completion are ignored",
    "LC-NPAST-REUSE": _moved,
    "LC-PC-ASK": lambda v, b: "" if v else "an empty slot neither saves nor loads",
    "LC-RESTORE-FAIL": _restore_failed,
    "LC-SHARED": lambda v, b: f"{counted(v, 'token')} shared by all prompts are evaluated once" if v else "",
    "LC-SHIFT": lambda v, b: str(v) if "shared" in b else _shift(v, b),
    "LC-SLOT-FILE": lambda v, b: f"{counted(len(v), 'checkpoint')} of {b['n']} in the slot file" if b["n"] else "",
    "LC-SLOT-ID": _slot_id,
    "LC-SPEC-CKPT": _spec_ckpt,
    "LC-SPEC-MAX": lambda v, b: f"at most {counted(v, 'token')} drafted",
    "LC-SPEC-ON": lambda v, b: "" if v else "no drafts: speculative decoding not supported by this context",
    "LC-SPEC-REPLAY": _replay,
    "LC-SPEC-ROOM": lambda v, b: f"{b['n_batch']} tokens in a batch of {b['capacity']}: {v}" if v else "",
    "LC-SPEC-SPLIT": lambda v, b: "" if v is None else f"index {v} of a draft lies outside of the view: it is given up",
    "LC-TASK-REUSE": lambda v, b: "" if v else f"a task of the kind {b['kind']} starts with nothing",
    "LC-TRIM": lambda v, b: "the slot is cleared and the prompt begun anew" if v else "the process ends",
    **dict.fromkeys((
        "LC-CKPT-AFTER", "LC-CKPT-COUNT", "LC-CKPT-TOLD", "LC-KV-FAIL", "LC-KV-READ", "LC-KV-STATE", "LC-KV-UNDO",
        "LC-KV-COPY", "LC-KV-FULL", "LC-KV-SHIFT", "LC-N-SWA", "LC-RS-PLANES", "LC-RS-SPLIT", "LC-SPEC-ACCEPT",
    ), lambda v, b: ""),
}, by_rule={"LC-CKPT-NEED": checkpoint.need, "LC-CKPT-PICK": checkpoint.pick})
