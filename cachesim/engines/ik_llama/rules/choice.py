"""Which slot does a request get, and is what the slot holds saved before it is overwritten?

c, p       tokens held, tokens asked; reasoning is left out of both where the server does so
n_cache, n_prompt   how much of c and of p the common text covers
sim        2 n_prompt / (p + c), a Dice coefficient; f_keep = n_cache / c; both in single precision
Source: ik_llama.cpp examples/server/server-context.cpp get_available_slot (8337e4cd3); spec 2.3, 3.2, 4.
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

import numpy as np

from cachesim.engines.base import Decision, rule
from cachesim.engines.shared.stored import F32


def similarity(n_prompt: int, asked: int, held: int) -> np.float32:
    """The Dice coefficient of two texts of which n_prompt tokens are common; 0 for two empty ones."""
    return F32(2 * n_prompt) / F32(max(1, asked + held))


class SlotFacts(NamedTuple):
    """A slot as the choice sees it. ``held`` and ``asked`` are tokens without reasoning; ``t_last`` the tick of its
    last release, -1 = never used."""

    id: int
    busy: bool
    held: int
    asked: int
    n_prompt: int
    t_last: int


class Choice(NamedTuple):
    """The slot, how it was found ("name", "lcp" or "lru"), its similarity."""

    slot: int
    by: str
    f_sim: float = 0.0


@rule("IK-SLOT-SELECT")
def slot_select(slots: Sequence[SlotFacts], id_slot: int, sps: float) -> Decision:
    """The slot that was named; else the most similar one above the threshold, the first of equals; else the one that
    was used least recently. Value None = none is free.
    Source: ik_llama.cpp examples/server/server-context.cpp get_available_slot (8337e4cd3)."""
    because = {"id_slot": id_slot, "sps": sps, "slots": len(slots)}
    free = [slot for slot in slots if not slot.busy]
    if id_slot >= 0:
        named = [slot for slot in free if slot.id == id_slot]
        return Decision("IK-SLOT-SELECT", Choice(id_slot, "name") if named else None, because)
    best, found = F32(0), None
    for slot in free if sps else ():
        sim = similarity(slot.n_prompt, slot.asked, slot.held) if slot.held else F32(0)
        if sim > best and sim > F32(sps):
            best, found = sim, slot.id
    if found is not None:
        return Decision("IK-SLOT-SELECT", Choice(found, "lcp", float(best)), because)
    oldest = min(free, key=lambda slot: slot.t_last, default=None)
    return Decision("IK-SLOT-SELECT", None if oldest is None else Choice(oldest.id, "lru"), because)


@rule("IK-PC-SAVE")
def save_if_little_kept(f_keep: float, held: int, least_keep: float, n_min: int) -> Decision:
    """What the slot holds is stored if the new prompt keeps less than a share of it, and it is not too short.
    Source: ik_llama.cpp examples/server/server-context.cpp get_available_slot (8337e4cd3)."""
    save = held > 0 and F32(f_keep) < F32(least_keep) and held >= n_min
    return Decision("IK-PC-SAVE", save, {"f_keep": f_keep, "held": held, "least_keep": least_keep, "n_min": n_min})
