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
from cachesim.engines.ik_llama.prefill_chunk import add_prompt
from cachesim.engines.ik_llama.prefix_reuse import begin_prompt
from cachesim.engines.ik_llama.slot import Slot, State, Task
from cachesim.engines.ik_llama.slot_assignment import assign_slot
from cachesim.engines.ik_llama.slot_save_restore import slot_action
from cachesim.engines.ik_llama.snapshot import Inspected
from cachesim.engines.ik_llama.speculative_decoding import make_draft
from cachesim.engines.shared.batch import DecodeBatch
from cachesim.engines.shared.images import check_images
from cachesim.engines.shared.restore_point_tracker import ALL_TOKENS


class Server(Inspected):
    """The main loop and the client requests."""

    def submit(self, request: Request) -> Answer:
        """Queue a request and return its answer, which the server fills as it works. Raises BadInput for a request that
        is not simulated."""
        check_images(self.rules, self.settings.projector, request, "#1758")
        if min(request.prompt, default=0) < 0 and not self.rules.most_images:
            raise NotInBuild(f"tokens that no model has are not known of {self.rules.name}", hint="from #1758 on")
        if request.kind != "completion" or request.n_cmpl != 1:
            lacking = f"task '{request.kind}'" if request.kind != "completion" else f"n_cmpl {request.n_cmpl}"
            raise BadInput(f"{lacking} is not modelled for this engine", hint="use single completions")
        answer = Answer(self.log.mark(), died=self.dead)
        if not self.dead:
            self.queue.append(self._task(request, answer))
        return answer

    def _task(self, request: Request, answer: Answer) -> Task:
        """Return the task of a request. Its first ``system_tokens`` tokens are a system prompt. Raises BadInput where a
        system prompt is not simulated."""
        n = int(request.extra.get("system_tokens", -1))
        if n >= 0 and (self.kind.states or self.settings.n_slots > 1 or self.settings.context_shift):
            raise BadInput("a system prompt of the server is simulated only with one slot, without context shift and "
                           "without recurrent layers", hint="parallel = 1, context_shift = false")
        if n >= 0 and self.settings.projector:
            raise BadInput("a system prompt of the server is simulated only without a projector", hint="mmproj")
        system = list(request.prompt[:n]) if n >= 0 else None
        return Task(self.take_id(), request, answer, list(request.prompt[max(0, n) :]), system=system)

    def set_adapters(self, scales: str) -> dict[str, Any]:
        """Refuse to change adapters. The real server changes them for all slots, and clears no cache. Raises
        BadInput."""
        raise BadInput("adapters of ik_llama.cpp's server are not simulated; its requests have none",
                       hint="a server per adapter: POST /lora-adapters keeps every cached row")

    def slot(self, action: str, id_slot: int, file: Path | None = None, percent: int = 100) -> dict[str, Any]:
        """Save, restore or erase a slot. Raises BadInput; the slot is unchanged then."""
        if percent < 100:
            raise BadInput("truncated slot files are simulated for llama.cpp only")
        self.log.mark()
        self.take_id()                         # an action is a task with its own id
        return slot_action(self, action, id_slot, file)

    def take_tasks(self) -> None:
        """Run the first half of a round: every pending task looks for a slot."""
        while self.queue:
            task = self.queue.popleft()
            try:
                assign_slot(self, task)
            except ProcessAborted as abort:
                self._die(abort, task)

    def update(self) -> None:
        """Run the second half of a round: release leaving slots, then evaluate a batch for all busy slots."""
        try:
            self._update_slots()
        except ProcessAborted as abort:
            self._die(abort)

    def _die(self, end: ProcessAborted, *more: Task) -> None:
        """End the process and all of its tasks."""
        self.emit(ev.Aborted(str(end)))
        self.dead = True
        for task in (*more, *self.queue, *self.deferred, *(slot.task for slot in self.slots if slot.task)):
            task.answer.dies(end)
            task.answer.done = True
        self.queue.clear()
        self.deferred.clear()
        for slot in self.slots:
            slot.state, slot.task = State.IDLE, None

    def _update_slots(self) -> None:
        self._disconnect()
        for slot in self.slots:
            if slot.state is State.LEAVING:
                self._release(slot)
        if not any(slot.busy for slot in self.slots):
            return
        self.take_id()
        self.image_failed = False
        shift_full_slots(self)
        batch, self.outputs = DecodeBatch(), {}
        for slot in self.slots:
            slot.fed = (0, 0)
            if slot.state is State.GENERATING and slot.task is not None:
                make_draft(self, slot, slot.task)
                slot.uncounted, slot.at = 0, len(batch)
                for token in (slot.sampled, *slot.draft):
                    batch.add(token, len(slot.tokens), slot.id, True)
                    slot.tokens.append(token)
        for slot in self.slots:
            if slot.state is State.LOADING and slot.task is not None and len(batch) < self.settings.n_batch:
                if not slot.task.begun:
                    slot.task.begun = True
                    if not begin_prompt(self, slot, slot.task):
                        continue
                add_prompt(self, slot, slot.task, batch)
        decode_batch(self, batch)
        self.spun = self.spun + 1 if self.image_failed and not len(batch) else 0

    def _disconnect(self) -> None:
        """End the requests of disconnected clients between two iterations; their evaluated tokens stay in the slot."""
        for slot in self.slots:
            task = slot.task
            if task is None or task.request.cancel_at is None or slot.state is not State.GENERATING or not task.streams:
                continue
            full = self.rules.full(len(slot.tokens), self.settings.n_ctx_slot, self.settings.context_shift)
            if len(slot.tokens) >= task.request.cancel_at and not full.value:    # a full slot ends anyway
                task.answer.cancelled = True
                self.leave(slot)
                self.take_id()                 # the disconnect is a task with its own id

    def _release(self, slot: Slot) -> None:
        """End the slot's task, if any; tokens and checkpoints stay. All deferred tasks are queued again."""
        self.points.changed(slot, "evaluated", kept=ALL_TOKENS, grown=True)
        self.emit(ev.Release(slot.id, slot.last_task, len(slot.tokens), int(slot.truncated)))
        if slot.task is not None:
            answer = slot.task.answer
            answer.id_slot, answer.predicted_n, answer.truncated = slot.id, slot.n_decoded, slot.truncated
            evaluated = len(slot.tokens) - (self.rules.undecoded if answer.stop_type == "limit" else 0)
            answer.tokens_cached = len(slot.tokens) if slot.task.prompt else 0
            answer.slot_tokens = (*self.system, *slot.tokens[:evaluated])
            answer.done = True
        slot.state, slot.task, slot.t_last = State.IDLE, None, self.next_tick()
        self.queue.extend(self.deferred)
        self.deferred.clear()
