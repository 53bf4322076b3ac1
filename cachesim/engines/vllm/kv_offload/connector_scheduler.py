"""Scheduler side of the offloading connector: what requests load from CPU memory, and what they store there.

Source: vLLM vllm/distributed/kv_transfer/kv_connector/v1/offloading/scheduler.py (0.33.0).
"""

from __future__ import annotations

from typing import Iterable, Sequence

from cachesim.engines.vllm.core.scheduler_output import OffloadingConnectorMetadata
from cachesim.engines.vllm.kv_cache_interface import VllmConfig
from cachesim.engines.vllm.kv_offload.cpu_manager import CPUOffloadingManager
from cachesim.engines.vllm.kv_offload.transfer_jobs import (
    OffloadConfig,
    RequestOffloadState,
    TransferJob,
    TransferJobs,
)
from cachesim.engines.vllm.request import Request


class OffloadingConnectorScheduler:
    """The CPU memory of a server. ``finished_reqs``: requests that ended since the last step."""

    def __init__(self, vllm_config: VllmConfig) -> None:
        config = vllm_config.kv_cache_config
        options = vllm_config.options
        self.vllm_config = vllm_config
        self.rules = vllm_config.rules
        self.offload_prompt_only = options.offload_prompt_only
        self.manager = CPUOffloadingManager(options.num_cpu_chunks, options.eviction_policy, options.store_threshold)
        self.transfers = TransferJobs(self.manager, OffloadConfig(
            [group.block_size for group in config.kv_cache_groups], blocks_per_chunk=options.blocks_per_chunk,
            tokens_per_hash=config.hash_block_size, caching=options.enable_prefix_caching,
        ))  # fmt: skip
        self.num_groups = len(config.kv_cache_groups)
        self.req_status: dict[int, RequestOffloadState] = {}
        self.finished_reqs: list[Request] = []
        self.load_jobs: list[TransferJob] = []

    def _state_of(self, request: Request) -> RequestOffloadState:
        state = self.req_status.get(request.request_id)
        if state is None:
            state = self.req_status[request.request_id] = RequestOffloadState(self.num_groups)
        return state

    def get_num_new_matched_tokens(self, request: Request, num_computed_tokens: int) -> int | None:
        """Return the tokens that a request can load behind those of the pool; None = it waits."""
        state = self._state_of(request)
        state.restart()
        found: int | None = 0
        if not request.skip_reading_prefix_cache:
            found = self.transfers.lookup(state, request.block_hashes, num_computed_tokens, request.num_tokens)
        starts = self.vllm_config.decide(self.rules.wait_for_chunks(found is None), request)
        if not starts:
            return None
        return self.vllm_config.decide(self.rules.load_chunks(found or 0, num_computed_tokens), request) or 0

    def update_state_after_alloc(self, request: Request, block_ids: Sequence[Sequence[int]],
                                 num_external_tokens: int) -> None:
        """Begin to load tokens into the blocks of a request, with this step."""
        self.load_jobs.append(self.transfers.begin_load(self._state_of(request), block_ids, num_external_tokens))

    def num_locally_computed_tokens(self, request: Request) -> int:
        """Return the tokens that the pool had when the request was looked up."""
        return self._state_of(request).num_locally_computed_tokens

    def has_transfers(self, request: Request) -> bool:
        """True if transfers of a request have not ended."""
        return bool(self._state_of(request).transfer_jobs)

    def build_connector_meta(self, scheduled: Iterable[tuple[Request, Sequence[Sequence[int]]]],
                             ) -> OffloadingConnectorMetadata:  # fmt: skip
        """Begin to store the complete chunks of scheduled requests with these blocks, and of ended ones. Return the
        transfers of the step."""
        metadata = OffloadingConnectorMetadata(load_jobs=self.load_jobs)
        self.load_jobs = []
        for request, block_ids in scheduled:
            self._state_of(request).block_ids = block_ids
            self._build_store_job(request, metadata.store_jobs)
        for request in self.finished_reqs:
            self._build_store_job(request, metadata.jobs_to_flush)
        for request in self.finished_reqs:
            self.manager.on_request_finished(self._state_of(request).access)
        self.finished_reqs.clear()
        return metadata

    def _build_store_job(self, request: Request, jobs: list[TransferJob]) -> None:
        """Begin to store the chunks that a request completed."""
        num_offloadable_tokens = self.rules.offered(
            request.num_computed_tokens, request.num_prompt_tokens, self.offload_prompt_only)
        offer = self.transfers.offer(self._state_of(request), request.block_hashes, num_offloadable_tokens)
        n = 0
        if offer.missing:
            decision = self.rules.store_chunks(len(offer.missing), offer.free, len(offer.idle))
            n = self.vllm_config.decide(decision, request)
        job = None if n is None else self.transfers.begin_store(offer, n)
        if job is not None:
            jobs.append(job)

    def update_connector_output(self, job_ids: Iterable[int]) -> None:
        """End transfers, in the order in which the worker reports them."""
        for job_id in job_ids:
            self.transfers.complete(job_id)

    def request_finished(self, request: Request) -> None:
        """Store the last chunks of an ended request with the next step."""
        self.finished_reqs.append(request)

    def has_pending_push_work(self) -> bool:
        """True if transfers are open, or begin with the next step."""
        return bool(self.finished_reqs or self.transfers.jobs)
