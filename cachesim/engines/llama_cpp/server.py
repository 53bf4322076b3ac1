"""llama-server's main loop: accept tasks, select slots, fill a shared batch per iteration and decode it.

Source: llama.cpp tools/server/server-context.cpp, server-queue.cpp (3f545be).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from cachesim import events as ev
from cachesim.base.errors import BadInput, ProcessAborted
from cachesim.base.keyed_tokens import identity
from cachesim.engines.base import NO_ROOM, Answer, Request
from cachesim.engines.llama_cpp import events as llama_ev
from cachesim.engines.llama_cpp.adapters import (
    asked_scales,
    joins,
    keyed,
    leaves,
    put_scale_back,
    refuse_ids,
    set_adapters,
)
from cachesim.engines.llama_cpp.decode import cancel_requests, cancelled_slots, decode, decode_drafts
from cachesim.engines.llama_cpp.flags import Options
from cachesim.engines.llama_cpp.given_answer import generate_given
from cachesim.engines.llama_cpp.memory.model_layout import ModelKind
from cachesim.engines.llama_cpp.memory.ubatch import DecodeBatch
from cachesim.engines.llama_cpp.prefill_chunk import add_prompt
from cachesim.engines.llama_cpp.prefix_reuse import begin_prompt
from cachesim.engines.llama_cpp.profiles import Rules
from cachesim.engines.llama_cpp.rules.adapters import read_scales
from cachesim.engines.llama_cpp.rules.context_shift import Shift
from cachesim.engines.llama_cpp.rules.slot_selection import COPIED, EACH, IGNORED, LAST, SELECTED
from cachesim.engines.llama_cpp.server_state import Core
from cachesim.engines.llama_cpp.slot import Slot, State, Task
from cachesim.engines.llama_cpp.slot_assignment import (
    orphaned_children,
    process_next,
    tasks_of_completions,
    waits_for_completions,
)
from cachesim.engines.llama_cpp.slot_save_restore import slot_action
from cachesim.engines.llama_cpp.snapshot import Inspection, Sequences, Sizes, SlotPoints
from cachesim.engines.llama_cpp.speculative_decoding import DrafterFailed, make_drafts
from cachesim.engines.shared import slot_events as slot_ev
from cachesim.engines.shared.images import check_images
from cachesim.engines.shared.server_loop import CoreServer, SlotTasks
from cachesim.engines.shared.vocab import Sampler, forced_or_hashed
from cachesim.model import Model


class QueuedTasks(SlotTasks):
    """Tasks that wait for a round, and the disconnect with which it begins."""

    def __init__(self, core: Core) -> None:
        super().__init__(core.queue, core.slots, core.deferred)
        self.core = core

    @property
    def arrival_is_unlogged(self) -> bool:
        """True if the log does not mention a request that arrives while all slots are busy (similarity 0)."""
        return self.core.settings.sps == 0

    @property
    def disconnect_is_next(self) -> bool:
        """True if the next ``take_tasks`` begins with a cancellation."""
        return bool(cancelled_slots(self.core) or orphaned_children(self.core))

    def take_queue(self) -> None:
        """Assign a slot to every queued task. Called before ``take_tasks``, it treats the tasks as if they had arrived
        before the cancellations of this iteration."""
        core = self.core
        try:
            while core.queue:
                core.flush_deferred()
                process_next(core)
        except ProcessAborted as abort:
            die(core, abort)


class Server(CoreServer):
    """Server with its main loop and client operations."""

    def __init__(self, rules: Rules, kind: ModelKind, opts: Options, model: Model | None, log: ev.Log,
                 sampler: Sampler = forced_or_hashed) -> None:
        kind = replace(kind, types=(opts.cache_type_k, opts.cache_type_v))
        self.core: Core = Core(rules, kind, opts, model, log, sampler, points_of=SlotPoints)
        self.log = log
        self.model = self.core.model
        self.constants = (rules, kind, self.core.settings)
        self.tasks = QueuedTasks(self.core)
        self.inspection = Inspection(self.core)
        self.sizes = Sizes(self.core)
        self.sequences = Sequences(self.core)

    @property
    def stuck(self) -> bool:
        """True if busy slots can make no progress until another request arrives (D2: a conversation longer than the
        running prompt was loaded over it)."""
        return self.core.empty_rounds > 1 and not self.core.queue

    def submit(self, request: Request) -> Answer:
        """Queue a request. The returned answer is filled in while the server works."""
        answer = Answer(self.log.mark(), died=self.dead)
        check_images(self.core.rules, self.core.settings.projector, request, "b10587")
        if not self.core.settings.flags.cache_prompt:
            request = replace(request, cache_prompt=False)
        if request.byte_pos is not None and request.user_starts:
            self.core.emit(llama_ev.UserPos(request.byte_pos, 0, request.user_starts[-1]))
        if request.kind == "decision":
            request = split_decision(self.core, request, answer)
        if answer.done:
            return answer
        discard = self.core.rules.discard_fit(request.n_discard)
        if request.n_discard < 0:
            self.core.decide(discard, None)
        if discard.value:
            answer.fails(400, discard.value, "discard-out-of-range", n=request.n_discard)
            answer.done = True
        elif not 1 <= request.n_cmpl <= self.core.settings.n_slots:
            text = f"Value must be between 1 <= value <= {self.core.settings.n_slots}, but got {request.n_cmpl}"
            answer.fails(400, text, "completions-out-of-range", n=request.n_cmpl, most=self.core.settings.n_slots)
            answer.done = True
        elif refused := refuse_ids(self.core, asked_scales(request)):
            answer.fails(400, refused, "no-such-adapter")
            answer.done = True
        elif not request.prompt and request.kind == "completion":      # the server creates no task for an empty list
            answer.fails(400, '"prompt" must not be empty', "empty-prompt")
            answer.done = True
        elif not self.dead:
            queue_task(self.core, request, answer)
        return answer

    def slot(self, action: str, id_slot: int, file: Path | None = None, percent: int = 100) -> dict[str, Any]:
        """Save, restore or erase a slot. If it raises BadInput, the slot is unchanged."""
        self.log.mark()
        try:
            return slot_action(self.core, action, id_slot, file, percent)
        except ProcessAborted as abort:
            die(self.core, abort)
            return {"status": 0, "error": str(abort)}

    def set_adapters(self, scales: str) -> dict[str, Any]:
        """Change the scales of the server's adapters."""
        self.log.mark()
        return set_adapters(self.core, read_scales(scales))

    def take_tasks(self) -> None:
        """Run the first half of an iteration: cancellations, then all queued tasks, then cancellations of these."""
        self._cancel_requests()
        self.tasks.take_queue()
        self._cancel_requests()

    def _cancel_requests(self) -> None:
        try:
            cancel_requests(self.core)
        except ProcessAborted as abort:
            die(self.core, abort)

    def generate_given(self) -> int:
        """Do at once the next rounds that only take a forced token of the only busy slot. Return their number."""
        return generate_given(self.core)

    def update(self) -> None:
        """Run the second half of an iteration: decode a batch for all busy slots."""
        try:
            update_slots(self.core)
        except ProcessAborted as abort:
            die(self.core, abort)


