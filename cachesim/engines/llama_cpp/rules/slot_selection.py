"""Slot selection for a request, and the decision to search the prompt cache.

held: tokens in the slot (S).  asked: tokens of the new prompt (P), T of them.
f_sim = common prefix / T, f_keep = common prefix / held; both in single precision, as the server computes them.
Source: llama.cpp tools/server/server-context.cpp, get_available_slot.
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

import numpy as np

from cachesim.base.tokens import common_prefix
from cachesim.engines.llama_cpp.source_files import CONTEXT, SERVER, llama_cpp
from cachesim.engines.rule import Decision, Role, rule
from cachesim.engines.shared.prompt_cache_limits import part

F32 = np.float32
KEEP_HALF = 0.5          # a slot with a smaller f_keep is saved before it is used


class SlotFacts(NamedTuple):
    """Facts of a slot for slot selection. ``t_last``: tick of the last release, -1 = never used. ``usable``: tokens of
    the common prefix that its memory and checkpoints could reuse, -1 = not known."""

    id: int
    busy: bool
    held: int
    lcp: int
    t_last: int
    usable: int = -1


class SlotChoice(NamedTuple):
    """Selected slot."""

    slot: int
    by: str              # "id", "name", "lcp" or "lru"
    f_sim: float
    f_keep: float
    update: bool         # the prompt cache is searched


def similar(slots: Sequence[SlotFacts], asked: int, sps: float) -> tuple[SlotFacts | None, np.float32]:
    """Return the idle slot with the largest f_sim above the threshold, and its f_sim; ties go to the lowest id."""
    best, found = F32(0), None
    for slot in slots:
        if slot.busy or not slot.held:
            continue
        sim = part(slot.lcp, asked)
        if sim > best and sim > F32(sps):
            best, found = sim, slot
    return found, best


def least_recent(slots: Sequence[SlotFacts]) -> SlotFacts | None:
    """Return the least recently used idle slot; ties go to the highest id."""
    found: SlotFacts | None = None
    for slot in slots:
        if not slot.busy and (found is None or slot.t_last <= found.t_last):
            found = slot
    return found


def keep_share(best: np.float32, asked: int, held: int) -> np.float32:
    """Return f_keep. For an empty slot it is 0/0 = NaN, which is not below any threshold."""
    return F32(best * F32(asked)) / F32(held) if held else F32("nan")


def by_content(slots: Sequence[SlotFacts], asked: int, sps: float) -> SlotChoice | None:
    """Select by similarity, else the least recently used slot."""
    found, best = similar(slots, asked, sps) if sps else (None, F32(0))
    if found is not None:
        f_keep = keep_share(best, asked, found.held)
        update = bool(f_keep < F32(KEEP_HALF))
        return SlotChoice(found.id, by="lcp", f_sim=float(best), f_keep=float(f_keep), update=update)
    oldest = least_recent(slots)
    if oldest is None:
        return None
    return SlotChoice(oldest.id, by="lru", f_sim=0.0, f_keep=0.0, update=True)


ANY_SLOT = -1            # the value of id_slot with which a request leaves the choice to the server


def slot_of_id(id_slot: int, n_slots: int) -> int:
    """Return the slot for an id: its remainder as the unsigned 64-bit number to which C++ converts it."""
    return id_slot % (1 << 64) % n_slots


@rule("LC-SLOT-ID.MODULO", Role.PROMPT, llama_cpp(CONTEXT, "get_slot_by_id", "3f545be"), since="#19207 (b7890)")
def slot_id_modulo(id_slot: int, n_slots: int) -> Decision:
    """Return the slot for a save, restore or erase: the id modulo the number of slots."""
    because = {"id_slot": id_slot, "n_slots": n_slots}
    return Decision(slot_of_id(id_slot, n_slots), because)


# [Gone in llama_cpp@b8152]
@rule("LC-SLOT-ID.EXACT", Role.PROMPT, llama_cpp(CONTEXT, "get_slot_by_id", "ad8d85bd9"), until="#19207 (b7890)")
def slot_id_exact(id_slot: int, n_slots: int) -> Decision:
    """Return the slot for a save, restore or erase: the slot with this number, None = it does not exist and the client
    gets 400."""
    value = id_slot if 0 <= id_slot < n_slots else None
    return Decision(value, {"id_slot": id_slot, "n_slots": n_slots})


@rule("LC-SLOT-SELECT.SL3", Role.ASSIGN, llama_cpp(CONTEXT, "get_available_slot", "3f545be"), since="#24755 (b9718)")
def slot_select_3(slots: Sequence[SlotFacts], asked: int, id_slot: int, sps: float) -> Decision:
    """Select the named slot, else the slot with the largest f_sim above the threshold, else the least recently used.
    The prompt cache is searched if f_keep < 0.5. For a named slot, f_keep is 0/0 if it is empty (no search) and 0 if it
    is busy (search). Ids beyond the last slot wrap around, but are compared before wrapping: their f_keep is 0
    (search). """
    because = {"asked": asked, "id_slot": id_slot, "sps": sps}
    if id_slot == ANY_SLOT:
        return Decision(by_content(slots, asked, sps), because)
    named = slots[slot_of_id(id_slot, len(slots))]
    found, best = similar([named], asked, sps) if sps and named.id == id_slot else (None, F32(0))
    f_keep = keep_share(best, asked, named.held)
    update = bool(sps) and bool(f_keep < F32(KEEP_HALF))
    choice = SlotChoice(named.id, by="id", f_sim=float(best), f_keep=float(f_keep), update=update)
    return Decision(choice, because | {"held": named.held, "found": found is not None})


# [Gone in llama_cpp@b9765]
@rule("LC-SLOT-SELECT.SL2", Role.ASSIGN, llama_cpp(CONTEXT, "", "7c158fbb4"), until="#24755")
def slot_select_2(slots: Sequence[SlotFacts], asked: int, id_slot: int, sps: float) -> Decision:
    """Select the named slot without similarity or prompt cache, else the slot with the largest f_sim above the
    threshold, else the least recently used. The last two search the prompt cache if f_keep < 0.5."""
    because = {"asked": asked, "id_slot": id_slot, "sps": sps}
    if id_slot == ANY_SLOT:
        return Decision(by_content(slots, asked, sps), because)
    named = slot_of_id(id_slot, len(slots))
    return Decision(SlotChoice(named, by="name", f_sim=0.0, f_keep=0.0, update=False), because)


class IdlePlan(NamedTuple):
    """Treatment of an idle slot at a launch: logged, saved, cleared before or after the update."""

    say: bool
    save: bool
    clear: str          # "", "before" or "after" the update of the prompt cache


@rule("LC-IDLE-SAVE.ALL", Role.CONSULT,
      llama_cpp(CONTEXT, 'process_single_task "cache_idle_slots {"', "3f545be"), since="#24190 (b9574)")
def idle_save_all(unified: bool, held: int) -> Decision:
    """Save every idle slot to the prompt cache when a task is launched. With a unified KV cache the slot is then
    cleared, saved or not."""
    plan = IdlePlan(True, True, "after" if unified else "")
    return Decision(plan, {"unified": unified, "held": held})


# [Gone in llama_cpp@b9765]
@rule("LC-IDLE-SAVE.UNIFIED", Role.CONSULT, llama_cpp(CONTEXT, "", "7c158fbb4"), since="#20993 (b8658)", until="#24190")
def idle_save_unified(unified: bool, held: int) -> Decision:
    """Save idle slots that have tokens to the prompt cache, then clears them; only with a unified KV cache."""
    act = unified and held > 0
    plan = IdlePlan(act, act, "before" if act else "")
    return Decision(plan, {"unified": unified, "held": held})


@rule("LC-IDLE-PURGE.UNIFIED", Role.DROP, llama_cpp(CONTEXT, "try_clear_idle_slots", "3f545be"), since="#16736 (b6925)")
def purge_if_unified(unified: bool) -> Decision:
    """True if an idle slot may be purged, unsaved, for lack of free cells: with a unified KV cache."""
    return Decision(unified, {"unified": unified})


# [Gone in llama_cpp@b6998]
@rule("LC-IDLE-PURGE.NONE", Role.DROP, llama_cpp(SERVER, "", "f6dcda390"), until="#16736 (b6925)")
def purge_none(unified: bool) -> Decision:
    """Return False: no idle slot is purged to make room."""
    return Decision(False, {"unified": unified})


@rule("LC-WAIT.KEEPS", Role.FAIL, llama_cpp(CONTEXT, "try_clear_idle_slots", "3f545be"))
def waiting_keeps(held: int) -> Decision:
    """Return False: a slot whose request waits keeps the cells of its last conversation, also if the batch finds no
    free cells. The request waits for room in a batch, for a batch with its adapters, or for its parent's prompt."""
    return Decision(False, {"held": held})


