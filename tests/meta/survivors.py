"""Faults that nobody notices, each with the reason: equivalent, or still to be met. One that is noticed all the same
does not belong here."""

SURVIVORS: dict[str, str] = {
    "recurrent_slots.find_slot: `2` -> `3` in if meta.head > meta.used + 2 * len(ubatch.runs):":
        "only where the search for a free recurrent cell begins: any of them serves, and none is named in a log",
    "begin._ask: `0` -> `1` in if 0 < n_past <= len(slot.tokens) and pos_min < 0:":
        "not equivalent, not met: a slot with tokens and no memory (its first batch found no room) and a prompt that"
        " shares exactly one token with it; then the server should end, and goes on",
    "cells.move: `<` -> `<=` in cells = np.flatnonzero(self.seqs[seq] & (self.pos >= p0) & (self.pos <":
        "equivalent: both callers pass where the sequence ends, or 0; no cell has that label",
    "slot_file._checkpoint: `1` -> `2` in return Checkpoint(Ckpt(pos_min, pos_max, first, last, pos_max + 1, blo":
        "a number for the eye: nobody wrote how many tokens it has, and no rule may look at it (see Ckpt.unset)",
    "begin._search: `max` -> `min` in slot.last_checkpoint = max(slot.last_checkpoint, again.last_checkpoint":
        "not equivalent, not seen: the next interval is counted from an earlier place, so a checkpoint comes sooner",
    "segments.tail_guarded: `1` -> `2` in first = len(prompt) - min(10, len(prompt) - sys_end - 1)":
        "not equivalent, not met: a think token directly behind the system text of a prompt of under 12 tokens more",
    "prefilling.next: `-` -> `+` in room = self.settings.completion_batch_size - len(self.batch.rows)":
        "not equivalent, no property: more rows decode together than completion_batch_size allows, each rightly",
}  # fmt: skip
