"""Faults that are not detected because they make no difference, each with the reason. A detected fault must not be
listed."""

SURVIVORS: dict[str, str] = {
    "recurrent_slots.find_slot: `2` -> `3` in if meta.head > meta.used + 2 * len(ubatch.runs):":
        "changes only the start of the search for a free recurrent cell: any cell works, and logs do not contain cells",
    "cells.move: `<` -> `<=` in cells = np.flatnonzero(self.seqs[seq] & (self.pos >= p0) & (self.pos <":
        "equivalent: both callers pass the end of the sequence, or 0; no cell has that label",
    "slot_file._checkpoint: `1` -> `2` in return Checkpoint(Ckpt(pos_min, pos_max, first, last, pos_max + 1, blo":
        "a display value: the file does not contain the number of tokens, and rules must not read it (see Ckpt.unset)",
}  # fmt: skip

FLOOR_SURVIVORS: dict[str, str] = {}
"""Undetected faults of the packages above the engines (tests/meta/floors): at most five."""