@rule("LC-SLOT-LIKE.PREFIX", Role.ASSIGN,
      llama_cpp(CONTEXT, 'get_available_slot "get_common_prefix"', "3f545be"), since="#12898 (b5331)")
def like_by_prefix(held: Sequence[int], asked: Sequence[int]) -> Decision:
    """Return how many tokens a slot and a prompt have in common for the choice of the slot: their common prefix."""
    return Decision(common_prefix(list(held), list(asked)), {"held": len(held), "asked": len(asked)})


COPIED = "copied"
SELECTED = "selected"
EACH = "each"
LAST = "last"
IGNORED = "ignored"
"""Ways to get several completions of a prompt: copies of its memory, in free slots or in slots selected for each; an
evaluation for each, where the request's own task gives the first answer or the last one; only one completion."""


@rule("LC-CHILDREN.COPY", Role.PROMPT,
      llama_cpp(CONTEXT, 'launch_slots_with_parent_task, decode "copy_state_to"', "3f545be"), since="#18789 (b7747)")
def children_copy(n: int) -> Decision:
    """Evaluate the prompt of n completions once, in the slot of the first; the free slots with the lowest numbers get
    copies of its memory."""
    return Decision(COPIED, {"n": n})


@rule("LC-CHILDREN-COUNT", Role.MEMORY,
      llama_cpp(CONTEXT, 'decode "n_prompt_processed++", copy_state_to', "3f545be"), since="#26920 (b10406)")
