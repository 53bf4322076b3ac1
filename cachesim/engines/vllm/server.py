"""The server: requests in, a step per round, tokens out.

Source: vLLM vllm/v1/engine/core.py EngineCore.step, step_with_batch_queue (0.33.0).
"""

from __future__ import annotations

from collections import deque
from itertools import chain
from pathlib import Path
from typing import Any, Sequence

from cachesim import events
from cachesim.base.errors import BadInput
from cachesim.base.media_items import is_item
from cachesim.base.tokens import TokenList
from cachesim.engines.base import Answer, Request
from cachesim.engines.shared.block_pool import CLEARED, EVICTED, REPLACED, BlockPool
from cachesim.engines.shared.request_queue import ReceivedRequest, key_of
from cachesim.engines.shared.vocab import Sampler, forced_or_hashed
from cachesim.engines.vllm.flags import Options
from cachesim.engines.vllm.layout import layout
from cachesim.engines.vllm.profiles import Rules
from cachesim.engines.vllm.restore_points import Inspected
from cachesim.engines.vllm.row import Row, Table
from cachesim.engines.vllm.rules.sizes import EVERY
from cachesim.model import Model, Spec


class Server(Inspected):
    """A server of a given version."""

    too_long = ("This model's maximum context length is {most} tokens. However, your prompt contains at least {n} input"
                " tokens.")

    def __init__(self, rules: Rules, spec: Spec, opts: Options, model: Model | None, log: events.Log,
                 sampler: Sampler = forced_or_hashed) -> None:
        self.start_queue(rules, spec, opts, model, log, sampler)
        self.layout, self.flying = layout(rules, opts, spec), deque()
        self.longest = self.layout.most
        if model is not None and any(group.kind == "rswa" for group in self.layout.groups):
            raise BadInput("reference windows (kv_groups R) are not computed", hint="only --mode none")
        late = opts.num_speculative_tokens and (opts.mamba_cache_mode == EVERY or opts.async_scheduling)
        if model is not None and late and any(layer.recurrence for layer in spec.layers):
            raise BadInput("states of drafts with mamba_cache_mode all or async_scheduling are not computed",
                           hint="only --mode none")
        self.pool = BlockPool(opts.num_gpu_blocks, len(self.layout.groups), opts.enable_prefix_caching, rules.side,
                              log.emit, self._lost, self.moved_keys)
        self.start_tables()
        self.start_worker()
        self.start_points()

    def _lost(self, block: int, keys: Sequence[int], cause: str) -> None:
        """Decide on and report the loss of a block's keys."""
        rules = self.rules
        rule = {REPLACED: rules.partial_rows, CLEARED: rules.reset_preempts}.get(cause, rules.state_inside).rule
        if cause == EVICTED:
            decision = rules.evict(block, self.pool.tokens[block])
            rule = decision.rule
            self.decide(decision, None)
        self.lost_keys(block, keys, cause, rule)

    def submit(self, request: Request) -> Answer:
        """Queue a request and return its answer. Raises BadInput for an unsupported request, for an image without a
        model that takes it, and if the encoder may end a chunk before an image: it encodes at most as many tokens in a
        step, and for all requests in progress, as a step has."""
        if request.prompt and is_item(max(request.prompt)):
            if not self.opts.multimodal:
                raise BadInput("the prompt has an image", hint="server option multimodal")
            others = (task.request for task in (*self.queue, *(row.task for row in self.slots if row.busy)))
            tokens = sum(map(is_item, chain(request.prompt, *(one.prompt for one in others))))
            if tokens > self.opts.max_num_batched_tokens:
                raise BadInput(f"{tokens} tokens of images in progress: the encoder's budget is not modelled",
                               hint="max_num_batched_tokens")
        return super().submit(request)

    def slot(self, action: str, id_slot: int, file: Path | None = None, percent: int = 100) -> dict[str, Any]:
        """Clear the prefix cache ("erase"); raise BadInput for another action: this server has no slots to save."""
        if action != "erase":
            return super().slot(action, id_slot, file, percent)
        self.log.mark()
        return {"status": 200, "success": self.reset_cache(running=False)}

    def new_row(self, task: ReceivedRequest) -> Row:
        """Return a row with the hashes of a received prompt."""
        fields = task.request.extra
        lora, salt = (str(fields.get(name, "")) for name in ("lora", "cache_salt"))
        row = Row(len(self.slots), task, TokenList(task.request.prompt), key_of(lora, salt), lora=lora, salt=salt,
                  tables=[Table() for _ in self.groups], priority=int(fields.get("priority", 0)))
        task.answer.under = lora
        self.extend_hashes(row)
        return row

    def work(self) -> None:
        """Schedule and evaluate a step, and process the oldest one not processed. With asynchronous scheduling a second
        step is scheduled first."""
        step = self.schedule()
        self.evaluate(step)
        self.report_computed()
        self.stalled = not self.flying
        if self.flying and (len(self.flying) > self.opts.async_scheduling or not step.parts):
            done = self.flying.popleft()
            self.process(done)
            for part in done.parts.values():
                self._follow(part.row)

    def _follow(self, row: Row) -> None:
        """Notice that a client left, or draft the tokens of the next step."""
        at = row.task.request.cancel_at
        if at is not None and row.busy and row.computed - row.in_flight >= at:
            self.abort(row)
        elif row.running and not row.prefill and self.scratch and not self.opts.async_scheduling:
            row.drafts = self.draft(row)
