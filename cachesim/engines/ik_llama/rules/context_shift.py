"""Context shift: detection of a full slot, numbers of kept and discarded tokens, and their range in the cache.

n_ctx      cells of a slot
n_keep     tokens at the beginning that a shift leaves alone, as the client asked (negative = the whole prompt)
n_discard  tokens after them that are discarded; 0 = half of the tokens after the kept prefix
Source: ik_llama.cpp examples/server/server-context.cpp context_shift, context_shift_prompt (8337e4cd3).
"""

from __future__ import annotations

from typing import NamedTuple

from cachesim.engines.ik_llama.rules.common_prefix import CommonLength
from cachesim.engines.ik_llama.source_files import CONTEXT, SERVER, ik_llama
from cachesim.engines.rule import Decision, Role, rule

SPARE = 4                # least number of cells that the kept prefix leaves free


@rule("IK-FULL", Role.PROMPT, ik_llama(CONTEXT, "context_shift", "8337e4cd3"))
def context_full(held: int, n_ctx: int, shift: bool) -> Decision:
    """Return "shift" or "error" if a slot has no room for its next token, "" if it has. Checked in every iteration,
    also while the prompt is evaluated."""
    full = held >= n_ctx - 1
    value = "" if not full else "shift" if shift else "error"
    return Decision(value, {"held": held, "n_ctx": n_ctx, "shift": shift})


@rule("IK-KEEP", Role.SHIFT, ik_llama(CONTEXT, "launch_slot_with_task", "8337e4cd3"))
def keep_tokens(asked: int | None, last: int) -> Decision:
    """Return n_keep of a request, or if it is not set that of the slot's last request."""
    return Decision(last if asked is None else asked, {"asked": asked, "last": last})


class Shift(NamedTuple):
    """Tokens n_keep .. n_keep + n_discard - 1 are discarded; ``n_left``: number of tokens after n_keep."""

    n_keep: int
    n_left: int
    n_discard: int


@rule("IK-SHIFT", Role.SHIFT, ik_llama(CONTEXT, "context_shift", "8337e4cd3"))
def shift_context(held: int, n_prompt: int, n_keep: int, n_discard: int, n_ctx: int) -> Decision:
    """Shift a full context: keep n_keep tokens, discard n_discard, or half of the rest. Return None if there is
    nothing to discard; the slot then continues without room. (A vocabulary with a start token would keep an additional
    token.)"""
    keep = min(n_prompt if n_keep < 0 else n_keep, n_ctx - SPARE)
    left = held - keep
    discard = n_discard or left // 2
    because = {"held": held, "n_prompt": n_prompt, "n_keep": n_keep, "n_discard": n_discard, "n_ctx": n_ctx}
    return Decision(Shift(keep, left, discard) if discard > 0 else None, because)


class PromptShift(NamedTuple):
    """``n_discard`` tokens of a prompt are discarded after ``n_keep``: whole blocks of ``block`` tokens."""

    n_keep: int
    block: int
    n_discard: int


