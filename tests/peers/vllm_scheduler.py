"""Our scheduler under vLLM's names, see vllm_names.

Before each call the rows take over what a test changed in its requests and queues, and afterwards these show the rows.
"""

from __future__ import annotations

from collections import defaultdict

from vllm.v1.core.sched.output import CachedRequestData, NewRequestData, SchedulerOutput
from vllm.v1.core.sched.utils import check_stop
from vllm.v1.engine import EngineCoreOutput, EngineCoreOutputs
from vllm.v1.request import RequestStatus

from cachesim.engines.base import Request
from cachesim.engines.vllm.core.scheduler_output import CachedRequestData as Scheduled
from cachesim.engines.vllm.core.scheduler_output import NewRequestData as Started
from cachesim.engines.vllm.core.scheduler_output import RequestOutput
from cachesim.engines.vllm.core.scheduler_output import SchedulerOutput as Step
from cachesim.engines.vllm.profiles import V0_33_0
from cachesim.engines.vllm.request import RequestStatus as Status
from cachesim.engines.vllm.rules.schedule import PRIORITY, ChunkSplit
from cachesim.engines.vllm.rules.states import StateBoundary, StateExport
from tests.peers.vllm_managers import KVCacheManager
from tests.peers.vllm_names import Named, NotSimulated, number, used

FOREIGN = ("connector", "ec_connector", "aux_output_connector", "defer_block_free", "return_sampling_mask")
SHOWN = ("num_computed_tokens", "num_in_flight_tokens", "num_output_placeholders", "num_stale_output_tokens",
         "is_prefill_chunk", "num_preemptions", "shared_prefix_boundary", "drop_stale_output")
CACHED = ("req_ids", "new_block_ids", "num_computed_tokens", "num_output_tokens")


class Statistics(Named):
    """Figures that the engine does not keep."""


class Queue(list):
    """The waiting requests."""

    def peek_request(self):
        """Return the next request."""
        return self[0]

    def add_request(self, request):
        """Add a request."""
        self.append(request)

    def remove_requests(self, requests):
        """Remove requests."""
        self[:] = [one for one in self if one not in requests]


def refuse(config):
    """Raise NotSimulated for settings that the engine does not have."""
    scheduler, parallel = config.scheduler_config, config.parallel_config
    speculative = config.speculative_config
    found = {
        "connectors": config.kv_transfer_config, "encoder connectors": config.ec_transfer_config,
        "encoders": config.model_config.is_encoder_decoder or config.is_mm_encoder_only,
        "diffusion": config.model_config.is_diffusion, "pooling": config.model_config.runner_type == "pooling",
        "adaptive thresholds": scheduler.long_prefill_token_threshold_adaptive,
        "throttled prefills": scheduler.prefill_schedule_interval > 1,
        "prefills without chunks": not scheduler.enable_chunked_prefill,
        "pipeline or data parallelism": parallel.pipeline_parallel_size > 1 or parallel.data_parallel_size > 1,
        "numbers of drafts by batch": speculative and speculative.num_speculative_tokens_per_batch_size,
        "metrics of drafts": config.observability_config.per_request_spec_decode_metrics not in (None, "none"),
    }  # fmt: skip
    for name, given in found.items():
        if given:
            raise NotSimulated(name)