def count_of_views(evaluated: int, batched: int) -> Decision:
    """Return the evaluated tokens of a prompt that its further completions report, if it is copied before its last
    token: those of the views so far, not all that are in the batch."""
    return Decision(evaluated, {"evaluated": evaluated, "batched": batched})


@rule("LC-CHILDREN-COUNT.BATCH", Role.MEMORY,
      llama_cpp(CONTEXT, 'update_slots "n_prompt_tokens_processed++", copy_state_to', "73618f27a",
                note="recorded at b8156"), until="#26920 (b10406)")  # fmt: skip
def count_of_batch(evaluated: int, batched: int) -> Decision:
    """Return the evaluated tokens of a prompt that its further completions report: all that are in the batch."""
    return Decision(batched, {"evaluated": evaluated, "batched": batched})


@rule("LC-CHILDREN-AT.VIEW", Role.MEMORY, llama_cpp(CONTEXT, 'decode "is_parent {" "copy_state_to"', "3f545be"))
def copied_after_view(output: int, stop: int) -> Decision:
    """Return True: a prompt that is in the batch as a whole is copied to its further completions after the next
    successful view. This view ends at index ``stop`` of the batch, perhaps before the prompt's last token (defect D23),
    at index ``output``."""
    return Decision(True, {"output": output, "stop": stop})
