"""Context shift: when is a slot full, how many tokens are kept and discarded, and which ones are those in the cache?

n_ctx      cells of a slot
n_keep     tokens at the beginning that a shift leaves alone, as the client asked (negative = the whole prompt)
n_discard  tokens behind them that go; 0 = half of what lies behind the kept ones
Source: ik_llama.cpp examples/server/server-context.cpp context_shift, context_shift_prompt (8337e4cd3).
"""

from __future__ import annotations

from typing import NamedTuple

from cachesim.engines.ik_llama.rules.common_prefix import Common
from cachesim.engines.ik_llama.source_files import CONTEXT, ik_llama
from cachesim.engines.rule import Decision, Role, rule

SPARE = 4                # cells that the kept beginning leaves free at least


@rule("IK-FULL", Role.PROMPT, ik_llama(CONTEXT, "context_shift", "8337e4cd3"))
def context_full(held: int, n_ctx: int, shift: bool) -> Decision:
    """Returns "shift" or "error" if a slot has no room for its next token, "" if it has. Checked in every iteration,
    also while the prompt is evaluated."""
    full = held >= n_ctx - 1
    value = "" if not full else "shift" if shift else "error"
    return Decision(value, {"held": held, "n_ctx": n_ctx, "shift": shift})


@rule("IK-KEEP", Role.SHIFT, ik_llama(CONTEXT, "launch_slot_with_task", "8337e4cd3"))
def keep_tokens(asked: int | None, last: int) -> Decision:
    """Returns n_keep of a request: its own, else that of the slot's last request."""
    return Decision(last if asked is None else asked, {"asked": asked, "last": last})


class Shift(NamedTuple):
    """Tokens n_keep .. n_keep + n_discard - 1 of the text leave; ``n_left`` is what lies behind n_keep."""

    n_keep: int
    n_left: int
    n_discard: int


@rule("IK-SHIFT", Role.SHIFT, ik_llama(CONTEXT, "context_shift", "8337e4cd3"))
def shift_context(held: int, n_prompt: int, n_keep: int, n_discard: int, n_ctx: int) -> Decision:
    """Shifts a full context: keeps n_keep tokens, discards n_discard, or half of the rest. Returns None if there is
    nothing to discard, and the slot continues without room. (A vocabulary that adds a start token would keep one
    more.)"""
    keep = min(n_prompt if n_keep < 0 else n_keep, n_ctx - SPARE)
    left = held - keep
    discard = n_discard or left // 2
    because = {"held": held, "n_prompt": n_prompt, "n_keep": n_keep, "n_discard": n_discard, "n_ctx": n_ctx}
    return Decision(Shift(keep, left, discard) if discard > 0 else None, because)


class PromptShift(NamedTuple):
    """``n_discard`` tokens of a prompt leave behind ``n_keep``: whole blocks of ``block`` tokens."""

    n_keep: int
    block: int
    n_discard: int


@rule("IK-PROMPT-SHIFT", Role.SHIFT, ik_llama(CONTEXT, "context_shift_prompt", "8337e4cd3"))
def shift_prompt(asked: int, n_keep: int, n_discard: int, n_ctx: int) -> Decision:
    """Discards blocks of a prompt that does not fit the context, behind its first n_keep tokens, until it fits; a block
    is n_discard tokens, or half of the context behind n_keep. A negative n_keep keeps nothing here. Returns None if
    there is nothing to discard."""
    keep = max(0, n_keep)
    block = n_discard or int((n_ctx - keep) / 2)
    because = {"asked": asked, "n_keep": n_keep, "n_discard": n_discard, "n_ctx": n_ctx}
    if block <= 0:
        return Decision(None, because)
    blocks = -(-(asked - n_ctx + 1) // block)
    return Decision(PromptShift(keep, block, blocks * block), because)


class InCache(NamedTuple):
    """Tokens n_keep .. n_keep + n_discard - 1 of the cache leave."""

    n_keep: int
    n_discard: int


@rule("IK-SHIFT-FIND", Role.SHIFT, ik_llama(CONTEXT, "context_shift_find_n_tokens", "8337e4cd3"))
def shift_in_cache(keep: Common, total: Common, n_keep: int, n_discard: int) -> Decision:
    """Returns n_keep and n_discard in tokens of the cache, which may be another tokenization of the prompt: ``keep``
    and ``total`` are what the first n_keep and n_keep + n_discard tokens of the prompt have in common with it. Tokens
    of the kept part that the cache lacks, and kept tokens that the prompt is too short for, are discarded besides."""
    kept = keep.cache - (keep.prompt - n_keep)
    gone = total.cache - keep.cache - (total.prompt - (n_discard + n_keep))
    value = InCache(n_keep if kept < 0 else kept, n_discard if gone < 0 else gone)
    because = {"keep": tuple(keep), "total": tuple(total), "n_keep": n_keep, "n_discard": n_discard}
    return Decision(value, because)


@rule("IK-REFUSED.READS", Role.FAIL, ik_llama(CONTEXT, "batch_pending_prompt", "8337e4cd3"))
def refused_reads(asked: int, n_ctx: int) -> Decision:
    """Returns True: the slot evaluates a prompt that is too long, from position 0 and past every checkpoint, although
    the client got an error."""
    return Decision(True, {"asked": asked, "n_ctx": n_ctx})


@rule("IK-PROMPT-CUT.BLOCK", Role.SHIFT, ik_llama(CONTEXT, "context_shift_prompt", "8337e4cd3"))
def prompt_cut_block(found: int) -> Decision:
    """Returns the tokens that the cache discards when a prompt is shortened: one block (``found``); what is behind it
    does not move up."""
    return Decision(found, {"found": found})


@rule("IK-SHIFT-LIST.CACHED", Role.SHIFT, ik_llama(CONTEXT, "discard_n_kv_and_cache_tokens", "8337e4cd3"))
def shift_list_cached(cache_prompt: bool) -> Decision:
    """Returns True if a context shift removes the discarded tokens from the slot's list: only if the request caches its
    prompt."""
    return Decision(cache_prompt, {"cache_prompt": cache_prompt})
