"""The server: one generation thread takes requests, admits them to a batch or serves them alone, and stores what is
left.

A round of the simulator is one tick of the generator. ``ticks`` of them make a slice, half a second of the real
thread: before a slice everything that waits is taken, after it the rows of clients that have gone leave. That a client
has gone is noticed when it is told something.
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
from cachesim.engines.mlx_lm.model_layout import make_caches
from cachesim.engines.mlx_lm.request_lifecycle import FEED, finish, generator_of, pause, serve_alone
from cachesim.engines.mlx_lm.snapshot import Inspected
from cachesim.engines.rule import Decision


class Server(Inspected):
    """One server of a given version. ``model`` None = labels only, nothing computed. ``slots`` are all rows that there
    ever were."""

    @property
    def working(self) -> bool:
        """Is there anything left to do?"""
        return not self.dead and bool(self.queue or self.postponed or self.active)

    @property
    def idle(self) -> bool:
        """Would a round change nothing, and all that follow it?"""
        return self.dead or not (self.working or self.draining)

    def submit(self, request: Request) -> Answer:
        """Queue a request; the answer fills as the server works. Raises BadInput for what this server does not know."""
        if request.kind != "completion" or request.n_cmpl != 1:
            raise BadInput("single completions and chats are all that is modelled for this engine")
        if not request.prompt:
            raise BadInput("an empty prompt is not modelled for this engine")
        answer = Answer(self.log.mark(), died=self.dead)
        role = request.messages[-1].role if request.messages else ""
        if not self.dead:
            self.queue.append(Task(answer.request, request, answer, role))
        return answer

    def slot(self, action: str, id_slot: int, file: Path | None = None) -> dict[str, Any]:
        """There are no slots to save. Raises BadInput."""
        raise BadInput(f"this server has no slots to {action}", hint="restart")

    def take_tasks(self) -> None:
        """First half of a round: between two slices, everything that waits is admitted, served alone, or postponed."""
        while not self.ticked and not self.dead and not self.draining and (self.postponed or self.queue):
            task = self.postponed.pop() if self.postponed else self.queue.popleft()
            batchable = self.decide(self.rules.batchable(self.draft is not None, task.request.seed), None)
            if self.generator is not None and not batchable:
                self.draining = True
                self.postponed.append(task)
            elif batchable:
                self._guarded(lambda t=task: self._admit(t))
            else:
                serve_alone(self, task)

    def update(self) -> None:
        """Second half of a round: one tick."""
        if self.dead or self.generator is None:
            return
        if self.active:
            self._guarded(self._tick)
        elif self.draining:
            self.generator, self.draining = None, False

    def _guarded(self, work: Any) -> None:
        """An error that nobody catches ends the thread: nothing is answered any more."""
        try:
            work()
        except Died as end:
            self.dead = True
            self.emit(ev.Aborted(str(end)))
            for task in (*(row.task for row in self.active), *self.queue, *self.postponed):
                if not task.answer.done:                # whose answer is complete has it already
                    task.answer.dies(end)

    def _admit(self, task: Task) -> None:
        """A request joins the batch, with what the prompt cache has for it."""
        if self.generator is None:
            self.generator = generator_of(self)
        row = self.row(task)
        self.active.append(row)                         # from here on it dies with the thread
        FEED[self.rules.batching().value](self, row)
        row.caches = row.caches or make_caches(self.kind.spec, self.rules.caches)
        self.generator.insert(row)
        if self.settings.limit is not None:
            self.cache.trim_to(self.settings.limit - self.cache.declared(self.generator.held()))

    def _tick(self) -> None:
        assert self.generator is not None
        ticked = self.generator.next()
        self.widest = max(self.widest, ticked.decoded)
        for row, end_of_segment in ticked.pauses:
            pause(self, row, end_of_segment, self.generator)
        for row, caches in ticked.ended:
            finish(self, row, caches, "limit")
        self.gone += [row for row in ticked.told if row.hung_up and row not in self.gone]
        self.ticked += 1
        if self.ticked >= self.settings.flags.ticks_per_slice or not self.active:
            self._hang_up(self.generator)

    def _hang_up(self, generator: Generator) -> None:
        """A slice is over: rows whose clients have gone leave the batch, unless they have ended meanwhile."""
        gone = [row for row in self.gone if row in self.active]
        self.ticked, self.gone = 0, []
        caches = [generator.extract(row) for row in gone]
        generator.remove(gone)
        store: Decision = self.rules.cancel()
        for row, left in zip(gone, caches, strict=True):
            row.task.answer.cancelled = True
            finish(self, row, left, "none", self.decide(store, row))
