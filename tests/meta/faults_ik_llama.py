"""Single-line faults in memory, rules and drivers of ik_llama.cpp."""

from __future__ import annotations

from functools import partial

from tests.meta.fault import Fault

_fault = partial(Fault, engine="ik_llama")

IK_LLAMA = [
    _fault("freed cells are not counted as free", "            self.used -= len(freed)\n", ""),
    _fault("a removal spares its first position",
           "& (self.pos >= p0) & (self.pos < p1))\n        self.seqs[seq, cells] = False",
           "& (self.pos > p0) & (self.pos < p1))\n        self.seqs[seq, cells] = False"),
    _fault("a state one token too long is taken", "lambda c: c.pos_max < bound)", "lambda c: c.pos_max <= bound)"),
    _fault("checkpoints behind the threshold stay",
           "enumerate(ckpts) if c.pos_max > ask.thold)", "enumerate(ckpts) if c.pos_max > ask.thold + 3)"),
    _fault("no token is given back", "return int(here and n_past_prompt == asked and n_past_prompt > 0)", "return 0"),
    _fault("a restored copy leaves the recurrent row",
           "    self.states[seq], self.state_pos[seq] = dict(blob.states), blob.state_pos\n        if blob.window",
           "    self.state_pos[seq] = blob.state_pos\n        if blob.window"),
    _fault("a copy shares the recurrent rows",
           "dict(self.states[seq]) if self.kind.hybrid", "self.states[seq] if self.kind.hybrid"),
    _fault("a new text begins with the old recurrent row", "kv.states[row] = {}", "pass"),
    _fault("a loaded conversation keeps the slot's checkpoints",
           "        slot.checkpoints = list(entry.checkpoints)\n", ""),
    _fault("one checkpoint more than allowed",
           "while len(slot.checkpoints) >= srv.settings.max_checkpoints",
           "while len(slot.checkpoints) > srv.settings.max_checkpoints"),
    _fault("rejected drafts stay in the memory",
           "        srv.memory.seq_rm(slot.id, len(slot.tokens), POS_INF)\n", "        pass\n"),
    _fault("the row after the whole draft is kept",
           "key = (seq, n_past + step) if (seq, n_past + step) in self.steps else step", "key = max(self.steps)"),
    _fault("a prompt does not trim the target", "target = srv.memory.seq_rm(slot.id, p0, POS_INF)", "target = True"),
    _fault("an erased slot keeps its cells",
           "    srv.memory.seq_rm(slot.id, 0, POS_INF)\n    slot.tokens.clear()\n", "    slot.tokens.clear()\n"),
    _fault("a shift leaves one token where it was",
           "kv.seq_add(slot.id, stop, n_past, -n_discard)",
           "kv.seq_add(slot.id, stop + 1, n_past, -n_discard)"),
]  # fmt: skip
