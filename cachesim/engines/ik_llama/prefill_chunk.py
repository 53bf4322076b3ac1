"""Addition of the next part of a prompt to the batch, and creation of checkpoints.

Source: ik_llama.cpp examples/server/server-context.cpp batch_pending_prompt, create_checkpoint (8337e4cd3).
"""

from __future__ import annotations

from cachesim import events as ev
from cachesim.base.errors import ProcessAborted
from cachesim.base.tokens import POS_INF
from cachesim.engines.ik_llama.media import decode_image
from cachesim.engines.ik_llama.rules.checkpoint_restore import Ckpt
from cachesim.engines.ik_llama.rules.trim import RemovalRepair
from cachesim.engines.ik_llama.server_state import Core
from cachesim.engines.ik_llama.slot import Checkpoint, Slot, State, Task
from cachesim.engines.shared import slot_events as slot_ev
from cachesim.engines.shared.batch import DecodeBatch
from cachesim.engines.shared.conversation_points import ALL_TOKENS


def add_prompt(srv: Core, slot: Slot, task: Task, batch: DecodeBatch) -> None:
    """Trim both contexts to the slot's tokens, then append as much of the prompt as the batch can hold."""
    trim(srv, slot, task)
    before = slot.n_prompt
    if srv.rules.most_images and not decode_image(srv, slot, task):
        return
    start, length = slot.n_prompt, len(task.prompt)
    room = srv.settings.n_batch - len(batch)
    tolerance = srv.settings.flags.ctx_checkpoints_tolerance if slot.marks else -1
    stop, due = srv.decide(srv.rules.ckpt_break(start, length, room, tolerance), slot)
    if srv.settings.projector and task.has_images:
        text = srv.rules.media.text_end(task.prompt, start, stop, due)
        stop, due = text.value if text.value[0] == stop else srv.decide(text, slot)
    slot.due = slot.due or due                 # only the next request resets it
    first = len(batch)
    batch.extend(task.prompt[start:stop], len(srv.system) + len(slot.tokens), slot.id)
    slot.tokens.extend(task.prompt[start:stop])
    slot.n_prompt = stop
    task.answer.prompt_n += stop - start
    slot.fed = (first, len(batch))
    slot.after_image = slot.after_image and stop == start
    if stop == length and stop > before:
        if slot.after_image:
            end = srv.decide(srv.rules.media.end(len(batch)), slot)
            if end:
                raise ProcessAborted(end, "empty-batch")
        slot.state, slot.n_decoded = State.GENERATING, 0
        batch.out[-1] = True
        slot.at = len(batch) - 1


def trim(srv: Core, slot: Slot, task: Task) -> None:
    """Remove everything after the slot's tokens from both contexts. The rules decide the consequence of a refusal."""
    if slot.uncounted:
        del slot.tokens[-slot.uncounted :]
        slot.uncounted = 0
    p0 = len(srv.system) + len(slot.tokens)
    target = srv.memory.seq_rm(slot.id, p0, POS_INF)
    companion = True
    if srv.companion is not None and srv.decide(srv.rules.trim(target), slot):
        companion = srv.companion.kv.seq_rm(slot.id, p0, POS_INF)
    failed = srv.rules.trim_failed(target, companion)
    repair: RemovalRepair = failed.value
    if repair.wipe and srv.companion is not None:
        srv.decide(failed, slot)
        text = f"MTP companion ctx out-of-sync at p0={p0}; wiping companion only, primary cache preserved"
        srv.emit(slot_ev.Warn(text))
        srv.companion.kv.seq_rm(slot.id, 0, POS_INF)
    if repair.reset:                # the slot keeps only its count of evaluated prompt tokens
        srv.decide(failed, slot)
        srv.wipe(slot)
        slot.n_prompt = slot.offset = slot.kept = slot.discarded = 0
        task.answer.reused, task.answer.deciding = {}, failed.rule
        srv.changed(slot, "cleared", failed.rule)
    pos = srv.position(slot.tokens, len(slot.tokens))
    if pos != len(slot.tokens):
        srv.decide(srv.rules.media.position(slot.tokens, len(slot.tokens), srv.kind.mrope), slot)
    srv.emit(slot_ev.Batch(slot.id, task.id, len(slot.tokens), pos))
    srv.trimmed(slot, task.answer.deciding)