def queue_task(srv: Core, request: Request, answer: Answer) -> None:
    """Queue a task, with the tasks of its further completions if these are tasks of their own (rule LC-CHILDREN)."""
    how = srv.decide(srv.rules.children(request.n_cmpl), None) if request.n_cmpl > 1 else COPIED
    task = Task(srv.next_tick(), replace(request, n_cmpl=1) if how == IGNORED else request, answer, how=how)
    if how in (SELECTED, EACH, LAST):
        srv.queue.extend(tasks_of_completions(srv, task))
    else:
        srv.queue.append(task)


def split_decision(srv: Core, request: Request, answer: Answer) -> Request:
    """Turn a request with several prompts into a task with children if they share a prefix, else into a task
    each. Raise BadInput if there are more prompts than slots; the real server groups them."""
    prompts = (request.prompt, *request.others)
    if len(prompts) > srv.settings.n_slots:
        most = srv.settings.n_slots
        raise BadInput(f"a decision with more prompts than slots is not simulated: {len(prompts)} (at most {most})")
    shared: int | None = srv.decide(srv.rules.shared(prompts), None)
    if shared is None:
        answer.fails(404, "File Not Found", "no-such-endpoint")
        answer.done = True
    elif shared and request.others:
        return replace(request, shared=shared, n_cmpl=len(prompts))
    for prompt in request.others if shared == 0 else ():
        answer.children.append(Answer(answer.request))
        srv.queue.append(Task(srv.next_tick(), replace(request, prompt=prompt, others=()), answer.children[-1]))
    return replace(request, others=())


def update_slots(srv: Core) -> None:
    if not any(slot.busy for slot in srv.slots):
        return
    srv.next_tick()
    ended = srv.ended
    shift_full_slots(srv)
    batch, srv.outputs = DecodeBatch(), {}
    srv.leader = srv.put_back = None
    for slot in srv.slots:
        slot.prompt_span = (0, 0)
    if srv.settings.drafts and not srv.rules.spec_batch().value:
        make_drafts(srv, srv.slots)
    for slot in srv.slots:
        if slot.state is State.GENERATING and joins(srv, slot):
            slot.i_batch = len(batch)
            n_batch = len(batch) + 1 + len(slot.draft)
            room = srv.rules.spec_room(n_batch, max(srv.settings.n_batch, srv.settings.n_slots))
            if room.value:              # the sampled and drafted tokens do not fit into the batch
                raise ProcessAborted(srv.decide(room, slot), "batch-without-room-for-drafts", n_batch=n_batch)
            for token in keyed(srv, (slot.sampled, *slot.draft)):
                batch.add(identity(token), len(slot.tokens), slot.id, True)
                slot.tokens.append(token)
    for slot in srv.slots:
        if len(batch) >= srv.settings.n_batch:
            break
        _work_on_prompt(srv, slot, batch)
    if srv.leader is not None:
        srv.in_force = srv.leader.adapters
    put_scale_back(srv)
    srv.empty_rounds = 0 if len(batch) or srv.ended > ended else srv.empty_rounds + 1
    if not len(batch) and srv.rules.empty_batch_line:
        srv.emit(slot_ev.Warn(srv.rules.empty_batch_line))
    try:
        decode(srv, batch)
        decode_drafts(srv)
    except DrafterFailed as failure:         # every busy slot fails with this error; memory and tokens stay
        text = f"decode() failed: {failure}"
        srv.emit(slot_ev.Error(str(failure)))
        srv.emit(slot_ev.Error(text))
        srv.fail_all(text, "drafter-failed", clear=False)


