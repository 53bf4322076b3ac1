"""Log lines of ik_llama.cpp in the order of what they report.

Checkpoint lines go through a queue and may arrive late. The source determines their place: a restore or a reset and its
erasures come before the first trim of their task; a checkpoint is taken at the end of the round in which its slot
reached that number of tokens. Source: ik_llama.cpp examples/server/server-context.cpp batch_pending_prompt,
process_batch_tokens, update_slots (8337e4c).
"""

from __future__ import annotations

from tests.live.ik.log import TOKEN, read_event

ROUND_ENDS, PROGRESS, TOKENIZED, TRUNCATED = "run slots completed", "prompt processing progress", "prompt tokenized", \
    "input truncated"  # fmt: skip
TRIM = "kv cache rm [p0, end)"
TAKEN = ("ckpt_create", "ckpt_evict")


def in_order(said):
    """Return the entries with every late entry at its place, never later than it was written."""
    late = [(place, entry) for place, entry in _places(said) if read_event(entry) is not None]
    if not late:
        return said
    sync = [entry for entry in said if entry.level != "SLOT"]
    known = _Rounds(sync)
    due, before = {}, 0
    for number, (place, entry) in enumerate(late):
        before = max(before, min(place, known.due(entry, [one for _, one in late[number:]], place)))
        due.setdefault(before, []).append(entry)           # the queue preserves its order
    out = []
    for place in range(len(sync) + 1):
        out += due.get(place, [])
        out += sync[place : place + 1]
    return out


def _places(said):
    """Return every late entry with the number of other entries before it."""
    before = 0
    for entry in said:
        if entry.level == "SLOT":
            yield before, entry
        else:
            before += 1


class _Rounds:
    """Rounds and tasks, from the lines that are written at once."""

    def __init__(self, sync):
        self.trims, self.ends, self.reached, self.prompt = {}, [], {}, {}
        task = {}
        for place, entry in enumerate(sync):
            if entry.text == ROUND_ENDS:
                self.ends.append(place)
            elif entry.text == TRIM:
                fields = entry.fields
                self.trims.setdefault(fields["id_task"], place)
                task[fields["id_slot"]] = fields["id_task"]
            elif entry.text in (TOKENIZED, TRUNCATED):
                fields = entry.fields
                self.prompt[fields["id_task"]] = fields["n_prompt_tokens"]
            elif entry.text == PROGRESS:
                fields = entry.fields
                self.reached.setdefault((task.get(fields["id_slot"]), fields["n_past"]), place)
            elif entry.text == TOKEN:
                fields = entry.fields
                held = self.prompt.get(fields["id_task"], 0) + fields["n_decoded"] - 1
                self.reached.setdefault((fields["id_task"], held), place)

    def due(self, entry, following, place):
        """Return the place of a late entry; if undetermined, the end of the last completed round."""
        event = read_event(entry)
        if event["ev"] not in TAKEN:
            return self.trims.get(entry.task, place)
        made = next((read_event(one) for one in following if one.slot == entry.slot and "created" in one.text), event)
        at = self.reached.get((entry.task, made["n_tokens"]))
        if at is not None:
            return next((end for end in self.ends if end > at), place)
        return next((end for end in reversed(self.ends) if end <= place), place)
