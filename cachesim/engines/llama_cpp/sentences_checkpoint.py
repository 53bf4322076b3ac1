"""Sentences for decisions about context checkpoints of llama.cpp, with the condition of each rule.

A rule without an entry of its own (for example a user's rule) gets a sentence without a condition.
"""

from __future__ import annotations

from typing import Any, Callable

from cachesim.engines.shared.sentences import Because, NoEffect, Say, erasure_text, indices


def _enabled(value: Any, because: Because) -> str:
    if value:
        layers = because.get("exact", because.get("recurrent"))
        why = "recurrent state" if layers else f"window, n_swa {because['n_swa']}"
        return f"context checkpoints enabled ({why})"
    if not because["max"]:
        return "context checkpoints disabled (--ctx-checkpoints 0)"
    return "no context checkpoints: the memory can be cut at any position"


def _only_windows(value: Any, because: Because) -> str:
    if value or not because["max"]:
        return _enabled(value, because)
    return "no context checkpoints: no window (n_swa 0)"


def need(than: str) -> Say:
    """Return the sentence of CKPT-NEED. ``than``: comparison of pos_min with its threshold for which a checkpoint is
    needed."""
    opposite = {">=": "<", ">": "<="}[than]

    def say(value: Any, because: Because) -> str:
        n_past = because["n_past"]
        pos_min = because["pos_min"]
        thold = value.thold
        if value.search:
            return f"checkpoint needed: pos_min {pos_min} {than} pos_min_thold {thold} (common prefix {n_past})"
        if n_past == 0:
            return NoEffect("no checkpoint search: n_past = 0")
        if pos_min > thold or (pos_min == thold and than == ">="):
            return f"no checkpoint search: the common prefix is all {n_past} tokens of the slot"
        return NoEffect(f"no checkpoint needed: pos_min {pos_min} {opposite} pos_min_thold {thold}")

    return say


def pick(condition: Callable[[Because], str] | None = None) -> Say:
    """Return the sentence of CKPT-PICK: the restored checkpoint, the candidates, and the rule's condition."""
    def say(value: Any, because: Because) -> str:
        had = because["had"]
        found = "no usable checkpoint" if value is None else f"restores checkpoint n_tokens = {had[value]}"
        return f"{found} (candidates: {had})" + (f"; required: {condition(because)}" if condition else "")

    return say


def _pk2(b: Because) -> str:
    return f"pos_min < {b['thold']} or pos_min = 0"


def _pk3(b: Because) -> str:
    return f"pos_max <= {b['pos_next']} and ({_pk2(b)})"


def _v1(b: Because) -> str:
    if not b["exact"]:
        return _pk2(b)
    return f"n_tokens <= {b['n_past']} and < {b['n_tokens']}, pos_max <= {b['pos_next']}"


def _v3(b: Because) -> str:
    return _pk3(b) if not b["exact"] else f"the longest with n_tokens <= {min(b['n_past'], b['n_tokens'] - 1)}"


def _restored(value: Any, because: Because) -> str:
    ends = f", pos_max = {because['pos_max']}" if "pos_max" in because else ""
    return f"restored context checkpoint (n_tokens = {because['n_tokens']}{ends}): n_past = {value.n_past}"


def created(reason: Callable[[bool, Because], str] | None = None) -> Say:
    """Return the sentence of CKPT-CREATE, with the reason for or against a checkpoint before the batch."""
    def say(value: Any, because: Because) -> str:
        head = "checkpoint created" if value else "no checkpoint"
        why = ""
        if reason:
            off = "no checkpoints for this request" if not because.get("do", True) else "the memory is empty"
            may = because.get("do", True) and because.get("pos_min", 0) >= 0
            why = reason(bool(value), because) if may else off
        return f"{head} at n_tokens = {because['start']}" + (f" ({why})" if why else "")

    return say


def _cr10(yes: bool, b: Because) -> str:
    if not yes:
        return "neither near the prompt's end nor at a user message that is due"
    return "near the prompt's end" if b["near"] else "at a user message"


def _cr_v3(yes: bool, b: Because) -> str:
    return "end of the common prefix" if yes and not b["near"] and b["start"] == b["reused"] else _cr10(yes, b)


