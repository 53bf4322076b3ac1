"""mlx-lm's server: a generation thread that takes requests, batches them or serves them alone, and stores their
caches.

A round of the simulator is a tick of the generator. ``ticks_per_slice`` ticks make a slice, half a second of the real
thread. Before a slice the server takes all waiting requests; after it, rows of disconnected clients leave. The server
notices that a client has disconnected when it sends something to that client.
Source: mlx-lm mlx_lm/server.py ResponseGenerator._generate (321e764e to 0.32.2).
"""

from __future__ import annotations

import copy
from typing import Any, Mapping

from cachesim import events as ev
from cachesim.base.errors import BadInput
from cachesim.engines.base import Answer, Request
from cachesim.engines.mlx_lm.batch import Task
from cachesim.engines.mlx_lm.events import ATTRIBUTE_ERROR, Died
from cachesim.engines.mlx_lm.flags import Options
from cachesim.engines.mlx_lm.generator import Generator
from cachesim.engines.mlx_lm.model_layout import ModelKind, merge_facts
from cachesim.engines.mlx_lm.profiles import Rules
from cachesim.engines.mlx_lm.request_lifecycle import FEED, finish, generator_of, new_caches, pause, serve_alone
from cachesim.engines.mlx_lm.snapshot import CachedCore, Inspection, Sizes
from cachesim.engines.shared.server_loop import CoreServer, SlotTasks
from cachesim.engines.shared.vocab import Sampler, forced_or_hashed
from cachesim.model import Model


class Server(CoreServer):
    """A server of a given version. ``model`` None = tokens only, no rows or states are computed."""

    def __init__(self, rules: Rules, kind: ModelKind, opts: Options, model: Model | None, log: ev.Log,
                 sampler: Sampler = forced_or_hashed) -> None:
        self.core: CachedCore = CachedCore(rules, kind, opts, model, log, sampler)
        self.log = log
        self.model = model
        self.constants = (self.core.rules, kind)
        self.tasks = SlotTasks(self.core.queue, self.core.slots)
        self.inspection = Inspection(self.core)
        self.sizes = Sizes(self.core)

    def own_copies(self, memo: dict[int, Any]) -> Mapping[int, Any]:
        """Return copies of the traced rules: those of a fork log into its own log."""
        return self.core.traced_rules_for(copy.deepcopy(self.log, memo))

    @property
    def working(self) -> bool:
        """True if the server has runnable work."""
        return not self.core.dead and bool(self.core.queue or self.core.postponed or self.core.active)

    @property
    def idle(self) -> bool:
        """True if neither the next round nor any later round can change anything."""
        return self.core.dead or not (self.working or self.core.is_draining)

    def submit(self, request: Request) -> Answer:
        """Queue a request. The server fills the returned answer as it works. Raise BadInput for unsupported
        requests."""
        if request.kind != "completion" or request.n_cmpl != 1:
            raise BadInput("this engine models only single completions and chats")
        if not request.prompt:
            raise BadInput("this engine does not model empty prompts")
        answer = Answer(self.log.mark(), died=self.core.dead)
        role = request.messages[-1].role if request.messages else ""
        if not self.core.dead:
            self.core.queue.append(Task(answer.request, request, answer, role))
        return answer

    def take_tasks(self) -> None:
        """First half of a round. Before a slice of ticks, admit each waiting request to the batch, answer it alone
        outside the batch, or postpone it. During a slice, do nothing."""
        core = self.core
        while not core.ticked and not core.dead and not core.is_draining and (core.postponed or core.queue):
            task = core.postponed.pop() if core.postponed else core.queue.popleft()
            batchable = self._batchable(task)
            if core.generator is not None and not batchable:
                core.is_draining = True
                core.postponed.append(task)
            elif batchable:
                self._guarded(lambda t=task: self._admit(t))
            else:
                serve_alone(core, task)

    def _batchable(self, task: Task) -> bool:
        """True if the request may join a batch. Layers that can be batched leave no event."""
        core = self.core
        able = bool(core.decide(core.rules.batchable(core.draft is not None, task.request.seed), None))
        layers = core.rules.mergeable(*merge_facts(core.kind.spec, core.cache_rules))
        return able and core.holds(layers, None)

    def _check_extraction(self) -> None:
        """Raise Died if the caches of a row that returned its last token cannot be taken out of the batch."""
        core = self.core
        kinds, _ = merge_facts(core.kind.spec, core.cache_rules)
        if not core.holds(core.rules.extracts(kinds), None):
            raise Died("AttributeError: a cache of the batch has no attribute 'extract'", ATTRIBUTE_ERROR)

    def update(self) -> None:
        """Run a tick: the second half of a round."""
        core = self.core
        if core.dead or core.generator is None:
            return
        if core.active:
            self._guarded(self._tick)
        elif core.is_draining:
            core.generator, core.is_draining = None, False

    def _guarded(self, work: Any) -> None:
        """Run ``work``. A Died ends the thread: the server answers no further requests."""
        core = self.core
        try:
            work()
        except Died as end:
            core.dead = True
            core.emit(ev.Aborted(str(end)))
            for task in (*(row.task for row in core.active), *core.queue, *core.postponed):
                if not task.answer.done:                # requests with a complete answer keep it
                    task.answer.dies(end)

    def _admit(self, task: Task) -> None:
        """Add a request to the batch, with the caches that the prompt cache has for it."""
        core = self.core
        if core.generator is None:
            core.generator = generator_of(core)
        row = core.row(task)
        core.active.append(row)                         # from here on the request dies with the thread
        FEED[core.rules.batching().value](core, row)
        row.caches = row.caches or new_caches(core)
        core.generator.insert(row)
        if core.settings.limit is not None:
            core.cache.trim_to(core.settings.limit - core.cache.active_bytes(core.generator.held()))

    def _tick(self) -> None:
        core = self.core
        assert core.generator is not None
        ticked = core.generator.next()
        if ticked.ended:
            self._check_extraction()
        core.widest = max(core.widest, ticked.decoded)
        for row, end_of_segment in ticked.pauses:
            pause(core, row, end_of_segment, core.generator)
        for row, caches in ticked.ended:
            finish(core, row, caches, "limit")
        core.gone += [row for row in ticked.notified if row.has_hung_up and row not in core.gone]
        core.ticked += 1
        if core.ticked >= core.settings.flags.ticks_per_slice or not core.active:
            self._hang_up(core.generator)

    def _hang_up(self, generator: Generator) -> None:
        """End a slice: remove rows of disconnected clients from the batch, unless they have ended meanwhile."""
        core = self.core
        gone = [row for row in core.gone if row in core.active]
        core.ticked, core.gone = 0, []
        caches = [generator.extract(row) for row in gone]
        generator.remove(gone)
        for row, left in zip(gone, caches, strict=True):
            row.task.answer.cancelled = True
            finish(core, row, caches=left, why="none", keep=core.decide(core.rules.cancel(), row))
