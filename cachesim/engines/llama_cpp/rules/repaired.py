"""Proposed rules under which b11549 answers like a cold run and its cache never ends the server.

Each rule is a minimal edit of the server's source. It replaces the rule with the same id up to the last dot. No build
contains these edits. ``note`` of a source describes the edit: file, function, change.
"""

from __future__ import annotations

from typing import Sequence

from cachesim.engines.llama_cpp.rules.checkpoint_create import break_cr10, first_break
from cachesim.engines.llama_cpp.rules.checkpoint_facts import Chunk, Ckpt, PromptInputs, ResumePlace
from cachesim.engines.llama_cpp.rules.checkpoint_restore import pick_newest
from cachesim.engines.llama_cpp.rules.context_shift import reuse_chunks
from cachesim.engines.llama_cpp.rules.slot_selection import SlotFacts, slot_select_3
from cachesim.engines.llama_cpp.rules.speculative import draft_max
from cachesim.engines.llama_cpp.source_files import CONTEXT, KV_CACHE, llama_cpp
from cachesim.engines.rule import Decision, Role, rule

ISWA = "src/llama-kv-cache-iswa.cpp"


# [New in llama_cpp@b11549-repaired]
@rule("LC-CKPT-ERASE.REWRITTEN", Role.DROP,
      llama_cpp(CONTEXT, 'pre_decode "checkpoints.begin {"', "b11549",
                note="proposed here: where checkpoints are erased, `cur.pos_max > pos_next` becomes `>=`"))
def erase_rewritten(ckpts: Sequence[Ckpt], ask: PromptInputs, resume: ResumePlace) -> Decision:
    """Erase checkpoints with pos_max >= pos_next, as the token at pos_next is about to be replaced; return their
    indices."""
    gone = tuple(i for i, c in enumerate(ckpts) if c.pos_max >= resume.pos_next)
    return Decision(gone, {"pos_next": resume.pos_next})


# [New in llama_cpp@b11549-repaired]
@rule("LC-CKPT-RESTORE.BEHIND", Role.RESUME,
      llama_cpp(CONTEXT, 'pre_decode "load_tgt" "restored context checkpoint" "it->pos_max"', "b11549",
                note="proposed here: after load_tgt, pos_next becomes the smaller of itself and it->pos_max + 1"))
def resume_behind(ckpt: Ckpt, ask: PromptInputs) -> Decision:
    """Continue after the checkpoint's last token, also in a window: a saved window has all rows that the next token
    reads. Re-evaluating the last token would drop the window's first row, and the next checkpoint would lack it."""
    pos_next = min(ask.pos_next, ckpt.pos_max + 1)
    n_past = min(pos_next, ask.held, ckpt.n_tokens)
    return Decision(ResumePlace(pos_next, n_past), {"n_tokens": ckpt.n_tokens, "pos_max": ckpt.pos_max})


# [New in llama_cpp@b11549-repaired]
@rule("LC-CKPT-PICK.WHOLE", Role.PICK,
      llama_cpp(CONTEXT, 'pre_decode "rbegin {"', "b11549",
                note="proposed here: in the search, `cur.pos_max <= pos_next` becomes `cur.pos_max < pos_next` "
                     "where the prompt has no new tokens"))
def pick_whole(ckpts: Sequence[Ckpt], ask: PromptInputs, thold: int) -> Decision:
    """Pick as PK3, but with pos_max < pos_next if the prompt has no new tokens: its last token is then re-evaluated,
    and a window that ends after it does not begin early enough, whatever its pos_min is."""
    last = ask.pos_next if ask.n_past < ask.n_tokens else ask.pos_next - 1
    fits = [c.pos_max <= last and (c.pos_min < thold or c.pos_min == 0) for c in ckpts]
    found = pick_newest(ckpts, fits, ask, thold)
    return Decision(found.value, {**found.because, "last": last})


# [New in llama_cpp@b11549-repaired]
@rule("LC-SLOT-SELECT.IDLE", Role.ASSIGN,
      llama_cpp(CONTEXT, "get_available_slot", "b11549",
                note="proposed here: update_cache is false for a slot that is processing"))
