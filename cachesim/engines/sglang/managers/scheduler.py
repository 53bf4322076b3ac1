"""The scheduler: a prefill step for waiting requests, or a decode step for the running ones.

Source: sgl-project/sglang python/sglang/srt/managers/scheduler.py,
managers/scheduler_components/batch_result_processor.py (0.5.23).
"""

from __future__ import annotations

from typing import Callable, Sequence

from cachesim.base.errors import ProcessAborted
from cachesim.engines.sglang.events import SchedulerStep
from cachesim.engines.sglang.flags import window_slots
from cachesim.engines.sglang.managers.req import Req
from cachesim.engines.sglang.managers.schedule_batch import (
    ForwardMode,
    ForwardRange,
    PrefillStats,
    ScheduleBatch,
)
from cachesim.engines.sglang.managers.schedule_policy import PrefillAdder, SchedulePolicy
from cachesim.engines.sglang.managers.tp_worker import GenerationBatchResult, TpModelWorker
from cachesim.engines.sglang.mem_cache.allocator import (
    PagedTokenToKVPoolAllocator,
    SWATokenToKVPoolAllocator,
    TokenToKVPoolAllocator,
)
from cachesim.engines.sglang.mem_cache.common import match_kv_cache, release_kv_cache
from cachesim.engines.sglang.mem_cache.memory_pool import HybridReqToTokenPool, MemoryPools, MHATokenToKVPool
from cachesim.engines.sglang.mem_cache.unified_radix_cache import UnifiedRadixCache
from cachesim.engines.sglang.rules.schedule import CONTINUE, NO_TOKEN, OTHER
from cachesim.engines.sglang.runtime_context import RuntimeContext
from cachesim.engines.shared.request_queue import log_launch, record_answer
from cachesim.engines.shared.vocab import CountingSampler
from cachesim.events import Release
from cachesim.model import HiddenOutput, Model

OUT_OF_MEMORY = ("Out of memory even after retracting all other requests in the decode batch. Aborting the last "
                 "request.")
RESERVED_PAGES = 2              # pages that no request can use


