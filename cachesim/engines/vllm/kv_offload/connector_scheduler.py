"""Scheduler side of the offloading connector: what requests load from CPU memory, and what they store there.

Source: vLLM vllm/distributed/kv_transfer/kv_connector/v1/offloading/scheduler.py (0.33.0).
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Iterable, Sequence

from cachesim.engines.shared.server_loop import log_decision
from cachesim.engines.vllm.core.kv_cache_manager import KVCacheManager
from cachesim.engines.vllm.core.scheduler_output import NewRequestData, OffloadingConnectorMetadata, SchedulerOutput
from cachesim.engines.vllm.core.single_type_kv_cache_manager import BoundaryState
from cachesim.engines.vllm.kv_cache_interface import KVCacheGroupSpec, VllmConfig
from cachesim.engines.vllm.kv_offload.chunk_lookup import OffloadedGroup
from cachesim.engines.vllm.kv_offload.cpu_manager import CPUOffloadingManager
from cachesim.engines.vllm.kv_offload.transfer_jobs import (
    OfferedTokens,
    OffloadConfig,
    RequestOffloadState,
    TransferJob,
    TransferJobs,
)
from cachesim.engines.vllm.request import Request, RequestStatus
from cachesim.engines.vllm.rules.blocks import PublicationMask
from cachesim.events import Log

if TYPE_CHECKING:
    from cachesim.engines.vllm.profiles import Rules


def offloaded_group(group: KVCacheGroupSpec, blocks_per_chunk: int) -> OffloadedGroup:
    """Return a group of the cache as CPU memory has it."""
    size = group.block_size * blocks_per_chunk
    is_state = group.kind == "mamba"
    window = group.window if group.kind == "swa" else 0
    chunks = 1 if is_state else -(-group.window // size) if group.kind in ("swa", "chunked") else 0
    return OffloadedGroup(group.block_size, tokens_per_chunk=size, window_chunks=chunks, window=window,
                          is_state=is_state, is_eagle=group.is_eagle_group)  # fmt: skip


class OffloadingConnectorScheduler:
    """The CPU memory of a server. ``finished_reqs``: requests that ended since the last step;
    ``allocated_block_ids``: blocks that requests took for the next step."""

    def __init__(self, vllm_config: VllmConfig, rules: Rules, log: Log) -> None:
        config = vllm_config.kv_cache_config
        options = vllm_config.options
        self.rules = rules
        self.log = log
        self.offload_prompt_only = options.offload_prompt_only
        self.hash_block_size = config.hash_block_size
        self.retention_interval = options.prefix_cache_retention_interval
        self.kv_cache_groups = config.kv_cache_groups
        self.manager = CPUOffloadingManager(options.num_cpu_chunks, options.eviction_policy, options.store_threshold,
                                            order=self.rules.chunk_order(), keeps=self.rules.keeps_offered)  # fmt: skip
        groups = [offloaded_group(group, options.blocks_per_chunk) for group in config.kv_cache_groups]
        self.transfers = TransferJobs(self.manager, OffloadConfig(
            groups, blocks_per_chunk=options.blocks_per_chunk, tokens_per_hash=config.hash_block_size,
            caching=options.enable_prefix_caching, stores_chunk=self.rules.stores_chunk, touches=self.rules.touches,
            load_end=self.rules.load_end,
        ))  # fmt: skip
        self.sliding_window_groups = [number for number, group in enumerate(groups) if group.window_chunks]
        self.alignment_tokens = _alignment_tokens(groups)
        self.kv_cache_manager: KVCacheManager
        self.req_status: dict[int, RequestOffloadState] = {}
        self.finished_reqs: list[Request] = []
        self.load_jobs: list[TransferJob] = []
        self.allocated_block_ids: set[int] = set()

    def _state_of(self, request: Request) -> RequestOffloadState:
        state = self.req_status.get(request.request_id)
        if state is None:
            state = self.req_status[request.request_id] = RequestOffloadState(len(self.kv_cache_groups))
        return state

    def get_num_new_matched_tokens(self, request: Request, num_computed_tokens: int) -> int | None:
        """Return the tokens that a request can load behind those of the pool; None = it waits."""
        state = self._state_of(request)
        state.restart(self.rules.offers_again())
        reads = not request.skip_reading_prefix_cache
        found = self.transfers.lookup(state, request.block_hashes, num_computed_tokens, request.num_tokens, reads=reads)
        waits = self.rules.unread_waits() or reads
        starts = log_decision(self.log, self.rules.wait_for_chunks(found is None and waits), request)
        if not starts:
            return None
        return log_decision(self.log, self.rules.load_chunks(found or 0, num_computed_tokens), request) or 0

    def update_state_after_alloc(self, request: Request, block_ids: Sequence[Sequence[int]],
                                 num_external_tokens: int) -> None:
        """Learn the blocks of a request that starts, and begin to load tokens into them, with this step."""
        self.allocated_block_ids.update(chain(*block_ids))
        if num_external_tokens:
            self.load_jobs.append(self.transfers.begin_load(self._state_of(request), block_ids, num_external_tokens))

    def num_locally_computed_tokens(self, request: Request) -> int:
        """Return the tokens that the pool had when the request was looked up."""
        return self._state_of(request).num_locally_computed_tokens

    def jobs_of(self, request: Request) -> Iterable[int]:
        """Return the transfers of a request that have not ended."""
        return self._state_of(request).transfer_jobs

    def has_transfers(self, request: Request) -> bool:
        """True if transfers of a request have not ended."""
        return bool(self._state_of(request).transfer_jobs)

    def build_connector_meta(self, scheduler_output: SchedulerOutput, scheduled: Iterable[Request],
                             ) -> OffloadingConnectorMetadata:  # fmt: skip
        """Begin to store the complete chunks of scheduled requests, and of ended ones. Return the transfers of the
        step."""
        metadata = OffloadingConnectorMetadata(load_jobs=self.load_jobs)
        self.load_jobs = []
        self._update_req_states(scheduler_output)
        for boundary in chain(*scheduler_output.boundary_state_offloads.values()):
            metadata.store_jobs += self._build_boundary_store_jobs(boundary)
        for request in scheduled:
            metadata.store_jobs += self._build_store_jobs(request)
        for request in self.finished_reqs:
            metadata.jobs_to_flush += self._build_store_jobs(request)
        for request in self.finished_reqs:
            state = self._state_of(request)
            self.manager.on_request_finished(state.access)
            state.is_ended = True
        self.finished_reqs.clear()
        self.allocated_block_ids.clear()
        return metadata

    def _update_req_states(self, scheduler_output: SchedulerOutput) -> None:
        """Learn the blocks of a step. A block that left a window, and that another request took, is stored no more."""
        ends = dict[int, list[int]]()
        for data in scheduler_output.scheduled_reqs.values():
            state = self.req_status[data.req_id]
            if isinstance(data, NewRequestData):
                state.block_ids = [[] for _ in self.kv_cache_groups]
            ends[data.req_id] = [len(blocks) for blocks in state.block_ids]
            for blocks, added in zip(state.block_ids, data.new_block_ids, strict=True):
                blocks += added
            self.allocated_block_ids.update(chain(*data.new_block_ids))
        self.allocated_block_ids.update(copy for _, copy in scheduler_output.kv_cache_block_copies)
        self.allocated_block_ids.discard(0)
        if not self.sliding_window_groups or not self.allocated_block_ids:
            return
        for req_id, state in self.req_status.items():
            if not state.is_ended:
                self._forget_taken_blocks(state, ends.get(req_id))

    def _forget_taken_blocks(self, state: RequestOffloadState, ends: Sequence[int] | None) -> None:
        """Forget the blocks of windows and states that requests took for this step. ``ends``: blocks that the request
        had before it, None = all."""
        for number in self.sliding_window_groups:
            blocks = state.block_ids[number]
            first = state.next_stored_chunk_idx[number] * self.transfers.config.blocks_per_chunk
            for at in range(first, len(blocks) if ends is None else ends[number]):
                if blocks[at] in self.allocated_block_ids:
                    blocks[at] = 0

    def _build_boundary_store_jobs(self, boundary: BoundaryState) -> Sequence[TransferJob]:
        """Begin to store a published state, if it is that at the end of a chunk of the prompt; return the transfer, if
        there is one."""
        request = boundary.request
        num_tokens = boundary.boundary_tokens
        state = self._state_of(request)
        if state.is_ended and not state.transfer_jobs:
            return ()
        most = self.rules.offered(request.num_tokens, request.num_prompt_tokens, self.offload_prompt_only)
        size = self.transfers.groups[boundary.group_id].tokens_per_chunk
        if not boundary.block_id or num_tokens > most or num_tokens % size:
            return ()
        key = request.block_hashes[num_tokens // self.hash_block_size - 1], boundary.group_id
        offer = self.transfers.offer_state(state, key, num_tokens)
        if not offer.missing:
            return ()
        decision = self.rules.store_chunks(1, offer.free, len(offer.idle))
        if not log_decision(self.log, decision, request):
            return ()
        return [self.transfers.begin_state_store(offer, boundary.block_id)]

    def _num_tokens_after_step(self, request: Request) -> int:
        """Return the tokens of a request that are computed after the step, whichever drafts are right."""
        if request.is_finished and request.status != RequestStatus.FINISHED_ABORTED:
            return max(request.num_prompt_tokens, request.num_tokens - 1)
        return request.num_computed_tokens

    def _build_store_jobs(self, request: Request) -> Sequence[TransferJob]:
        """Begin to store the chunks that a request completed; return the transfer, if there is one."""
        num_offloadable_tokens = self.rules.offered(
            min(self._num_tokens_after_step(request), request.num_tokens), request.num_prompt_tokens,
            self.offload_prompt_only)
        decoding = num_offloadable_tokens > request.num_prompt_tokens and not request.is_finished
        offer = self.transfers.offer(
            self._state_of(request), request.block_hashes, OfferedTokens(num_offloadable_tokens, decoding),
            lambda group, first, last: self._reachable_store_block_mask(request, group, first, last))
        n = 0
        if offer.missing:
            decision = self.rules.store_chunks(len(offer.missing), offer.free, len(offer.idle))
            n = log_decision(self.log, decision, request)
        if n is None:
            return ()
        job = self.transfers.begin_store(offer, n)
        return () if job is None else [job]

    def _reachable_store_block_mask(self, request: Request, number: int, first: int,
                                    last: int) -> Sequence[bool] | None:  # fmt: skip
        """Return which blocks of chunks first .. last - 1 of a group can be found again, None = all."""
        group = self.kv_cache_groups[number]
        if group.kind != "swa" or not self.alignment_tokens:
            return None
        ends = [request.num_prompt_tokens - 1]
        if request.shared_prefix_boundary:
            ends.append(request.shared_prefix_boundary)
        per_chunk = self.transfers.config.blocks_per_chunk
        kept: Sequence[bool] | None = self.rules.mask_swa(PublicationMask(
            start_block=first * per_chunk,
            end_block=last * per_chunk,
            block_size=group.block_size,
            alignment_tokens=self.alignment_tokens,
            retention_interval=self.retention_interval,
            reachable_boundaries=ends,
            sliding_window=group.window,
            use_eagle=group.is_eagle_group,
        ))  # fmt: skip
        return kept

    def update_connector_output(self, job_ids: Iterable[int]) -> None:
        """End transfers, in the order in which the worker reports them."""
        for job_id in job_ids:
            self.transfers.complete(job_id)

    def bind_kv_cache_manager(self, kv_cache_manager: KVCacheManager) -> None:
        """Learn the cache whose blocks are stored."""
        self.kv_cache_manager = kv_cache_manager

    def request_finished(self, request: Request) -> None:
        """Store the last chunks of an ended request with the next step. It gives back the blocks that left windows."""
        self.kv_cache_manager.remove_skipped_blocks(request, request.num_computed_tokens)
        self.finished_reqs.append(request)

    def has_pending_push_work(self) -> bool:
        """True if transfers are open, or begin with the next step."""
        return bool(self.finished_reqs or self.transfers.jobs)


def _alignment_tokens(groups: Sequence[OffloadedGroup]) -> int:
    """Return the tokens at whose multiples loads end, 0 = not a single number: chunks of full attention, else the
    largest ones."""
    full = {group.tokens_per_chunk for group in groups if not group.window_chunks}
    if not full:
        return max(group.tokens_per_chunk for group in groups)
    return full.pop() if len(full) == 1 else 0