def _cr8(yes: bool, b: Because) -> str:
    if yes:
        return "near the prompt's end" if b["near"] else "at a user message"
    if not (b["near"] or b["user"]):
        return "neither near the prompt's end nor at a user message"
    return "within min_step of the last checkpoint"


def _cr7(yes: bool, b: Because) -> str:
    if yes:
        return "at the last user message" if b["start"] == b["user"] else "near the prompt's end"
    return "neither near the prompt's end nor at the last user message" if b["far"] else (
        "within min_step of the last checkpoint")


def _cr6(yes: bool, b: Because) -> str:
    if yes:
        return "near the prompt's end, or periodic"
    if not b["place"]:
        return "not near the prompt's end, and no periodic checkpoint is due"
    if not b["far"]:
        return "within 64 tokens of the last checkpoint"
    return "fewer than 64 tokens"


def _by_position(place: str) -> Callable[[bool, Because], str]:
    def reason(yes: bool, b: Because) -> str:
        if yes:
            return place
        if not b["place"]:
            return f"not {place}"
        return f"pos_max {b['pos_max']} < 64" if b["pos_max"] < 64 else "within 64 positions of the last checkpoint"

    return reason


def _due(value: int | None, because: Because) -> str:
    if value is None:
        return NoEffect(f"no periodic checkpoint due at n_tokens = {because['start']}")
    return f"checkpoint due at n_tokens = {because['start']}: last at {value}, every {because['every']} tokens"


def _after(value: Any, because: Because) -> str:
    return "checkpoint created after the whole prompt" if value else NoEffect("no checkpoint after the whole prompt")


def _spaced(when: Callable[[Because], str]) -> Say:
    def say(value: Any, because: Because) -> str:
        where = f"at most {because['min_step']} tokens after the previous checkpoint ({when(because)})"
        none = NoEffect(f"no checkpoint erased for spacing: none is {where}")
        return erasure_text(value, "", where) if value else none

    return say


FAMILIES: dict[str, Say] = {
    "LC-CKPT-ON": _enabled,
    "LC-CKPT-NEED": need(">="),
    "LC-CKPT-PICK": pick(),
    "LC-CKPT-RESTORE": _restored,
    "LC-CKPT-UNREAD": lambda v, b: "the checkpoint cannot be read back: " + (
        f"the server aborts ({v})" if v else "forcing full prompt re-processing (n_past = 0)"),
    "LC-CKPT-RESET": lambda v, b: f"forcing full prompt re-processing (n_past = 0; common prefix {b['n_past']})" + (
        "; all checkpoints erased" if v.forget else ""),
    "LC-CKPT-ERASE": lambda v, b: erasure_text(v, "invalidated", ""),
    "LC-CKPT-BREAK": lambda v, b: f"batch: tokens {b['start']}..{v - 1}" + (
        ", ends at a checkpoint boundary" if v in b["breaks"] else ""),
    "LC-CKPT-PERIODIC": _due,
    "LC-CKPT-CREATE": created(),
    "LC-CKPT-AFTER": _after,
    "LC-CKPT-COUNT": lambda v, b: NoEffect(f"checkpoint n_tokens = {v}: tokens of the slot before the batch"),
    "LC-CKPT-REPLACE": lambda v, b: erasure_text(v, "", f"n_tokens = {b['n_tokens']}, as the new checkpoint"),
    "LC-CKPT-SPACING": lambda v, b: erasure_text(v, "", ""),
    "LC-CKPT-LIMIT": lambda v, b: erasure_text(v, "", f"limit {b['max']}" if v else ""),
    "LC-CKPT-NOTE": lambda v, b: NoEffect("nothing noted on the checkpoint" if v is None else f"noted: {v}"),
    "LC-CKPT-TOLD": lambda v, b: NoEffect(f"the log names checkpoints {indices(v) or 'none'}"),
}


