"""Sentences of decisions about ik_llama.cpp's checkpoints."""

from __future__ import annotations

from typing import Any, Callable

from cachesim.engines.shared.sentences import Because, NoEffect, Say, erasure_text, numbers


def need(compare: Callable[[Because], tuple[str, str]] | None = None) -> Say:
    """Sentence of CKPT-NEED. ``compare`` returns the comparison for a needed checkpoint and for an unneeded
    checkpoint."""
    def say(value: Any, because: Because) -> str:
        n_past, held = because["n_past"], because["held"]
        yes, no = compare(because) if compare else (f"pos_min {because['pos_min']}",) * 2
        if value.search:
            return f"checkpoint needed: {yes} (common prefix {n_past})"
        if not n_past:
            return NoEffect("no checkpoint search: n_past = 0")
        if n_past >= held:
            return f"no checkpoint search: the common prefix is all {held} tokens of the slot"
        return NoEffect(f"no checkpoint needed: {no}")

    return say


def _compared(sign: str, more: str = "", otherwise: str = "") -> Callable[[Because], tuple[str, str]]:
    """Return the comparison of pos_min with its threshold (and ``more``), for a needed and for an unneeded checkpoint.
    ``otherwise``: reason for a checkpoint that is needed although the comparison is false."""
    opposite = {">=": "<", ">": "<="}[sign]

    def both(b: Because) -> tuple[str, str]:
        pos_min, thold = f"pos_min {b['pos_min']}", f"pos_min_thold {b['thold']}{more}"
        holds = b["pos_min"] > b["thold"] or (sign == ">=" and b["pos_min"] == b["thold"])
        yes = otherwise if otherwise and not holds else f"{pos_min} {sign} {thold}"
        return yes, f"{pos_min} {opposite} {thold}"

    return both


def pick(condition: Callable[[Because], str] | None = None) -> Say:
    """Sentence of CKPT-PICK: the restored checkpoint, the candidates, and the condition of the rule."""
    def say(value: int | None, because: Because) -> str:
        had = because["ckpts"]
        found = "no usable checkpoint" if value is None else f"restores checkpoint pos_max = {had[value]}"
        required = f"; required: {condition(because)}" if condition else ""
        return f"{found} (candidates: pos_max {numbers(had)}){required}"

    return say


def _resumed(resume: Any, because: Because) -> str:
    prompt = f", token {resume.n_past_prompt} of the prompt" if resume.n_past_prompt != resume.n_past else ""
    return f"restored checkpoint (pos_max = {because['ckpts'][0]}): n_past = {resume.n_past}{prompt}"


def _reset(resume: Any, because: Because) -> str:
    if resume.n_past:
        return f"no checkpoint restored: n_past = {resume.n_past}, on a state that is past it"
    forgets = "; the slot's tokens are dropped" if resume.forget_tokens else ""
    return f"forcing full prompt re-processing (n_past = 0; common prefix {because['n_past']}){forgets}"


def _by_tokens(b: Because, least: int) -> str:
    return f"fewer than {least} tokens" if b["start"] < least else f"the last one has {b['last']} tokens"


def created(why_not: Callable[[Because], str] = lambda b: "") -> Say:
    """Return the sentence of CKPT-CREATE: whether the state is kept, and why not."""
    def say(made: bool | None, because: Because) -> str:
        at = f"at n_tokens = {because['start']}"
        if made is None:
            return f"checkpoint {at}, or none: depends on an uninitialised n_tokens"
        why = "" if made else why_not(because)
        return f"{'checkpoint created' if made else 'no checkpoint'} {at}" + (f" ({why})" if why else "")

    return say


def evicted(why: str = "") -> Say:
    """Return the sentence of CKPT-EVICT: the checkpoint that is erased for room."""
    return lambda value, because: (
        f"erases checkpoint pos_max = {because['pos_max'][value]} to make room" + (f": {why}" if why else ""))


def _interval(due: bool, because: Because, less: str = "") -> str:
    if not because["interval"] > 0:
        return NoEffect("no checkpoints at intervals")
    said = f"pos_max {because['pos_max']}, last {because['last']}, interval {because['interval']}{less}"
    return f"checkpoint due: {said}" if due else NoEffect(f"no checkpoint due: {said}")