class Scheduler:
    """The scheduler of a server. ``chunked_req``: the request whose prompt is evaluated in chunks, None = none;
    ``last_result``: what the last pass of the model evaluated."""

    def __init__(self, context: RuntimeContext, model: Model | None, sampler: CountingSampler) -> None:
        args = context.server_args
        self.context = context
        self.rules = context.rules
        self.log = context.log
        self.max_running_requests = args.max_running_requests
        self.max_req_len = args.max_total_tokens - RESERVED_PAGES * args.page_size
        self.pools = MemoryPools(HybridReqToTokenPool(args.max_mamba_cache_size), self._token_to_kv_pool_allocator(),
                                 MHATokenToKVPool(context.spec))
        self.tree_cache = UnifiedRadixCache(context, self.pools)
        self.policy = SchedulePolicy(context, self.tree_cache)
        self.tp_worker = TpModelWorker(context, self.pools, model, sampler)
        self.waiting_queue: list[Req] = []
        self.running_batch = ScheduleBatch(context, self.tree_cache, [])
        self.chunked_req: Req | None = None
        self.last_result: GenerationBatchResult | None = None

    def _token_to_kv_pool_allocator(self) -> TokenToKVPoolAllocator:
        args = self.context.server_args
        if self.context.sliding_window_size:
            return SWATokenToKVPoolAllocator(args.max_total_tokens, window_slots(args), args.page_size)
        return PagedTokenToKVPoolAllocator(args.max_total_tokens, args.page_size)

    def add_request(self, req: Req) -> None:
        """Queue a request."""
        self.waiting_queue.append(req)

    @property
    def num_running_reqs(self) -> int:
        """Number of requests that run, with the one that is evaluated in chunks."""
        return len(self.running_batch.reqs) + (self.chunked_req is not None)

    def run_step(self) -> bool:
        """Run a step; return True if a request could run."""
        self.tree_cache.check_hicache_events()
        batch = self.get_next_batch_to_run()
        if batch is None:
            return False
        self.run_batch(batch)
        self.process_batch_result(batch)
        return True

    def get_next_batch_to_run(self) -> ScheduleBatch | None:
        """Return a prefill step if a request can start or continue, else a decode step; None if no request runs."""
        batch = self.get_new_batch_prefill()
        if batch is None and not self.running_batch.is_empty():
            batch = self.running_batch
            self.update_running_batch(batch)
        return batch

    # Prefill.

    def get_new_batch_prefill(self) -> ScheduleBatch | None:
        """Return a prefill step with its slots; None if no request can start or continue."""
        running_batch = self.running_batch
        has_windows = bool(self.context.sliding_window_size)
        if running_batch.batch_is_full:
            running_batch.batch_is_full = not running_batch.is_empty() and self.rules.stays_full(has_windows)
        if self.chunked_req is None and (running_batch.batch_is_full or not self.waiting_queue
                                         or self.num_running_reqs >= self.max_running_requests):
            return None
        self.policy.calc_priority(self.waiting_queue)
        adder = PrefillAdder(self.context, self.tree_cache, running_batch.reqs)
        stats = PrefillStats([req.rid for req in self.waiting_queue], adder.verdicts)
        self._admit_requests(adder)
        if not adder.can_run_list:
            self._log_turn(stats, [])
            return None
        batch = ScheduleBatch(self.context, self.tree_cache, adder.can_run_list, stats)
        batch.prepare_for_extend()
        for req in batch.reqs:
            self._record_launch(req)
        return batch

    def _admit_requests(self, adder: PrefillAdder) -> None:
        """Add the next chunk of a prompt, then waiting requests while there is room."""
        num_held_reqs = self.num_running_reqs
        if self.chunked_req is not None:
            limit = self.policy.shortest_prefill_chunk_limit(self.chunked_req, adder.rem_chunk_tokens or 0)
            adder.add_chunked_req(self.chunked_req, limit)
            if adder.can_run_list and not self.chunked_req.is_chunked:
                self.chunked_req = None
        num_held_reqs -= len(adder.can_run_list)
        for req in self.waiting_queue:
            is_full = num_held_reqs + len(adder.can_run_list) >= self.max_running_requests
            if self.running_batch.batch_is_full or is_full or adder.budget_state() == OTHER:
                break
            match_kv_cache(req, self.tree_cache, req.seqlen - 1, cow_mamba=True)
            req.kv.cache_protected_len = req.prefix_len
            result = adder.add_one_req(req, has_chunked_req=self.chunked_req is not None)
            if req.is_chunked:
                self.chunked_req = req
            if result != CONTINUE:
                self.running_batch.batch_is_full = result == NO_TOKEN and not self.running_batch.is_empty()
                break
        self.waiting_queue[:] = [req for req in self.waiting_queue if req not in adder.can_run_list]

    def _record_launch(self, req: Req) -> None:
        """Record how many tokens a request reuses when it starts for the first time."""
        if not req.launched:
            req.launched = True
            log_launch(self.log, req.task, req.rid, {"node": req.prefix_len})

    # Decode.

    def update_running_batch(self, batch: ScheduleBatch) -> None:
        """Prepare a decode step, after retracting requests if it does not fit."""
        for name in self.rules.decode_order:
            if name == "retract":
                self._retract(batch)
            else:
                batch.maybe_evict_swa()
        batch.prepare_for_decode()

    def _retract(self, batch: ScheduleBatch) -> None:
        """Retract running requests until the next step fits; they wait again."""
        batch.retract_decode()
        for req in batch.retracted:
            self.add_request(req)
            batch.batch_is_full = False
        for req in batch.aborted:
            req.task.answer.fails(500, OUT_OF_MEMORY, "no-room")
            self.finish_request(req, "none", checkpoint=False)

    # Evaluation.

    def run_batch(self, batch: ScheduleBatch) -> None:
        """Evaluate a step; right draft tokens are evaluated one by one."""
        ranges = batch.ranges
        while ranges:
            self.last_result = self.tp_worker.forward_batch_generation(ranges)
            for one, hidden in zip(ranges, self.last_result.hidden_states, strict=True):
                one.req.kv.kv_committed_len = one.end
                self._decline_states(one)
                self._append_token(one.req, hidden)
            ranges = batch.next_ranges()

    def _append_token(self, req: Req, hidden: HiddenOutput | None) -> None:
        """Append the next token to a request whose tokens are all evaluated. Right draft tokens behind the end of an
        answer are evaluated, too."""
        if req.kv.kv_committed_len < req.seqlen:
            return
        answer = req.task.answer
        answer.outputs.append(self.tp_worker.output_of(req, hidden))
        token_id = self.tp_worker.sample(req)
        if req.is_answered:
            req.fill_ids.append(token_id)
            return
        req.append_output_id(token_id)
        is_at_limit = req.num_remaining_tokens <= 0 or req.seqlen >= self.max_req_len
        req.is_answered = is_at_limit or token_id in req.task.request.eog

    def _decline_states(self, chunk: ForwardRange) -> None:
        """Log that a chunk made no state: at its tokens but the last, and behind the state that it keeps."""
        if self.context.supports_mamba and chunk.end - chunk.start > 1:
            is_buffered = self.context.enable_mamba_extra_buffer
            rule = self.rules.track_prefill if is_buffered else self.rules.give_at_chunk
            for n in {chunk.start, chunk.mamba_track_seqlen or chunk.start}:
                self.context.decline(chunk.req, n, rule)

    # Results.

    def process_batch_result(self, batch: ScheduleBatch) -> None:
        """End each request of a step, or what the step was for it."""
        ranges = batch.evaluated_ranges()
        reqs = [one.req for one in ranges]
        if batch.forward_mode == ForwardMode.EXTEND:
            self._process_in_order(reqs, self._process_prefill_result)
            self._log_turn(batch.prefill_stats, ranges)
            return
        self._process_in_order(reqs, self._finish_if_answered)
        self._log_turn(None, ranges, retracted=[req.rid for req in batch.retracted],
                       oom=[req.rid for req in batch.aborted])  # fmt: skip

    def _process_in_order(self, reqs: Sequence[Req], process: Callable[[Req], object]) -> None:
        """Process the requests of a step, and end those whose clients left."""
        for at in self.rules.settle_order([req is self.chunked_req for req in reqs]):
            req = reqs[at]
            process(req)
            cancel_at = req.task.request.cancel_at
            if req.busy and cancel_at is not None and req.kv.kv_committed_len >= cancel_at:
                self.abort_request(req)

    def _process_prefill_result(self, req: Req) -> None:
        """Insert what a chunk has computed; after the last chunk the request generates."""
        if req is self.chunked_req:
            self.running_batch.batch_is_full = False
        else:
            self.running_batch.reqs.append(req)
            if self._finish_if_answered(req):
                return
        self.tree_cache.checkpoint_into_tree(req, req.extend_end)
        req.prefix_len = req.extend_end

    def _finish_if_answered(self, req: Req) -> bool:
        """End a request if its answer is complete; return True if it ended."""
        if req.is_answered:
            self.finish_request(req, "limit")
        return req.is_answered

    def abort_request(self, req: Req) -> None:
        """End a request whose client left."""
        self.finish_request(req, "none", cancelled=True)

    def finish_request(self, req: Req, why: str, checkpoint: bool = True, cancelled: bool = False) -> None:
        """End a request. ``checkpoint``: the tree takes over what it computed."""
        answer = req.task.answer
        computed = req.kv.kv_committed_len
        record_answer(answer, why, cancelled, req.fill_ids[:computed])
        if req.launched:
            self.log.emit(Release(req.rid, req.task.id, computed, 0))
        req.finish()
        try:
            release_kv_cache(req, self.tree_cache, checkpoint)
        except ProcessAborted as end:               # before the server sends the last token
            answer.dies(end)
            raise
        for reqs in (self.running_batch.reqs, self.waiting_queue):
            if req in reqs:
                reqs.remove(req)
        if req is self.chunked_req:
            self.chunked_req = None
        self.running_batch.batch_is_full = False
        req.forget_text()

    def _log_turn(self, stats: PrefillStats | None, ranges: Sequence[ForwardRange], retracted: Sequence[int] = (),
                  oom: Sequence[int] = ()) -> None:  # fmt: skip
        """Log a step: queue and verdicts of a prefill step, None = a decode step."""
        run = list[list[int]]()
        for one in ranges:
            tracked = [] if one.mamba_track_seqlen is None else [one.mamba_track_seqlen]
            run.append([one.req.rid, one.start, one.end, *tracked])
        self.log.emit(SchedulerStep(
            "decode" if stats is None else "prefill", queue=[] if stats is None else list(stats.queue),
            verdicts=[] if stats is None else [[one.rid, one.result] for one in stats.verdicts], run=run,
            finished=[one.req.rid for one in ranges if not one.req.busy], retracted=retracted, oom=oom,
        ))  # fmt: skip
