"""Faults that nobody can notice, each with the reason. One that is noticed all the same does not belong here."""

SURVIVORS: dict[str, str] = {
    "recurrent_slots.find_slot: `2` -> `3` in if meta.head > meta.used + 2 * len(ubatch.runs):":
        "only where the search for a free recurrent cell begins: any of them serves, and none is named in a log",
    "begin._ask: `0` -> `1` in if 0 < n_past <= len(slot.tokens) and pos_min < 0:":
        "a guard against a slot that has tokens and no memory; no slot with one common token comes to that",
    "cells.move: `<` -> `<=` in cells = np.flatnonzero(self.seqs[seq] & (self.pos >= p0) & (self.pos <":
        "equivalent: both callers pass where the sequence ends, or 0; no cell has that label",
}  # fmt: skip
