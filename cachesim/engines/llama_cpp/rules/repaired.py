"""What would make b11549 answer like a cold run, and never die of its cache? Each rule is one edit of the server's
source, as small as it can be; the rule that it takes the place of has the same id up to the last dot.

Proposed here: no build has them. ``note`` of a source says the edit: file, function, what changes.
"""

from __future__ import annotations

from typing import Sequence

from cachesim.engines.llama_cpp.rules.checkpoint_facts import Ask, Ckpt, Resume
from cachesim.engines.llama_cpp.rules.checkpoint_restore import pick_newest
from cachesim.engines.llama_cpp.rules.context_shift import reuse_chunks
from cachesim.engines.llama_cpp.rules.slot_selection import SlotFacts, slot_select_3
from cachesim.engines.llama_cpp.rules.speculative import draft_max
from cachesim.engines.llama_cpp.source_files import CONTEXT, KV_CACHE, llama_cpp
from cachesim.engines.rule import Decision, Role, rule

ISWA = "src/llama-kv-cache-iswa.cpp"


# [New in llama_cpp@latest-repaired]
@rule("LC-CKPT-ERASE.REWRITTEN", Role.DROP,
      llama_cpp(CONTEXT, 'pre_decode "checkpoints.begin {"', "b11549",
                note="proposed here: where checkpoints are erased, `cur.pos_max > pos_next` becomes `>=`"))
def erase_rewritten(ckpts: Sequence[Ckpt], ask: Ask, resume: Resume) -> Decision:
    """Erases checkpoints with pos_max >= pos_next, as the token at pos_next is about to be replaced; returns their
    indices."""
    gone = tuple(i for i, c in enumerate(ckpts) if c.pos_max >= resume.pos_next)
    return Decision(gone, {"pos_next": resume.pos_next})


# [New in llama_cpp@latest-repaired]
@rule("LC-CKPT-RESTORE.BEHIND", Role.RESUME,
      llama_cpp(CONTEXT, 'pre_decode "load_tgt" "restored context checkpoint" "it->pos_max"', "b11549",
                note="proposed here: behind load_tgt, pos_next becomes the smaller of itself and it->pos_max + 1"))
def resume_behind(ckpt: Ckpt, ask: Ask) -> Decision:
    """Continues behind the checkpoint's last token, in a window too: a saved window has all that the next token reads.
    To evaluate its last token again takes one row from its beginning, and the next checkpoint has one row less."""
    pos_next = min(ask.pos_next, ckpt.pos_max + 1)
    n_past = min(pos_next, ask.held, ckpt.n_tokens)
    return Decision(Resume(pos_next, n_past), {"n_tokens": ckpt.n_tokens, "pos_max": ckpt.pos_max})


# [New in llama_cpp@latest-repaired]
@rule("LC-CKPT-PICK.WHOLE", Role.PICK,
      llama_cpp(CONTEXT, 'pre_decode "rbegin {"', "b11549",
                note="proposed here: in the search, `cur.pos_max <= pos_next` becomes `cur.pos_max < pos_next` "
                     "where the prompt has no new tokens"))
def pick_whole(ckpts: Sequence[Ckpt], ask: Ask, thold: int) -> Decision:
    """Picks as PK3, but with pos_max < pos_next where the prompt has no new tokens: one token is evaluated again then,
    and a window that ends behind it does not begin early enough, whatever its pos_min claims."""
    last = ask.pos_next if ask.n_past < ask.n_tokens else ask.pos_next - 1
    fits = [c.pos_max <= last and (c.pos_min < thold or c.pos_min == 0) for c in ckpts]
    found = pick_newest(ckpts, fits, ask, thold)
    return Decision(found.value, {**found.because, "last": last})


# [New in llama_cpp@latest-repaired]
@rule("LC-SLOT-SELECT.IDLE", Role.ASSIGN,
      llama_cpp(CONTEXT, "get_available_slot", "b11549",
                note="proposed here: update_cache is false for a slot that is processing"))
def slot_select_idle(slots: Sequence[SlotFacts], asked: int, id_slot: int, sps: float) -> Decision:
    """Selects as SL3, but does not touch the prompt cache for a busy slot: its request would continue in another
    conversation (defect D2)."""
    found = slot_select_3(slots, asked, id_slot, sps)
    choice = found.value
    if choice is not None and slots[choice.slot].busy:
        choice = choice._replace(update=False)
    return Decision(choice, found.because)


