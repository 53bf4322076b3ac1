"""Speculative decoding: length of drafts, states saved before them, and positions in the draft context.

T          tokens in the slot before the sampled token is added: the position of the sampled token
n_max      drafts of a round, as configured; the draft context holds rows for its own next-token head
Source: ik_llama.cpp examples/server/server-context.cpp, common/speculative.cpp (8337e4cd3).
"""

from __future__ import annotations

from cachesim.engines.ik_llama.source_files import CONTEXT, LLAMA, SPECULATIVE, ik_llama
from cachesim.engines.rule import Decision, Role, rule


@rule("IK-SPEC-MAX", Role.DRAFT, ik_llama(CONTEXT, "add_sampled_tokens", "8337e4cd3"))
def draft_max(held: int, n_ctx: int, n_max: int, left: int) -> Decision:
    """Return the longest draft: at most ``n_max`` tokens, two fewer than the context has room for, one fewer than
    n_predict has left (``left`` < 0 = no limit)."""
    most = min(n_max, n_ctx - held - 2, n_max if left < 0 else left - 1)
    return Decision(max(0, most), {"held": held, "n_ctx": n_ctx, "n_max": n_max, "left": left})


@rule("IK-SPEC-START.ONE-SLOT", Role.SETUP, ik_llama(CONTEXT, "load_model", "8337e4cd3"), since="#1970 (f9078e169)")
def start_with_one_slot(spec_type: str, n_slots: int) -> Decision:
    """Return False if the server does not start: with drafts and several slots."""
    return Decision(spec_type == "none" or n_slots == 1, {"spec_type": spec_type, "n_slots": n_slots})


# [Gone in ik_llama@1992]
@rule("IK-SPEC-START.ANY", Role.SETUP, ik_llama(CONTEXT, "load_model", "d2da6da05"), until="#1970 (f9078e169)")
def start_with_any(spec_type: str, n_slots: int) -> Decision:
    """Return True: the server starts with drafts and any number of slots, an MTP head excepted, which is refused."""
    return Decision(spec_type != "mtp" or n_slots == 1, {"spec_type": spec_type, "n_slots": n_slots})


@rule("IK-SPEC-SAVE.ROOT-ONLY", Role.DRAFT, ik_llama(CONTEXT, "", "8337e4cd3"), since="#2205 (dd837ff21)")
def save_or_root_only(n_batch: int, capacity: int) -> Decision:
    """Evaluate only the sampled token if the draft does not fit the saved states. Return (saved, drafts kept)."""
    fits = n_batch <= capacity
    return Decision((fits, fits), {"n_batch": n_batch, "capacity": capacity})


# [Gone in ik_llama@2205]
@rule("IK-SPEC-SAVE.ANYWAY", Role.DRAFT, ik_llama(CONTEXT, "", "d2da6da05"), until="#2205")
def save_or_anyway(n_batch: int, capacity: int) -> Decision:
    """Evaluate the draft even if it does not fit the saved states, and save none. Return (saved, drafts kept)."""
    return Decision((n_batch <= capacity, True), {"n_batch": n_batch, "capacity": capacity})


@rule("IK-SPEC-COMMIT.AHEAD", Role.DRAFT, ik_llama(SPECULATIVE, "", "8337e4cd3"), since="#1987, #1992")
def commit_ahead(held: int) -> Decision:
    """Put the accepted tokens into the draft context at the positions after the sampled token, so that it has a row
    more than the target. Return (first position, whether seq_rm comes first)."""
    return Decision((held + 1, False), {"held": held})


# [Gone in ik_llama@1992]
@rule("IK-SPEC-COMMIT.LEVEL", Role.DRAFT, ik_llama(SPECULATIVE, "", "d2da6da05"), until="#1992 (0d59973e4)")
def commit_level(held: int) -> Decision:
    """Put the accepted tokens into the draft context at the positions of the tokens before them, after seq_rm from
    there on: it ends where the target ends. Return (first position, whether seq_rm comes first)."""
    return Decision((held, True), {"held": held})


@rule("IK-SPEC-PURGE.KEEP", Role.DRAFT, ik_llama(SPECULATIVE, "", "8337e4cd3"))
def purge_keep(held: int, known: bool, n_decode: int) -> Decision:
    """Remove drafted tokens from the draft context, which keeps the sampled token. Return the range, None =
    nothing."""
    span = (held + 1, held + n_decode + 2) if n_decode else None
    return Decision(span, {"held": held, "known": known, "n_decode": n_decode})


