"""Evaluation of a batch: views, retries without free cells, sampling, and the end of an answer.

Source: ik_llama.cpp examples/server/server-context.cpp process_batch_tokens, process_token (8337e4cd3).
"""

from __future__ import annotations

from cachesim import events as ev
from cachesim.base.errors import ProcessAborted
from cachesim.engines.base import NO_ROOM, Output
from cachesim.engines.ik_llama.media import check_cut
from cachesim.engines.ik_llama.memory.context import ABORTED, FAILED, OK
from cachesim.engines.ik_llama.prefill_chunk import at_interval, create
from cachesim.engines.ik_llama.server_state import Core, task_error
from cachesim.engines.ik_llama.slot import Slot, State, Task
from cachesim.engines.ik_llama.speculative_decoding import accept, warm_up
from cachesim.engines.rule import rule_id
from cachesim.engines.shared import slot_events as slot_ev
from cachesim.engines.shared.batch import DecodeBatch
from cachesim.engines.shared.evaluation_cost import cost_of
from cachesim.model.spec import TRAINED_ON

MIXED = "qwen3next mixed-sequence batch contains repeated seq_id values; falling back to single-token chunking"
SMALLER = ("failed to find free space in the KV cache, retrying with smaller batch size - try increasing it via the "
           "context size or enable defragmentation i={i} n_batch={n} ret=1")
GIVEN_UP = ("failed to decode the batch: KV cache is full - try increasing it via the context size i={i} "
            "n_batch={ret} ret={ret}")
UNPARSED = "terminate called after throwing an instance of 'std::runtime_error': Failed to parse input at pos 0"
TOO_BIG = "Input prompt is too big compared to KV size. Please try increasing KV size."


def decode_batch(srv: Core, batch: DecodeBatch) -> None:
    """Evaluate the batch view by view; after each view, sample for the slots whose output token it contains."""
    n, off = srv.settings.n_batch, 0
    if len(batch):
        srv.emit(ev.Decoded(len(batch)))
    while off < len(batch):
        view = batch.view(off, n)
        srv.log.spend(*cost_of(srv.context.model, len(view), srv.settings.n_ubatch, sum(view.pos)))
        ret = srv.context.decode(view, srv.is_stopped)
        if srv.context.mixed:
            srv.emit(slot_ev.Warn(MIXED))
        if ret == OK:
            off += _evaluated(srv, view, off)
            continue
        if ret == ABORTED:
            _abort(srv)
            return
        n = 0 if ret == FAILED else srv.decide(srv.rules.decode_retry(n), None)
        if not n:
            _give_up(srv, off, ret)
            return
        srv.emit(slot_ev.Warn(SMALLER.format(i=off - n, n=n)))    # the loop continues from the logged index
        done = srv.decide(srv.rules.decode_again(srv.context.evaluated), None)
        if done:
            off += _evaluated(srv, view.view(0, done), off)
    for slot in srv.slots:
        if slot.task is not None and slot.is_drafting:
            _accepted(srv, slot, slot.task)


def _abort(srv: Core) -> None:
    """End the tasks of all slots without an answer after a client stopped the evaluation. The rules decide which tokens
    stay listed."""
    for slot in srv.slots:
        if slot.task is not None:
            slot.task.answer.cancelled = True
        held = srv.decide(srv.rules.abort(len(slot.tokens), srv.memory.pos_max(slot.id) - len(srv.system)), slot)
        check_cut(srv, slot, slot.tokens, held)
        del slot.tokens[held:]
        srv.leave(slot)


def _give_up(srv: Core, off: int, ret: int) -> None:
    """Fail the last task of every slot, idle slots included, and release the slots. The rules decide which tokens stay
    listed."""
    srv.emit(slot_ev.Error(GIVEN_UP.format(i=off, ret=ret)))
    for slot in srv.slots:
        if slot.task is not None and slot.state is not State.LEAVING:
            srv.fail(slot, TOO_BIG, NO_ROOM)
            del slot.tokens[srv.decide(srv.rules.give_up(len(slot.tokens)), slot) :]
        else:
            srv.emit(slot_ev.Error(task_error(slot.last_task, TOO_BIG)))
        srv.leave(slot)