def _work_on_prompt(srv: Core, slot: Slot, batch: DecodeBatch) -> None:
    leader = srv.leader
    _evaluate_prompt(srv, slot, batch)
    if leader is None and srv.leader is slot and slot.task is None:
        leaves(srv, slot)


def _evaluate_prompt(srv: Core, slot: Slot, batch: DecodeBatch) -> None:
    task = slot.task
    if task is None or slot.state not in (State.STARTED, State.PROMPT) or not joins(srv, slot):
        return
    if waits_for_completions(slot, task):
        return
    if slot.state is not State.PROMPT:
        begun = begin_prompt(srv, slot, task)
        if not begun:
            return
    whole = srv.rules.task_whole(
        task.request.kind, len(task.request.prompt), srv.settings.n_ubatch, srv.settings.flags.pooling
    ).value
    if not whole or len(batch) + len(task.request.prompt) <= srv.settings.n_batch:
        add_prompt(srv, slot, task, batch)


def die(srv: Core, end: ProcessAborted) -> None:
    srv.flush_deferred()
    srv.emit(ev.Aborted(str(end)))
    srv.dead = True
    for task in (*srv.queue, *srv.deferred, *(slot.task for slot in srv.slots if slot.task)):
        task.answer.dies(end)
        task.answer.done = True
    srv.queue.clear()
    srv.deferred.clear()
    for slot in srv.slots:
        slot.state, slot.task = State.IDLE, None


# Context shift of a full slot.
#
# Source: llama.cpp tools/server/server-context.cpp update_slots (3f545be).

def shift_full_slots(srv: Core) -> None:
    """SHIFT: discard part of the tokens of every generating slot that has no room for its next token."""
    for slot in srv.slots:
        task = slot.task
        due = task is not None and srv.rules.shift_when(slot.state is State.GENERATING)
        if task is None or not due or not due.value:
            continue
        if not srv.settings.context_shift:
            fail_full_slot(srv, slot)
            continue
        request = task.request
        room = srv.settings.n_ctx_slot
        kept = task.request.n_keep or 0
        decision = srv.rules.context_shift(len(slot.tokens), len(request.prompt), kept, request.n_discard, room)
        plan: Shift | None = srv.decide(decision, slot)
        if plan is None:
            continue
        if slot.state is State.STARTED:
            srv.decide(due, slot)
        refusal = srv.rules.shift_of_shared(task.parent >= 0 or request.n_cmpl > 1)
        if refusal.value:
            srv.fail(slot, 500, srv.decide(refusal, slot), NO_ROOM)
        else:
            _shift(srv, slot, plan, decision.rule)


def fail_full_slot(srv: Core, slot: Slot) -> None:
    """Fail a slot whose context is full while contexts are not shifted. Rule LC-END of most builds ends the generation
    before this can happen."""
    if len(slot.tokens) + 1 >= srv.settings.n_ctx_slot and not srv.settings.context_shift:
        srv.fail(slot, 500, "context shift is disabled", NO_ROOM)


def _shift(srv: Core, slot: Slot, plan: Shift, rule: str) -> None:
    srv.emit(slot_ev.CtxShift(slot.id, slot.id_task, plan.n_keep, plan.n_left, plan.n_discard))
    cut = plan.n_keep + plan.n_discard
    if not 0 <= plan.n_discard < plan.n_left:     # the list of tokens is written outside its bounds
        raise ProcessAborted(f"n_discard = {plan.n_discard} writes outside the list of tokens", "list-overrun",
                             n_discard=plan.n_discard, n_left=plan.n_left)  # fmt: skip
    srv.common_memory.must_rm(slot.id, plan.n_keep, cut)
    srv.common_memory.seq_add(slot.id, cut, len(slot.tokens), -plan.n_discard)
    del slot.tokens[plan.n_keep : cut]
    slot.active = min(slot.active, plan.n_keep)
    clear = srv.rules.clear(len(slot.checkpoints))
    if srv.decide(clear, slot):
        slot.checkpoints.clear()
    slot.truncated = True
    assert slot.task is not None
    slot.task.answer.shifts.append((len(slot.tokens) + plan.n_discard, plan.n_keep, plan.n_discard))
    srv.changed(slot, "truncated", rule, plan.n_keep)
