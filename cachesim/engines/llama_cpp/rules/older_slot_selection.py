"""Slot selection in older builds: variants of `slot_selection` before SL2.

Source: llama.cpp tools/server/server.cpp, get_available_slot.
"""

from __future__ import annotations

from typing import Sequence

from cachesim.engines.llama_cpp.rules.slot_selection import (
    ANY_SLOT,
    EACH,
    F32,
    IGNORED,
    LAST,
    SELECTED,
    IdlePlan,
    SlotChoice,
    SlotFacts,
    by_content,
    least_recent,
)
from cachesim.engines.llama_cpp.source_files import CONTEXT, SERVER, llama_cpp
from cachesim.engines.rule import Decision, Role, rule


# [Gone in llama_cpp@b8152]
@rule("LC-SLOT-SELECT.SL1", Role.ASSIGN,
      llama_cpp(CONTEXT, "", "ad8d85bd9"), since="#16391 (b6723)", until="#19207 (b7890)")
def slot_select_1(slots: Sequence[SlotFacts], asked: int, id_slot: int, sps: float) -> Decision:
    """Select the named slot without similarity or prompt cache (no slot for a number that does not exist), else as
    SL2."""
    because = {"asked": asked, "id_slot": id_slot, "sps": sps}
    if id_slot == ANY_SLOT:
        return Decision(by_content(slots, asked, sps), because)
    return Decision(_named(slots, id_slot), because)


def _named(slots: Sequence[SlotFacts], id_slot: int) -> SlotChoice | None:
    if not 0 <= id_slot < len(slots):
        return None
    return SlotChoice(id_slot, by="name", f_sim=0.0, f_keep=0.0, update=False)


def _most_shared(slots: Sequence[SlotFacts], sps: float) -> SlotChoice | None:
    """Return the choice of the idle slot with the longest common prefix, if its share of the slot's tokens is above
    ``sps``."""
    most, choice = 0, None
    for slot in slots:
        if slot.busy or not slot.held:
            continue
        share = F32(slot.lcp) / F32(slot.held)
        if slot.lcp > most and share > F32(sps):
            most = slot.lcp
            choice = SlotChoice(slot.id, by="lcp", f_sim=float(share), f_keep=float(share), update=False)
    return choice


# [Gone in llama_cpp@b6740]
@rule("LC-SLOT-SELECT.SL0", Role.ASSIGN, llama_cpp(SERVER, "", "f6dcda390"), until="#16391 (b6723)")
def slot_select_0(slots: Sequence[SlotFacts], asked: int, id_slot: int, sps: float) -> Decision:
    """Select the named slot, else the slot with the longest common prefix if its share of the slot's tokens is above
    the threshold, else the least recently used. These builds have no prompt cache."""
    because = {"asked": asked, "id_slot": id_slot, "sps": sps}
    if id_slot != ANY_SLOT:
        return Decision(_named(slots, id_slot), because)
    if sps and (shared := _most_shared(slots, sps)) is not None:
        return Decision(shared, because)
    oldest = least_recent(slots)
    choice = None
    if oldest is not None:
        choice = SlotChoice(oldest.id, by="lru", f_sim=0.0, f_keep=0.0, update=False)
    return Decision(choice, because)


# [Gone in llama_cpp@b8916]
@rule("LC-IDLE-SAVE.NONE", Role.CONSULT, llama_cpp(CONTEXT, "", "ab9d4c367"), until="#20993 (b8658)")
def idle_save_none(unified: bool, held: int) -> Decision:
    """Do not save or clear idle slots."""
    return Decision(IdlePlan(False, False, ""), {"unified": unified, "held": held})


# [Gone in llama_cpp@b7789]
@rule("LC-CHILDREN.SELECTED", Role.PROMPT,
      llama_cpp(CONTEXT, 'update_slots "n_launched", launch_slot_with_task "is_child", create_child',
                note="read in xllamacpp 0.2.9 (b7710), which was run"),
      since="#18663 (b7690)", until="#18789 (b7747)")
def children_selected(n: int) -> Decision:
    """Evaluate the prompt of n completions once, and copy its memory. The further completions are tasks of their own:
    a slot is selected for each as for any request, saved first if that is due, and the first completion waits until
    all others have a slot."""
    return Decision(SELECTED, {"n": n})


# [Gone in llama_cpp@b7789]
@rule("LC-CHILDREN.LAST", Role.PROMPT,
      llama_cpp(CONTEXT, 'launch_slot_with_task "is_child", handle_completions_impl, post_tasks "index"',
                note="read in xllamacpp 0.2.8 (b7551), which was run: a task gets its index when it is queued"),
      since="#18263 (b7508)", until="#18663 (b7690)")
def children_last(n: int) -> Decision:
    """Evaluate the prompt of n completions n times, as EACH. The task that has the request's slot number is queued last
    and gives the last of the answers, not the first."""
    return Decision(LAST, {"n": n})


# [Gone in llama_cpp@b7789]
@rule("LC-CHILDREN.EACH", Role.PROMPT,
      llama_cpp(CONTEXT, 'launch_slot_with_task "is_child", handle_completions_impl "create_child"', "0759b09c9",
                note="is_child() asks for a slot that is processing, which this one becomes only afterwards"),
      since="#17775 (b7308)", until="#18263 (b7508)")
def children_evaluate(n: int) -> Decision:
    """Evaluate the prompt of n completions n times: the further completions do not wait for the first, but are tasks
    as any other, queued before it."""
    return Decision(EACH, {"n": n})


# [Gone in llama_cpp@b7400]
@rule("LC-CHILDREN.NONE", Role.PROMPT, llama_cpp(pull=17775), until="#17775 (b7308)")
def children_ignored(n: int) -> Decision:
    """Give one completion: a request cannot ask for more."""
    return Decision(IGNORED, {"n": n})