# [New in llama_cpp@latest-repaired]
@rule("LC-KV-UNDO.ALL", Role.MEMORY,
      llama_cpp(KV_CACHE, "llama_kv_cache::prepare", "b11549",
                note="proposed here: prepare() keeps a copy of the cell tables before the first ubatch is applied, "
                     "and puts it back, where it put back the cells of each ubatch"))
def undo_all() -> Decision:
    """Returns False: undoing a prepared batch restores every cell."""
    return Decision(False, {})


# [New in llama_cpp@latest-repaired]
@rule("LC-KV-COPY.AT-ONCE", Role.MEMORY,
      llama_cpp("src/llama-context.cpp", "state_seq_write_data, state_seq_read_data", "b11549",
                note="proposed here: both carry out what waits in the memory (memory_update) before they begin, as a "
                     "decode does"))
def copy_at_once() -> Decision:
    """Returns False: seq_cp between streams is carried out before a state is saved from it or loaded over it, so that
    no later write gets in between."""
    return Decision(False, {})


# [New in llama_cpp@latest-repaired]
@rule("LC-KV-FULL.KEEPS", Role.MEMORY,
      llama_cpp(ISWA, "llama_kv_cache_iswa, src/llama-kv-cache.cpp find_slot, state_write", "b11549",
                note="proposed here: with --swa-full the window cache is told so; find_slot takes no cell that is not "
                     "empty then, and state_write leaves none out"))
def full_keeps() -> Decision:
    """Returns False: with ``--swa-full`` no cell outside of the window is reused or left out of a saved state, as the
    server takes for granted (defect D5)."""
    return Decision(False, {})


# [New in llama_cpp@latest-repaired]
@rule("LC-KV-SHIFT.LAYERS", Role.MEMORY,
      llama_cpp(KV_CACHE, "llama_kv_cache::update", "b11549",
                note="proposed here: the graph of a K-shift is neither built nor run for a cache without layers; its "
                     "cells forget that they have moved"))
def shift_skips() -> Decision:
    """Returns False: a cache without layers has no rows to shift, and the server does not abort (defect D21)."""
    return Decision(False, {})


# [New in llama_cpp@latest-repaired]
@rule("LC-NPAST-REUSE.CUTTABLE", Role.PREFIX,
      llama_cpp(CONTEXT, 'pre_decode "can_cache_reuse {"', "b11549",
                note="proposed here: can_cache_reuse is false for a memory of which no part can be removed at any "
                     "position (COMMON_CONTEXT_SEQ_RM_TYPE_PART is the only type that can)"))
def reuse_if_cuttable(
    held: Sequence[int], asked: Sequence[int], n_past: int, least: int, exact: bool = False
) -> Decision:
    """Reuses no block where a recurrent state cannot follow: it would remember what was between the blocks (defect D4).
    Returns None then, and the log says that this is not supported. What attention computes from moved rows differs by
    design, here as before."""
    if exact:
        return Decision(None, {"n_past": n_past, "least": least, "found": 0, "exact": exact})
    return reuse_chunks(held, asked, n_past, least)


# [New in llama_cpp@latest-repaired]
@rule("LC-SPEC-MAX.ROOM", Role.DRAFT,
      llama_cpp(CONTEXT, "get_n_draft_max", "b11549",
                note="proposed here: the result is at most n_batch / n_parallel - 1"))
def draft_max_in_batch(held: int, n_ctx: int, n_predict: int, n_gen: int, share: int = 0) -> Decision:
    """Returns the longest draft: as LC-SPEC-MAX, and at most what a slot's equal share of a batch has room for besides
    the sampled token, so that the drafts of all slots fit into one batch."""
    usual = draft_max(held, n_ctx, n_predict, n_gen)
    return Decision(min(usual.value, share - 1), {**usual.because, "share": share})


# [New in llama_cpp@latest-repaired]
@rule("LC-SPEC-UNREAD.ERROR", Role.DRAFT,
      llama_cpp(CONTEXT, 'post_decode "restoring speculative checkpoint"', "b11549",
                note="proposed here: where ckpt.load_tgt or ckpt.load_dft says no, every busy slot gets an error, is "
                     "released and emptied, as where a batch finds no cells"))
def unread_is_an_error(of_draft: bool) -> Decision:
    """Returns "": the server goes on if the state saved before a draft finds no room in the memory, and the requests at
    work fail."""
    return Decision("", {"of_draft": of_draft})