def _batch(value: Any, because: Because) -> str:
    stop, due = value
    why = f", ends {because['tolerance']} tokens before the end of the prompt for a checkpoint" if due else ""
    return f"batch: tokens {because['start']}..{stop - 1}{why}"


FAMILIES: dict[str, Say] = {
    "IK-CKPT-ON": lambda v, b: "context checkpoints enabled" if v else (
        f"context checkpoints disabled ({'no recurrent state' if b['most'] else '--ctx-checkpoints 0'})"),
    "IK-CKPT-NEED": need(),
    "IK-CKPT-PICK": pick(),
    "IK-CKPT-RESUME": _resumed,
    "IK-CKPT-RESET": _reset,
    "IK-CKPT-ERASE": lambda v, b: erasure_text(v, "invalidated", ""),
    "IK-CKPT-EVICT": evicted(),
    "IK-CKPT-BREAK": _batch,
    "IK-CKPT-FIRST": lambda v, b: "checkpoint due with the first sampled token" if v else NoEffect(
        f"no checkpoint due with the first sampled token (tolerance {b['tolerance']})"),
    "IK-CKPT-INTERVAL": _interval,
    "IK-CKPT-CREATE": created(),
    "IK-CKPT-CELLS": lambda v, b: "the restored state " + (
        "claims free contiguous cells" if v else "keeps the cells of its sequence"),
}

VARIANTS: dict[str, Say] = {
    "IK-CKPT-ON.NEVER": lambda v, b: "no context checkpoints: this version creates none",
    "IK-CKPT-NEED.OR-PRIVATE": need(_compared(">=", otherwise="the model has a state of its own")),
    "IK-CKPT-NEED.NEVER": lambda v, b: NoEffect("no checkpoint search: this version has none"),
    "IK-CKPT-NEED.REACHED": need(_compared(">=")),
    "IK-CKPT-NEED.BEYOND": need(_compared(">")),
    "IK-CKPT-NEED.STATES": need(_compared(">", otherwise="the model has a recurrent state")),
    "IK-CKPT-NEED.DEEP": need(_compared(">", " + 2")),
    "IK-CKPT-PICK.POS-MAX": pick(lambda b: f"pos_max < {b['n_past'] if b['private'] else b['thold']}"),
    "IK-CKPT-PICK.POS-MIN": pick(lambda b: f"pos_min < {b['thold']} or pos_min = 0"),
    "IK-CKPT-PICK.WITHIN": pick(lambda b: f"pos_max < n_past {b['n_past']}"),
    "IK-CKPT-PICK.PR1888": pick(lambda b: f"pos_min < {b['thold']} or pos_min = 0 or pos_max <= n_past {b['n_past']}"),
    "IK-CKPT-ERASE.THOLD": lambda v, b: erasure_text(v, "invalidated", f"pos_max > pos_min_thold {b['thold']}"),
    "IK-CKPT-ERASE.POS-MIN": lambda v, b: erasure_text(v, "invalidated", f"pos_min > pos_min_thold {b['thold']}"),
    "IK-CKPT-ERASE.BEYOND": lambda v, b: erasure_text(v, "invalidated", f"pos_max > n_past {b['n_past']}"),
    "IK-CKPT-ERASE.RESTORED": lambda v, b: erasure_text(v, "invalidated", f"pos_max >= {b['bound']}"),
    "IK-CKPT-EVICT.PROMPT-END": evicted("smallest loss of spacing, prompt ends last"),
    "IK-CKPT-EVICT.VARIANCE": evicted("smallest loss of spacing"),
    "IK-CKPT-EVICT.OLDEST": evicted("the oldest"),
    "IK-CKPT-EVICT.KEEP-FIRST": evicted("the oldest but the first"),
    "IK-CKPT-FIRST.ALWAYS": lambda v, b: "checkpoint due at the end of the prompt",
    "IK-CKPT-INTERVAL.ONE-EARLY": lambda v, b: _interval(v, b, " - 1"),
    "IK-CKPT-CREATE.TOKENS": created(lambda b: _by_tokens(b, 64)),
    "IK-CKPT-CREATE.FOUR": created(lambda b: _by_tokens(b, 4 if b["states"] else 64)),
    "IK-CKPT-CREATE.POSITION": created(
        lambda b: f"pos_max {b['pos_max']}" + (" < 16" if b["pos_max"] < 16 else ": not behind the last one")),
}