def slot_select_idle(slots: Sequence[SlotFacts], asked: int, id_slot: int, sps: float) -> Decision:
    """Select as SL3, but does not use the prompt cache for a busy slot: its request would continue in another
    conversation (defect D2)."""
    found = slot_select_3(slots, asked, id_slot, sps)
    choice = found.value
    if choice is not None and slots[choice.slot].busy:
        choice = choice._replace(update=False)
    return Decision(choice, found.because)


# [New in llama_cpp@b11549-repaired]
@rule("LC-WAIT.PURGED", Role.FAIL,
      llama_cpp(CONTEXT, "try_clear_idle_slots", "b11549",
                note="proposed here: if no idle slot is left, a slot in SLOT_STATE_STARTED or SLOT_STATE_WAIT_OTHER is "
                     "cleared"))
def waiting_is_cleared(held: int) -> Decision:
    """Return True: if a batch finds no free cells, a slot whose request waits gives up the cells of its last
    conversation."""
    return Decision(True, {"held": held})


# [New in llama_cpp@b11549-repaired]
@rule("LC-CHILDREN-AT.OUTPUT", Role.MEMORY,
      llama_cpp(CONTEXT, 'decode "is_parent {" "copy_state_to"', "b11549",
                note="proposed here: children are activated only if the view contains the parent's i_batch"))
def copied_after_output(output: int, stop: int) -> Decision:
    """True if a prompt is copied to its further completions after the view that ends at index ``stop`` of the
    batch: if the view contains the prompt's last token, at index ``output``."""
    return Decision(output < stop, {"output": output, "stop": stop})


# [New in llama_cpp@b11549-proposed]
@rule("LC-SLOT-SELECT.USABLE", Role.ASSIGN,
      llama_cpp(CONTEXT, "get_available_slot", "b11549",
                note="proposed here: slots are compared by the part of the common prefix that memory or checkpoints "
                     "can reuse, and the prompt cache is updated unless a slot is kept as a whole"))
def slot_select_usable(slots: Sequence[SlotFacts], asked: int, id_slot: int, sps: float) -> Decision:
    """Select as SL3, but a common prefix counts as far as the slot can reuse it, and the prompt cache is saved to and
    searched whenever a part of the slot would be lost."""
    found = slot_select_3([slot._replace(lcp=max(0, slot.usable)) for slot in slots], asked, id_slot, sps)
    choice = found.value
    if choice is not None and choice.by == "lcp":
        choice = choice._replace(update=choice.f_keep < 1)
    return Decision(choice, found.because)


# [New in llama_cpp@b11549-proposed]
@rule("LC-CKPT-BREAK.QUARTERS", Role.PLAN,
      llama_cpp(CONTEXT, 'pre_decode "is_user_start {" "checkpoint_offsets {"', "b11549",
                note="proposed here: checkpoint_offsets also has 4 + n_ubatch / 4, 4 + n_ubatch / 16, ..."))
def break_quarters(chunk: Chunk, ckpts: Sequence[Ckpt]) -> Decision:
    """End a batch as CR10 does, and also a quarter, a sixteenth, ... of a micro-batch before the mark at the end, so
    that a change near the end finds a checkpoint close before it. Return the end."""
    usual = break_cr10(chunk, ckpts)
    breaks, step = list(usual.because["breaks"]), chunk.n_ubatch // 4
    while chunk.do and step > chunk.tail:
        breaks.append(chunk.n_tokens - min(chunk.n_batch, chunk.tail + step))
        step //= 4
    return Decision(first_break(chunk, breaks), {**usual.because, "breaks": breaks})


# [New in llama_cpp@b11549-repaired]
@rule("LC-KV-UNDO.ALL", Role.MEMORY,
      llama_cpp(KV_CACHE, "llama_kv_cache::prepare", "b11549",
                note="proposed here: prepare() keeps a copy of the cell tables before the first ubatch is applied, "
                     "and puts it back, where it put back the cells of each ubatch"))