# [Gone in ik_llama@1992]
@rule("IK-SPEC-PURGE.KNOWN", Role.DRAFT, ik_llama(SPECULATIVE, "", "d2da6da05"), until="#1992")
def purge_known(held: int, known: bool, n_decode: int) -> Decision:
    """Remove drafted tokens from the draft context, and the sampled token if the first draft was ``known`` from the
    previous round (it was never decoded then). Return the range, None = nothing."""
    span = (held if known else held + 1, held + n_decode + 2) if n_decode else None
    return Decision(span, {"held": held, "known": known, "n_decode": n_decode})


@rule("IK-DRAFT-FROM.TARGET", Role.DRAFT, ik_llama(SPECULATIVE, "common_speculative_state_mtp::draft", "8337e4cd3"),
      since="#1781 (c2f498ab4)")
def draft_from_target(held: int, pos_max: int) -> Decision:
    """Return the position of the first token that the draft context evaluates for a draft: after the target's tokens.
    ``pos_max``: last position of the draft context."""
    return Decision(held, {"held": held, "pos_max": pos_max})


# [Gone in ik_llama@1889-base]
@rule("IK-DRAFT-FROM.OWN", Role.DRAFT, ik_llama(SPECULATIVE, "common_speculative_state_mtp::draft", "c2f498ab4^"),
      until="#1781")
def draft_from_own(held: int, pos_max: int) -> Decision:
    """Return the position of the first token that the draft context evaluates for a draft: after its own last
    position, which lies before the target's if rounds without a draft passed."""
    return Decision(pos_max + 1, {"held": held, "pos_max": pos_max})


@rule("IK-WARM-UP.BEFORE", Role.DRAFT, ik_llama(SPECULATIVE, "common_speculative_on_target_batch", "8337e4cd3"),
      since="#2222 (bd2d8e102)")
def warm_up_before(pos: int, n: int) -> Decision:
    """Return the position of the target's hidden state that conditions the first row of ``n`` prompt tokens from
    ``pos`` on in the draft context: the one before, from the previous batch."""
    return Decision(pos - 1, {"pos": pos, "n": n})


# [Gone in ik_llama@main]
@rule("IK-WARM-UP.LAST", Role.DRAFT, ik_llama(SPECULATIVE, "common_speculative_on_target_batch", "bd2d8e102^"),
      since="#1987, #1992 (0d59973e4)", until="#2222")
def warm_up_last(pos: int, n: int) -> Decision:
    """Return the position of the target's hidden state that conditions the first row of ``n`` prompt tokens from
    ``pos`` on in the draft context: the last of these tokens, a later state. It is stored before the previous one is
    read."""
    return Decision(pos + n - 1, {"pos": pos, "n": n})


# [Gone in ik_llama@1992]
@rule("IK-WARM-UP.SAME", Role.DRAFT, ik_llama(SPECULATIVE, "common_speculative_on_target_batch", "0d59973e4^"),
      until="#1987, #1992 (0d59973e4)")
def warm_up_same(pos: int, n: int) -> Decision:
    """Return the position of the target's hidden state that conditions the first row of ``n`` prompt tokens from
    ``pos`` on in the draft context: its own."""
    return Decision(pos, {"pos": pos, "n": n})


@rule("IK-SPEC-STEPS.PLACE", Role.DRAFT, ik_llama("src/llama-delta-net.cpp", "save_per_step_states", "8337e4cd3"))
def steps_by_place(n: int, capacity: int) -> Decision:
    """Save the row after each token of a draft by its place in the micro-batch, for micro-batches of 2 to ``capacity``
    tokens. Return the index of the rows ("place"), "" = none are saved."""
    return Decision("place" if 1 < n <= capacity else "", {"n": n, "capacity": capacity})


@rule("IK-SPEC-ROW.FIRST", Role.DRAFT, ik_llama(LLAMA, "llama_spec_ckpt_restore", "8337e4cd3"))
def row_first(seq: int) -> Decision:
    """Restore the saved row into row 0 after a rejection, and give the position to the cell whose index is the
    sequence's id. Return the row, and whether that cell gets it."""
    return Decision((0, True), {"seq": seq})