class Scheduler(Named):
    """Our scheduler."""

    ahead = False

    def __init__(self, vllm_config, kv_cache_config, structured_output_manager=None, block_size=0, hash_block_size=None,
                 log_stats=False, **_):  # fmt: skip
        refuse(vllm_config)
        scheduler, cache, speculative = (vllm_config.scheduler_config, vllm_config.cache_config,
                                         vllm_config.speculative_config)  # fmt: skip
        self.vllm_config, self.max_model_len = vllm_config, vllm_config.model_config.max_model_len
        drop = bool(speculative) and speculative.use_eagle_block_drop()
        self.kv_cache_manager = KVCacheManager(
            kv_cache_config, self.max_model_len, block_size, hash_block_size or block_size,
            scheduler.max_num_batched_tokens * (1 + self.ahead), cache.enable_prefix_caching, drop,
            vllm_config.num_hash_lookahead_tokens, vllm_config.num_prefill_lookahead_tokens, log_stats,
            watermark=scheduler.watermark,
        )  # fmt: skip
        self.core = self.kv_cache_manager.core
        self.ours = self.core.scheduler
        speculation = self.core.layout.speculation._replace(num_lookahead_tokens=vllm_config.num_lookahead_tokens)
        self.core.set_layout(speculation=speculation)
        self.core.set_parts(
            max_num_running_reqs=scheduler.max_num_active_seqs or scheduler.max_num_seqs,
            max_num_scheduled_tokens=scheduler.max_num_scheduled_tokens or scheduler.max_num_batched_tokens,
            long_prefill_token_threshold=scheduler.long_prefill_token_threshold, policy=scheduler.policy,
            async_scheduling=self.ahead, num_spec_tokens=vllm_config.num_speculative_tokens or 0,
            num_lookahead_tokens=vllm_config.num_lookahead_tokens,
            full_sequence_must_fit=scheduler.scheduler_reserve_full_isl,
        )  # fmt: skip
        self.core.hasher.extend = self._append
        self.put_back, self.stepping = self.ours._preempt_request, False
        self.ours._preempt_request = self._put_back
        self.requests, self.running, self.waiting, self.kv_holding_waiting = {}, [], Queue(), []
        self.of, self.finished_req_ids, self.preempted, self.log_stats = {}, set(), set(), log_stats
        self.use_v2_model_runner = False
        self.max_num_running_reqs = scheduler.max_num_seqs
        self.num_spec_tokens = self.ours.num_spec_tokens
        self.num_lookahead_tokens, self.connector, self.ec_connector = vllm_config.num_lookahead_tokens, None, None

    def __setattr__(self, name, value):
        if name in FOREIGN and value:
            raise NotSimulated(name)
        super().__setattr__(name, value)

    def _append(self, row):
        """Append the newest token of a row to its request, which hashes it."""
        request = self.of.get(row.request_id)
        if request is not None:
            request.append_output_token_ids(row.all_token_ids[-1])
            row.block_hashes = [number(one) for one in request.block_hashes]

    def _take(self):
        """Take over the requests and queues."""
        for request in self.requests.values():
            row = self.core.row(request)
            self.of[row.request_id] = request
            parameters = request.sampling_params
            ends = {*(parameters.stop_token_ids or ())}
            if not parameters.ignore_eos and parameters.eos_token_id is not None:
                ends.add(parameters.eos_token_id)
            row.task.request = Request(row.task.request.prompt, request.max_tokens, eog=tuple(ends),
                                       cache_prompt=row.task.request.cache_prompt)  # fmt: skip
            row.max_tokens = request.max_tokens
            row.num_output_placeholders = request.num_output_placeholders
            row.spec_token_ids = list(request.spec_token_ids)
            row.status = Status.RUNNING if request in self.running else Status.WAITING
            row.priority = request.priority, request.arrival_time
            row.task.answer.predicted_n = request.num_output_tokens
        self.ours.running[:] = [self.core.rows[one.request_id] for one in self.running]
        self.ours.waiting[:] = [self.core.rows[one.request_id] for one in self.waiting]

    def _show(self):
        """Show rows in the requests and queues."""
        for name, request in list(self.requests.items()):
            row = self.core.rows[name]
            for shown in SHOWN:
                setattr(request, shown, getattr(row, shown))
            request.spec_token_ids = list(row.spec_token_ids)
            if not request.is_finished():
                waits = RequestStatus.PREEMPTED if row.num_preemptions else RequestStatus.WAITING
                request.status = RequestStatus.RUNNING if row.is_running else waits
        waiting = self.ours.waiting
        if self.ours.policy == PRIORITY:
            waiting = sorted(waiting, key=lambda row: row.order)
        self.running[:] = [self.of[row.request_id] for row in self.ours.running]
        self.waiting[:] = [self.of[row.request_id] for row in waiting]

    def add_request(self, request):
        """Add a request."""
        if request.mm_features or request.pooling_params or request.resumable or request.structured_output_request:
            raise NotSimulated("media, pooling, sessions and structured outputs")
        self.requests[request.request_id] = request
        self.waiting.append(request)
        self._take()
        self._show()

    def schedule(self, throttle_prefills=False):
        """Schedule a step."""
        if throttle_prefills:
            raise NotSimulated("throttled prefills")
        self._take()
        step = self.ours.schedule()
        new, cached, drafts = [], defaultdict(list), {}
        for req_id, data in step.scheduled_reqs.items():
            request, row = self.of[req_id], self.ours.requests[req_id]
            request.num_computed_tokens = data.num_computed_tokens
            blocks = tuple(data.new_block_ids)
            whole, spec = isinstance(data, Started), step.scheduled_spec_decode_tokens[req_id]
            if whole and (self.use_v2_model_runner or not row.num_preemptions):
                prefill = list(request.all_token_ids) if self.use_v2_model_runner else None
                new.append(NewRequestData.from_request(request, blocks, prefill))
            else:
                for name, value in zip(CACHED, (request.request_id, blocks if any(blocks) else None,
                                                data.num_computed_tokens, request.num_output_tokens),
                                       strict=True):  # fmt: skip
                    cached[name].append(value)
            if whole and self.kv_cache_manager.enable_caching and not request.skip_reading_prefix_cache \
                    and self.log_stats:
                self.kv_cache_manager.prefix_cache_stats.record(request.num_tokens, data.num_computed_tokens,
                                                                row.num_preemptions > 0)
            if spec:
                drafts[request.request_id] = list(spec)
        resumed = {self.of[req_id].request_id for req_id, data in step.scheduled_reqs.items()
                   if isinstance(data, Started) and self.ours.requests[req_id].num_preemptions
                   and not self.use_v2_model_runner}  # fmt: skip
        counts = {self.of[req_id].request_id: n for req_id, n in step.num_scheduled_tokens.items()}
        output = SchedulerOutput(
            scheduled_new_reqs=new, num_scheduled_tokens=counts, total_num_scheduled_tokens=sum(counts.values()),
            scheduled_cached_reqs=CachedRequestData(resumed_req_ids=resumed, new_token_ids=[], all_token_ids={},
                                                    **{name: cached[name] for name in CACHED}),
            scheduled_spec_decode_tokens=drafts, scheduled_encoder_inputs={}, finished_req_ids=self.finished_req_ids,
            free_encoder_mm_hashes=[], preempted_req_ids=self.preempted,
            new_block_ids_to_zero=step.new_block_ids_to_zero or None,
        )  # fmt: skip
        self.finished_req_ids, self.preempted = set(), set()
        self._show()
        return output

    def update_from_output(self, scheduler_output, model_runner_output):
        """Process the results of a step."""
        self._take()
        step, results, tokens = Step(), {}, model_runner_output.sampled_token_ids
        for name, n in scheduler_output.num_scheduled_tokens.items():
            if name not in self.requests:
                continue
            at = model_runner_output.req_id_to_index.get(name)
            row, drafts = self.core.rows[name], scheduler_output.scheduled_spec_decode_tokens.get(name, [])
            step.add(Scheduled(req_id=row.request_id, num_computed_tokens=0, new_block_ids=[]), n, list(drafts))
            said = list(tokens[at]) if tokens and at is not None else []
            results[row.request_id] = RequestOutput(said, 0, 0, [])
        finished, outputs = self.ours.update_from_output(step, results), defaultdict(list)
        self._show()
        for req_id, result in results.items():
            request, ended = self.of[req_id], self.ours.requests[req_id] in finished
            if ended:
                check_stop(request, self.max_model_len)
                self._forget(request)
            if result.sampled_token_ids and (ended or request.request_id in self.requests):
                outputs[request.client_index].append(EngineCoreOutput(
                    request_id=request.request_id, new_token_ids=result.sampled_token_ids,
                    stop_reason=request.stop_reason,
                    finish_reason=request.get_finished_reason() if ended else None))  # fmt: skip
        self._show()
        made = {client: EngineCoreOutputs(outputs=many) for client, many in outputs.items()} or {0: EngineCoreOutputs()}
        next(iter(made.values())).scheduler_stats = Statistics()
        return made

    def _forget(self, request):
        self.requests.pop(request.request_id)
        self.core.rows.pop(request.request_id)
        self.finished_req_ids.add(request.request_id)

    def finish_requests(self, request_ids, finished_status):
        """End requests at the client's wish."""
        names = self.requests if request_ids is None else request_ids
        names = [names] if isinstance(names, str) else list(names)
        self._take()
        ended = [self.requests[name] for name in names if name in self.requests]
        for request in ended:
            self.ours.finish_request(self.core.rows[request.request_id])
            request.status = finished_status
            self._forget(request)
        self._show()
        return ended

    def _put_back(self, row, drop_stale_output):
        request = self.of[row.request_id]
        request.num_in_flight_tokens, self.stepping = row.num_in_flight_tokens, True
        self._preempt_request(request, 0.0, drop_stale_output=drop_stale_output)
        self.stepping = False

    def _preempt_request(self, request, timestamp=0.0, drop_stale_output=False):
        outside = not self.stepping
        if outside:
            self._take()
        self.put_back(self.core.rows[request.request_id], drop_stale_output)
        if outside:
            self._show()

    def reset_prefix_cache(self, reset_running_requests=False, reset_connector=False):
        """Clear the prefix cache."""
        if reset_connector:
            raise NotSimulated("connectors")
        self._take()
        self.preempted |= {one.request_id for one in self.running if reset_running_requests}
        done = self.ours.reset_prefix_cache(reset_running_requests)
        self._show()
        return done

    def update_draft_token_ids(self, draft_token_ids):
        """Take drafts for the next step."""
        for name, drafts in zip(draft_token_ids.req_ids, draft_token_ids.draft_token_ids, strict=True):
            if name in self.requests:
                request = self.requests[name]
                request.spec_token_ids = [] if request.is_prefill_chunk else list(drafts)

    def get_num_unfinished_requests(self):
        """Return the number of requests that wait or run."""
        return len(self.waiting) + len(self.running)

    def has_unfinished_requests(self):
        """True if a request waits or runs."""
        return bool(self.waiting or self.running)

    def has_finished_requests(self):
        """True if the worker has to learn of finished requests."""
        return bool(self.finished_req_ids)

    def has_requests(self):
        """True if there is anything to do."""
        return self.has_unfinished_requests() or self.has_finished_requests()

    def get_request_counts(self):
        """Return how many requests run and wait."""
        return len(self.running), len(self.waiting)

    @used
    def _mamba_block_aligned_split(self, request, num_new_tokens, num_new_local_computed_tokens=0,
                                   num_external_computed_tokens=0):  # fmt: skip
        start = request.num_computed_tokens + num_new_local_computed_tokens + num_external_computed_tokens
        threshold, most = self.scheduler_config.long_prefill_token_threshold, self.max_num_scheduled_tokens
        grid = self.mamba_prefill_checkpoint_alignment if self.mamba_has_prefill_checkpoint_blocks else 0
        unit, block, prompt = self.hash_block_size, self.cache_config.block_size, request.num_prompt_tokens
        prefill, end = max(prompt, request.num_tokens - 1), start + num_new_tokens
        drop, ahead, fine = self.use_eagle_block_drop, self.num_hash_lookahead_tokens, self.mamba_partial_cache_hit
        wanted = V0_33_0.checkpoint(StateBoundary(
            num_tokens=prefill,
            hash_block_size=unit,
            cache_hit_alignment_tokens=unit if fine else self.block_size,
            drop_eagle_block=drop,
            num_hash_lookahead_tokens=ahead,
        ))  # fmt: skip
        export = StateExport(
            query_start=start,
            query_end=end,
            checkpoint_position=wanted,
            hash_block_size=unit,
            mamba_block_size=block,
            checkpoint_alignment=grid or 0,
        )
        return V0_33_0.split(ChunkSplit(
            start=start,
            end=end,
            prefill_end=prefill,
            num_prompt_tokens=prompt,
            block_size=block,
            max_prefill_tokens=min(most, threshold or most),
            last_cache_position=V0_33_0.last_boundary(request.num_tokens, block, drop, ahead),
            tail_boundary=V0_33_0.last_boundary(prompt, unit, drop, ahead) if fine else 0,
            use_internal_checkpoint=end >= prefill and V0_33_0.state_inside(export),
            junction=request.shared_prefix_boundary,
            mamba_shared_prefix_checkpoint=self.mamba_shared_prefix_checkpoint,
        )).value  # fmt: skip

    @used
    def _reserve_prefill_lookahead(self, request, num_computed_tokens, num_new_tokens):
        left = request.num_tokens - num_computed_tokens - num_new_tokens
        return max(V0_33_0.leave_lookahead(left, num_new_tokens, self.num_prefill_lookahead), 0)


class AsyncScheduler(Scheduler):
    """Our scheduler with steps in flight."""

    ahead = True
