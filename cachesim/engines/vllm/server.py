"""The server: requests in, a step per round, tokens out.

Source: vLLM vllm/v1/engine/core.py EngineCore.step, step_with_batch_queue (0.33.0).
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any, Sequence

from cachesim import events
from cachesim.base.errors import BadInput
from cachesim.engines.base import Answer, Request
from cachesim.engines.inspection import Key, Stored
from cachesim.engines.shared.vocab import CountingSampler, Sampler, forced_or_hashed
from cachesim.engines.vllm.flags import Options
from cachesim.engines.vllm.layout import layout
from cachesim.engines.vllm.memory.pool import Pool
from cachesim.engines.vllm.profiles.rule_table import Rules
from cachesim.engines.vllm.row import Row, Table, Task
from cachesim.engines.vllm.scheduler import Step
from cachesim.engines.vllm.worker import Worker
from cachesim.model import Model, Spec


class Server(Worker):
    """A server of a given version."""

    def __init__(self, rules: Rules, spec: Spec, opts: Options, model: Model | None, log: events.Log,
                 sampler: Sampler = forced_or_hashed) -> None:
        self.rules, self.kind, self.opts, self.model, self.log, self.emit = rules, spec, opts, model, log, log.emit
        self.dead, self.layout = False, layout(rules, opts, spec)
        self.pool = Pool(opts.num_gpu_blocks, len(self.layout.groups), opts.enable_prefix_caching, rules.side,
                         log.emit, self._lost)
        self.sampler = CountingSampler(sampler, log)
        self.start_tables()
        self.start_scheduler()
        self.start_worker()

    def _lost(self, block: int, keys: Sequence[int], cause: str) -> None:
        if cause == "evicted":
            self.decide(self.rules.evict(block, self.pool.tokens[block]), None)

    def submit(self, request: Request) -> Answer:
        """Queue a request and return its answer, which the server fills as it works. Raises BadInput for an unsupported
        request."""
        if request.kind != "completion" or request.n_cmpl != 1:
            raise BadInput("only single completions are modelled for this engine")
        if not request.prompt:
            raise BadInput("an empty prompt is not modelled for this engine")
        answer = Answer(self.log.mark())
        self.queue.append(Task(answer.request, request, answer))
        return answer

    def slot(self, action: str, id_slot: int, file: Path | None = None, percent: int = 100) -> dict[str, Any]:
        """Raise BadInput: this server does not have slots to save."""
        raise BadInput(f"this server has no slots to {action}", hint="restart")

    def take_tasks(self) -> None:
        """Run the first half of a round: move the received requests to the waiting queue."""
        while self.queue:
            task = self.queue.popleft()
            extra = task.request.extra
            row = Row(len(self.slots), task, list(task.request.prompt), [Table() for _ in self.groups],
                      int(extra.get("priority", 0)), str(extra.get("lora", "")), str(extra.get("cache_salt", "")))
            if row.lora or row.salt:
                row.key = 1 + zlib.crc32(f"{row.lora}\0{row.salt}".encode())
                task.answer.keys, task.answer.under = ((0, row.key),), row.lora
            self.extend_hashes(row)
            task.answer.id_slot = row.id
            self.slots.append(row)
            self.waiting.append(row)

    def update(self) -> None:
        """Run the second half of a round: a single step."""

    def stored(self, key: Key, start: int = 0) -> Stored:
        raise NotImplementedError

    def kept(self) -> list[Key]:
        return []


__all__ = ["Server", "Step"]
