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
    """A slot with one cell left has no room for its next token: its context is shifted, or it gets an error. Looked at
    in every iteration, while the prompt is still being read too. Value: "", "shift" or "error"."""
    full = held >= n_ctx - 1
    value = "" if not full else "shift" if shift else "error"
    return Decision(value, {"held": held, "n_ctx": n_ctx, "shift": shift})


@rule("IK-KEEP", Role.SHIFT, ik_llama(CONTEXT, "launch_slot_with_task", "8337e4cd3"))
def keep_tokens(asked: int | None, last: int) -> Decision:
    """n_keep of a request that does not say it is that of the slot's last request. Value: n_keep as it was asked."""
    return Decision(last if asked is None else asked, {"asked": asked, "last": last})


class Shift(NamedTuple):
    """Tokens n_keep .. n_keep + n_discard - 1 of the text leave; ``n_left`` is what lies behind n_keep."""

    n_keep: int
    n_left: int
    n_discard: int


@rule("IK-SHIFT", Role.SHIFT, ik_llama(CONTEXT, "context_shift", "8337e4cd3"))
def shift_context(held: int, n_prompt: int, n_keep: int, n_discard: int, n_ctx: int) -> Decision:
    """Half of what lies behind the kept beginning goes, unless the client says how much. Value None = nothing to
    discard, the slot goes on without room. (A vocabulary that adds a start token would keep one more.)"""
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
    """A prompt that the context does not hold loses blocks behind its kept beginning until it fits; a block is half of
    the context behind the kept beginning, unless the client says how much. A negative n_keep keeps nothing here. Value
    None = nothing to discard."""
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
    """The cache may hold another tokenization of the prompt, so the ends of the kept and of the discarded part are
    looked for in it: ``keep`` and ``total`` are what the first n_keep and n_keep + n_discard tokens of the prompt have
    in common with the cache. Tokens of the kept part that the cache lacks, and kept tokens that the prompt is too short
    for, are discarded besides."""
    kept = keep.cache - (keep.prompt - n_keep)
    gone = total.cache - keep.cache - (total.prompt - (n_discard + n_keep))
    value = InCache(n_keep if kept < 0 else kept, n_discard if gone < 0 else gone)
    because = {"keep": tuple(keep), "total": tuple(total), "n_keep": n_keep, "n_discard": n_discard}
    return Decision(value, because)


@rule("IK-REFUSED.READS", Role.FAIL, ik_llama(CONTEXT, "batch_pending_prompt", "8337e4cd3"))
def refused_reads(asked: int, n_ctx: int) -> Decision:
    """The client of a prompt that is too long gets its error, and the slot reads the prompt all the same, from its
    beginning and past every checkpoint. Value: is it read?"""
    return Decision(True, {"asked": asked, "n_ctx": n_ctx})


@rule("IK-PROMPT-CUT.BLOCK", Role.SHIFT, ik_llama(CONTEXT, "context_shift_prompt", "8337e4cd3"))
def prompt_cut_block(found: int) -> Decision:
    """Where the middle of a prompt is cut, the cache loses one block of it (``found`` tokens), and what lies behind
    does not move up. Value: tokens of the cache that are discarded."""
    return Decision(found, {"found": found})


@rule("IK-SHIFT-LIST.CACHED", Role.SHIFT, ik_llama(CONTEXT, "discard_n_kv_and_cache_tokens", "8337e4cd3"))
def shift_list_cached(cache_prompt: bool) -> Decision:
    """The slot's list loses what its memory loses only if the request caches its prompt. Value: does it?"""
    return Decision(cache_prompt, {"cache_prompt": cache_prompt})
