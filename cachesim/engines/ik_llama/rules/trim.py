"""What may a memory refuse, who is cut when a prompt begins, and what is lost when a cut fails?

target, companion   the model's own context; the context of its MTP head
t, c                did the target, the companion accept the cut?
Source: ik_llama.cpp examples/server/server-context.cpp, common/speculative.cpp, src/llama.cpp (8337e4cd3); spec 1.2,
7.1 to 7.4.
"""

from __future__ import annotations

from typing import NamedTuple

from cachesim.engines.base import Decision, rule


class Repair(NamedTuple):
    """What follows from a cut: ``wipe`` = the companion alone is emptied, ``reset`` = both, and the slot forgets its
    tokens, its counts and its checkpoints."""

    wipe: bool = False
    reset: bool = False


@rule("IK-SEQ-RM")
def rm_refused(recurrent: bool, tail: int, p0: int, p1: int) -> Decision:
    """Only a memory of nothing but recurrent layers refuses, and only a range that begins or ends inside what it has
    absorbed. A hybrid one never does. Value: refused?
    Source: ik_llama.cpp src/llama.cpp llama_kv_cache_seq_rm (8337e4cd3)."""
    refused = recurrent and (0 < p0 <= tail or 0 < p1 <= tail)
    return Decision("IK-SEQ-RM", refused, {"recurrent": recurrent, "tail": tail, "p0": p0, "p1": p1})


@rule("IK-TRIM.IN-TURN")
def trim_in_turn(target: bool) -> Decision:
    """The companion is cut only if the target was. Value: is it cut?
    Source: ik_llama.cpp common/speculative.cpp common_speculative_trim_sequence (8337e4cd3), since #1949."""
    return Decision("IK-TRIM.IN-TURN", target, {"target": target})


# [Gone in ik_llama@1949]
@rule("IK-TRIM.BOTH")
def trim_both(target: bool) -> Decision:
    """Both are cut, whatever the first one said.
    Source: ik_llama.cpp examples/server/server-context.cpp batch_pending_prompt (d2da6da05), until #1949."""
    return Decision("IK-TRIM.BOTH", True, {"target": target})


@rule("IK-TRIM-FAILED.RESET")
def failed_reset(target: bool, companion: bool) -> Decision:
    """If either refused, everything goes.
    Source: ik_llama.cpp examples/server/server-context.cpp batch_pending_prompt (8337e4cd3); spec 7.2."""
    repair = Repair(reset=not (target and companion))
    return Decision("IK-TRIM-FAILED.RESET", repair, {"target": target, "companion": companion})


# [New in ik_llama@pr1889]
@rule("IK-TRIM-FAILED.COMPANION")
def failed_companion(target: bool, companion: bool) -> Decision:
    """If only the companion refused, only the companion is emptied; what the target holds goes on serving.
    Source: ikawrakow/ik_llama.cpp#1889 (closed, 3d1c5bdec); spec 7.3."""
    repair = Repair(wipe=target and not companion, reset=not target)
    return Decision("IK-TRIM-FAILED.COMPANION", repair, {"target": target, "companion": companion})


@rule("IK-DECODE-RETRY")
def next_attempt(n_batch: int) -> Decision:
    """After a batch that found no room: half of it. Value 0 = give up.
    Source: ik_llama.cpp examples/server/server-context.cpp process_batch_tokens (8337e4cd3); spec 3.5."""
    return Decision("IK-DECODE-RETRY", n_batch // 2, {"n_batch": n_batch})


@rule("IK-END")
def end_of_generation(n_decoded: int, n_predict: int) -> Decision:
    """A spent budget ends the answer; a budget of 0 still yields one token. Tokens accepted together are counted before
    the first of them is looked at. Value: "limit", or "" = it goes on.
    Source: ik_llama.cpp examples/server/server-context.cpp process_token, speculative_decoding_accept (8337e4cd3)."""
    spent = n_predict >= 0 and n_decoded >= n_predict
    return Decision("IK-END", "limit" if spent else "", {"n_decoded": n_decoded, "n_predict": n_predict})


@rule("IK-WINDOW.COMPACT")
def window_compact(asked: bool, private: bool, n_slots: int) -> Decision:
    """Windows are kept compacted if that is asked for, by models that can, with one slot. Value: are they?
    Source: ik_llama.cpp src/llama.cpp (8337e4cd3), since #2253 (cf1aa57e1), #2266, #2310; spec 1.7."""
    yes = asked and private and n_slots == 1
    return Decision("IK-WINDOW.COMPACT", yes, {"asked": asked, "private": private, "n_slots": n_slots})


# [Gone in ik_llama@main]
@rule("IK-WINDOW.WHOLE")
def window_whole(asked: bool, private: bool, n_slots: int) -> Decision:
    """A window is a mask only; every row stays.
    Source: ik_llama.cpp src/llama.cpp (d2da6da05), until #2253; spec 1.7."""
    return Decision("IK-WINDOW.WHOLE", False, {"asked": asked, "private": private, "n_slots": n_slots})
