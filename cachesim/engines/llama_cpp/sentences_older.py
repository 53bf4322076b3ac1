"""Sentences for rules whose variants tell older builds apart: prompts that do not fit, lists of tokens, cell tables."""

from __future__ import annotations

from typing import Any

from cachesim.base.errors import counted
from cachesim.engines.llama_cpp.rules.server_of_2023 import LIST_SAMPLED
from cachesim.engines.shared.sentences import Because, NoEffect, Say


def _fit(value: Any, because: Because) -> str:
    if value is None:
        return NoEffect(f"{because['n_tokens']} tokens fit into n_ctx {because['n_ctx']}")
    if isinstance(value, str):
        return f"prompt refused: {value}"
    return f"input truncated: {value.keep} tokens kept, the next {value.lose} dropped (n_ctx {because['n_ctx']})"


def _listed(value: int | None, because: Because) -> str:
    if value is None:
        return NoEffect("the tokens of the slot are listed")
    if value == LIST_SAMPLED:
        return "the slot lists the last sampled token, which was not evaluated"
    if value < 0:
        return f"cache_prompt is false: the list is empty, but {because['before']} tokens were evaluated"
    listed = f"{counted(value, 'token')} with number 0" if value else "no token"
    return f"cache_prompt is false: the slot lists {listed}"


def _split_lost(split: Any, because: Because) -> str:
    if not split.lost:
        return "a micro-batch holds equally many tokens of any sequences"
    return "a batch that needs several micro-batches is lost"


OLDER: dict[str, Say] = {
    "LC-PROMPT-FIT": _fit,
    "LC-LIST": _listed,
    "LC-FAIL": lambda v, b: "the batch failed: running slots " + ("are cleared" if v else "keep their lists of tokens"),
    "LC-SHIFT-WHEN": lambda v, b: NoEffect("no context shift before the prompt") if not v else (
        NoEffect("the slot generates") if b["generating"] else "context shift before the prompt starts"),
    "LC-SLOT-LIKE": lambda v, b: NoEffect(f"{counted(v, 'token')} in common with the slot"),
    "LC-RS-TAIL": lambda v, b: "a removed recurrent state " + (
        "leaves its sequence pointing to the emptied cell" if v else "is forgotten by its sequence"),
    "LC-KV-TURN": lambda v, b: "a K-shift turns " + (
        "the first stream only, by the shifts of the last" if v else "each stream by its own shifts"),
    "LC-KV-MASK": lambda v, b: "the full-attention cache " + (
        "reuses cells outside the model's window" if v else "keeps all its cells"),
    "LC-CHILDREN": lambda v, b: {
        "copied": f"{b['n']} completions: the prompt is evaluated once and copied",
        "selected": f"{b['n']} completions: the prompt is evaluated once and copied to slots selected for each",
        "each": f"{b['n']} completions: each evaluates the prompt",
        "last": f"{b['n']} completions: each evaluates the prompt; the last answer is that of the request's own task",
        "ignored": "one completion: this build gives no more"}[v],
    "LC-RM-REFUSED": lambda v, b: f"positions {b['p0']} to {b['p1']} cannot be removed: " + (
        "the server ends" if v else "the server ignores this"),
    "LC-KV-POS": lambda v, b: "positions of a sequence are " + ("a set" if v else "counted"),
    "LC-TRIM-AT": lambda v, b: NoEffect(f"the memory is cut at n_past {v}") if v == b["n_past"] else (
        f"the memory is cut at {v}, although n_past is {b['n_past']}"),
    "LC-BATCH-CHECK": lambda v, b: "a batch " + (
        "may begin at any position" if v else "must continue its sequences"),
}

OLDER_VARIANTS: dict[str, Say] = {
    "LC-CKPT-BREAK.WHOLE": lambda v, b: NoEffect("the whole prompt enters the batch"),
    "LC-RS-SPLIT.LOST": _split_lost,
}
