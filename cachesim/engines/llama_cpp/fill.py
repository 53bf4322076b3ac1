"""Putting a stretch of prompt into the batch, and the checkpoint that is taken before it is evaluated.

Source: llama.cpp tools/server/server-context.cpp update_slots, create_checkpoint (3f545be); spec 3.9 TRIM, 3.10.
"""

from __future__ import annotations

from cachesim import events as ev
from cachesim.engines.llama_cpp.core import Core
from cachesim.engines.llama_cpp.memory.ubatch import Batch
from cachesim.engines.llama_cpp.rules.facts import Chunk, Ckpt
from cachesim.engines.llama_cpp.slot import Checkpoint, Slot, State, Task


def add_prompt(srv: Core, slot: Slot, task: Task, batch: Batch) -> None:
    """Trim the memory to the slot's tokens, then append the next chunk of the prompt to slot and batch."""
    start, prompt = len(slot.tokens), task.request.prompt
    trim(srv, slot, task, start)
    on = srv.rules.ckpt_on(srv.settings.max_checkpoints, srv.settings.exact, srv.settings.n_swa)
    chunk = Chunk(
        start, len(prompt), srv.settings.n_batch - len(batch), srv.settings.n_batch, srv.settings.n_ubatch,
        task.request.user_starts, srv.settings.min_step, srv.decide(on, slot), slot.reused,
    )
    stop: int = srv.decide(srv.rules.ckpt_break(chunk, slot.facts), slot)
    slot.tokens.extend(prompt[start:stop])
    for pos in range(start, stop):
        batch.add(prompt[pos], pos, slot.id, False)
    slot.fed = (len(batch) - (stop - start), len(batch))
    if stop == len(prompt):
        slot.state = State.DONE_PROMPT
        batch.out[-1] = True
        slot.at = len(batch) - 1
    consider_checkpoint(srv, slot, task, chunk, stop)


def trim(srv: Core, slot: Slot, task: Task, n_tokens: int) -> None:
    """TRIM: everything behind the slot's tokens leaves the memory. A refusal ends the process."""
    srv.emit(ev.Batch(slot.id, task.id, n_tokens, n_tokens))
    srv.both.must_rm(slot.id, n_tokens)
    srv.changed(slot, "truncated", task.answer.deciding)


def consider_checkpoint(srv: Core, slot: Slot, task: Task, chunk: Chunk, stop: int) -> None:
    """CKPT-CREATE, CKPT-SPACING, CKPT-LIMIT: keep the state before the chunk, if the rules say so."""
    pos_min, pos_max = srv.memory.pos_min(slot.id), srv.memory.pos_max(slot.id)
    yes: bool = srv.decide(srv.rules.ckpt_create(chunk, stop, slot.facts, pos_min), slot)
    srv.emit(ev.DoCkpt(slot.id, task.id, yes, pos_min, pos_max))
    if not yes:
        return
    near = srv.rules.ckpt_spacing(slot.facts, task.id, srv.settings.min_step)
    gone = slot.drop(srv.decide(near, slot))
    srv.changed(slot, "erased", near.rule)
    for lost in gone:
        srv.emit(ev.CkptTooClose(slot.id, task.id, *lost.facts[1:3], lost.facts.n_tokens))
    over = srv.rules.ckpt_limit(slot.facts, srv.settings.max_checkpoints)
    gone = slot.drop(srv.decide(over, slot))
    srv.changed(slot, "evicted", over.rule)
    for lost in gone:
        srv.emit(ev.CkptEvict(slot.id, task.id, *lost.facts[1:3], lost.facts.n_tokens))
    blob = srv.memory.state_write(slot.id, partial=True)
    draft = srv.dft.memory.state_write(slot.id, partial=True) if srv.dft else None
    size = sum(part.size + srv.rules.host_header for part in (blob, draft) if part is not None)
    facts = Ckpt(chunk.start, pos_min, pos_max, task.id, size)
    slot.checkpoints.append(Checkpoint(facts, blob, draft))
    srv.emit(ev.CkptCreate(
        slot.id, task.id, len(slot.checkpoints), srv.settings.max_checkpoints, pos_min, pos_max, chunk.start,
        ev.mib(facts.size),
    ))
    srv.changed(slot, "stored")
