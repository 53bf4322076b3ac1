"""The server: requests in, a step per round, tokens out.

Source: vLLM vllm/v1/engine/core.py EngineCore.step, step_with_batch_queue (0.33.0).
"""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any, Mapping, NamedTuple, Sequence

from cachesim.base.errors import BadInput
from cachesim.base.media_items import is_item, longest_image
from cachesim.base.tokens import TokenList
from cachesim.engines.base import Answer
from cachesim.engines.base import Request as ClientRequest
from cachesim.engines.shared.request_queue import ReceivedRequest, Refusal, RequestQueue, key_of
from cachesim.engines.vllm.core.scheduler import Scheduler
from cachesim.engines.vllm.core.scheduler_output import ModelRunnerOutput, SchedulerOutput
from cachesim.engines.vllm.inspection import Inspection, PoolCells
from cachesim.engines.vllm.kv_cache_interface import KVCacheConfig, VllmConfig
from cachesim.engines.vllm.kv_cache_planning import get_kv_cache_config
from cachesim.engines.vllm.pool_points import PoolPoints
from cachesim.engines.vllm.profiles import Rules
from cachesim.engines.vllm.request import Request, RequestBlockHasher
from cachesim.engines.vllm.request_length import refusal
from cachesim.engines.vllm.rules.start import EVERY
from cachesim.engines.vllm.worker.model_runner import ModelRunner


class StepInFlight(NamedTuple):
    """A step whose results are not processed. ``finished_jobs``: transfers that the worker reports with it."""

    scheduler_output: SchedulerOutput
    model_runner_output: ModelRunnerOutput
    finished_jobs: Sequence[int] = ()


class Server(RequestQueue):
    """A server of a given version. ``slots``: all requests received so far; ``batch_queue``: steps in flight."""

    rules: Rules

    def start_memory(self) -> None:
        """Start the scheduler with an empty pool, and the worker."""
        kv_cache_config = get_kv_cache_config(self.rules, self.opts, self.kind)
        self._refuse_uncomputed(kv_cache_config)
        self.vllm_config = VllmConfig(self.opts, kv_cache_config)
        self.scheduler = Scheduler(self.vllm_config, self.rules, self.log)
        self.schedule = self.scheduler.notes
        self.published_events = self.scheduler.kv_event_publisher
        self.waiting = self.scheduler.waiting
        self.running = self.scheduler.running
        self.model_runner = ModelRunner(
            self.vllm_config, self.rules, self.log, spec=self.kind, model=self.model, sampler=self.sampler)
        block_pool = self.scheduler.kv_cache_manager.block_pool
        self.points = PoolPoints(self.vllm_config, self.rules, self.log, block_pool)
        self.batch_queue = deque[StepInFlight]()
        self.longest = kv_cache_config.max_model_len if self.opts.max_model_len else 0
        self.inspection = Inspection(
            self.vllm_config, self.slots, scheduler=self.scheduler, model_runner=self.model_runner, points=self.points)
        self.cache_cells = PoolCells(self.scheduler.kv_cache_manager)
        self.block_hasher = RequestBlockHasher(
            self.rules.hash_block_tokens, kv_cache_config.hash_block_size,
            num_hash_lookahead_tokens=kv_cache_config.speculation.num_hash_lookahead_tokens, enabled=self.opts.hashing,
        )  # fmt: skip

    def _refuse_uncomputed(self, kv_cache_config: KVCacheConfig) -> None:
        """Raise BadInput for what the model does not compute."""
        if self.model is None:
            return
        if any(group.kind == "rswa" for group in kv_cache_config.kv_cache_groups):
            raise BadInput("reference windows (kv_groups R) are not computed", hint="only --mode none")
        every = self.opts.mamba_cache_mode == EVERY
        if self.opts.num_speculative_tokens and every and any(layer.recurrence for layer in self.kind.layers):
            raise BadInput("states of drafts with mamba_cache_mode all are not computed", hint="only --mode none")

    def submit(self, request: ClientRequest) -> Answer:
        """Queue a request and return its answer. Raise BadInput for an unsupported request, for an image without a
        model that takes it, and for one that is larger than those of the model."""
        if request.prompt and is_item(max(request.prompt)):
            if not self.opts.multimodal:
                raise BadInput("the prompt has an image", hint="server option multimodal")
            most = self.scheduler.max_num_encoder_input_tokens
            longest = longest_image(request.prompt)
            if longest > most:
                raise BadInput(f"an image of {longest} tokens: the encoder takes {most}", hint="max_tokens_per_mm_item")
        return super().submit(request)

    def refusal(self, n: int, max_tokens: int) -> Refusal | None:
        """Return the error for a prompt of ``n`` tokens, None if it is accepted, as all are if the maximum length is
        not known. If the pool determines it, the sum with ``max_tokens`` is not limited."""
        if not self.opts.max_model_len:
            return None
        return refusal(n, max_tokens if self.opts.max_model_len > 0 else 0, self.longest, self.rules.limits_sum)

    def slot(self, action: str, id_slot: int, file: Path | None = None, percent: int = 100) -> dict[str, Any]:
        """Clear the prefix cache ("erase"); raise BadInput for another action: this server has no slots to save."""
        if action != "erase":
            return super().slot(action, id_slot)
        self.log.mark()
        return {"status": 200, "success": self.scheduler.reset_prefix_cache(reset_running_requests=False)}

    def new_row(self, task: ReceivedRequest) -> Request:
        """Return a received request with the hashes of its prompt."""
        fields = task.request.extra
        lora = str(fields.get("lora", ""))
        salt = str(fields.get("cache_salt", ""))
        task.answer.under = lora
        self.scheduler.kv_event_publisher.request_received(lora)
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
        while not self.has_requests and self.scheduler.has_unfinished_transfers():
            self._step()
        while not self.has_requests and self.batch_queue:
            self._process_step()

    def _step(self) -> None:
        """Begin a step, and process the oldest one; a second is scheduled first if steps overlap. Transfers end with
        the step in which the worker begins them."""
        scheduler_output = self.begin_step().scheduler_output
        computes = any(step.scheduler_output.num_scheduled_tokens for step in self.batch_queue)
        self.stalled = not (computes or self.scheduler.has_unfinished_transfers())
        if not (scheduler_output.num_scheduled_tokens or self.batch_queue):
            self.scheduler.kv_event_publisher.publish()
        more = scheduler_output.num_scheduled_tokens or (self.scheduler.connector is not None and self._has_work())
        if self.batch_queue and not (more and len(self.batch_queue) <= self.opts.async_scheduling):
            self._process_step()

    def _has_work(self) -> bool:
        """True if another step can be scheduled."""
        return self.has_requests or self.scheduler.has_unfinished_transfers()

    def _process_step(self) -> None:
        """Process the oldest step in flight."""
        done = self.batch_queue.popleft()
        self.scheduler.update_from_output(done.scheduler_output, done.model_runner_output)
        self.scheduler.update_connector_output(done.finished_jobs)
        for req_id in done.scheduler_output.num_scheduled_tokens:
            self._follow(self.scheduler.requests[req_id])

    def begin_step(self, accepted: Mapping[int, int] | None = None) -> StepInFlight:
        """Schedule and evaluate a step. ``accepted``: number of right draft tokens by request, None = as the requests
        state."""
        scheduler_output = self.scheduler.schedule()
        results = self.model_runner.execute_model(scheduler_output, accepted)
        step = StepInFlight(scheduler_output, results, self.model_runner.kv_connector.get_finished())
        if scheduler_output.num_scheduled_tokens or self.scheduler.connector is not None:
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