def at_interval(srv: Core, slot: Slot) -> None:
    """Create a checkpoint if the last interval checkpoint is far enough back."""
    pos_max = srv.cell_position(slot, srv.memory.pos_max(slot.id))
    due = srv.rules.ckpt_interval(slot.last_checkpoint, pos_max, srv.settings.flags.ctx_checkpoints_interval)
    if not slot.marks or not srv.decide(due, slot):
        return
    created = create(srv, slot)
    if created:
        slot.last_checkpoint = pos_max


def create(srv: Core, slot: Slot, prompt_end: bool = False) -> bool:
    """Create a checkpoint of the slot's current state if the rules allow it, and evict older checkpoints to make room.
    Return whether a checkpoint was created."""
    if not slot.marks:
        return False
    ends = srv.memory.pos_min(slot.id), srv.memory.pos_max(slot.id)
    pos_min, pos_max = (srv.cell_position(slot, end) for end in ends)
    taken = srv.rules.ckpt_create(slot.facts, len(slot.tokens), pos_min, pos_max, bool(srv.kind.states))
    if slot.after_image and taken.value:
        taken = srv.rules.media.ckpt(taken.value, slot.after_image, len(slot.tokens))
    wanted: bool | None = srv.capture(taken, slot)
    if not (_compared(srv, slot) if wanted is None else wanted):
        return False
    while len(slot.checkpoints) >= srv.settings.max_checkpoints:
        evict = srv.rules.ckpt_evict(slot.facts, srv.settings.flags.ctx_checkpoints_eviction)
        lost = slot.drop((srv.decide(evict, slot),))[0].facts
        srv.changed(slot, "evicted", evict.rule, ALL_TOKENS)
        srv.emit(slot_ev.CkptEvict(
            slot.id, slot.id_task, pos_min=lost.pos_min, pos_max=lost.pos_max, n_tokens=logged_tokens(srv, lost)
        ))
    blob = srv.memory.get(slot.id, partial=True)
    facts = Ckpt(
        pos_min,
        pos_max,
        pos_min_prompt=pos_min + slot.offset,
        pos_max_prompt=pos_max + slot.offset,
        n_tokens=len(slot.tokens),
        size=blob.size,
        prompt_end=prompt_end,
    )  # fmt: skip
    slot.checkpoints.append(Checkpoint(facts, blob))
    srv.emit(slot_ev.CkptCreate(
        slot.id,
        slot.id_task,
        n=len(slot.checkpoints),
        max=srv.settings.max_checkpoints,
        pos_min=pos_min,
        pos_max=pos_max,
        n_tokens=facts.n_tokens,
        mib=ev.mib(facts.size),
    ))  # fmt: skip
    srv.changed(slot, "stored", kept=ALL_TOKENS)
    return True


def logged_tokens(srv: Core, facts: Ckpt) -> int:
    """Return the number of tokens that the log prints for a checkpoint; for an uninitialised field the assumed memory
    content."""
    return facts.n_tokens if facts.unset is None else srv.rules.unset.get(facts.unset, 0)


def _compared(srv: Core, slot: Slot) -> bool:
    """True if the slot has more tokens than the last checkpoint, whose token count is uninitialised. Uses the
    content assumed for this run, and logs the comparison."""
    unset = slot.checkpoints[-1].facts.unset
    assert unset is not None
    srv.emit(ev.Compared(slot.id, unset, len(slot.tokens)))
    return len(slot.tokens) > srv.rules.unset.get(unset, 0)
