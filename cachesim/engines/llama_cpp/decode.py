"""Decoding of a filled batch: views of n_batch tokens, retries without free cells, sampling, cancelled requests.

Source: llama.cpp tools/server/server-context.cpp decode, post_decode (3f545be).
"""

from __future__ import annotations

from cachesim.base.errors import ProcessAborted
from cachesim.engines import base
from cachesim.engines.base import BEFORE_ITS_PROMPT, Output
from cachesim.engines.llama_cpp import events as llama_ev
from cachesim.engines.llama_cpp.media import purge_idle
from cachesim.engines.llama_cpp.memory.context import BAD_BATCH, NO_ROOM, OK
from cachesim.engines.llama_cpp.memory.ubatch import DecodeBatch
from cachesim.engines.llama_cpp.prefill_chunk import checkpoint_after_prompt
from cachesim.engines.llama_cpp.rules.prompt_lifecycle import SILENT_TASKS
from cachesim.engines.llama_cpp.server_state import Core
from cachesim.engines.llama_cpp.slot import Slot, State, Task
from cachesim.engines.llama_cpp.slot_assignment import (
    activate_children,
    drop_orphaned_tasks,
    orphaned_children,
    process_next,
)
from cachesim.engines.llama_cpp.speculative_decoding import decode_in_draft, make_drafts, verify
from cachesim.engines.rule import rule_id
from cachesim.engines.shared import slot_events as slot_ev
from cachesim.engines.shared.evaluation_cost import cost_of
from cachesim.engines.shared.vocab import plain_text

FATAL = {NO_ROOM: ("Context size has been exceeded.", base.NO_ROOM), BAD_BATCH: ("Invalid input batch.", "bad-batch")}
"""Error text for the client and kind of the error, by return code of llama_decode."""


def decode(srv: Core, batch: DecodeBatch) -> None:
    """Evaluate the batch view by view. After each view, sample for the slots whose output token lies in it."""
    n, off = srv.settings.n_batch, 0
    while off < len(batch):
        if off:
            _lead_next_view(srv, srv.slots[batch.seq[0]])
        view = batch.view(off, n)
        stop = off + len(view)
        cost = cost_of(srv.context.model, stop - off, srv.settings.n_ubatch, sum(view.pos))
        srv.log.spend(*cost)
        for seq, first in srv.context.memory.pending():
            srv.points.touch(seq, first)
        ret = OK if srv.defer_token(view) else srv.context.decode(view)
        if ret == OK:
            n = srv.settings.n_batch
            srv.outputs.update({off + k: output for k, output in srv.context.spoken.items()})
            srv.view = off, stop
            decode_in_draft(srv, view)
            for slot in srv.slots:               # count prompt tokens when their view is evaluated
                if slot.task is not None and off < slot.prompt_span[1]:
                    slot.task.answer.prompt_n += max(0, min(stop, slot.prompt_span[1]) - max(off, slot.prompt_span[0]))
            activate_children(srv, stop)
            srv.evaluated(rule_id(srv.rules.ckpt_create))
            post_decode(srv, off, stop - off)
            off = stop
            continue
        srv.log.refund(*cost)                    # nothing was evaluated
        if ret == BAD_BATCH or n == 1:
            fail_batch(srv, *FATAL[ret], off, n, ret)
            return
        purged = purge_idle(srv)
        n = srv.decide(srv.rules.decode_retry(purged, n), None)
        srv.emit(llama_ev.KvFull(n, ret))


def _lead_next_view(srv: Core, leader: Slot) -> None:
    """Go on with the batch that a slot leads. Raise ProcessAborted if its request has ended and the rule says so."""
    if leader.task is not None:
        return
    text = srv.decide(srv.rules.view_lead(), leader)
    if text is not None:
        raise ProcessAborted(text, "batch-led-by-an-ended-request")


