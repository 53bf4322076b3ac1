"""The server: tasks come in, slots are chosen, one shared batch is filled and decoded per iteration.

Source: ik_llama.cpp examples/server/server-context.cpp update_slots (8337e4cd3).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cachesim import events as ev
from cachesim.base.errors import BadInput, ProcessAborted
from cachesim.engines.base import Answer, Request
from cachesim.engines.ik_llama.context_shift import look_for_full_slots
from cachesim.engines.ik_llama.decode import work
from cachesim.engines.ik_llama.prefill_chunk import add_prompt
from cachesim.engines.ik_llama.prefix_reuse import begin_prompt
from cachesim.engines.ik_llama.slot import Slot, State, Task
from cachesim.engines.ik_llama.slot_assignment import process
from cachesim.engines.ik_llama.slot_save_restore import slot_action
from cachesim.engines.ik_llama.snapshot import Inspected
from cachesim.engines.ik_llama.speculative_decoding import make_draft
from cachesim.engines.shared.batch import DecodeBatch
from cachesim.engines.shared.restore_point_tracker import ALL_TOKENS


class Server(Inspected):
    """The main loop, and what a client can do."""

    def submit(self, request: Request) -> Answer:
        """Queue a request; the answer fills as the server works. Raises BadInput for what is not simulated: it must not
        look like an answer of the engine."""
        if request.kind != "completion" or request.n_cmpl != 1:
            lacking = f"task '{request.kind}'" if request.kind != "completion" else f"n_cmpl {request.n_cmpl}"
            raise BadInput(f"{lacking} is not modelled for this engine", hint="single completions are")
        answer = Answer(self.log.mark(), died=self.dead)
        if not self.dead:
            self.queue.append(Task(self.take_id(), request, answer, list(request.prompt)))
        return answer

    def slot(self, action: str, id_slot: int, file: Path | None = None) -> dict[str, Any]:
        """Save, restore or erase a slot. Raises BadInput; the slot is untouched then."""
        self.log.mark()
        self.take_id()                         # an action is a task of its own
        return slot_action(self, action, id_slot, file)

    def take_tasks(self) -> None:
        """First half of a round: every pending task looks for a slot."""
        while self.queue:
            task = self.queue.popleft()
            try:
                process(self, task)
            except ProcessAborted as abort:
                self._die(abort, task)

    def update(self) -> None:
        """Second half of a round: slots that are leaving go, then one batch for all busy slots."""
        try:
            self._update_slots()
        except ProcessAborted as abort:
            self._die(abort)

    def _die(self, end: ProcessAborted, *more: Task) -> None:
        """The process ends, and with it every task."""
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
        self._hang_up()
        for slot in self.slots:
            if slot.state is State.LEAVING:
                self._release(slot)
        if not any(slot.busy for slot in self.slots):
            return
        self.take_id()
        look_for_full_slots(self)
        batch, self.said = DecodeBatch(), {}
        for slot in self.slots:
            slot.fed = (0, 0)
            if slot.state is State.GENERATING and slot.task is not None:
                make_draft(self, slot, slot.task)
                slot.unheard, slot.at = 0, len(batch)
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
        work(self, batch)

    def _hang_up(self) -> None:
        """Requests whose clients have gone end between two iterations; what was evaluated stays in the slot."""
        for slot in self.slots:
            task = slot.task
            if task is None or task.request.cancel_at is None or slot.state is not State.GENERATING:
                continue
            full = self.rules.full(len(slot.tokens), self.settings.n_ctx_slot, self.settings.context_shift)
            if len(slot.tokens) >= task.request.cancel_at and not full.value:    # a full slot ends by itself
                task.answer.cancelled = True
                self.leave(slot)
                self.take_id()                 # the hang-up is a task of its own

    def _release(self, slot: Slot) -> None:
        """The slot's task ends, if it has one; tokens and checkpoints stay. All deferred tasks are queued again."""
        self.points.changed(slot, "evaluated", kept=ALL_TOKENS, grown=True)
        self.emit(ev.Release(slot.id, slot.last_task, len(slot.tokens), int(slot.truncated)))
        if slot.task is not None:
            answer = slot.task.answer
            answer.id_slot, answer.predicted_n, answer.truncated = slot.id, slot.n_decoded, slot.truncated
            evaluated = len(slot.tokens) - (self.rules.undecoded if answer.stop_type == "limit" else 0)
            answer.tokens_cached = len(slot.tokens) if slot.task.prompt else 0
            answer.slot_tokens = tuple(slot.tokens[:evaluated])
            answer.done = True
        slot.state, slot.task, slot.t_last = State.IDLE, None, self.next_tick()
        self.queue.extend(self.deferred)
        self.deferred.clear()
