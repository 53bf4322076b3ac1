"""The scheduler: a prefill step for waiting requests, or a decode step for the running ones.

Source: sgl-project/sglang python/sglang/srt/managers/scheduler.py (0.5.23).
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple, Sequence

from cachesim.base.errors import ProcessAborted
from cachesim.engines.sglang.events import SchedulerStep
from cachesim.engines.sglang.flags import window_slots
from cachesim.engines.sglang.managers.batch_result_processor import BatchResultProcessor
from cachesim.engines.sglang.managers.kv_events_publisher import KVEventsPublisher
from cachesim.engines.sglang.managers.req import Req
from cachesim.engines.sglang.managers.schedule_batch import (
    ForwardMode,
    ForwardRange,
    PrefillStats,
    ScheduleBatch,
)
from cachesim.engines.sglang.managers.schedule_policy import PrefillAdder, SchedulePolicy
from cachesim.engines.sglang.managers.step_limits import request_limit, slot_limit
from cachesim.engines.sglang.managers.tp_worker import GenerationBatchResult, TpModelWorker
from cachesim.engines.sglang.mem_cache.allocator import (
    PagedTokenToKVPoolAllocator,
    SWATokenToKVPoolAllocator,
    TokenToKVPoolAllocator,
)
from cachesim.engines.sglang.mem_cache.common import checkpoint_kv_cache, match_kv_cache, release_kv_cache
from cachesim.engines.sglang.mem_cache.memory_pool import HybridReqToTokenPool, MemoryPools, MHATokenToKVPool
from cachesim.engines.sglang.mem_cache.unified_radix_cache import UnifiedRadixCache
from cachesim.engines.sglang.rules.schedule import CONTINUE, NO_TOKEN, OTHER
from cachesim.engines.sglang.runtime_context import RuntimeContext
from cachesim.engines.shared.request_queue import log_launch, record_answer
from cachesim.engines.shared.step_notes import StepNotes, numbers_of
from cachesim.engines.shared.vocab import CountingSampler
from cachesim.events import Release
from cachesim.events.scheduling import LimitKind, StepLimit
from cachesim.model import Model

OUT_OF_MEMORY = ("Out of memory even after retracting all other requests in the decode batch. Aborting the last "
                 "request.")
RESERVED_PAGES = 2              # pages that no request can use
RESERVED_TOKENS = 2             # tokens of the context that no request can use
RESERVED_INPUT = 5              # tokens that a prompt is shorter than the longest request


class LaunchedBatch(NamedTuple):
    """A batch whose results are not processed yet."""

    batch: ScheduleBatch
    result: GenerationBatchResult


class Scheduler:
    """The scheduler of a server. ``chunked_req``: the request whose prompt is evaluated in chunks, None = none;
    ``last_batch``: the batch of the last turn, None = it launched none; ``result_queue``: launched batches whose
    results are not processed; ``last_result``: what the last step evaluated; ``notes``: what limits the next step;
    ``full_limit``: why no further request is tried, until one leaves."""

    def __init__(self, context: RuntimeContext, model: Model | None, sampler: CountingSampler) -> None:
        args = context.server_args
        self.context = context
        self.rules = context.rules
        self.log = context.log
        self.notes = StepNotes(context.log, "retracted")
        self.max_running_requests = args.max_running_requests
        self.max_req_len = args.max_total_tokens - RESERVED_PAGES * args.page_size
        if args.context_len:
            self.max_req_len = min(self.max_req_len, args.context_len - RESERVED_TOKENS)
        longest = min(args.max_total_tokens, args.context_len or args.max_total_tokens)
        self.max_req_input_len = min(self.max_req_len, longest - 1 - RESERVED_INPUT)
        self.pools = MemoryPools(
            HybridReqToTokenPool(self.max_running_requests, args.max_mamba_cache_size),
            self._token_to_kv_pool_allocator(), MHATokenToKVPool(context.spec))  # fmt: skip
        self.tree_cache = UnifiedRadixCache(context, self.pools)
        self.kv_events_publisher = KVEventsPublisher(context, self.tree_cache.tree_core)
        self.policy = SchedulePolicy(context, self.tree_cache)
        self.tp_worker = TpModelWorker(context, self.pools, model, sampler)
        self.batch_result_processor = BatchResultProcessor(context, self.tree_cache, self.max_req_len)
        self.waiting_queue: list[Req] = []
        self.running_batch = ScheduleBatch(context, self.tree_cache, [])
        self.forward_ct = 0
        self.last_batch: ScheduleBatch | None = None
        self.result_queue: deque[LaunchedBatch] = deque()
        self.chunked_req: Req | None = None
        self.last_result: GenerationBatchResult | None = None
        self.full_limit = StepLimit(LimitKind.NOT_TRIED)

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
        """Number of requests that hold a row."""
        pool = self.pools.req_to_token_pool
        return pool.size - pool.available_size()

    def run_step(self) -> bool:
        """Run a turn of the loop; return True if it launched a step, processed the results of one, or let requests that
        ended leave."""
        num_reqs = len(self.running_batch.reqs)
        self.kv_events_publisher.is_idle = False        # a process that ends in the step publishes nothing more
        has_worked = self.event_loop_overlap() if self.context.enable_overlap else self.event_loop_normal()
        self.kv_events_publisher.is_idle = self.is_fully_idle
        return has_worked or len(self.running_batch.reqs) < num_reqs

    @property
    def is_fully_idle(self) -> bool:
        """True if no request waits or runs, and no results are on their way."""
        return not (self.waiting_queue or self.result_queue or any(req.busy for req in self.running_batch.reqs)
                    or self.chunked_req is not None)

    def on_idle(self) -> None:
        """Publish events, unless requests wait for room."""
        if self.is_fully_idle:
            self.kv_events_publisher.publish()

    def event_loop_normal(self) -> bool:
        """Launch a step and process its results."""
        batch = self.get_next_batch_to_run()
        ended = list[int]()
        if batch is not None:
            self.run_batch(batch)
            ended = self._pop_and_process()
            self._log_turn(batch, ended)
        else:
            self.on_idle()
        self.last_batch = batch
        return batch is not None

    def event_loop_overlap(self) -> bool:
        """Launch a step, then process the results of the step before."""
        batch = self.get_next_batch_to_run()
        has_results = bool(self.result_queue)
        if batch is not None:
            self.run_batch(batch)
        ended = self._pop_and_process() if has_results else []
        if batch is not None or ended:
            self._log_turn(batch, ended)
        if batch is None and self.last_batch is None:
            self.on_idle()
        self.last_batch = batch
        return batch is not None or has_results

    def get_next_batch_to_run(self) -> ScheduleBatch | None:
        """Return a prefill step if a request can start or continue, else a decode step; None if no request runs."""
        self.notes.begin()
        self.tree_cache.check_hicache_events()
        chunked = self.chunked_req
        if chunked is not None and chunked.extend_end > chunked.prefix_len:
            self.stash_chunked_request(chunked)
        self._merge_last_batch()
        batch = self.get_new_batch_prefill()
        if batch is None and not self.running_batch.is_empty():
            batch = self.update_running_batch(self.running_batch)
        if self.notes.is_recorded:
            self._note_step(batch)
        return batch

    def _note_step(self, batch: ScheduleBatch | None) -> None:
        """Log a step with what it evaluates, and why others wait."""
        is_prefill = batch is not None and batch.forward_mode == ForwardMode.EXTEND
        if is_prefill:
            ending = self._reqs_finishing_inflight(self.running_batch)
            left = [req for req in self.running_batch.reqs if req not in ending]
            self.notes.hold_others(left, StepLimit(LimitKind.PROMPTS_FIRST))
        runs = [self.notes.tokens(
            one.req, one.start, one.end - one.start,
            num_prompt_tokens=one.req.num_input_tokens - one.req.num_unread_tokens,
            num_drafts=0 if is_prefill else one.end - one.start - 1,
        ) for one in (() if batch is None else batch.ranges)]  # fmt: skip
        self.notes.emit("prefill" if is_prefill else "decode", runs)

    def stash_chunked_request(self, req: Req) -> None:
        """Insert what the last chunk of a prompt has computed into the tree."""
        checkpoint_kv_cache(req, self.tree_cache)

    def _merge_last_batch(self) -> None:
        """Let the requests of the last prefill step run, except for one whose prompt continues."""
        running_batch = self.running_batch
        last_batch = self.last_batch
        if last_batch is not None and last_batch.forward_mode == ForwardMode.EXTEND:
            if last_batch.filter_batch([] if self.chunked_req is None else [self.chunked_req]):
                running_batch.batch_is_full = False
            if running_batch.is_empty():
                running_batch.batch_is_full = False
            running_batch.merge_batch(last_batch)
        if self.rules.leaves_each_step() and running_batch.filter_batch():
            running_batch.batch_is_full = False

    # Prefill.

    def get_num_allocatable_reqs(self, admitted: Sequence[Req] = ()) -> int:
        """Return how many requests a prefill step can have, of which some are ``admitted``."""
        pool = self.pools.req_to_token_pool
        held: int = self.rules.held_rows(sum(req.kv.kv_allocated_len > 0 for req in admitted))
        return min(self.max_running_requests - len(self.running_batch.reqs), pool.available_size() + held)

    def get_new_batch_prefill(self) -> ScheduleBatch | None:
        """Return a prefill step with its slots; None if no request can start or continue."""
        running_batch = self.running_batch
        has_windows = bool(self.context.sliding_window_size)
        if running_batch.batch_is_full:
            running_batch.batch_is_full = not running_batch.is_empty() and self.rules.stays_full(has_windows)
        if self.chunked_req is None:
            if running_batch.batch_is_full or not self.waiting_queue:
                self._note_waiting(self._not_tried())
                return None
            if self.get_num_allocatable_reqs() <= 0:
                running_batch.batch_is_full = True
                self.full_limit = self._request_limit()
                self._note_waiting(self.full_limit)
                return None
        self.policy.calc_priority(self.waiting_queue)
        adder = PrefillAdder(self.context, self.tree_cache, running_batch.reqs, self.notes)
        stats = PrefillStats([req.rid for req in self.waiting_queue], adder.verdicts)
        self._admit_requests(adder)
        if not adder.can_run_list:
            self._log_attempt(stats)
            return None
        self._keep_chunked_req(adder)
        batch = ScheduleBatch(self.context, self.tree_cache, adder.can_run_list, stats)
        batch.prepare_for_extend()
        for req in batch.reqs:
            self._record_launch(req)
        return batch

    def _admit_requests(self, adder: PrefillAdder) -> None:
        """Add the next chunk of a prompt, then waiting requests while there is room."""
        running_batch = self.running_batch
        if self.chunked_req is not None:
            assert adder.rem_chunk_tokens is not None
            limit = self.policy.shortest_prefill_chunk_limit(self.chunked_req, adder.rem_chunk_tokens)
            adder.add_chunked_req(self.chunked_req, limit)
            if adder.can_run_list and not self.chunked_req.is_chunked:
                self.chunked_req = None
        for req in self.waiting_queue:
            if adder.budget_state() == OTHER and self.rules.spent_stops():
                self._note_waiting(adder.room_limit())
                break
            if len(adder.can_run_list) >= self.get_num_allocatable_reqs(adder.can_run_list):
                running_batch.batch_is_full = True
                self.full_limit = self._request_limit(adder.can_run_list)
                self._note_waiting(self.full_limit)
            if running_batch.batch_is_full:
                self._note_waiting(self._not_tried())
                break
            match_kv_cache(req, self.tree_cache, req.seqlen - 1, cow_mamba=True)
            req.kv.cache_protected_len = req.prefix_len
            result = adder.add_one_req(req, has_chunked_req=self.chunked_req is not None)
            if result != CONTINUE:
                if result == NO_TOKEN:
                    running_batch.batch_is_full = bool(adder.can_run_list) or not running_batch.is_empty()
                    self.full_limit = self.notes.limit_of(req) or adder.room_limit()
                self._note_waiting(adder.room_limit() if req in adder.can_run_list else adder.order_limit(req))
                break
        self.waiting_queue[:] = [req for req in self.waiting_queue if req not in adder.can_run_list]

    def _note_waiting(self, limit: StepLimit) -> None:
        """Note why the requests of the queue wait that the step neither took nor refused."""
        if self.notes.is_recorded:
            self.notes.hold_others(self.waiting_queue, limit)

    def _not_tried(self) -> StepLimit:
        """Return why waiting requests are not tried: an earlier one met a limit, and none has left since."""
        return StepLimit(LimitKind.NOT_TRIED, option=self.full_limit.option, value=self.full_limit.value,
                         unit=self.full_limit.unit, behind=numbers_of(self.running_batch.reqs))

    def _request_limit(self, admitted: Sequence[Req] = ()) -> StepLimit:
        """Return the limit of a step in which as many requests run as may, some of them ``admitted``."""
        chunked = () if self.chunked_req is None or self.chunked_req in admitted else (self.chunked_req,)
        running = numbers_of((*self.running_batch.reqs, *chunked, *admitted))
        return request_limit(self.context.server_args, running)

    def _keep_chunked_req(self, adder: PrefillAdder) -> None:
        """Remember the request whose prompt continues with the next step: the last one of those that were cut. The
        others count as evaluated."""
        if adder.new_chunked_reqs:
            if self.chunked_req is not None:
                raise ProcessAborted("AssertionError: self.chunked_req is None", "two-chunked")
            self.chunked_req = adder.new_chunked_reqs[-1]
        for req in adder.new_chunked_reqs[:-1]:
            req.num_unread_tokens = req.seqlen - req.extend_end
        if self.chunked_req is not None:
            self.chunked_req.inflight_middle_chunks += 1

    def _record_launch(self, req: Req) -> None:
        """Record how many tokens a request reuses when it starts for the first time."""
        if not req.launched:
            req.launched = True
            log_launch(self.log, req.task, req.rid, {"node": req.prefix_len})

    # Decode.

    def update_running_batch(self, batch: ScheduleBatch) -> ScheduleBatch | None:
        """Prepare a decode step, after retracting requests if it does not fit; return None if no request takes part."""
        num_reqs = len(batch.reqs)
        finishing = self._reqs_finishing_inflight(batch)
        batch.filter_batch(finishing)
        batch.ranges = []
        batch.retracted = []
        batch.aborted = []
        for name in self.rules.decode_order:
            if name == "slide_windows":
                batch.prepare_drafts()
                batch.maybe_evict_swa()
            elif not batch.is_empty() and not batch.check_decode_mem(batch.reqs):
                if finishing:
                    batch.batch_is_full = False
                    return None
                self._retract(batch)
        if len(batch.reqs) < num_reqs:
            batch.batch_is_full = False
        if batch.is_empty():
            if batch.retracted or batch.aborted:
                self._log_turn(batch, [])
            return None
        batch.prepare_for_decode()
        return batch

    def _reqs_finishing_inflight(self, batch: ScheduleBatch) -> list[Req]:
        """Return the requests whose last token by length is on its way."""
        if not self.result_queue:
            return []
        queued = self.result_queue[0].batch.reqs
        return [req for req in batch.reqs if req in queued and self.rules.skips_finishing(
            req.next_output_finishes_by_length(self.max_req_len))]  # fmt: skip

    def _retract(self, batch: ScheduleBatch) -> None:
        """Retract running requests until the next step fits; they wait again."""
        computed = {req: req.kv.kv_committed_len for req in batch.reqs}
        needed = batch.new_tokens_required_next_decode(batch.reqs)
        free = self.tree_cache.token_to_kv_pool_allocator.available_size()
        batch.retract_decode()
        limit = slot_limit(self.context.server_args, free, needed, numbers_of(batch.reqs))
        for req in batch.retracted:
            self.add_request(req)
            self.notes.preempt(req, computed[req], limit)
        for req in batch.aborted:
            req.task.answer.fails(500, OUT_OF_MEMORY, "no-room")
            self.finish_request(req, "none", checkpoint=False)

    # Evaluation.

    def run_batch(self, batch: ScheduleBatch) -> None:
        """Evaluate a step."""
        self.forward_ct += 1
        batch.forward_iter = self.forward_ct
        has_drafts = batch.forward_mode == ForwardMode.DECODE and bool(self.context.num_draft_tokens)
        self.last_result = self.tp_worker.forward_batch_generation(batch.ranges, has_drafts)
        for one in batch.ranges:
            self._decline_states(one)
        self.result_queue.append(LaunchedBatch(batch.copy(), self.last_result))

    def _decline_states(self, chunk: ForwardRange) -> None:
        """Log that a chunk made no state: at its tokens but the last, and behind the state that it keeps."""
        if self.context.supports_mamba and chunk.end - chunk.start > 1:
            is_buffered = self.context.enable_mamba_extra_buffer
            rule = self.rules.track_prefill if is_buffered else self.rules.give_at_chunk
            for n in {chunk.start, chunk.mamba_track_seqlen or chunk.start}:
                self.context.decline(chunk.req, n, rule)

    # Results.

    def _pop_and_process(self) -> list[int]:
        """Process the results of the oldest launched step; return the numbers of the requests that ended."""
        launched = self.result_queue.popleft()
        batch = launched.batch
        reqs = list(batch.reqs)
        is_prefill = batch.forward_mode == ForwardMode.EXTEND
        busy = [req for req in reqs if req.busy]
        settles_chunk = is_prefill and self.rules.settles_chunk()
        for req in reqs:
            self._process_result(req, launched, is_prefill)
            if settles_chunk and req is self.chunked_req:
                self.stash_chunked_request(req)
        self.kv_events_publisher.step_processed(is_prefill)
        return [req.rid for req in busy if not req.busy]

    def _process_result(self, req: Req, launched: LaunchedBatch, is_prefill: bool) -> None:
        """Process what a step computed of a request, and end it if its answer is complete or its client left."""
        if is_prefill and req.inflight_middle_chunks > 0:
            req.inflight_middle_chunks -= 1
        elif not req.busy or req.is_retracted:
            return
        else:
            process = self.batch_result_processor
            process.append_outputs(req, launched.result.outputs[req], is_decode=not is_prefill)
            if not is_prefill:
                process.update_tracked_states(req, launched.batch, len(launched.result.outputs[req]))
            if req.is_answered:
                self.finish_request(req, "limit", checkpoint=req.mamba_lazy_checkpoint)
            elif is_prefill:
                checkpoint_kv_cache(req, self.tree_cache)
        cancel_at = req.task.request.cancel_at
        if req.busy and cancel_at is not None and req.kv.kv_committed_len >= cancel_at:
            self.abort_request(req)

    def abort_request(self, req: Req) -> None:
        """End a request whose client left. The last chunk of a prompt that continues does not enter the tree."""
        self.finish_request(req, "none", checkpoint=req is not self.chunked_req, cancelled=True)

    def finish_request(self, req: Req, why: str, checkpoint: bool, cancelled: bool = False) -> None:
        """End a request. ``checkpoint``: the tree takes over what it computed."""
        answer = req.task.answer
        computed = req.kv.kv_committed_len
        spoken = min(computed + req.num_unread_tokens, req.seqlen - 1)     # steps in flight can evaluate the last token
        record_answer(answer, why, cancelled, req.fill_ids[:spoken])
        if req.launched:
            self.log.emit(Release(req.rid, req.task.id, computed, 0))
        req.finish()
        try:
            release_kv_cache(req, self.tree_cache, checkpoint)
        except ProcessAborted as end:               # before the server sends the last token
            answer.dies(end)
            raise
        if req in self.waiting_queue:
            self.waiting_queue.remove(req)
        if req is self.chunked_req:
            self.chunked_req = None
        req.forget_text()

    def _log_attempt(self, stats: PrefillStats) -> None:
        """Log that no waiting request could start."""
        queue = list(stats.queue)
        self.log.emit(SchedulerStep("prefill", queue=queue, verdicts=verdicts_of(stats), run=[], finished=[]))

    def _log_turn(self, batch: ScheduleBatch | None, ended: list[int]) -> None:
        """Log a turn of the loop: the step that it launched, None = none, and the requests that it ended."""
        run = list[list[int]]()
        for one in () if batch is None else batch.ranges:
            tracked = [] if one.mamba_track_seqlen is None else [one.mamba_track_seqlen]
            run.append([one.req.rid, one.start, one.end, *tracked])
        stats = None if batch is None else batch.prefill_stats
        op = "none" if batch is None else "decode" if stats is None else "prefill"
        self.log.emit(SchedulerStep(
            op, queue=[] if stats is None else list(stats.queue), verdicts=[] if stats is None else verdicts_of(stats),
            run=run, finished=ended, retracted=[] if batch is None else [req.rid for req in batch.retracted],
            oom=[] if batch is None else [req.rid for req in batch.aborted],
        ))  # fmt: skip


def verdicts_of(stats: PrefillStats) -> list[list[Any]]:
    """Return the verdicts of admission as a recording has them."""
    return [[one.rid, one.result] for one in stats.verdicts]
