"""Main loop of the server: tasks get slots, and each iteration fills and decodes a shared batch.

Source: ik_llama.cpp examples/server/server-context.cpp update_slots (8337e4cd3).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cachesim import events as ev
from cachesim.base.errors import BadInput, NotInBuild, ProcessAborted
from cachesim.engines.base import Answer, Request
from cachesim.engines.ik_llama.context_shift import shift_full_slots
from cachesim.engines.ik_llama.decode import decode_batch
from cachesim.engines.ik_llama.flags import Options
from cachesim.engines.ik_llama.memory.model_layout import ModelKind
from cachesim.engines.ik_llama.prefill_chunk import add_prompt
from cachesim.engines.ik_llama.prefix_reuse import begin_prompt
from cachesim.engines.ik_llama.profiles import Rules
from cachesim.engines.ik_llama.server_state import Core
from cachesim.engines.ik_llama.slot import Slot, State, Task
from cachesim.engines.ik_llama.slot_assignment import assign_slot
from cachesim.engines.ik_llama.slot_save_restore import slot_action
from cachesim.engines.ik_llama.snapshot import Inspection, Sequences, Sizes, SlotPoints
from cachesim.engines.ik_llama.speculative_decoding import make_draft
from cachesim.engines.shared.batch import DecodeBatch
from cachesim.engines.shared.conversation_points import ALL_TOKENS
from cachesim.engines.shared.images import check_images
from cachesim.engines.shared.server_loop import CoreServer, SlotTasks
from cachesim.engines.shared.vocab import Sampler, forced_or_hashed
from cachesim.model import Model


class QueuedTasks(SlotTasks):
    """Tasks that wait for a round."""

    def __init__(self, core: Core) -> None:
        super().__init__(core.queue, core.slots, core.deferred)
        self.core = core

    @property
    def arrival_is_unlogged(self) -> bool:
        """True with similarity 0: the server logs nothing when a request arrives and every slot is busy."""
        return self.core.settings.flags.slot_prompt_similarity == 0


class Server(CoreServer):
    """The main loop and the client requests."""

    def __init__(self, rules: Rules, kind: ModelKind, opts: Options, model: Model | None, log: ev.Log,
                 sampler: Sampler = forced_or_hashed) -> None:
        self.core: Core = Core(rules, kind, opts, model, log, sampler, points_of=SlotPoints)
        self.log = log
        self.model = model
        self.constants = (rules, self.core.kind)
        self.tasks = QueuedTasks(self.core)
        self.inspection = Inspection(self.core)
        self.sizes = Sizes(self.core)
        self.sequences = Sequences(self.core)

    @property
    def stuck(self) -> bool:
        """True if busy slots only repeat an image that does not fit."""
        return self.core.spun > 1 and not self.core.queue

    def submit(self, request: Request) -> Answer:
        """Queue a request and return its answer, which the server fills as it works. Raise BadInput for a request that
        is not simulated."""
        check_images(self.core.rules, self.core.settings.projector, request, "#1758")
        if min(request.prompt, default=0) < 0 and not self.core.rules.most_images:
            raise NotInBuild(f"tokens that no model has are not known of {self.core.rules.name}", hint="from #1758 on")
        if request.kind != "completion" or request.n_cmpl != 1:
            lacking = f"task '{request.kind}'" if request.kind != "completion" else f"n_cmpl {request.n_cmpl}"
            raise BadInput(f"{lacking} is not modelled for this engine", hint="use single completions")
        answer = Answer(self.log.mark(), died=self.dead)
        if not self.dead:
            self.core.queue.append(task_of(self.core, request, answer))
        return answer

    def set_adapters(self, scales: str) -> dict[str, Any]:
        """Refuse to change adapters. The real server changes them for all slots, and clears no cache. Raise
        BadInput."""
        raise BadInput("adapters of ik_llama.cpp's server are not simulated; its requests have none",
                       hint="a server per adapter: POST /lora-adapters keeps every cached row")

    def slot(self, action: str, id_slot: int, file: Path | None = None, percent: int = 100) -> dict[str, Any]:
        """Save, restore or erase a slot. Raise BadInput; the slot is unchanged then."""
        if percent < 100:
            raise BadInput("truncated slot files are simulated for llama.cpp only")
        self.log.mark()
        self.core.take_id()                         # an action is a task with its own id
        return slot_action(self.core, action, id_slot, file)

    def take_tasks(self) -> None:
        """Run the first half of a round: every pending task looks for a slot."""
        while self.core.queue:
            task = self.core.queue.popleft()
            try:
                assign_slot(self.core, task)
            except ProcessAborted as abort:
                die(self.core, abort, task)

    def update(self) -> None:
        """Run the second half of a round: release leaving slots, then evaluate a batch for all busy slots."""
        try:
            update_slots(self.core)
        except ProcessAborted as abort:
            die(self.core, abort)


def task_of(srv: Core, request: Request, answer: Answer) -> Task:
    """Return the task of a request. Its first ``system_tokens`` tokens are a system prompt. Raise BadInput where a
    system prompt is not simulated."""
    n = int(request.extra.get("system_tokens", -1))
    if n >= 0 and (srv.kind.states or srv.settings.n_slots > 1 or srv.settings.context_shift):
        raise BadInput("a system prompt of the server is simulated only with one slot, without context shift and "
                       "without recurrent layers", hint="parallel = 1, context_shift = false")
    if n >= 0 and srv.settings.projector:
        raise BadInput("a system prompt of the server is simulated only without a projector", hint="mmproj")
    system = list(request.prompt[:n]) if n >= 0 else None
    return Task(srv.take_id(), request, answer, list(request.prompt[max(0, n) :]), system=system)


def die(srv: Core, end: ProcessAborted, *more: Task) -> None:
    """End the process and all of its tasks."""
    srv.emit(ev.Aborted(str(end)))
    srv.dead = True
    for task in (*more, *srv.queue, *srv.deferred, *(slot.task for slot in srv.slots if slot.task)):
        task.answer.dies(end)
        task.answer.done = True
    srv.queue.clear()
    srv.deferred.clear()
    for slot in srv.slots:
        slot.state, slot.task = State.IDLE, None


def update_slots(srv: Core) -> None:
    _disconnect(srv)
    for slot in srv.slots:
        if slot.state is State.LEAVING:
            _release(srv, slot)
    if not any(slot.busy for slot in srv.slots):
        return
    srv.take_id()
    srv.image_failed = False
    shift_full_slots(srv)
    batch, srv.outputs = DecodeBatch(), {}
    for slot in srv.slots:
        slot.fed = (0, 0)
        if slot.state is State.GENERATING and slot.task is not None:
            make_draft(srv, slot, slot.task)
            slot.uncounted, slot.at = 0, len(batch)
            for token in (slot.sampled, *slot.draft):
                batch.add(token, len(slot.tokens), slot.id, True)
                slot.tokens.append(token)
    for slot in srv.slots:
        if slot.state is State.LOADING and slot.task is not None and len(batch) < srv.settings.n_batch:
            if not slot.task.has_begun:
                slot.task.has_begun = True
                if not begin_prompt(srv, slot, slot.task):
                    continue
            add_prompt(srv, slot, slot.task, batch)
    decode_batch(srv, batch)
    srv.spun = srv.spun + 1 if srv.image_failed and not len(batch) else 0


def _disconnect(srv: Core) -> None:
    """End the requests of disconnected clients between two iterations; their evaluated tokens stay in the slot."""
    for slot in srv.slots:
        task = slot.task
        if task is None or task.request.cancel_at is None or slot.state is not State.GENERATING or not task.streams:
            continue
        full = srv.rules.full(len(slot.tokens), srv.settings.n_ctx_slot, srv.settings.context_shift)
        if len(slot.tokens) >= task.request.cancel_at and not full.value:    # a full slot ends anyway
            task.answer.cancelled = True
            srv.leave(slot)
            srv.take_id()                 # the disconnect is a task with its own id


def _release(srv: Core, slot: Slot) -> None:
    """End the slot's task, if any; tokens and checkpoints stay. All deferred tasks are queued again."""
    srv.points.changed(slot, "evaluated", kept=ALL_TOKENS, grown=True)
    srv.emit(ev.Release(slot.id, slot.last_task, len(slot.tokens), int(slot.truncated)))
    if slot.task is not None:
        answer = slot.task.answer
        answer.id_slot = slot.id
        answer.predicted_n = slot.n_decoded
        answer.truncated = slot.truncated
        evaluated = len(slot.tokens) - (srv.rules.undecoded if answer.stop_type == "limit" else 0)
        answer.tokens_cached = len(slot.tokens) if slot.task.prompt else 0
        answer.slot_tokens = (*srv.system, *slot.tokens[:evaluated])
        answer.done = True
    slot.state = State.IDLE
    slot.task = None
    slot.t_last = srv.next_tick()
    srv.queue.extend(srv.deferred)
    srv.deferred.clear()
