"""From a full batch to sampled tokens: views, what happens when there is no room, who speaks, when an answer ends.

Source: ik_llama.cpp examples/server/server-context.cpp process_batch_tokens, process_token (8337e4cd3).
"""

from __future__ import annotations

from cachesim import events as ev
from cachesim.engines.base import NO_ROOM, Output
from cachesim.engines.ik_llama.memory.context import FAILED, OK
from cachesim.engines.ik_llama.prefill_chunk import at_interval, create
from cachesim.engines.ik_llama.server_state import Core, task_error
from cachesim.engines.ik_llama.slot import Slot, State, Task
from cachesim.engines.ik_llama.speculative_decoding import accept, warm_up
from cachesim.engines.rule import rule_id
from cachesim.engines.shared.batch import DecodeBatch
from cachesim.engines.shared.evaluation_cost import cost_of
from cachesim.model.spec import TRAINED_ON

MIXED = "qwen3next mixed-sequence batch contains repeated seq_id values; falling back to single-token chunking"
SMALLER = ("failed to find free space in the KV cache, retrying with smaller batch size - try increasing it via the "
           "context size or enable defragmentation i={i} n_batch={n} ret=1")
GIVEN_UP = ("failed to decode the batch: KV cache is full - try increasing it via the context size i={i} "
            "n_batch={ret} ret={ret}")
TOO_BIG = "Input prompt is too big compared to KV size. Please try increasing KV size."


def work(srv: Core, batch: DecodeBatch) -> None:
    """Evaluate the batch view by view; after each view the slots whose token lies in it speak."""
    n, off = srv.settings.n_batch, 0
    if len(batch):
        srv.emit(ev.Decoded(len(batch)))
    while off < len(batch):
        view = batch.view(off, n)
        srv.log.spend(*cost_of(srv.context.model, len(view), srv.settings.n_ubatch, sum(view.pos)))
        ret = srv.context.decode(view)
        if srv.context.mixed:
            srv.emit(ev.Warn(MIXED))
        if ret == OK:
            off += _evaluated(srv, view, off)
            continue
        n = 0 if ret == FAILED else srv.decide(srv.rules.decode_retry(n), None)
        if not n:
            _give_up(srv, off, ret)
            return
        srv.emit(ev.Warn(SMALLER.format(i=off - n, n=n)))    # the place is already that from which the loop steps on
        done = srv.decide(srv.rules.decode_again(srv.context.evaluated), None)
        if done:
            off += _evaluated(srv, view.view(0, done), off)
    for slot in srv.slots:
        if slot.task is not None and slot.drafting:
            _accepted(srv, slot, slot.task)


def _give_up(srv: Core, off: int, ret: int) -> None:
    """Every slot, idle ones included, gets an error for its last task and is released. What its tokens go on naming is
    for the rules to say."""
    srv.emit(ev.Error(GIVEN_UP.format(i=off, ret=ret)))
    for slot in srv.slots:
        if slot.task is not None and slot.state is not State.LEAVING:
            srv.fail(slot, TOO_BIG, NO_ROOM)
            del slot.tokens[srv.decide(srv.rules.give_up(len(slot.tokens)), slot) :]
        else:
            srv.emit(ev.Error(task_error(slot.last_task, TOO_BIG)))
        srv.leave(slot)


def _evaluated(srv: Core, view: DecodeBatch, off: int) -> int:
    """A view is evaluated: the companion follows the prompts, checkpoints are taken, single tokens are sampled. Returns
    its length."""
    n = len(view)
    srv.said.update({off + k: said for k, said in srv.context.spoken.items()})
    srv.evaluated(rule_id(srv.rules.ckpt_create))
    for slot in srv.slots:
        first, stop = max(slot.fed[0], off), min(slot.fed[1], off + n)
        if slot.busy and first < stop:
            warm_up(srv, slot, view, first - off, stop - off)
    for slot in srv.slots:
        task = slot.task
        if task is None or slot.state is State.LEAVING:
            continue
        if slot.state is State.LOADING:
            if slot.due:
                create(srv, slot, prompt_end=True)
            else:
                at_interval(srv, slot)
        elif off <= slot.at < off + n and not slot.drafting:
            _sampled(srv, slot, task)
    return n


def _sampled(srv: Core, slot: Slot, task: Task) -> None:
    """One token is sampled."""
    _spoken(srv, slot, task, 1)
    slot.at = -1
    token = srv.sampler(slot.tokens, task.request, slot.n_decoded)
    slot.n_decoded += 1
    if slot.n_decoded > 1:
        at_interval(srv, slot)
    elif srv.rules.ckpt_first(srv.settings.flags.ctx_checkpoints_tolerance).value:
        create(srv, slot, prompt_end=True)
    _take(srv, slot, task, [token])


def _spoken(srv: Core, slot: Slot, task: Task, n: int) -> None:
    """What the model said after the last n tokens that stand."""
    for k in range(n):
        said = srv.said.get(slot.at + k)
        if said is not None:
            task.answer.outputs.append(Output(len(slot.tokens) - n + k, said.digest, said.logits))


def _accepted(srv: Core, slot: Slot, task: Task) -> None:
    """The draft is verified. Its tokens count before the first of them is looked at."""
    ids = accept(srv, slot, task)
    slot.n_decoded += len(ids)
    _spoken(srv, slot, task, len(ids))
    step = ev.SpecStep(slot.id, slot.id_task, len(ids) - 1, len(slot.draft), len(slot.tokens))
    slot.at, slot.drafting, slot.draft = -1, False, []
    _take(srv, slot, task, ids)
    srv.emit(step)


def _take(srv: Core, slot: Slot, task: Task, ids: list[int]) -> None:
    """Tokens go to the client one by one, until one ends the answer; those behind it are in the slot all the same."""
    slot.sampled = ids[-1]
    for token in ids:
        task.answer.tokens.append(token)
        stop = srv.decide(srv.rules.end(slot.n_decoded, _most(task)), slot)
        if stop:
            task.answer.stop_type = stop
            finish(srv, slot, task)
            return


def _most(task: Task) -> int:
    """Tokens of the answer, at most: without a number, prompt and answer are as long as what the model was trained on.

    Source: ik_llama.cpp examples/server/server-context.cpp process_token "n_ctx_train" (8337e4cd3)."""
    asked = task.request.n_predict
    return asked if asked >= 0 else max(1, TRAINED_ON - len(task.request.prompt))


def finish(srv: Core, slot: Slot, task: Task) -> None:
    """The final response is sent, a last checkpoint taken; the slot leaves."""
    slot.tokens += [slot.sampled] * srv.rules.undecoded
    task.answer.tokens_cached = len(slot.tokens)
    create(srv, slot)
    srv.leave(slot)