VARIANTS: dict[str, Say] = {
    "LC-CKPT-ON.WINDOW": _only_windows,
    "LC-CKPT-NEED.TH0": need(">"),
    "LC-CKPT-NEED.TH1": need(">"),
    "LC-CKPT-PICK.PK0": pick(lambda b: f"pos_min <= {b['thold']}"),
    "LC-CKPT-PICK.PK1": pick(lambda b: f"pos_min < {b['thold']}"),
    "LC-CKPT-PICK.PK2": pick(_pk2),
    "LC-CKPT-PICK.PK3": pick(_pk3),
    "LC-CKPT-PICK.WHOLE": pick(lambda b: f"pos_max <= {b['last']} and ({_pk2(b)})"),
    "LC-CKPT-PICK.V1": pick(_v1),
    "LC-CKPT-PICK.V3": pick(_v3),
    "LC-CKPT-ERASE.ER2": lambda v, b: erasure_text(v, "invalidated", f"pos_max > pos_next {b['pos_next']}"),
    "LC-CKPT-ERASE.REWRITTEN": lambda v, b: erasure_text(v, "invalidated", f"pos_max >= pos_next {b['pos_next']}"),
    "LC-CKPT-ERASE.ER1": lambda v, b: erasure_text(v, "invalidated", f"pos_min > pos_min_thold {b['thold']}"),
    "LC-CKPT-ERASE.ER1-NEWEST": lambda v, b: erasure_text(
        v, "invalidated", f"pos_min > pos_min_thold {b['thold']}" + (", newest first" if len(v) > 1 else "")),
    "LC-CKPT-ERASE.ER0": lambda v, b: erasure_text(v, "invalidated", f"pos_min > n_past - n_swa = {b['thold']}"),
    "LC-CKPT-ERASE.V1": lambda v, b: erasure_text(v, "invalidated", " or ".join(filter(None, (
        f"n_tokens > common prefix {b['prefix_end']}" if "prefix_end" in b else "",
        f"pos_max > pos_next {b['pos_next']}")))),
    "LC-CKPT-ERASE.V3": lambda v, b: erasure_text(
        v, "invalidated", f"n_tokens > common prefix {b['prefix_end']}" if "prefix_end" in b
        else f"pos_max > pos_next {b['pos_next']}"),
    "LC-CKPT-PERIODIC.NONE": lambda v, b: NoEffect("no periodic checkpoints"),
    "LC-CKPT-CREATE.CR10": created(_cr10),
    "LC-CKPT-CREATE.V3": created(_cr_v3),
    "LC-CKPT-CREATE.CR8": created(_cr8),
    "LC-CKPT-CREATE.CR7": created(_cr7),
    "LC-CKPT-CREATE.CR6": created(_cr6),
    "LC-CKPT-CREATE.CR5": created(_by_position("near the prompt's end or periodic")),
    "LC-CKPT-CREATE.CR4": created(_by_position("before the last batch or periodic")),
    "LC-CKPT-CREATE.CR2": created(_by_position("before the last batch")),
    "LC-CKPT-CREATE.NEVER": created(lambda yes, b: "checkpoints are created after the prompt"),
    "LC-CKPT-CREATE.CR0": _after,
    "LC-CKPT-COUNT.BATCH": lambda v, b: NoEffect(
        f"checkpoint n_tokens = {v}: {b['stop']} tokens in the slot - n_batch {b['n_batch']}"),
    "LC-CKPT-REPLACE.NONE": lambda v, b: NoEffect("no checkpoint erased: a checkpoint with the same n_tokens stays"),
    "LC-CKPT-SPACING.CR10": _spaced(lambda b: "of older tasks"),
    "LC-CKPT-SPACING.CR11": _spaced(lambda b: f"of older tasks, at the limit of {b['max']}"),
    "LC-CKPT-SPACING.NONE": lambda v, b: NoEffect("no checkpoint erased: spacing is not checked"),
    "LC-CKPT-LIMIT.OLDEST": lambda v, b: erasure_text(v, "oldest", f"limit {b['max']}" if v else ""),
    "LC-CKPT-LIMIT.DENSEST": lambda v, b: erasure_text(
        v, "", f"closest neighbours, limit {b['max']}" if v else ""),
    "LC-CKPT-TOLD.NEXT": lambda v, b: NoEffect(f"the log names the checkpoints that moved up: {indices(v) or 'none'}"),
    "LC-CKPT-TOLD.NEWEST":
        lambda v, b: NoEffect(f"the log names the newest checkpoint instead: {indices(v) or 'none'}"),
}

