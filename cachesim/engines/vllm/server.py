"""The server: requests in, a step per round, tokens out; its inspection.

Source: vLLM vllm/v1/engine/core.py EngineCore.step, step_with_batch_queue (0.33.0).
"""

from __future__ import annotations

from collections import deque
from itertools import chain
from pathlib import Path
from typing import Any, Mapping, NamedTuple, Sequence

import numpy as np

from cachesim.base.errors import BadInput
from cachesim.base.media_items import is_item
from cachesim.base.tokens import TokenList, Tokens
from cachesim.engines.base import Answer
from cachesim.engines.base import Request as ClientRequest
from cachesim.engines.inspection import BlockCell, Key, RowsPart, StatePart, Stored
from cachesim.engines.shared.request_queue import ReceivedRequest, RequestQueue, key_of
from cachesim.engines.vllm.core.scheduler import Scheduler
from cachesim.engines.vllm.core.scheduler_output import ModelRunnerOutput, SchedulerOutput
from cachesim.engines.vllm.kv_cache_interface import FULL, KVCacheConfig, VllmConfig
from cachesim.engines.vllm.kv_cache_planning import get_kv_cache_config
from cachesim.engines.vllm.pool_points import PoolPoints
from cachesim.engines.vllm.request import Request, RequestBlockHasher, RequestText
from cachesim.engines.vllm.rules.schedule import EVERY
from cachesim.engines.vllm.worker.model_runner import ModelRunner
from cachesim.model import LayerState


class StepInFlight(NamedTuple):
    """A step whose results are not processed."""

    scheduler_output: SchedulerOutput
    model_runner_output: ModelRunnerOutput


class StoredPrefix(NamedTuple):
    """The first ``end`` tokens of a request, in these blocks of each group. ``running_column``: column of the state in
    a group; ``has_states``: the states are those after the last token."""

    end: int
    block_ids: Sequence[Sequence[int]]
    start: int
    running_column: Mapping[int, int]
    has_states: bool


