"""The server: requests in, a step per round, tokens out; its inspection.

Source: vLLM vllm/v1/engine/core.py EngineCore.step, step_with_batch_queue (0.33.0).
"""

from __future__ import annotations

from collections import deque
from itertools import chain
from pathlib import Path
from typing import Any, Sequence

import numpy as np

from cachesim.base.errors import BadInput
from cachesim.base.media_items import is_item
from cachesim.base.tokens import TokenList, Tokens
from cachesim.engines.base import Answer, Request
from cachesim.engines.inspection import BlockCell, Key, RowsPart, StatePart, Stored
from cachesim.engines.shared.request_queue import ReceivedRequest, key_of
from cachesim.engines.vllm.core.block_pool import CLEARED, EVICTED, REPLACED, BlockPool
from cachesim.engines.vllm.kv_offload.offload_requests import OffloadClient
from cachesim.engines.vllm.layout import layout
from cachesim.engines.vllm.pool_points import PoolPoints
from cachesim.engines.vllm.prefix_points import ALL, CHUNK, STATE, WINDOW, GroupPieces
from cachesim.engines.vllm.row import Row, Table
from cachesim.engines.vllm.rules.schedule import EVERY
from cachesim.engines.vllm.worker.model_runner import Worker
from cachesim.model import LayerState

PIECES = {"full": ALL, "rswa": ALL, "swa": WINDOW, "chunked": CHUNK, "mamba": STATE}


class Server(Worker):
    """A server of a given version."""

    too_long = ("This model's maximum context length is {most} tokens. However, your prompt contains at least {n} input"
                " tokens.")

    def start_memory(self) -> None:
        """Create an empty pool and an empty worker."""
        rules, spec, opts, model, log = self.rules, self.kind, self.opts, self.model, self.log
        made = self.layout = layout(rules, opts, spec)
        self.longest, self.most_running, self.flying = made.most, opts.max_num_seqs, deque()
        if model is not None and any(group.kind == "rswa" for group in made.groups):
            raise BadInput("reference windows (kv_groups R) are not computed", hint="only --mode none")
        late = opts.num_speculative_tokens and (opts.mamba_cache_mode == EVERY or opts.async_scheduling)
        if model is not None and late and any(layer.recurrence for layer in spec.layers):
            raise BadInput("states of drafts with mamba_cache_mode all or async_scheduling are not computed",
                           hint="only --mode none")
        self.pool = BlockPool(opts.num_gpu_blocks, len(made.groups), opts.enable_prefix_caching, rules.side, log.emit,
                              self._lost)
        pieces = [GroupPieces(PIECES[group.kind], group.block, group.size) for group in made.groups]
        self.points = PoolPoints(log, self.pool, pieces, made.unit, made.align)
        self.start_tables()
        self.start_offload()
        self.start_worker()

    def _lost(self, block: int, keys: Sequence[int], cause: str) -> None:
        """Decide on and report the loss of a block's keys."""
        rules = self.rules
        rule = {REPLACED: rules.partial_rows, CLEARED: rules.reset_preempts}.get(cause, rules.state_inside).rule
        if cause == EVICTED:
            decision = rules.evict(block, self.pool.tokens[block])
            rule = decision.rule
            self.decide(decision, None)
        self.points.lost_keys(block, keys, cause, rule)

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
                  tables=[Table() for _ in self.groups], priority=int(fields.get("priority", 0)),
                  offload=OffloadClient(len(self.groups)))
        task.answer.under = lora
        self.extend_hashes(row)
        return row

    def work(self) -> None:
        """Run a step; when no request is left, steps without tokens until all transfers end."""
        self._step()
        while not (self.running or self.waiting) and (self.ended or self.transfers.open):
            self._step()

    def _step(self) -> None:
        """Schedule and evaluate a step, and process the oldest one; a second is scheduled first if steps overlap.
        Transfers end with the step in which the worker begins them."""
        step = self.schedule()
        self.evaluate(step)
        self.points.computed()
        self.stalled = not (self.flying or self.transfers.open)
        if self.flying and (len(self.flying) > self.opts.async_scheduling or not step.parts):
            done = self.flying.popleft()
            self.process(done)
            for part in done.parts.values():
                self._follow(part.row)
        self.end_transfers([made.number for made in (*self.delayed, *step.loads)])
        self.delayed = [*step.flushed, *step.stores]

    def _follow(self, row: Row) -> None:
        """Notice that a client left, or draft the tokens of the next step."""
        self.abort_cancelled(row, row.computed - row.in_flight)
        if row.running and not row.prefill and self.scratch and not self.opts.async_scheduling:
            row.drafts = self.draft(row)

    # Inspection.

    def tokens_of(self, slot: int) -> Tokens:
        """Return the computed tokens of a request, with the key that they were computed under."""
        row: Row = self.slots[slot]
        return row.full_text()[: row.computed - row.in_flight]

    def stored(self, key: Key, start: int = 0) -> Stored:
        """Return the content of a prefix that can be found; for a slot, the content of a request's blocks."""
        kind, owner, _ = key
        if kind == "slot":
            row = self.slots[owner]
            return self._content(kind, owner, row, (), min(row.computed - row.in_flight, len(row.text)), row.columns, 0)
        node = self.points.points[key]
        assert isinstance(node.text, Row)
        tokens = node.text.full_text() if node.start else node.text.full_text()[: node.end]
        columns = [self.points.blocks_of(group.number, node.text, node.end) for group in self.groups]
        return self._content(kind, owner, node.text, tokens, node.end, columns, max(start, node.start))

    def _content(self, kind: str, owner: int, row: Row, tokens: Tokens, n: int, columns: list[list[int]],
                 start: int) -> Stored:
        parts, states = [], dict[int, LayerState | None]()
        for group in self.groups if n else ():
            blocks = columns[group.number]
            if group.kind == "mamba":
                column = 0 if kind == "block" else row.running_column.get(group.number, 0)
                ahead = self.opts.async_scheduling or self.scratch      # then a slot's state is ahead of its tokens
                for layer in group.layers if kind == "block" or not ahead else ():
                    states[layer] = self.memory.state_in(layer, blocks, column, 0)
                continue
            first = start
            if group.kind in ("swa", "chunked"):
                first = n // group.size * group.size if group.kind == "chunked" else max(0, n - group.size + 1)
            pos = np.arange(first, n)
            rows = self.memory.read(group.layers, blocks, pos)
            parts.append(RowsPart(n - first + 1 if group.size else 0, pos, rows))    # a window of the next token
        return Stored(kind, owner, tokens, n, tuple(parts), StatePart(n - 1, states) if states else None, start)

    def checkpoints(self, slot: int) -> list[int]:
        """Return the lengths of all prefixes that can be found, ascending: all requests share them."""
        return sorted(node.end for node in self.points.points.values())

    def busy(self) -> list[int]:
        """Return the requests in progress."""
        return [row.id for row in self.running]

    def blocks(self) -> list[BlockCell]:
        """Return the blocks of the pool without the null block, for pictures."""
        return self.pool.cells(self.owner)

    def check(self) -> None:
        """Raise Crash unless pool and tables agree."""
        self.pool.check(block for row in self.slots for table in row.tables for block in table.blocks)
