"""Prompt chunks: appending a chunk to the batch, and the checkpoint that is created before it is evaluated.

Source: llama.cpp tools/server/server-context.cpp update_slots, create_checkpoint (3f545be).
"""

from __future__ import annotations

from cachesim import events as ev
from cachesim.base.errors import ProcessAborted
from cachesim.base.keyed_tokens import identities
from cachesim.engines.llama_cpp import events as llama_ev
from cachesim.engines.llama_cpp.adapters import keyed, split_prompt, stop_at_invocation
from cachesim.engines.llama_cpp.media import decode_images
from cachesim.engines.llama_cpp.memory.context import removal_refused
from cachesim.engines.llama_cpp.memory.ubatch import DecodeBatch
from cachesim.engines.llama_cpp.rules.adapter_repairs import WAIT
from cachesim.engines.llama_cpp.rules.before_checkpoints import LIST_ASSERTS
from cachesim.engines.llama_cpp.rules.checkpoint_facts import MADE, Chunk, Ckpt
from cachesim.engines.llama_cpp.server_state import Core
from cachesim.engines.llama_cpp.slot import Checkpoint, Slot, State, Task
from cachesim.engines.llama_cpp.slot_assignment import share_prompt
from cachesim.engines.shared import slot_events as slot_ev
from cachesim.engines.shared.conversation_points import ALL_TOKENS


def add_prompt(srv: Core, slot: Slot, task: Task, batch: DecodeBatch) -> None:
    """Trim the memory to the slot's tokens, then append the next chunk of the prompt to slot and batch.

    If the prompt cache loaded a conversation over the running prompt (D2), the slot may hold as many tokens as the
    prompt, or more. With as many, the slot samples after the last token of the batch, and an empty batch ends the
    process. With more, the prompt never completes, unless the cache loads another conversation over it."""
    at = srv.rules.trim_at(len(slot.tokens), slot.reused if slot.state is State.PROMPT and not slot.has_begun else 0)
    slot.has_begun = True
    trim(srv, slot, task, at.value if at.value == len(slot.tokens) else srv.decide(at, slot))
    children_wait = share_prompt(srv, slot, task)
    slot.before = len(slot.tokens)
    listed = srv.rules.list_kept(task.request.cache_prompt, slot.before)
    if listed.value == LIST_ASSERTS:
        srv.decide(listed, slot)
        raise ProcessAborted("GGML_ASSERT(n <= tokens.size()) failed", "list-shorter-than-the-prompt")
    limit = split_prompt(srv, slot, task)
    images = None if limit == WAIT else decode_images(srv, slot, task)
    if images is None:
        return
    start = len(slot.tokens)
    prompt = task.request.prompt
    users = task.request.user_starts
    template = task.request.chat or task.request.byte_pos is not None
    if users and not srv.decide(srv.rules.marks(template), slot):
        users = ()                # this build ignores these message starts
    chunk = Chunk(
        start,
        len(prompt),
        room=srv.settings.n_batch - len(batch),
        n_batch=srv.settings.n_batch,
        n_ubatch=srv.settings.n_ubatch,
        starts=users,
        min_step=srv.settings.min_step,
        do=_creates_checkpoints(srv, slot, task),
        reused=slot.reused,
        tail=srv.rules.tail,
    )
    stop = _chunk_end(srv, slot, task, chunk)
    stop = min(stop, task.request.shared) if children_wait else stop
    stop = stop_at_invocation(srv, slot, task, start, stop, limit)
    tokens = keyed(srv, prompt[start:stop])
    slot.tokens.extend(tokens)
    batch.extend(identities(tokens) if srv.adapters else tokens, start, slot.id)
    slot.prompt_span = (len(batch) - (stop - start), len(batch))
    if stop == len(prompt):
        if not len(batch):
            raise ProcessAborted("GGML_ASSERT(batch.size() > 0) failed", "empty-batch")
        slot.state = State.DONE_PROMPT
        batch.out[-1] = True
        slot.i_batch = len(batch) - 1
    maybe_create_checkpoint(srv, slot, task, chunk, stop, n_batch=len(batch), images=images)


def _chunk_end(srv: Core, slot: Slot, task: Task, chunk: Chunk) -> int:
    """Return where the chunk of the prompt ends: at a break, or before an image."""
    prompt, stop = task.request.prompt, chunk.start
    if stop < len(prompt):
        stop = srv.decide(srv.rules.ckpt_break(chunk, slot.facts), slot)
    if srv.settings.projector:
        text = srv.rules.media.text_end(prompt, chunk.start, stop)
        stop = text.value if text.value == stop else srv.decide(text, slot)
    return stop


def _creates_checkpoints(srv: Core, slot: Slot, task: Task) -> bool:
    """True if a slot creates checkpoints: not for every kind of task, and as rule LC-CKPT-ON says. The decision
    is recorded if the kind of task creates none."""
    kind = srv.rules.task_caches(task.request.kind)
    most = srv.settings.max_checkpoints
    exact = srv.settings.exact
    window = srv.settings.window
    if not srv.holds(kind, slot):
        return False
    return bool(srv.decide(srv.rules.ckpt_on(most, exact, window), slot))


