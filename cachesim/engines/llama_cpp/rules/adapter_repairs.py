"""Proposed rules under which reuse depends on the adapters, too.

Most were tried on a patched b11549. No build contains them. ``note`` of a source describes the edit.
"""

from __future__ import annotations

from typing import Sequence

from cachesim.engines.llama_cpp.rules.adapters import (
    NOT_FOUND,
    Adapter,
    RequestScales,
    SavedAdapters,
    Scales,
    all_activated,
    split_at_start,
)
from cachesim.engines.llama_cpp.source_files import CONTEXT, TASK, llama_cpp
from cachesim.engines.rule import Decision, Role, rule

WAIT = -1                # end of a batch that a slot does not join


# [New in llama_cpp@b11549-lora-tried]
@rule("LC-LORA-CLEAR.ALWAYS", Role.DROP,
      llama_cpp(CONTEXT, "launch_slot_with_task, lora_should_clear_cache", "b11549",
                note="proposed, tried on a patched server: a request without a list is compared with the list of the "
                     "server, and a negative scale counts as on"))
def clear_always(lists: RequestScales, adapters: Sequence[Adapter]) -> Decision:
    """True if a slot loses its tokens and checkpoints because the request has other adapters, with or without
    a list. A change between aLoRAs keeps the slot, unless it is not known what its tokens were computed under."""
    before, now = lists.before, lists.now
    activated = all_activated(now, adapters) and (not any(before) or all_activated(before, adapters))
    return Decision(now != before and not (before and activated), lists._asdict())


# [New in llama_cpp@b11549-lora-tried]
@rule("LC-LORA-SAVE.LISTS", Role.CONSULT,
      llama_cpp(CONTEXT, "get_available_slot", "b11549",
                note="proposed, tried on a patched server: the lists are compared before prompt_save and prompt_load"))
def save_before_change(own: Scales, asked: Scales) -> Decision:
    """True if a slot is saved, and the prompt cache searched, because the request has other adapters. The
    slot's tokens then count as gone, also where a change between aLoRAs would keep them."""
    return Decision(own != asked, {"own": own, "asked": asked})


# [New in llama_cpp@b11549-lora-tried]
@rule("LC-LORA-FORGET.MEMORY", Role.DROP,
      llama_cpp(CONTEXT, 'launch_slot_with_task "slot.prompt.clear"', "b11549",
                note="proposed, tried on a patched server: prompt_clear in place of prompt.clear"))
def forget_memory(held: int) -> Decision:
    """Return True: a slot that loses its tokens for other adapters frees their cells, too."""
    return Decision(True, {"held": held})


# [New in llama_cpp@b11549-lora-tried]
@rule("LC-LORA-ENTRY.LIST", Role.STORE,
      llama_cpp(TASK, "server_prompt_cache::alloc, load", "b11549",
                note="proposed, tried on a patched server: an entry stores the list of its slot, and alloc and load "
                     "pass over entries with another list"))
def entry_notes_list(slot: SavedAdapters) -> Decision:
    """Return what an entry of the prompt cache notes of the slot besides its tokens: the adapters. Only requests and
    slots with the same find it, and a slot that loads it has them, but does not learn which rows an aLoRA computed."""
    return Decision(SavedAdapters(slot.scales), {"scales": slot.scales, "active": slot.active})


# [New in llama_cpp@b11549-repaired]
@rule("LC-LORA-ENTRY.ROWS", Role.STORE,
      llama_cpp(TASK, "server_prompt_cache::alloc, load", "b11549",
                note="proposed here: as LC-LORA-ENTRY.LIST, and an entry stores from which token on its rows were "
                     "computed with an aLoRA"))
def entry_notes_rows(slot: SavedAdapters) -> Decision:
    """Return what an entry of the prompt cache notes of the slot besides its tokens: the adapters, and the first row
    that an aLoRA computed."""
    return Decision(slot, {"scales": slot.scales, "active": slot.active})


# [New in llama_cpp@b11549-lora-tried]
@rule("LC-LORA-FILE.UNKNOWN", Role.READ_FILE,
      llama_cpp(CONTEXT, 'process_single_task "SLOT_RESTORE"', "b11549",
                note="proposed, tried on a patched server: a restore empties the slot's list"))
def restored_under_unknown(slot: SavedAdapters, file: SavedAdapters | None, adapters: int) -> Decision:
    """Return the scales that a slot has after a restore: not known, so that the next request clears it."""
    return Decision(SavedAdapters(()), {"own": slot.scales, "file": file.scales if file else None})


