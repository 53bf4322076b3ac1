"""Slot selection, and saving of the slot's content before it is overwritten.

c, p       tokens held, tokens asked; reasoning is left out of both where the server does so
n_cache, n_prompt   how much of c and of p the common text covers
sim        2 n_prompt / (p + c), a Dice coefficient; f_keep = n_cache / c; both in single precision
shifted    the prompt without the tokens that a context shift has discarded from the slot or the entry
Source: ik_llama.cpp examples/server/server-context.cpp get_available_slot (8337e4cd3).
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

import numpy as np

from cachesim.engines.ik_llama.source_files import CONTEXT, SERVER, ik_llama
from cachesim.engines.rule import Decision, Role, rule
from cachesim.engines.shared.prompt_cache_limits import F32, part


def similarity(n_prompt: int, asked: int, held: int) -> np.float32:
    """Return the Dice coefficient of two texts with n_prompt common tokens; 0 for two empty texts."""
    return part(2 * n_prompt, max(1, asked + held))


class ShiftedPrefix(NamedTuple):
    """A text compared with the prompt without its discarded part: length of that prompt, and the common prefix in
    tokens of the prompt; ``n_cache``: the common prefix in tokens of the text."""

    asked: int
    n_prompt: int
    n_cache: int


class SlotFacts(NamedTuple):
    """A slot as slot selection sees it. ``held`` and ``asked``: tokens without reasoning; ``t_last``: logical time of
    its last release, -1 = never used. ``shifted`` None = the slot is compared with the whole prompt only."""

    id: int
    busy: bool
    held: int
    asked: int
    n_prompt: int
    t_last: int
    shifted: ShiftedPrefix | None = None
    last_prompt: int = 0             # tokens of the slot's last prompt
    last_common: int = 0             # tokens that it has in common with the prompt


class ComparedTexts(NamedTuple):
    """Texts that a comparison uses: as text or as token ids, and without reasoning or with it."""

    text: bool
    without_reasoning: bool


class SlotChoice(NamedTuple):
    """The selected slot, the method ("name", "lcp" or "lru"), and its similarity."""

    slot: int
    by: str
    f_sim: float = 0.0


@rule("IK-COMPARE.NO-REASONING", Role.ASSIGN, ik_llama(CONTEXT, "get_available_slot", "8337e4cd3"),
      since="#1079 (2a633c435)")
def compare_without_reasoning(held: int, left: int) -> Decision:
    """Leave reasoning out of the slot (``left`` of ``held`` tokens remain), of the prompt and of the entries when they
    are compared. Return how texts are compared."""
    return Decision(ComparedTexts(True, True), {"held": held, "left": left})


# [Gone in ik_llama@1079]
@rule("IK-COMPARE.TEXT", Role.ASSIGN, ik_llama(SERVER, "get_available_slot", "2a633c435^"),
      since="#1008 (0b126b2ca)", until="#1079")
def compare_text(held: int, left: int) -> Decision:
    """Compare slot, prompt and entries as texts with all of their reasoning. Return how texts are compared."""
    return Decision(ComparedTexts(True, False), {"held": held, "left": left})


# [Gone in ik_llama@1008]
@rule("IK-COMPARE.TOKENS", Role.ASSIGN, ik_llama(SERVER, "get_available_slot", "0b126b2ca^"),
      until="#1008")
def compare_tokens(held: int, left: int) -> Decision:
    """Compare slot, prompt and entries by token ids, with all of their reasoning. Return how texts are compared."""
    return Decision(ComparedTexts(False, False), {"held": held, "left": left})


@rule("IK-SHIFTED", Role.SHIFT, ik_llama(CONTEXT, "calculate_slot_similarity, calculate_slot_f_keep", "8337e4cd3"))
def compare_shifted(discarded: int, asked: int, n_ctx: int) -> Decision:
    """True if a slot whose context was shifted is compared with the prompt as the same shift would leave it: if
    the prompt does not fit the context."""
    because = {"discarded": discarded, "asked": asked, "n_ctx": n_ctx}
    return Decision(discarded > 0 and asked >= n_ctx, because)


# [Gone in ik_llama@973]
@rule("IK-SHIFTED.NO", Role.SHIFT, ik_llama(SERVER, "get_available_slot", "bacb8fb79^"),
      until="#973 (bacb8fb79)")
def compare_unshifted(discarded: int, asked: int, n_ctx: int) -> Decision:
    """Return False: the prompt is compared only as a whole."""
    return Decision(False, {"discarded": discarded, "asked": asked, "n_ctx": n_ctx})


@rule("IK-SLOT-SELECT", Role.ASSIGN, ik_llama(CONTEXT, "get_available_slot", "8337e4cd3"))
def slot_select(slots: Sequence[SlotFacts], id_slot: int, sps: float) -> Decision:
    """Select the named slot, otherwise the most similar slot above the threshold (the first of equals), otherwise the
    least recently used slot. If the prompt is also compared shifted, the larger similarity counts. Return None if no
    slot is free."""
    because = {"id_slot": id_slot, "sps": sps, "slots": len(slots)}
    free = [slot for slot in slots if not slot.busy]
    if id_slot >= 0:
        named = [slot for slot in free if slot.id == id_slot]
        return Decision(SlotChoice(id_slot, "name") if named else None, because)
    best, found = F32(0), None
    for slot in free if sps else ():
        sim = _similar(slot)
        if sim > best and sim > F32(sps):
            best, found = sim, slot.id
    if found is not None:
        return Decision(SlotChoice(found, "lcp", float(best)), because)
    oldest = min(free, key=lambda slot: slot.t_last, default=None)
    return Decision(None if oldest is None else SlotChoice(oldest.id, "lru"), because)


# [Gone in ik_llama@954]
@rule("IK-SLOT-SELECT.LAST-PROMPT", Role.ASSIGN,
      ik_llama(SERVER, "get_available_slot", "b6bc5eeda"), until="#924 (b63309a91)")
def slot_select_last_prompt(slots: Sequence[SlotFacts], id_slot: int, sps: float) -> Decision:
    """Select the named slot, otherwise the slot whose last prompt, without its answer, begins most like this prompt if
    the common part exceeds a share of that last prompt, otherwise the least recently used slot. Return None if no slot
    is free. Inferred: the real rule counts characters of prompts that are sent as text, this one tokens."""
    because = {"id_slot": id_slot, "sps": sps, "slots": len(slots)}
    free = [slot for slot in slots if not slot.busy]
    if id_slot >= 0:
        named = [slot for slot in free if slot.id == id_slot]
        return Decision(SlotChoice(id_slot, "name") if named else None, because)
    most, found = 0, None
    for slot in free if sps else ():
        share = F32(slot.last_common) / F32(max(1, slot.last_prompt))
        if slot.last_common > most and share > F32(sps):
            most, found = slot.last_common, SlotChoice(slot.id, "lcp", float(share))
    if found is not None:
        return Decision(found, because)
    oldest = min(free, key=lambda slot: slot.t_last, default=None)
    return Decision(None if oldest is None else SlotChoice(oldest.id, "lru"), because)


def _similar(slot: SlotFacts) -> np.float32:
    if not slot.held:
        return F32(0)
    whole, moved = similarity(slot.n_prompt, slot.asked, slot.held), slot.shifted
    return whole if moved is None else max(whole, similarity(moved.n_prompt, moved.asked, slot.held))


@rule("IK-PC-SAVE", Role.CONSULT, ik_llama(CONTEXT, "get_available_slot", "8337e4cd3"))
def save_if_little_kept(f_keep: float, held: int, least_keep: float, n_min: int) -> Decision:
    """Save the slot to the prompt cache if f_keep is below a limit and the slot is not too short."""
    save = held > 0 and F32(f_keep) < F32(least_keep) and held >= n_min
    return Decision(save, {"f_keep": f_keep, "held": held, "least_keep": least_keep, "n_min": n_min})


# [Gone in ik_llama@954]
@rule("IK-PC-SAVE.NEVER", Role.CONSULT, ik_llama(SERVER, "", "bb358223c^"),
      until="#954 (bb358223c)")
def save_never(f_keep: float, held: int, least_keep: float, n_min: int) -> Decision:
    """Return False: there is no prompt cache, whatever ``--cache-ram`` says."""
    return Decision(False, {"f_keep": f_keep, "held": held, "least_keep": least_keep, "n_min": n_min})