class Server(RequestQueue):
    """A server of a given version. ``slots``: all requests received so far; ``batch_queue``: steps in flight."""

    too_long = ("This model's maximum context length is {most} tokens. However, your prompt contains at least {n} input"
                " tokens.")

    def start_memory(self) -> None:
        """Start the scheduler with an empty pool, and the worker."""
        kv_cache_config = get_kv_cache_config(self.rules, self.opts, self.kind)
        self._refuse_uncomputed(kv_cache_config)
        self.vllm_config = VllmConfig(self.rules, self.opts, kv_cache_config, self.log)
        self.scheduler = Scheduler(self.vllm_config)
        self.waiting = self.scheduler.waiting
        self.running = self.scheduler.running
        self.model_runner = ModelRunner(self.vllm_config, self.kind, self.model, self.sampler)
        self.points = PoolPoints(self.vllm_config, self.scheduler.kv_cache_manager.block_pool)
        self.batch_queue = deque[StepInFlight]()
        self.longest = kv_cache_config.max_model_len
        self.most_running = self.opts.max_num_seqs
        self.block_hasher = RequestBlockHasher(
            self.rules.hash, kv_cache_config.hash_block_size,
            num_hash_lookahead_tokens=kv_cache_config.speculation.num_hash_lookahead_tokens, enabled=self.opts.hashing,
        )  # fmt: skip

    def _refuse_uncomputed(self, kv_cache_config: KVCacheConfig) -> None:
        """Raise BadInput for what the model does not compute."""
        if self.model is None:
            return
        if any(group.kind == "rswa" for group in kv_cache_config.kv_cache_groups):
            raise BadInput("reference windows (kv_groups R) are not computed", hint="only --mode none")
        ahead = self.opts.mamba_cache_mode == EVERY or self.opts.async_scheduling
        if self.opts.num_speculative_tokens and ahead and any(layer.recurrence for layer in self.kind.layers):
            raise BadInput("states of drafts with mamba_cache_mode all or async_scheduling are not computed",
                           hint="only --mode none")

    def submit(self, request: ClientRequest) -> Answer:
        """Queue a request and return its answer. Raises BadInput for an unsupported request, for an image without a
        model that takes it, and if the encoder may end a chunk before an image: it encodes at most as many tokens in a
        step, and for all requests in progress, as a step has."""
        if request.prompt and is_item(max(request.prompt)):
            if not self.opts.multimodal:
                raise BadInput("the prompt has an image", hint="server option multimodal")
            tasks = (*self.queue, *(known.task for known in self.slots if known.busy))
            prompts = (request.prompt, *(task.request.prompt for task in tasks))
            tokens = sum(map(is_item, chain(*prompts)))
            if tokens > self.opts.max_num_batched_tokens:
                raise BadInput(f"{tokens} tokens of images in progress: the encoder's budget is not modelled",
                               hint="max_num_batched_tokens")
        return super().submit(request)

    def slot(self, action: str, id_slot: int, file: Path | None = None, percent: int = 100) -> dict[str, Any]:
        """Clear the prefix cache ("erase"); raise BadInput for another action: this server has no slots to save."""
        if action != "erase":
            return super().slot(action, id_slot, file, percent)
        self.log.mark()
        return {"status": 200, "success": self.scheduler.reset_prefix_cache(reset_running_requests=False)}

    def new_row(self, task: ReceivedRequest) -> Request:
        """Return a received request with the hashes of its prompt."""
        fields = task.request.extra
        lora = str(fields.get("lora", ""))
        salt = str(fields.get("cache_salt", ""))
        task.answer.under = lora
        return Request(
            len(self.slots), task, all_token_ids=TokenList(task.request.prompt), block_hasher=self.block_hasher,
            priority=int(fields.get("priority", 0)), lora_request=lora, cache_salt=salt, key=key_of(lora, salt),
        )  # fmt: skip

    def enqueue(self, row: Request) -> None:
        """Let a received request wait."""
        self.scheduler.add_request(row)

    def work(self) -> None:
        """Run a step; when no request is left, steps without tokens until all transfers end."""
        self._step()
        while not (self.running or self.waiting) and self.scheduler.has_unfinished_transfers():
            self._step()

    def _step(self) -> None:
        """Begin a step, and process the oldest one; a second is scheduled first if steps overlap. Transfers end with
        the step in which the worker begins them."""
        scheduler_output = self.begin_step().scheduler_output
        self.stalled = not (self.batch_queue or self.scheduler.has_unfinished_transfers())
        overlaps = len(self.batch_queue) <= self.opts.async_scheduling and scheduler_output.num_scheduled_tokens
        if self.batch_queue and not overlaps:
            done = self.batch_queue.popleft()
            self.scheduler.update_from_output(done.scheduler_output, done.model_runner_output)
            for req_id in done.scheduler_output.num_scheduled_tokens:
                self._follow(self.scheduler.requests[req_id])
        self.scheduler.update_connector_output(self.model_runner.kv_connector.get_finished())

    def begin_step(self, accepted: Mapping[int, int] | None = None) -> StepInFlight:
        """Schedule and evaluate a step. ``accepted``: number of right draft tokens by request, None = as the requests
        state."""
        scheduler_output = self.scheduler.schedule()
        step = StepInFlight(scheduler_output, self.model_runner.execute_model(scheduler_output, accepted))
        if scheduler_output.num_scheduled_tokens:
            self.batch_queue.append(step)
        self.points.computed()
        return step

    def _follow(self, request: Request) -> None:
        """Notice that a client left, or draft the tokens of the next step."""
        self.abort_cancelled(request, request.num_processed_tokens)
        drafts = self.opts.num_speculative_tokens and not self.opts.async_scheduling
        if drafts and request.is_running and not request.is_prefill_chunk:
            draft_token_ids = self.model_runner.propose_draft_token_ids(request.request_id)
            self.scheduler.update_draft_token_ids({request.request_id: draft_token_ids})

    def abort(self, row: Request) -> None:
        """End a request whose client left."""
        self.scheduler.finish_request(row)

    @property
    def has_requests(self) -> bool:
        """True if a request waits or runs."""
        return not self.dead and bool(self.running or self.waiting)

    @property
    def idle(self) -> bool:
        """True if no further round changes anything."""
        return not self.queue and not self.has_requests

    @property
    def working(self) -> bool:
        """True if the server has work that it can do now."""
        return bool(self.queue) or (self.has_requests and not self.stuck)

    # Inspection.

    def tokens_of(self, slot: int) -> Tokens:
        """Return the computed tokens of a request, with the key that they were computed under."""
        request: Request = self.slots[slot]
        return request.text.full()[: request.num_processed_tokens]

    def stored(self, key: Key, start: int = 0) -> Stored:
        """Return the content of a prefix that can be found; for a slot, the content of a request's blocks."""
        kind, owner, _ = key
        if kind == "slot":
            return self._stored_by_request(owner)
        node = self.points.points[key]
        text = node.text
        assert isinstance(text, RequestText)
        tokens = text.full() if node.start else text.full()[: node.end]
        groups = self.vllm_config.kv_cache_config.kv_cache_groups
        block_ids = [self.points.blocks_of(group.group_id, text, node.end) for group in groups]
        prefix = StoredPrefix(node.end, block_ids, start=max(start, node.start), running_column={}, has_states=True)
        return self._content(Stored(kind, owner, tokens, resume=node.end, rows=(), state=None), prefix)

    def _stored_by_request(self, req_id: int) -> Stored:
        """Return the content of a request's blocks. With drafts, or with steps in flight, its states are ahead of its
        tokens."""
        request: Request = self.slots[req_id]
        state = self.model_runner.requests.get(req_id)
        end = min(request.num_processed_tokens, len(request.text.token_ids))
        found = Stored("slot", req_id, (), resume=end, rows=(), state=None)
        if state is None:
            return found
        ahead = self.opts.async_scheduling or self.opts.num_speculative_tokens
        return self._content(found, StoredPrefix(
            end, state.block_ids, start=0, running_column=state.running_column, has_states=not ahead,
        ))  # fmt: skip

    def _content(self, found: Stored, prefix: StoredPrefix) -> Stored:
        """Return stored tokens with the rows and states in their blocks."""
        contents = self.model_runner.kv_caches
        end = prefix.end
        parts = list[RowsPart]()
        states = dict[int, LayerState | None]()
        for group in self.vllm_config.kv_cache_config.kv_cache_groups if end else ():
            blocks = prefix.block_ids[group.group_id]
            if group.kind == "mamba":
                column = prefix.running_column.get(group.group_id, 0)
                for layer in group.layers if prefix.has_states else ():
                    states[layer] = contents.state_in(layer, blocks, column, 0)
                continue
            first = prefix.start if group.kind in FULL else group.first_read(end)
            pos = np.arange(first, end)
            rows = contents.read(group.layers, blocks, pos)
            parts.append(RowsPart(end - first + 1 if group.window else 0, pos, rows))    # a window of the next token
        state = StatePart(end - 1, states) if states else None
        return found._replace(rows=tuple(parts), state=state, start=prefix.start)

    def checkpoints(self, slot: int) -> list[int]:
        """Return the lengths of all prefixes that can be found, ascending: all requests share them."""
        return sorted(node.end for node in self.points.points.values())

    def busy(self) -> list[int]:
        """Return the requests in progress."""
        return [request.request_id for request in self.running]

    def blocks(self) -> list[BlockCell]:
        """Return the blocks of the pool without the null block, for pictures."""
        manager = self.scheduler.kv_cache_manager
        return manager.block_pool.cells(manager.block_owners)

    def check(self) -> None:
        """Raise Crash unless pool and tables agree."""
        manager = self.scheduler.kv_cache_manager
        tables = [blocks for request in self.slots for blocks in manager.get_block_ids(request.request_id)]
        manager.block_pool.check(chain(*tables))