# [New in llama_cpp@b11549-repaired]
@rule("LC-LORA-FILE.NOTED", Role.READ_FILE,
      llama_cpp(CONTEXT, 'process_single_task "SLOT_SAVE {" "SLOT_RESTORE {"', "b11549",
                note="proposed here: a slot file ends with the list, and with the token from which on its rows were "
                     "computed with an aLoRA"))
def restored_under_noted(slot: SavedAdapters, file: SavedAdapters | None, adapters: int) -> Decision:
    """Return the scales that a slot has after a restore, and its first row that an aLoRA computed: those of the file;
    not known if the file names none, or those of another number of adapters."""
    known = file is not None and len(file.scales) == adapters
    return Decision(file if known else SavedAdapters(()), {"own": slot.scales, "file": file.scales if file else None})


# [New in llama_cpp@b11549-lora-tried]
@rule("LC-ALORA-START.RESET", Role.PROMPT,
      llama_cpp(CONTEXT, 'launch_slot_with_task "alora_invocation_start"', "b11549",
                note="proposed, tried on a patched server: the start is set to -1 at the beginning of a launch"))
def start_resets(start: int) -> Decision:
    """Return the start of the invocation sequence at a launch: none. That of a refused request is forgotten."""
    return Decision(NOT_FOUND, {"start": start})


# [New in llama_cpp@b11549-lora-tried]
@rule("LC-ALORA-CAP.FIRST", Role.PREFIX,
      llama_cpp(CONTEXT, 'pre_decode "alora_invocation_start"', "b11549",
                note="proposed, tried on a patched server: n_past is capped for a start of 0, too"))
def cap_at_first(n_past: int, start: int) -> Decision:
    """Return the tokens to reuse for a prompt with an invocation sequence at ``start``: at most start - 1, and none if
    the prompt begins with it."""
    return Decision(min(n_past, max(0, start - 1)), {"n_past": n_past, "start": start})


# [New in llama_cpp@b11549-lora-tried]
@rule("LC-ALORA-ROWS.CAP", Role.PREFIX,
      llama_cpp(CONTEXT, 'pre_decode "alora_invocation_start"', "b11549",
                note="proposed, tried on a patched server: a slot keeps the start of the request that computed its "
                     "rows, and n_past is capped there"))
def cap_at_rows(n_past: int, active: int) -> Decision:
    """Return the tokens to reuse of a slot whose rows from ``active`` on were computed with an aLoRA: those before."""
    return Decision(min(n_past, active) if active >= 0 else n_past, {"n_past": n_past, "active": active})


# [New in llama_cpp@b11549-lora-tried]
@rule("LC-ALORA-CHUNKS.NONE", Role.PREFIX,
      llama_cpp(CONTEXT, 'pre_decode "n_cache_reuse"', "b11549",
                note="proposed, tried on a patched server: no blocks are moved for a prompt with a start, or in a slot "
                     "with rows of an aLoRA"))
def chunks_without_start(start: int, active: int) -> Decision:
    """True if --cache-reuse may move blocks: not if the prompt invokes an aLoRA, or rows of the slot were
    computed with one."""
    return Decision(start < 0 and active < 0, {"start": start, "active": active})


# [New in llama_cpp@b11549-lora-tried]
@rule("LC-ALORA-SPLIT.LEADS", Role.PLAN,
      llama_cpp(CONTEXT, 'pre_decode "alora_scale"', "b11549",
                note="proposed, tried on a patched server: a slot whose prompt is to be split takes part only in a "
                     "batch that it leads"))
def split_if_leading(held: int, start: int, active: bool, follows: bool) -> Decision:
    """Return where the batch ends and up to where it is evaluated without the aLoRA, as LC-ALORA-SPLIT; -1 = the slot
    waits, because another one leads the batch."""
    usual = split_at_start(held, start, active, follows)
    return Decision(WAIT if usual.value and follows else usual.value, {**usual.because, "follows": follows})


# [New in llama_cpp@b11549-repaired]
@rule("LC-ALORA-BACK.OWN", Role.PLAN,
      llama_cpp(CONTEXT, 'pre_decode "re-enabling alora"', "b11549",
                note="proposed here: the slot that was split is kept beside alora_scale, and its list gets the scale "
                     "back in place of slot_batched's"))
def back_to_split(split: int, leader: int) -> Decision:
    """Return the slot whose list gets the scale of a split aLoRA back: the one that was split."""
    return Decision(split, {"split": split, "leader": leader})
