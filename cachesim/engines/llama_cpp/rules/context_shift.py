"""Shifted positions: context shift of a full context, and reuse of old blocks at new positions.

Source: llama.cpp tools/server/server-context.cpp update_slots (3f545be).
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

from cachesim.engines.llama_cpp.source_files import COMMON, CONTEXT, llama_cpp
from cachesim.engines.rule import Decision, Role, rule

SPARE = 4                # cells that the kept tokens must leave free


class Shift(NamedTuple):
    """Context shift: the first ``n_keep`` tokens stay, the next ``n_discard`` are discarded, the rest moves down."""

    n_keep: int
    n_left: int
    n_discard: int


@rule("LC-SHIFT", Role.SHIFT, llama_cpp(CONTEXT, 'pre_decode "SLOT_STATE_GENERATING" "n_keep" "n_discard"', "3f545be"))
def context_shift(held: int, n_prompt: int, n_keep: int, n_discard: int, n_ctx: int) -> Decision:
    """Shift a full context: keep n_keep tokens, discard n_discard (half of the rest unless given), move the others
    down. A negative n_keep keeps the whole prompt. Return None if there is room. (A vocabulary that adds a start token
    would keep that token too.)"""
    because = {"held": held, "n_ctx": n_ctx}
    if held + 1 < n_ctx:
        return Decision(None, because)
    keep = min(n_prompt if n_keep < 0 else n_keep, n_ctx - SPARE)
    left = held - keep
    discard = min(max(0, n_discard or left // 2), max(0, left - 1))
    return Decision(Shift(keep, left, discard), because)


@rule("LC-SHIFT.SHARED", Role.SHIFT,
      llama_cpp(CONTEXT, 'pre_decode "context shift cannot be used for shared prompt"', "3f545be"))
def shift_of_shared(shared: bool) -> Decision:
    """Refuse to shift a completion that shares its prompt with others: its request fails. Return the error text, "" =
    the shift is allowed."""
    text = "context shift cannot be used for shared prompt" if shared else ""
    return Decision(text, {"shared": shared})


class MovedBlock(NamedTuple):
    """Block of n tokens that starts at c0 in the slot and at p0 in the prompt."""

    n: int
    c0: int
    p0: int
    open: bool = False       # all later tokens move with the block


@rule("LC-NPAST-REUSE", Role.PREFIX, llama_cpp(CONTEXT, 'pre_decode "can_cache_reuse {"', "3f545be"))
def reuse_chunks(
    held: Sequence[int], asked: Sequence[int], n_past: int, least: int, exact: bool = False
) -> Decision:
    """Reuse blocks of at least ``least`` equal tokens after the common prefix by shifting their positions, as long as
    they follow each other in the prompt without a gap. Does not check whether the memory has a recurrent state
    (``exact``), which cannot be moved."""
    moved = []
    c = p = n_past
    while c < len(held) and p < len(asked):
        m = 0
        while c + m < len(held) and p + m < len(asked) and held[c + m] == asked[p + m]:
            m += 1
        if m >= least:
            moved.append(MovedBlock(m, c, p))
            c, p = c + m, p + m
        else:
            c += 1
    return Decision(tuple(moved), {"n_past": n_past, "least": least, "found": len(moved)})


@rule("LC-REUSE-START.OFF", Role.SETUP,
      llama_cpp(CONTEXT, 'load_model "cache_reuse" "params = params_base"', "3f545be",
                note="the same in b8929, since #19493; before #18263 requests read the server's own parameters"))
def reuse_off(least: int, movable: bool) -> Decision:
    """Return the fewest tokens of a block that a request reuses by moving it, if the request names none: 0 = off if the
    server cannot move positions, else ``--cache-reuse``."""
    return Decision(least if movable else 0, {"least": least, "movable": movable})


# [Gone in llama_cpp@b8916]
@rule("LC-REUSE-START.KEPT", Role.SETUP,
      llama_cpp(CONTEXT, 'server_routes "params_from_json_cmpl"', "a7b3dee7a", pull=18263,
                note="seen on the real b8352 and b8672"), since="#18263 (b7508)", until="#19493 (b8842)")
def reuse_kept(least: int, movable: bool) -> Decision:
    """Return ``--cache-reuse``: requests get it, though the server says at its start that it is switched off. A server
    that cannot move positions then warns at each prompt, and moves nothing."""
    return Decision(least, {"least": least, "movable": movable})


@rule("LC-SHIFT-WHEN.GENERATING", Role.SHIFT,
      llama_cpp(CONTEXT, 'pre_decode "SLOT_STATE_GENERATING"', "3f545be"), since="#17000 (b6947)")
def shift_generating(generating: bool) -> Decision:
    """Return True for a slot that generates: a slot that still has to process its prompt is not shifted."""
    return Decision(generating, {"generating": generating})


@rule("LC-RM-REFUSED.ABORT", Role.FAIL,
      llama_cpp(COMMON, "common_memory::seq_rm, common_context_seq_rm", "3f545be"), since="#22673 (b9180)")
def refusal_ends(p0: int, p1: int) -> Decision:
    """Return True: the server ends if the memory refuses to remove positions p0 .. p1-1 (p1 = -1: all from p0 on) for
    reused blocks, a context shift or rejected drafts."""
    return Decision(True, {"p0": p0, "p1": p1})


# [Gone in llama_cpp@b9230]
@rule("LC-RM-REFUSED.IGNORE", Role.FAIL,
      llama_cpp(CONTEXT, 'update_slots "llama_memory_seq_rm"', "ffdd983fb"), until="#22673 (b9180)")
def refusal_ignored(p0: int, p1: int) -> Decision:
    """Return False: the result of a removal is not checked for reused blocks, a context shift or rejected drafts. The
    server continues as if the positions were gone."""
    return Decision(False, {"p0": p0, "p1": p1})


@rule("LC-DISCARD.CHECKED", Role.FAIL,
      llama_cpp("tools/server/server-schema.cpp", "n_discard set_hard_limits", "b10068",
                pull=24150,
                note="seen on the real b9713, b10068 and b11549"), since="#24150 (b9707)")
def discard_checked(n_discard: int) -> Decision:
    """Refuse a request that asks a context shift to discard a negative number of tokens. Return the error text, "" =
    accepted."""
    text = f"Field 'n_discard': Value must be between 0 <= value <= 2147483647, but got {n_discard}"
    return Decision(text if n_discard < 0 else "", {"n_discard": n_discard})


# [Gone in llama_cpp@b9765]
@rule("LC-DISCARD.FREE", Role.FAIL,
      llama_cpp(CONTEXT, "", "7c158fbb4", note="seen on the real b8929, b9294 and b9538"), until="#24150 (b9707)")
def discard_free(n_discard: int) -> Decision:
    """Return "": a request may ask a context shift to discard any number of tokens."""
    return Decision("", {"n_discard": n_discard})