def fail_batch(srv: Core, text: str, kind: str, off: int, n_batch: int, ret: int) -> None:
    """Fail every running request: the batch cannot be evaluated. ``off``: start of the view in the batch [tokens]."""
    first, *rest = [line.format(text=text, off=off, n_batch=n_batch, ret=ret) for line in srv.rules.fatal_lines]
    srv.emit(slot_ev.Error(first))
    clears = srv.rules.fail_clears(sum(1 for slot in srv.slots if slot.busy))
    srv.fail_all(text, kind, clear=srv.holds(clears, None))
    for line in rest:
        srv.emit(slot_ev.Error(line))


def post_decode(srv: Core, off: int, n: int) -> None:
    """Sample and check stop conditions for the slots whose output lies in the view, slots without a draft first."""
    for slot in srv.slots:
        if slot.draft and slot.i_batch >= 0:
            _fail_split_draft(srv, slot, off, n)
    for drafted in (False, True):
        for slot in srv.slots:
            task = slot.task
            if task is None or slot.i_batch < 0 or bool(slot.draft) is not drafted:
                continue
            if drafted:
                _verify_draft(srv, slot, task)
            elif off <= slot.i_batch < off + n:
                _sample(srv, slot, task)


def _fail_split_draft(srv: Core, slot: Slot, off: int, n: int) -> None:
    """Fail the request of a slot whose draft extends beyond the view. The slot keeps the drafted tokens."""
    split = srv.rules.spec_split(slot.i_batch, slot.i_batch + len(slot.draft), off, n)
    if split.value is None:
        return
    index = srv.decide(split, slot)
    text = f"got exception: speculative batch index {index} is not inside the current sub-batch [{off}, {off + n})"
    srv.emit(slot_ev.Error(text))
    srv.fail(slot, 500, text, "draft-cut-off", index=index)


def _sample(srv: Core, slot: Slot, task: Task) -> None:
    """Sample the slot's next token."""
    output = srv.outputs.get(slot.i_batch)
    if output is not None:
        task.answer.outputs.append(Output(len(slot.tokens) - 1, output.digest, output.logits))
    if slot.state is State.DONE_PROMPT:
        checkpoint_after_prompt(srv, slot, task)
    slot.i_batch, slot.state = -1, State.GENERATING
    if task.request.kind in SILENT_TASKS:
        srv.release(slot)                       # the task ends with its prompt
        return
    accept_token(srv, slot, task, srv.sampler(slot.tokens, task.request, slot.n_gen))


def _verify_draft(srv: Core, slot: Slot, task: Task) -> None:
    """Verify the slot's draft and check the stop conditions for each accepted token."""
    replayed, slot.replay = slot.replay, False
    ids = verify(srv, slot, task)
    slot.i_batch = -1
    if ids is None:
        return
    count = srv.rules.spec_count(len(ids) - 1, replayed)
    accepted: int = srv.decide(count, slot) if replayed else count.value
    task.answer.draft_n_accepted += accepted
    for token in ids:
        if accept_token(srv, slot, task, token):
            return
    srv.emit(slot_ev.SpecStep(
        slot.id, slot.id_task, accepted=accepted, drafted=len(slot.draft), n_tokens=len(slot.tokens)
    ))
    slot.draft = []


def decode_drafts(srv: Core) -> None:
    """Draft for every generating slot and evaluate each draft in a batch of its own, if the build does so."""
    for slot in srv.slots if srv.settings.drafts and srv.rules.spec_batch().value else ():
        task = slot.task
        if task is None or slot.state is not State.GENERATING:
            continue
        make_drafts(srv, [slot])
        if slot.draft:
            srv.decide(srv.rules.spec_batch(), slot)
            _decode_draft(srv, slot, task)


def _decode_draft(srv: Core, slot: Slot, task: Task) -> None:
    """Evaluate and verify a slot's draft. Raise ProcessAborted if there are too few free cells: the outputs that the
    verification reads do not exist then."""
    batch, first = DecodeBatch(), len(slot.tokens)
    for pos, token in enumerate((slot.sampled, *slot.draft), first):
        batch.add(token, pos, slot.id, True)
    slot.tokens += [slot.sampled, *slot.draft]
    srv.log.spend(*cost_of(srv.context.model, len(batch), srv.settings.n_ubatch, sum(batch.pos)))
    if srv.context.decode(batch) != OK:
        text = "invalid logits id 0, reason: batch.logits[0] != true"
        raise ProcessAborted(f"get_logits_ith: {text}", "draft-unevaluated")
    slot.i_batch = 0
    srv.view = (0, len(batch))
    srv.outputs = dict(srv.context.spoken)
    decode_in_draft(srv, batch)
    srv.evaluated(rule_id(srv.rules.ckpt_create))
    _verify_draft(srv, slot, task)


