"""mlx-lm's server: a generation thread that takes requests, batches them or serves them alone, and stores their
caches.

A round of the simulator is a tick of the generator. ``ticks_per_slice`` ticks make a slice, half a second of the real
thread. Before a slice the server takes all waiting requests; after it, rows of disconnected clients leave. The server
notices that a client has disconnected when it sends something to that client.
Source: mlx-lm mlx_lm/server.py ResponseGenerator._generate (321e764e to 0.32.2).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cachesim import events as ev
from cachesim.base.errors import BadInput
from cachesim.engines.base import Answer, Request
from cachesim.engines.mlx_lm.batch import Task
from cachesim.engines.mlx_lm.events import Died
from cachesim.engines.mlx_lm.generator import Generator
from cachesim.engines.mlx_lm.model_layout import merge_facts
from cachesim.engines.mlx_lm.request_lifecycle import FEED, finish, generator_of, new_caches, pause, serve_alone
from cachesim.engines.mlx_lm.snapshot import Inspected
from cachesim.engines.rule import Decision


class Server(Inspected):
    """A server of a given version. ``model`` None = tokens only, no rows or states are computed. ``slots``: all rows
    since the start."""

    @property
    def working(self) -> bool:
        """True if the server has runnable work."""
        return not self.dead and bool(self.queue or self.postponed or self.active)

    @property
    def idle(self) -> bool:
        """True if neither the next round nor any later round can change anything."""
        return self.dead or not (self.working or self.draining)

    def submit(self, request: Request) -> Answer:
        """Queue a request. The server fills the returned answer as it works. Raises BadInput for unsupported
        requests."""
        if request.kind != "completion" or request.n_cmpl != 1:
            raise BadInput("this engine models only single completions and chats")
        if not request.prompt:
            raise BadInput("this engine does not model empty prompts")
        answer = Answer(self.log.mark(), died=self.dead)
        role = request.messages[-1].role if request.messages else ""
        if not self.dead:
            self.queue.append(Task(answer.request, request, answer, role))
        return answer

    def slot(self, action: str, id_slot: int, file: Path | None = None, percent: int = 100) -> dict[str, Any]:
        """Raise BadInput: this server has no slots to save."""
        raise BadInput(f"this server has no slots to {action}", hint="restart")

    def take_tasks(self) -> None:
        """First half of a round. Before a slice of ticks, admit each waiting request to the batch, answer it alone
        outside the batch, or postpone it. During a slice, do nothing."""
        while not self.ticked and not self.dead and not self.draining and (self.postponed or self.queue):
            task = self.postponed.pop() if self.postponed else self.queue.popleft()
            batchable = self._batchable(task)
            if self.generator is not None and not batchable:
                self.draining = True
                self.postponed.append(task)
            elif batchable:
                self._guarded(lambda t=task: self._admit(t))
            else:
                serve_alone(self, task)

    def _batchable(self, task: Task) -> bool:
        """True if the request may join a batch. Layers that can be batched leave no event."""
        able = bool(self.decide(self.rules.batchable(self.draft is not None, task.request.seed), None))
        layers = self.rules.mergeable(*merge_facts(self.kind.spec, self.rules.caches))
        return able and (bool(layers.value) or bool(self.decide(layers, None)))

    def update(self) -> None:
        """Run a tick: the second half of a round."""
        if self.dead or self.generator is None:
            return
        if self.active:
            self._guarded(self._tick)
        elif self.draining:
            self.generator, self.draining = None, False

    def _guarded(self, work: Any) -> None:
        """Run ``work``. A Died ends the thread: the server answers no further requests."""
        try:
            work()
        except Died as end:
            self.dead = True
            self.emit(ev.Aborted(str(end)))
            for task in (*(row.task for row in self.active), *self.queue, *self.postponed):
                if not task.answer.done:                # requests with a complete answer keep it
                    task.answer.dies(end)

    def _admit(self, task: Task) -> None:
        """Add a request to the batch, with the caches that the prompt cache has for it."""
        if self.generator is None:
            self.generator = generator_of(self)
        row = self.row(task)
        self.active.append(row)                         # from here on the request dies with the thread
        FEED[self.rules.batching().value](self, row)
        row.caches = row.caches or new_caches(self)
        self.generator.insert(row)
        if self.settings.limit is not None:
            self.cache.trim_to(self.settings.limit - self.cache.active_bytes(self.generator.held()))

    def _tick(self) -> None:
        assert self.generator is not None
        ticked = self.generator.next()
        self.widest = max(self.widest, ticked.decoded)
        for row, end_of_segment in ticked.pauses:
            pause(self, row, end_of_segment, self.generator)
        for row, caches in ticked.ended:
            finish(self, row, caches, "limit")
        self.gone += [row for row in ticked.notified if row.hung_up and row not in self.gone]
        self.ticked += 1
        if self.ticked >= self.settings.flags.ticks_per_slice or not self.active:
            self._hang_up(self.generator)

    def _hang_up(self, generator: Generator) -> None:
        """End a slice: remove rows of disconnected clients from the batch, unless they have ended meanwhile."""
        gone = [row for row in self.gone if row in self.active]
        self.ticked, self.gone = 0, []
        caches = [generator.extract(row) for row in gone]
        generator.remove(gone)
        store: Decision = self.rules.cancel()
        for row, left in zip(gone, caches, strict=True):
            row.task.answer.cancelled = True
            finish(self, row, left, "none", self.decide(store, row))
