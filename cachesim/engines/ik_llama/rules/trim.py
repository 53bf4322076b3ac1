"""What may a memory refuse, who is cut when a prompt begins, and what is lost when a cut fails?

target, companion   the model's own context; the context of its MTP head
t, c                did the target, the companion accept the cut?
Source: ik_llama.cpp examples/server/server-context.cpp, common/speculative.cpp, src/llama.cpp (8337e4cd3).
"""

from __future__ import annotations

from typing import NamedTuple

from cachesim.engines.ik_llama.source_files import CONTEXT, LLAMA, SPECULATIVE, ik_llama
from cachesim.engines.rule import Decision, Role, rule


class Repair(NamedTuple):
    """What follows from a cut: ``wipe`` = the companion alone is emptied, ``reset`` = both, and the slot forgets its
    tokens, its counts and its checkpoints."""

    wipe: bool = False
    reset: bool = False


@rule("IK-SEQ-RM", Role.REMOVE, ik_llama(LLAMA, "llama_kv_cache_seq_rm", "8337e4cd3"))
def rm_refused(recurrent: bool, tail: int, p0: int, p1: int) -> Decision:
    """Only a memory of nothing but recurrent layers refuses, and only a range that begins or ends inside what it has
    absorbed. A hybrid one never does. Value: refused?"""
    refused = recurrent and (0 < p0 <= tail or 0 < p1 <= tail)
    return Decision(refused, {"recurrent": recurrent, "tail": tail, "p0": p0, "p1": p1})


@rule("IK-TRIM.IN-TURN", Role.REMOVE,
      ik_llama(SPECULATIVE, "common_speculative_trim_sequence", "8337e4cd3"), since="#1949")
def trim_in_turn(target: bool) -> Decision:
    """The companion is cut only if the target was. Value: is it cut?"""
    return Decision(target, {"target": target})


# [Gone in ik_llama@1949]
@rule("IK-TRIM.BOTH", Role.REMOVE, ik_llama(CONTEXT, "batch_pending_prompt", "d2da6da05"), until="#1949")
def trim_both(target: bool) -> Decision:
    """Both are cut, whatever the first one said."""
    return Decision(True, {"target": target})


@rule("IK-TRIM-FAILED.RESET", Role.FAIL, ik_llama(CONTEXT, "batch_pending_prompt", "8337e4cd3"))
def failed_reset(target: bool, companion: bool) -> Decision:
    """If either refused, everything goes."""
    repair = Repair(reset=not (target and companion))
    return Decision(repair, {"target": target, "companion": companion})


# [New in ik_llama@pr1889]
@rule("IK-TRIM-FAILED.COMPANION", Role.FAIL, ik_llama("", "", "3d1c5bdec", pull=1889, note="closed"))
def failed_companion(target: bool, companion: bool) -> Decision:
    """If only the companion refused, only the companion is emptied; what the target holds goes on serving."""
    repair = Repair(wipe=target and not companion, reset=not target)
    return Decision(repair, {"target": target, "companion": companion})


@rule("IK-DECODE-RETRY", Role.FAIL, ik_llama(CONTEXT, "process_batch_tokens", "8337e4cd3"))
def next_attempt(n_batch: int) -> Decision:
    """After a batch that found no room: half of it. Value 0 = give up."""
    return Decision(n_batch // 2, {"n_batch": n_batch})


@rule("IK-END", Role.END, ik_llama(CONTEXT, "process_token, speculative_decoding_accept", "8337e4cd3"))
def end_of_generation(n_decoded: int, n_predict: int) -> Decision:
    """A spent budget ends the answer; a budget of 0 still yields one token. Tokens accepted together are counted before
    the first of them is looked at. Value: "limit", or "" = it goes on."""
    spent = n_predict >= 0 and n_decoded >= n_predict
    return Decision("limit" if spent else "", {"n_decoded": n_decoded, "n_predict": n_predict})


@rule("IK-WINDOW.COMPACT", Role.MEMORY, ik_llama(LLAMA, "", "8337e4cd3"), since="#2253 (cf1aa57e1), #2266, #2310")
def window_compact(asked: bool, private: bool, n_slots: int) -> Decision:
    """Windows are kept compacted if that is asked for, by models that can, with one slot. Value: are they?"""
    yes = asked and private and n_slots == 1
    return Decision(yes, {"asked": asked, "private": private, "n_slots": n_slots})


# [Gone in ik_llama@main]
@rule("IK-WINDOW.WHOLE", Role.MEMORY, ik_llama(LLAMA, "", "d2da6da05"), until="#2253")
def window_whole(asked: bool, private: bool, n_slots: int) -> Decision:
    """A window is a mask only; every row stays."""
    return Decision(False, {"asked": asked, "private": private, "n_slots": n_slots})


@rule("IK-GIVE-UP.KEEPS", Role.FAIL, ik_llama(CONTEXT, "process_batch_tokens", "8337e4cd3"))
def give_up_keeps(held: int) -> Decision:
    """After a batch that found no room the slot goes on listing tokens that were never evaluated. Value: the length of
    its list."""
    return Decision(held, {"held": held})


@rule("IK-STATE-ZERO.ALONE", Role.MEMORY, ik_llama("src/llama-delta-net.cpp", "", "8337e4cd3"))
def zero_alone(runs: int) -> Decision:
    """A recurrent row is zeroed where a text begins, if no other sequence is in the micro-batch. Value: is it?"""
    return Decision(runs == 1, {"runs": runs})


@rule("IK-CKPT-CELLS.CLAIMED", Role.MEMORY, ik_llama(LLAMA, "llama_data_read::read_kv_cache", "8337e4cd3"))
def cells_claimed(partial: bool) -> Decision:
    """Every saved state claims free neighbouring cells for its positions, also one without K/V rows, which trusts that
    these lie there already. Value: are cells claimed for it?"""
    return Decision(True, {"partial": partial})