def accept_token(srv: Core, slot: Slot, task: Task, token: int) -> bool:
    """Append a generated token to the answer. Return True if generation ends and the slot is released."""
    slot.sampled = token
    slot.n_gen += 1
    task.answer.tokens.append(token)
    words = task.request.stop
    ending = srv.rules.end(
        slot.n_gen, task.request.n_predict, len(slot.tokens), srv.settings.n_ctx_slot, srv.settings.context_shift,
        plain_text(task.answer.tokens) if words else "", words, token in task.request.eog,
    )
    stop, truncated = srv.decide(ending, slot)
    slot.truncated = slot.truncated or truncated
    if stop:
        task.answer.stop_type = stop
        srv.release(slot)
    return bool(stop)


# Cancelled requests: every task of the request is cancelled between two iterations; evaluated tokens stay.
#
# All cancellations are put at the front of the queue at once. A task that was deferred for the first cancelled slot is
# processed before the second cancellation.
# Source: llama.cpp tools/server/server-queue.cpp server_response_reader stop, pop_deferred_task, server-context.cpp
# SERVER_TASK_TYPE_CANCEL (3f545be).

def cancelled_slots(srv: Core) -> list[Slot]:
    """Return the slots whose requests are cancelled before the next iteration, in order of cancellation: those that
    hold at least ``cancel_at`` tokens, and with these those whose prompt must not begin: the prompts of a request are
    cancelled together. If no other request will be cancelled, the latter are cancelled at once."""
    tasks = [(slot, slot.task) for slot in srv.slots if slot.task and slot.task.request.cancel_at is not None]
    if not tasks:
        return []
    due = [(task.request.cancel_place, slot.id) for slot, task in tasks if _is_cancelled(slot, task)]
    unbegun = [(task.request.cancel_place, slot.id) for slot, task in tasks
               if task.request.cancel_at == BEFORE_ITS_PROMPT and slot.state == State.STARTED]  # fmt: skip
    if due or len(unbegun) == len(tasks):
        due += unbegun
    return [srv.slots[number] for _, number in sorted(due)]


def _is_cancelled(slot: Slot, task: Task) -> bool:
    at, held = task.request.cancel_at, len(slot.tokens)
    if at is None or at == BEFORE_ITS_PROMPT:
        return False
    is_own = slot.state not in (State.STARTED, State.WAITING)        # else the slot still holds another conversation
    is_due = is_own and at <= held
    return is_due and (slot.replay or all(draft.at != held for draft in task.request.drafts))


def cancel_requests(srv: Core) -> None:
    """Cancel the requests whose clients disconnected, with all their completions."""
    while due := cancelled_slots(srv):              # a cancellation may launch a deferred task that is cancelled, too
        for slot in due:
            task = slot.task
            for member in _completions(srv, slot, task) if task is not None else ():
                _cancel(srv, member)
    for slot in orphaned_children(srv):
        _cancel(srv, slot)
    drop_orphaned_tasks(srv)


def _completions(srv: Core, parent: Slot, task: Task) -> list[Slot]:
    """Return the slots of all completions of a request in their order of cancellation: ``cancel_order`` of the request,
    then the parent first. The real server iterates over a hash table of task ids."""
    found = [parent, *(s for s in srv.slots if s.task is not None and s.task.parent == task.id)]
    order = task.request.cancel_order
    return sorted(found, key=lambda slot: order.index(slot.id) if slot.id in order else len(order))


def _cancel(srv: Core, slot: Slot) -> None:
    srv.emit(llama_ev.Cancel())
    waiting = len(srv.queue)
    if slot.task is not None:
        slot.task.answer.cancelled = True
        srv.release(slot)
    if len(srv.queue) > waiting:                # the release moved a deferred task to the queue
        process_next(srv)
