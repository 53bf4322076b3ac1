"""Faults that nobody notices, each with the reason why it makes no difference. One that is noticed all the same does
not belong here."""

SURVIVORS: dict[str, str] = {
    "recurrent_slots.find_slot: `2` -> `3` in if meta.head > meta.used + 2 * len(ubatch.runs):":
        "only where the search for a free recurrent cell begins: any of them serves, and none is named in a log",
    "cells.move: `<` -> `<=` in cells = np.flatnonzero(self.seqs[seq] & (self.pos >= p0) & (self.pos <":
        "equivalent: both callers pass where the sequence ends, or 0; no cell has that label",
    "slot_file._checkpoint: `1` -> `2` in return Checkpoint(Ckpt(pos_min, pos_max, first, last, pos_max + 1, blo":
        "a number for the eye: nobody wrote how many tokens it has, and no rule may look at it (see Ckpt.unset)",
}  # fmt: skip

FLOOR_SURVIVORS: dict[str, str] = {}
"""The same for the floors above the engines (tests/meta/floors): at most five."""