def trim(srv: Core, slot: Slot, task: Task, n_tokens: int) -> None:
    """TRIM: remove all rows after the slot's tokens. If the memory refuses, the process ends or the slot is cleared."""
    pos = srv.position(slot, n_tokens)
    if pos != n_tokens:
        srv.decide(srv.rules.media.position(slot.tokens, n_tokens), slot)
    srv.emit(slot_ev.Batch(slot.id, task.id, n_tokens, pos))
    if not srv.common_memory.rm(slot.id, n_tokens):
        refused = srv.rules.trim(n_tokens)
        clears = srv.decide(refused, slot)
        if isinstance(clears, str):
            raise ProcessAborted(clears, "busy-slot-cleared", n_past=n_tokens)
        if not clears:
            if not srv.rules.rm_refused(n_tokens, -1).value:        # logged before the server's own assertion
                srv.emit(llama_ev.TrimRefused(slot.id, task.id, n_tokens))
            raise removal_refused(slot.id, n_tokens)
        srv.emit(llama_ev.TrimRefused(slot.id, task.id, n_tokens))
        task.answer.reused, task.answer.deciding = {}, refused.rule
        srv.clear(slot)
    srv.trimmed(slot, task.answer.deciding)


def maybe_create_checkpoint(
    srv: Core, slot: Slot, task: Task, chunk: Chunk, stop: int, n_batch: int, images: int
) -> None:
    """Create a checkpoint before the chunk if the rules (LC-CKPT-CREATE) say so. The batch has ``n_batch`` tokens, and
    ``images`` were evaluated before it."""
    pos_min, pos_max = srv.pos_min(slot), srv.pos_max(slot)
    due = srv.rules.ckpt_periodic(chunk, stop, slot.facts)
    if due.value is not None:
        srv.emit(llama_ev.CkptPeriodic(
            slot.id, task.id, every=srv.settings.min_step, last=srv.decide(due, slot), n_tokens=stop
        ))
    created = srv.rules.ckpt_create(chunk, stop, slot.facts, pos_min, pos_max)
    if images:
        reason = srv.rules.media.reason(chunk.do, pos_min)
        wanted = True
        if not created.value:
            wanted = srv.decide(reason, slot)
        created = srv.rules.media.ckpt(wanted, images)
    yes: bool = srv.capture(created, slot)
    srv.emit(llama_ev.DoCkpt(slot.id, task.id, yes, pos_min, pos_max))
    if yes:
        create_checkpoint(srv, slot, task, srv.rules.ckpt_count(chunk.start, len(slot.tokens), n_batch).value)


def checkpoint_after_prompt(srv: Core, slot: Slot, task: Task) -> None:
    """Create a checkpoint after the evaluated prompt if the rules (LC-CKPT-AFTER) say so."""
    on = srv.rules.ckpt_on(srv.settings.max_checkpoints, srv.settings.exact, srv.settings.window)
    after = srv.rules.ckpt_after(on.value)
    if after.value:
        srv.decide(after, slot)
        create_checkpoint(srv, slot, task, len(slot.tokens))


def create_checkpoint(srv: Core, slot: Slot, task: Task, n_tokens: int) -> None:
    """Apply CKPT-SPACING, CKPT-LIMIT and CKPT-REPLACE, then append a checkpoint of the first ``n_tokens`` tokens."""
    pos_min, pos_max = srv.pos_min(slot), srv.pos_max(slot)
    most, logged = srv.settings.max_checkpoints, srv.rules.limit_told
    near = srv.rules.ckpt_spacing(slot.facts, task.id, srv.settings.min_step, most)
    for lost in srv.drop(slot, near, logged, "erased", ALL_TOKENS):
        srv.emit(llama_ev.CkptTooClose(slot.id, task.id, lost.pos_min, lost.pos_max, lost.n_tokens))
    for lost in srv.drop(slot, srv.rules.ckpt_limit(slot.facts, most), logged, "evicted", ALL_TOKENS):
        srv.emit(slot_ev.CkptEvict(slot.id, task.id, lost.pos_min, lost.pos_max, lost.n_tokens))
    same = srv.rules.ckpt_replace(slot.facts, n_tokens)
    note = next((slot.facts[i].note for i in same.value), None)
    for lost in srv.drop(slot, same, logged, "erased", ALL_TOKENS):
        srv.emit(llama_ev.CkptSupersede(slot.id, task.id, lost.n_tokens))
    blob = srv.memory.state_write(slot.id, partial=True)
    draft = srv.dft.memory.state_write(slot.id, partial=True) if srv.dft else None
    size = sum(part.size + srv.rules.host_header for part in (blob, draft) if part is not None)
    facts = srv.with_note(slot, Ckpt(
        n_tokens, pos_min, pos_max=pos_max, id_task=task.id, size=size, note=note
    ), MADE, task)
    slot.checkpoints.append(Checkpoint(facts, blob, draft))
    n = len(slot.checkpoints)
    srv.emit(slot_ev.CkptCreate(
        slot.id, task.id, n=n, max=most, pos_min=pos_min, pos_max=pos_max, n_tokens=n_tokens, mib=ev.mib(facts.size)
    ))
    srv.changed(slot, "stored", kept=ALL_TOKENS)
