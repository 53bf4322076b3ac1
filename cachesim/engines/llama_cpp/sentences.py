"""What did a rule of llama.cpp's server say, in words? In those of its log where it has any; the sentence is built
here, from the decision's numbers."""

from __future__ import annotations

from typing import Any

from cachesim.base.errors import counted
from cachesim.engines.llama_cpp import sentences_checkpoint as checkpoint
from cachesim.engines.llama_cpp import sentences_memory as memory
from cachesim.engines.llama_cpp import sentences_slot as slot
from cachesim.engines.shared.sentences import Because, Dull, Say, Sentences


def _lcp(value: Any, because: Because) -> str:
    if because["cache_prompt"]:
        return f"n_past = {value} (common prefix of slot and prompt)"
    return f"n_past = 0: cache_prompt is false (common prefix {because['lcp']})"


def _one(value: Any, because: Because) -> str:
    if value != because["n_past"]:
        return f"n_past - 1 = {value}: at least one token must be evaluated for logits"
    return f"n_past = {value} of {because['n_tokens']}"


def _moved(blocks: Any, because: Because) -> str:
    if blocks is None:
        return "cache reuse is not supported by this memory (recurrent state)"
    if not blocks:
        return Dull(f"no block of {because['least']} tokens or more to reuse")
    n_tokens = sum(one.n for one in blocks)
    n_blocks = counted(len(blocks), "block")
    return f"reuses {counted(n_tokens, 'token')} in {n_blocks} at shifted positions (--cache-reuse)"


def _trim(value: bool, because: Because) -> str:
    then = "slot cleared, the whole prompt is re-evaluated" if value else "the server aborts"
    return f"seq_rm from {because['n_past']} on failed: {then}"


def _completion(value: Any, because: Because) -> str:
    if value:
        return Dull(f"{because['kind']}: uses prompt cache and checkpoints")
    return f"{because['kind']}: no prompt cache, no checkpoints"


def _whole(value: str, because: Because) -> str:
    kind, n_tokens, n_ubatch = because["kind"], because["n_tokens"], because["n_ubatch"]
    if not value:
        return Dull(f"{kind}: may be split into micro-batches")
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
        return Dull("several prompts in one request are not supported")
    return f"{counted(value, 'token')} shared by {because['prompts']} prompts, evaluated once" if value else Dull(
        f"{counted(because['prompts'], 'prompt')} share no token")


def _marks(value: bool, because: Because) -> str:
    if value:
        return Dull("user messages are known from the chat template or message_delimiters")
    return "message_delimiters of a plain completion are ignored"


def _task_reuse(value: bool, because: Because) -> str:
    kind = because["kind"]
    return Dull(f"{kind}: cached tokens are reused") if value else f"{kind}: no cached token is reused"


def _shift(plan: Any, because: Because) -> str:
    if plan is None:
        return Dull(f"no context shift: {because['held']} of {because['n_ctx']} tokens")
    return f"context shift at {because['held']} tokens: n_keep = {plan.n_keep}, n_discard = {plan.n_discard}"


PROMPT: dict[str, Say] = {
    "LC-NPAST-LCP": _lcp,
    "LC-NPAST-ONE": _one,
    "LC-NPAST-REUSE": _moved,
    "LC-TASK": lambda v, b: _completion(v, b) if "n_ubatch" not in b else _whole(v, b),
    "LC-TASK-REUSE": _task_reuse,
    "LC-SHARED": _shared,
    "LC-MARKS": _marks,
    "LC-TRIM": _trim,
    "LC-DECODE": _decode,
    "LC-END": _end,
    "LC-SHIFT": _shift,
}

PROMPT_VARIANTS: dict[str, Say] = {
    "LC-SHIFT.SHARED": lambda v, b: v or Dull("context shift allowed: the prompt is not shared"),
    "LC-MARKS.CHAT": lambda v, b: _marks(v, b) if not v else Dull("user messages are known from the chat template"),
}

SENTENCES = Sentences(
    {**PROMPT, **slot.FAMILIES, **checkpoint.FAMILIES, **memory.FAMILIES},
    {**PROMPT_VARIANTS, **slot.VARIANTS, **checkpoint.VARIANTS, **memory.VARIANTS},
)
