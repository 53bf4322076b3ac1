"""Rules of the server of late 2023 (b1573) that ended until March 2024.

Source: llama.cpp examples/server/server.cpp.
"""

from __future__ import annotations

from typing import Any, Sequence

from cachesim.engines.llama_cpp.rules.before_checkpoints import OLD
from cachesim.engines.llama_cpp.rules.checkpoint_facts import Chunk, Ckpt
from cachesim.engines.llama_cpp.rules.context_shift import SPARE, Shift
from cachesim.engines.llama_cpp.rules.prompt_lifecycle import stop_word
from cachesim.engines.llama_cpp.source_files import llama_cpp
from cachesim.engines.rule import Decision, Role, rule

LEAST_GENERATED = 3
LIST_SAMPLED = -2        # value of LC-LIST: the list also names the last sampled token


# [Gone in llama_cpp@b2781]
@rule("LC-LIST.SAMPLED", Role.MEMORY,
      llama_cpp(OLD, "llama_client_slot::add_token_string", "b1573"), until="#5882 (b2357)")
def list_sampled(cache_prompt: bool, before: int) -> Decision:
    """Return -2: the list of a slot's tokens also names the last sampled token, which was never evaluated. A prompt
    that continues after it finds no row there."""
    return Decision(LIST_SAMPLED, {"cache_prompt": cache_prompt, "before": before})


# [Gone in llama_cpp@b2781]
@rule("LC-TRIM-AT.PREFIX", Role.REMOVE,
      llama_cpp(OLD, 'update_slots "kv cache rm"', "b1573", pull=5420), until="#5420 (b2110)")
def trim_at_prefix(n_past: int, lcp: int) -> Decision:
    """Return where the memory is cut: after the common prefix, before LC-NPAST-ONE takes one token back. This token's
    row then exists twice."""
    return Decision(max(n_past, lcp), {"n_past": n_past, "lcp": lcp})


# [Gone in llama_cpp@b2781]
@rule("LC-CKPT-BREAK.WHOLE", Role.PLAN, llama_cpp(OLD, "update_slots", "b1573"), until="#5882 (b2357)")
def break_nowhere(chunk: Chunk, ckpts: Sequence[Ckpt]) -> Decision:
    """Return the end of the prompt: all of it enters the batch at once, whatever n_batch is."""
    return Decision(chunk.n_tokens, {"start": chunk.start})


# [Gone in llama_cpp@b2781]
@rule("LC-SHIFT.AFTER-ONE", Role.SHIFT, llama_cpp(OLD, 'update_slots "context shift"', "b1573"), until="#5622 (b2230)")
def shift_after_one(held: int, n_prompt: int, n_keep: int, n_discard: int, n_ctx: int) -> Decision:
    """Shift a full context as LC-SHIFT, but keeps one token more than n_keep asks for, also without a start token, and
    always discards half of the rest."""
    because = {"held": held, "n_ctx": n_ctx}
    if held + 1 < n_ctx:
        return Decision(None, because)
    keep = 1 + min(n_prompt if n_keep < 0 else n_keep, n_ctx - SPARE)
    return Decision(Shift(keep, held - keep, (held - keep) // 2), because)


# [Gone in llama_cpp@b2781]
@rule("LC-END.THREE", Role.END, llama_cpp(OLD, "process_token, has_budget", "b1573", pull=4798), until="#4798 (b1778)")
def end_after_three(
    n_gen: int, n_predict: int, n_slot: int, n_ctx: int, shift: bool, said: str = "", words: Sequence[str] = (),
    eog: bool = False,
) -> Decision:
    """Stop the generation as LC-END.LATE, but evaluates at least three generated tokens, and as many as n_predict asks
    for: one more is sampled. If -1 tokens are left, which means no limit, it continues: n_predict 2 yields four."""
    because: dict[str, Any] = {"n_gen": n_gen, "n_predict": n_predict, "n_slot": n_slot, "n_ctx": n_ctx}
    word = stop_word(said, words)
    left = n_predict - (n_gen - 1)
    spent = n_predict != -1 and n_gen > LEAST_GENERATED and left <= 0 and left != -1
    stop = "eos" if eog else "word" if word else "limit" if spent else ""
    return Decision((stop, False), because | ({"word": word} if word else {}))
