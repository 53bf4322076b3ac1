"""llama-server: tasks come in, slots are chosen, one shared batch is filled and decoded per iteration.

Source: llama.cpp tools/server/server-context.cpp, server-queue.cpp (3f545be); spec 3.3, 3.7.
"""

from __future__ import annotations

from cachesim import events as ev
from cachesim.engines.base import Answer, Request
from cachesim.engines.llama_cpp.begin import begin_prompt
from cachesim.engines.llama_cpp.core import Core
from cachesim.engines.llama_cpp.decode import decode
from cachesim.engines.llama_cpp.fill import add_prompt
from cachesim.engines.llama_cpp.memory.ubatch import Batch
from cachesim.engines.llama_cpp.select import process
from cachesim.engines.llama_cpp.slot import Slot, State, Task
from cachesim.errors import Aborted


class Server(Core):
    """The main loop, and what a client can do."""

    def complete(self, request: Request) -> Answer:
        """Work on one request until it is answered."""
        answer = self.submit(request)
        while self.queue or any(slot.busy for slot in self.slots):
            self.iterate()
        return answer

    def submit(self, request: Request) -> Answer:
        """Queue a request; the answer fills as the server works."""
        answer = Answer(self.log.mark(), died=self.dead)
        if request.byte_pos is not None and request.user_starts:
            self.emit(ev.UserPos(request.byte_pos, 0, request.user_starts[-1]))
        if not self.dead:
            self.queue.append(Task(self.next_tick(), request, answer))
        return answer

    def iterate(self) -> None:
        """One round of the main loop: every pending task, then one update of the slots."""
        try:
            while self.queue:
                process(self, self.queue.popleft())
            self._update_slots()
        except Aborted as abort:
            self._die(str(abort))

    def _update_slots(self) -> None:
        if not any(slot.busy for slot in self.slots):
            return
        self.next_tick()
        batch = Batch()
        for slot in self.slots:
            if slot.state is State.GENERATING:
                slot.at = len(batch)
                batch.add(slot.sampled, len(slot.tokens), slot.id, True)
                slot.tokens.append(slot.sampled)
        for slot in self.slots:
            if len(batch) >= self.settings.n_batch:
                break
            self._work_on_prompt(slot, batch)
        decode(self, batch)

    def _work_on_prompt(self, slot: Slot, batch: Batch) -> None:
        task = slot.task
        if task is None or slot.state not in (State.STARTED, State.PROMPT):
            return
        if slot.state is State.PROMPT or begin_prompt(self, slot, task):
            add_prompt(self, slot, task, batch)

    def _die(self, text: str) -> None:
        self.emit(ev.Aborted(text))
        self.dead = True
        tasks = [*self.queue, *self.deferred, *(slot.task for slot in self.slots if slot.task)]
        for task in tasks:
            task.answer.died, task.answer.error = True, text
        self.queue.clear()
        self.deferred.clear()
        for slot in self.slots:
            slot.state, slot.task = State.IDLE, None