@rule("IK-PROMPT-SHIFT", Role.SHIFT, ik_llama(CONTEXT, "context_shift_prompt", "8337e4cd3"))
def shift_prompt(asked: int, n_keep: int, n_discard: int, n_ctx: int) -> Decision:
    """Discard blocks of a prompt that does not fit the context, after its first n_keep tokens, until it fits; a block
    is n_discard tokens, or half of the context after n_keep. A negative n_keep keeps nothing here. Return None if
    there is nothing to discard."""
    keep = max(0, n_keep)
    block = n_discard or int((n_ctx - keep) / 2)
    because = {"asked": asked, "n_keep": n_keep, "n_discard": n_discard, "n_ctx": n_ctx}
    if block <= 0:
        return Decision(None, because)
    blocks = -(-(asked - n_ctx + 1) // block)
    return Decision(PromptShift(keep, block, blocks * block), because)


# [Gone in ik_llama@973]
@rule("IK-PROMPT-SHIFT.HALVES", Role.SHIFT, ik_llama(SERVER, "update_slots", "bacb8fb79^"), until="#973 (bacb8fb79)")
def shift_prompt_halves(asked: int, n_keep: int, n_discard: int, n_ctx: int) -> Decision:
    """Discard blocks of a prompt that does not fit the context, after its first n_keep tokens, until less than two
    blocks are left after them; a block is half of the context after n_keep. A negative n_keep keeps the whole prompt.
    Return None if a block would be empty."""
    keep = min(n_ctx - SPARE, asked if n_keep < 0 else n_keep)
    block = (n_ctx - keep) // 2
    because = {"asked": asked, "n_keep": n_keep, "n_discard": n_discard, "n_ctx": n_ctx}
    if block <= 0:
        return Decision(None, because)
    return Decision(PromptShift(keep, block, (asked - keep - block) // block * block), because)


class CacheShift(NamedTuple):
    """Tokens n_keep .. n_keep + n_discard - 1 of the cache are discarded."""

    n_keep: int
    n_discard: int


@rule("IK-SHIFT-FIND", Role.SHIFT, ik_llama(CONTEXT, "context_shift_find_n_tokens", "8337e4cd3"))
def shift_in_cache(keep: CommonLength, total: CommonLength, n_keep: int, n_discard: int) -> Decision:
    """Return n_keep and n_discard in tokens of the cache, which may be tokenized differently from the prompt: ``keep``
    and ``total`` are the common prefixes of the cache with the first n_keep and n_keep + n_discard tokens of the
    prompt. Tokens of the kept part that the cache lacks, and kept tokens that the prompt is too short for, are
    discarded in addition."""
    kept = keep.cache - (keep.prompt - n_keep)
    gone = total.cache - keep.cache - (total.prompt - (n_discard + n_keep))
    value = CacheShift(n_keep if kept < 0 else kept, n_discard if gone < 0 else gone)
    because = {"keep": tuple(keep), "total": tuple(total), "n_keep": n_keep, "n_discard": n_discard}
    return Decision(value, because)


# [Gone in ik_llama@1008]
@rule("IK-SHIFT-FIND.EQUAL", Role.SHIFT, ik_llama(SERVER, "update_slots", "0b126b2ca^"), until="#1008 (0b126b2ca)")
def shift_equal(keep: CommonLength, total: CommonLength, n_keep: int, n_discard: int) -> Decision:
    """Return n_keep and n_discard: the cache discards as many tokens as the prompt."""
    because = {"keep": tuple(keep), "total": tuple(total), "n_keep": n_keep, "n_discard": n_discard}
    return Decision(CacheShift(n_keep, n_discard), because)


@rule("IK-REFUSED.READS", Role.FAIL, ik_llama(CONTEXT, "batch_pending_prompt", "8337e4cd3"))
def refused_reads(asked: int, n_ctx: int) -> Decision:
    """Return True: the slot evaluates a prompt that is too long, from position 0 and without restoring a checkpoint,
    although the client got an error."""
    return Decision(True, {"asked": asked, "n_ctx": n_ctx})


@rule("IK-PROMPT-CUT.BLOCK", Role.SHIFT, ik_llama(CONTEXT, "context_shift_prompt", "8337e4cd3"))
def prompt_cut_block(found: int) -> Decision:
    """Return the tokens that the cache discards when a prompt is shortened: a block (``found``); the tokens after it
    do not move."""
    return Decision(found, {"found": found})


# [Gone in ik_llama@973]
@rule("IK-PROMPT-CUT.NOTHING", Role.SHIFT, ik_llama(SERVER, "update_slots", "bacb8fb79^"), until="#973 (bacb8fb79)")
def prompt_cut_nothing(found: int) -> Decision:
    """Return 0: the cache keeps its tokens when a prompt is shortened."""
    return Decision(0, {"found": found})


@rule("IK-SHIFT-LIST.CACHED", Role.SHIFT, ik_llama(CONTEXT, "discard_n_kv_and_cache_tokens", "8337e4cd3"))
def shift_list_cached(cache_prompt: bool) -> Decision:
    """True if a context shift removes the discarded tokens from the slot's list: only if the request caches its
    prompt."""
    return Decision(cache_prompt, {"cache_prompt": cache_prompt})