def undo_all() -> Decision:
    """Return False: undoing a prepared batch restores every cell."""
    return Decision(False, {})


# [New in llama_cpp@b11549-repaired]
@rule("LC-KV-COPY.AT-ONCE", Role.MEMORY,
      llama_cpp("src/llama-context.cpp", "state_seq_write_data, state_seq_read_data", "b11549",
                note="proposed here: both carry out what waits in the memory (memory_update) before they begin, as a "
                     "decode does"))
def copy_at_once() -> Decision:
    """Return False: seq_cp between streams is completed before a state is saved from its target or loaded into it, so
    no write can happen in between."""
    return Decision(False, {})


# [New in llama_cpp@b11549-repaired]
@rule("LC-KV-FULL.KEEPS", Role.MEMORY,
      llama_cpp(ISWA, "llama_kv_cache_iswa, src/llama-kv-cache.cpp find_slot, state_write", "b11549",
                note="proposed here: with --swa-full the window cache gets a flag; find_slot then takes only empty "
                     "cells, state_write leaves no cell out, and checkpoints and drafts save no window"))
def full_keeps() -> Decision:
    """Return False: with ``--swa-full`` no cell outside the window is reused or left out of a saved state, as the
    server assumes (defect D5). The window cache can be cut anywhere then, so that checkpoints leave it out."""
    return Decision(False, {})


# [New in llama_cpp@b11549-repaired]
@rule("LC-KV-SHARED.REUSED", Role.MEMORY,
      llama_cpp(KV_CACHE, "llama_kv_cache::find_slot, apply_ubatch", "b11549",
                note="proposed here: find_slot takes a cell that lies outside the window of each of its sequences; "
                     "apply_ubatch removes it from all of them"))
def shared_reused() -> Decision:
    """Return False: a cell of a window cache is reused if it lies outside the windows of all its sequences."""
    return Decision(False, {})


# [New in llama_cpp@b11549-repaired]
@rule("LC-KV-SHIFT.LAYERS", Role.MEMORY,
      llama_cpp(KV_CACHE, "llama_kv_cache::update", "b11549",
                note="proposed here: the graph of a K-shift is neither built nor run for a cache without layers; its "
                     "cells forget that they have moved"))
def shift_skips() -> Decision:
    """Return False: a cache without layers has no rows to shift, and the server does not abort (defect D21)."""
    return Decision(False, {})


# [New in llama_cpp@b11549-repaired]
@rule("LC-NPAST-REUSE.CUTTABLE", Role.PREFIX,
      llama_cpp(CONTEXT, 'pre_decode "can_cache_reuse {"', "b11549",
                note="proposed here: can_cache_reuse is false for a memory of which no part can be removed at any "
                     "position (COMMON_CONTEXT_SEQ_RM_TYPE_PART is the only type that can)"))
def reuse_if_cuttable(
    held: Sequence[int], asked: Sequence[int], n_past: int, least: int, exact: bool = False
) -> Decision:
    """Reuse no block in a memory with a recurrent state, which would still contain the tokens between the blocks
    (defect D4): return None, and the log reports that this is not supported. Attention over moved rows still differs
    from a cold run, by design."""
    if exact:
        return Decision(None, {"n_past": n_past, "least": least, "found": 0, "exact": exact})
    return reuse_chunks(held, asked, n_past, least)


# [New in llama_cpp@b11549-repaired]
@rule("LC-SPEC-MAX.ROOM", Role.DRAFT,
      llama_cpp(CONTEXT, "get_n_draft_max", "b11549",
                note="proposed here: the result is at most n_batch / n_parallel - 1"))
def draft_max_in_batch(held: int, n_ctx: int, n_predict: int, n_gen: int, share: int) -> Decision:
    """Return the maximum draft length: as LC-SPEC-MAX, and at most a slot's equal share of a batch minus the sampled
    token, so that the drafts of all slots fit into a batch."""
    usual = draft_max(held, n_ctx, n_predict, n_gen)
    return Decision(min(usual.value, share - 1), {**usual.because, "share": share})