def _evaluated(srv: Core, view: DecodeBatch, off: int) -> int:
    """Process an evaluated view: the draft context follows the prompts, checkpoints are created, single tokens are
    sampled. Return the length of the view."""
    n = len(view)
    srv.outputs.update({off + k: output for k, output in srv.context.outputs.items()})
    srv.evaluated(rule_id(srv.rules.ckpt_create))
    for slot in srv.slots:
        first, stop = max(slot.fed[0], off), min(slot.fed[1], off + n)
        if slot.busy and first < stop:
            warm_up(srv, slot, view, first=first - off, stop=stop - off)
    for slot in srv.slots:
        task = slot.task
        if task is None or slot.state is State.LEAVING:
            continue
        if slot.state is State.LOADING:
            if slot.due:
                create(srv, slot, prompt_end=True)
            else:
                at_interval(srv, slot)
        elif off <= slot.at < off + n and not slot.is_drafting:
            _sampled(srv, slot, task)
    return n


def _sampled(srv: Core, slot: Slot, task: Task) -> None:
    """Sample a token."""
    _add_outputs(srv, slot, task, 1)
    slot.at = -1
    token = srv.sampler(slot.tokens, task.request, slot.n_decoded)
    slot.n_decoded += 1
    if slot.n_decoded > 1:
        at_interval(srv, slot)
    elif srv.rules.ckpt_first(srv.settings.flags.ctx_checkpoints_tolerance).value:
        create(srv, slot, prompt_end=True)
    _take(srv, slot, task, [token])


def _add_outputs(srv: Core, slot: Slot, task: Task, n: int) -> None:
    """Add the model outputs after the last ``n`` valid tokens to the answer."""
    for k in range(n):
        output = srv.outputs.get(slot.at + k)
        if output is not None:
            pos = len(srv.system) + len(slot.tokens) - n + k
            task.answer.outputs.append(Output(pos, output.digest, output.logits))


def _accepted(srv: Core, slot: Slot, task: Task) -> None:
    """Verify the draft. All of its tokens are counted before the first is examined."""
    ids = accept(srv, slot, task)
    slot.n_decoded += len(ids)
    _add_outputs(srv, slot, task, len(ids))
    step = slot_ev.SpecStep(
        slot.id, slot.id_task, accepted=len(ids) - 1, drafted=len(slot.draft), n_tokens=len(slot.tokens)
    )
    slot.at = -1
    slot.is_drafting = False
    slot.draft = []
    _take(srv, slot, task, ids)
    srv.emit(step)


def _take(srv: Core, slot: Slot, task: Task, ids: list[int]) -> None:
    """Send single tokens to the client up to the token that ends the answer; later tokens stay in the slot."""
    slot.sampled = ids[-1]
    for token in ids:
        task.answer.tokens.append(token)
        stop = srv.decide(srv.rules.end(slot.n_decoded, _most(task, srv.settings.flags.n_ctx_train)), slot)
        if stop:
            task.answer.stop_type = stop
            finish(srv, slot, task)
            return


def _most(task: Task, trained_on: int) -> int:
    """Return the largest number of tokens of the answer: n_predict, or without it the context that the model was
    trained on minus the prompt.

    Source: ik_llama.cpp examples/server/server-context.cpp process_token "n_ctx_train" (8337e4cd3).
    """
    n_predict = task.request.n_predict
    return n_predict if n_predict >= 0 else max(1, (trained_on or TRAINED_ON) - len(task.request.prompt))


def finish(srv: Core, slot: Slot, task: Task) -> None:
    """Send the final response, create a last checkpoint, and let the slot leave. Raise ProcessAborted if plain text
    is parsed with the parser of a chat."""
    slot.tokens += [slot.sampled] * srv.rules.undecoded
    if slot.parser and not task.parses:
        raise ProcessAborted(UNPARSED, "chat-parser")
    create(srv, slot)
    srv.leave(slot)
