"""Removals: refusals of a memory, trimming of both contexts before a prompt, and consequences of a failed removal.

target, companion   the model's own context; the draft context, of its MTP head
t, c                whether the target and the draft context accepted the removal
Source: ik_llama.cpp examples/server/server-context.cpp, common/speculative.cpp, src/llama.cpp (8337e4cd3).
"""

from __future__ import annotations

from typing import NamedTuple

from cachesim.engines.ik_llama.source_files import CONTEXT, LLAMA, SPECULATIVE, ik_llama
from cachesim.engines.rule import Decision, Role, rule


class RemovalRepair(NamedTuple):
    """Consequence of a removal: ``wipe`` = only the draft context is cleared; ``reset`` = both contexts are cleared,
    and the slot forgets its tokens, its counts and its checkpoints."""

    wipe: bool = False
    reset: bool = False


@rule("IK-SEQ-RM", Role.REMOVE, ik_llama(LLAMA, "llama_kv_cache_seq_rm", "8337e4cd3"))
def rm_refused(recurrent: bool, tail: int, p0: int, p1: int) -> Decision:
    """Refuse (returns True) a seq_rm that begins or ends at or before the position of a memory with recurrent layers
    only. A hybrid memory never refuses."""
    refused = recurrent and (0 < p0 <= tail or 0 < p1 <= tail)
    return Decision(refused, {"recurrent": recurrent, "tail": tail, "p0": p0, "p1": p1})


@rule("IK-TRIM.IN-TURN", Role.REMOVE,
      ik_llama(SPECULATIVE, "common_speculative_trim_sequence", "8337e4cd3"), since="#1949")
def trim_in_turn(target: bool) -> Decision:
    """True if the draft context is trimmed: only if the target was."""
    return Decision(target, {"target": target})


# [Gone in ik_llama@1949]
@rule("IK-TRIM.BOTH", Role.REMOVE, ik_llama(CONTEXT, "batch_pending_prompt", "d2da6da05"), until="#1949")
def trim_both(target: bool) -> Decision:
    """Return True: the draft context is trimmed even if the target refused."""
    return Decision(True, {"target": target})


@rule("IK-TRIM-FAILED.RESET", Role.FAIL, ik_llama(CONTEXT, "batch_pending_prompt", "8337e4cd3"))
def failed_reset(target: bool, companion: bool) -> Decision:
    """Clear target and draft context, tokens and checkpoints if either refused."""
    repair = RemovalRepair(reset=not (target and companion))
    return Decision(repair, {"target": target, "companion": companion})


# [New in ik_llama@pr1889]
@rule("IK-TRIM-FAILED.COMPANION", Role.FAIL, ik_llama("", "", "3d1c5bdec", pull=1889, note="closed"))
def failed_companion(target: bool, companion: bool) -> Decision:
    """Clear only the draft context if only that refused; the target's memory is reused."""
    repair = RemovalRepair(wipe=target and not companion, reset=not target)
    return Decision(repair, {"target": target, "companion": companion})


@rule("IK-END", Role.END, ik_llama(CONTEXT, "process_token, speculative_decoding_accept", "8337e4cd3"))
def end_of_generation(n_decoded: int, n_predict: int) -> Decision:
    """Return "limit" when n_predict is reached (0 still yields a token), "" = it continues. Tokens accepted together
    are counted before the first of them is checked."""
    spent = n_predict >= 0 and n_decoded >= n_predict
    return Decision("limit" if spent else "", {"n_decoded": n_decoded, "n_predict": n_predict})


@rule("IK-WINDOW.COMPACT", Role.MEMORY, ik_llama(LLAMA, "", "8337e4cd3"), since="#2253 (cf1aa57e1), #2266, #2310")
def window_compact(asked: bool, private: bool, n_slots: int) -> Decision:
    """True if window layers are kept compacted: if the flag is set, for models that support it, with a single
    slot."""
    yes = asked and private and n_slots == 1
    return Decision(yes, {"asked": asked, "private": private, "n_slots": n_slots})


# [New in ik_llama@2378]
@rule("IK-WINDOW.COMPACT-ANY", Role.MEMORY,
      ik_llama(pull=2378, note="merged 2026-09; its description and the comments"), since="#2378")
def window_compact_any(asked: bool, private: bool, n_slots: int) -> Decision:
    """True if window layers are kept compacted: if the flag is set, with a single slot, also for Gemma 4.
    Positions before the compacted window cannot be reached again."""
    return Decision(asked and n_slots == 1, {"asked": asked, "private": private, "n_slots": n_slots})


# [Gone in ik_llama@main]
@rule("IK-WINDOW.WHOLE", Role.MEMORY, ik_llama(LLAMA, "", "d2da6da05"), until="#2253")
def window_whole(asked: bool, private: bool, n_slots: int) -> Decision:
    """Return False: a window is only a mask, and all rows stay."""
    return Decision(False, {"asked": asked, "private": private, "n_slots": n_slots})


@rule("IK-CKPT-CELLS.CLAIMED", Role.MEMORY, ik_llama(LLAMA, "llama_data_read::read_kv_cache", "8337e4cd3"))
def cells_claimed(partial: bool) -> Decision:
    """Return True: every saved state claims free contiguous cells for its positions, even a state without K/V rows,
    whose rows are already in cells."""
    return Decision(True, {"partial": partial})
