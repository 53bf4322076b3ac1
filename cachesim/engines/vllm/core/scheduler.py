"""The scheduler: which requests get tokens in a step, and what the results of a step change.

Source: vLLM vllm/v1/core/sched/scheduler.py (0.33.0).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Sequence

from cachesim.engines.rule import rule_id
from cachesim.engines.shared.request_queue import count_reused, log_launch, record_answer
from cachesim.engines.shared.server_loop import log_decision
from cachesim.engines.shared.step_notes import StepNotes, number_of, numbers_of
from cachesim.engines.vllm.core.deferred_frees import DeferredFrees
from cachesim.engines.vllm.core.encoder_cache_manager import EncoderCacheManager, EncoderPlan
from cachesim.engines.vllm.core.kv_cache_events import Preempted
from cachesim.engines.vllm.core.kv_cache_manager import KVCacheManager
from cachesim.engines.vllm.core.scheduler_output import (
    CachedRequestData,
    ModelRunnerOutput,
    NewRequestData,
    SchedulerOutput,
)
from cachesim.engines.vllm.core.step_limits import (
    ChunkStages,
    block_limit,
    chunk_limits,
    draft_limit,
    order_limit,
    request_limit,
    token_limit,
)
from cachesim.engines.vllm.kv_cache_interface import (
    KVCacheConfig,
    VllmConfig,
    get_mamba_prefill_checkpoint_position,
    is_mamba_prefill_checkpoint_valid,
    last_cache_position,
    tail_boundary,
)
from cachesim.engines.vllm.kv_events import KVEventPublisher
from cachesim.engines.vllm.kv_offload.connector_scheduler import OffloadingConnectorScheduler
from cachesim.engines.vllm.request import EncoderInput, Request, RequestStatus
from cachesim.engines.vllm.rules.blocks import NewTokens
from cachesim.engines.vllm.rules.lookup import CacheHit
from cachesim.engines.vllm.rules.offload import DraftStep, LoadReserve
from cachesim.engines.vllm.rules.schedule import ChunkSplit, DraftPadding, OutputInFlight, PaddedRequest, WaitingQueue
from cachesim.events import Decided, Log, Release
from cachesim.events.scheduling import LimitKind, StepLimit

if TYPE_CHECKING:
    from cachesim.engines.vllm.profiles import Rules

NO_DRAFT = -1                   # a place for a drafted token that the worker fills in


@dataclass(slots=True)
class StepInProgress:
    """A step while it is scheduled. ``token_budget``: tokens that it has room for; ``cap``: most tokens of a request, 0
    = no limit; ``encoder_budget``: tokens of images that it can still encode; ``stopped``, ``refused``: numbers in the
    log of the running request that found no blocks, and of the waiting request that was asked last, -1 = none;
    ``has_prefill``: a running request has a chunk of its prompt in it; ``skipped_waiting``: requests that were passed
    over; ``encoded``: images that are encoded for each request."""

    output: SchedulerOutput
    token_budget: int
    cap: int
    encoder_budget: int
    is_preempted: bool = False
    stopped: int = -1
    refused: int = -1
    has_prefill: bool = False
    skipped_waiting: list[Request] = field(default_factory=list)
    encoded: dict[int, list[EncoderInput]] = field(default_factory=dict)

    def encode(self, request: Request, plan: EncoderPlan) -> None:
        """Let the step encode images of a request."""
        if plan.inputs:
            self.encoder_budget = plan.budget
            self.encoded[request.request_id] = plan.inputs

    def add(self, data: CachedRequestData, num_new_tokens: int, spec_token_ids: list[int]) -> None:
        """Add a request."""
        self.output.add(data, num_new_tokens, spec_token_ids)
        self.token_budget -= num_new_tokens


class ChunkEnd(NamedTuple):
    """End of a chunk. ``split``: its tokens up to where a state is kept. Tokens that are left for later:
    ``cut_by_state`` because a state is kept before them, ``cut_by_images`` because an image among them cannot be
    encoded now. Releases differ in which of the two limits comes first."""

    split: int
    plan: EncoderPlan
    cut_by_state: int
    cut_by_images: int

    @property
    def num_new_tokens(self) -> int:
        """Tokens of the chunk."""
        return min(self.split, self.plan.num_new_tokens)


class WaitingChunk(NamedTuple):
    """The first tokens of a request that starts, with places for drafts (``padded``), and the images that they need."""

    num_new_tokens: int
    padded: bool
    plan: EncoderPlan


def draft_step(num_spec_tokens: int, num_lookahead_tokens: int, config: KVCacheConfig) -> DraftStep:
    """Return a step with drafts, and the blocks that it needs."""
    num_tokens = 1 + num_spec_tokens + num_lookahead_tokens if num_spec_tokens else 0
    sizes = [group.block_size for group in config.kv_cache_groups if group.kind != "mamba"]
    return DraftStep(num_tokens, blocks_by_group=[-(-num_tokens // size) for size in sizes],
                     blocks_of_common_size=-(-num_tokens // config.scheduler_block_size))  # fmt: skip


def waiting_queue(waiting: Sequence[Request]) -> WaitingQueue:
    """Return what decides which waiting request is next."""
    return WaitingQueue(
        order=[request.order for request in waiting],
        holds_blocks=[request.num_computed_tokens > 0 for request in waiting],
        is_skipped=[request.is_skipped for request in waiting],
    )


class Scheduler:
    """The scheduler of a server. ``connector``: CPU offload, None = there is none."""

    def __init__(self, vllm_config: VllmConfig, rules: Rules, log: Log) -> None:
        config = vllm_config.kv_cache_config
        options = vllm_config.options
        self.vllm_config = vllm_config
        self.rules = rules
        self.log = log
        self.notes = StepNotes(log, "preempted")
        self.policy = options.scheduling_policy
        self.async_scheduling = options.async_scheduling
        self.max_num_running_reqs = options.max_num_seqs
        self.max_num_scheduled_tokens = options.max_num_batched_tokens
        self.long_prefill_token_threshold = options.long_prefill_token_threshold
        self.max_model_len = config.max_model_len
        self.num_spec_tokens = options.num_speculative_tokens
        self.num_lookahead_tokens = config.speculation.num_lookahead_tokens
        self.num_prefill_lookahead = config.speculation.num_prefill_lookahead
        self.requests: dict[int, Request] = {}
        self.waiting: list[Request] = []
        self.running: list[Request] = []
        self.connector = OffloadingConnectorScheduler(vllm_config, rules, log) if options.num_cpu_chunks else None
        self.kv_cache_manager = KVCacheManager(vllm_config, rules, log)
        self.kv_event_publisher = KVEventPublisher(vllm_config, rules, self.kv_cache_manager.block_pool)
        self.max_num_encoder_input_tokens = max(options.max_num_batched_tokens, options.max_tokens_per_mm_item)
        self.encoder_cache_manager = EncoderCacheManager(
            self.max_num_encoder_input_tokens, self.rules, self.num_prefill_lookahead)
        self.load_reserve: LoadReserve = self.rules.reserve_drafts(
            draft_step(self.num_spec_tokens, self.num_lookahead_tokens, config))
        self.finished_recving: list[Request] = []       # ended requests whose blocks a load still writes
        defers = self.connector is not None and self.async_scheduling
        self.deferred_frees = DeferredFrees(self.kv_cache_manager, self.rules, defers)
        if self.connector is not None:
            self.connector.bind_kv_cache_manager(self.kv_cache_manager)

    def add_request(self, request: Request) -> None:
        """Queue a request."""
        self.requests[request.request_id] = request
        self.waiting.append(request)

    def schedule(self) -> SchedulerOutput:
        """Schedule a step."""
        self.notes.begin()
        self.kv_cache_manager.new_step_starts()
        cap = self.rules.prefill_cap(self.long_prefill_token_threshold, len(self.running) + len(self.waiting))
        step = StepInProgress(SchedulerOutput(), self.max_num_scheduled_tokens, cap, self.max_num_encoder_input_tokens)
        at = 0
        while 0 <= at < len(self.running) and step.token_budget > 0:
            at = self._schedule_running(step, at)
        more = not step.is_preempted
        while more and self.waiting and step.token_budget > 0 and len(self.running) < self.max_num_running_reqs:
            more = self._schedule_waiting(step)
        if self.notes.is_recorded:
            self._note_step(step)
        self.waiting[:0] = step.skipped_waiting
        self._update_after_schedule(step.output)
        return step.output

    # Notes about the step.

    def _note_step(self, step: StepInProgress) -> None:
        """Log a step with what it evaluates, and why others wait."""
        options = self.vllm_config.options
        others = [request for request in self.running if request.request_id not in step.output.scheduled_reqs]
        self.notes.hold_others(others, token_limit(options) if step.stopped < 0 else order_limit(options, step.stopped))
        self.notes.hold_others(self.waiting, self._waiting_limit(step))
        runs = []
        for req_id, data in step.output.scheduled_reqs.items():
            request = self.requests[req_id]
            runs.append(self.notes.tokens(
                request, data.num_computed_tokens, step.output.num_scheduled_tokens[req_id],
                num_prompt_tokens=request.num_prompt_tokens,
                num_drafts=len(step.output.scheduled_spec_decode_tokens[req_id])))
        self.notes.emit("", runs)

    def _waiting_limit(self, step: StepInProgress) -> StepLimit:
        """Return why the step admitted no further waiting request."""
        options = self.vllm_config.options
        if step.is_preempted:
            return StepLimit(LimitKind.PREEMPTION, behind=tuple(one.request for one in self.notes.preemptions))
        if step.token_budget <= 0:
            return token_limit(options)
        if len(self.running) >= self.max_num_running_reqs:
            return request_limit(options, numbers_of(self.running))
        return order_limit(options, step.refused)

    def _note_chunk(self, request: Request, stages: ChunkStages) -> None:
        """Note what took tokens from the chunk of a request."""
        if not self.notes.is_recorded:
            return
        limits = tuple(chunk_limits(
            self.vllm_config.options, stages, self.vllm_config.kv_cache_config.block_size, self.max_model_len))
        if stages.in_model_len <= 0:                    # the token in flight is the last one that the model allows
            self.notes.hold(request, None)
        elif stages.scheduled:
            self.notes.cut(request, limits)
        else:
            self.notes.hold(request, limits[-1] if limits else None)

    def _note_blocks(self, request: Request) -> None:
        """Note that too few blocks are free for a request."""
        if not self.notes.is_recorded:
            return
        holders = numbers_of(one for one in self.running if one is not request)
        self.notes.hold(request, block_limit(self.vllm_config.options, self.kv_cache_manager.refusal, holders))

    # Running requests.

    def _schedule_running(self, step: StepInProgress, at: int) -> int:
        """Schedule the running request at this place; return the next place, -1 = none."""
        request = self.running[at]
        known = request.num_tokens
        computed = request.num_computed_tokens
        placeholders = request.num_output_placeholders
        if self.rules.surely_ends(placeholders, computed, known + request.num_remaining_tokens):
            self.notes.hold(request, None)
            return at + 1
        wanted = request.num_tokens_with_spec + placeholders - computed
        num_new_tokens = min(wanted, step.cap or wanted, step.token_budget)
        in_model_len = min(num_new_tokens, self.max_model_len - computed - 1)
        end = self._split_and_encode(step, request, computed, in_model_len)
        num_new_tokens = self._reserve_prefill_lookahead(request, computed, end.num_new_tokens)
        if num_new_tokens < max(wanted, 1):
            self._note_chunk(request, ChunkStages(
                wanted=wanted, cap=step.cap, token_budget=step.token_budget, in_model_len=in_model_len,
                cut_by_state=end.cut_by_state, cut_by_images=end.cut_by_images, scheduled=num_new_tokens))
        if not num_new_tokens:
            return at + 1
        while True:
            new_blocks = self.kv_cache_manager.allocate_slots(
                request, num_new_tokens, num_lookahead_tokens=self.num_lookahead_tokens)
            if new_blocks is not None:
                break
            num_scheduled = len(step.output.num_scheduled_tokens)
            gone = self._preempt_request_for(request, step)
            if gone is None:
                step.stopped = number_of(request)
                self._note_blocks(request)
                return -1
            is_scheduled = len(step.output.num_scheduled_tokens) < num_scheduled
            if gone < at and self.rules.steps_back(is_scheduled):
                at -= 1
            if not request.is_running:
                goes_on = self.rules.goes_on(self.policy)
                step.stopped = -1 if goes_on else number_of(request)
                return at if goes_on else -1
        step.encode(request, end.plan)
        self.encoder_cache_manager.allocate_inputs(request, end.plan)
        step.has_prefill |= request.is_prefill_chunk
        num_drafts = max(0, num_new_tokens + computed - known - placeholders)
        step.add(CachedRequestData(
            req_id=request.request_id, num_computed_tokens=computed, new_block_ids=new_blocks,
            has_checkpoint_block=self.kv_cache_manager.has_checkpoint_block(request.request_id),
        ), num_new_tokens, request.spec_token_ids[:num_drafts])  # fmt: skip
        request.spec_token_ids = []
        return at + 1

    def _split_and_encode(self, step: StepInProgress, request: Request, start: int, num_new_tokens: int) -> ChunkEnd:
        """Return the end of the next chunk of a request, which is where a state should be kept, or before an image that
        cannot be encoded now."""
        budget = step.encoder_budget
        if not request.mm_features or self.rules.cuts_images_last():
            split = self._mamba_block_aligned_split(request, start, num_new_tokens)
            plan = self.encoder_cache_manager.try_schedule(request, start, split, budget)
            return ChunkEnd(split, plan, num_new_tokens - split, split - plan.num_new_tokens)
        plan = self.encoder_cache_manager.try_schedule(request, start, num_new_tokens, budget)
        split = self._mamba_block_aligned_split(request, start, plan.num_new_tokens)
        return ChunkEnd(split, plan, plan.num_new_tokens - split, num_new_tokens - plan.num_new_tokens)

    def _mamba_block_aligned_split(self, request: Request, start: int, num_new_tokens: int) -> int:
        """Return the tokens of the next chunk of a request, which ends where a state should be kept."""
        vllm_config = self.vllm_config
        config = vllm_config.kv_cache_config
        if not config.need_mamba_block_aligned_split:
            return num_new_tokens
        prefill_end = request.prefill_end
        end = start + num_new_tokens
        block_size = config.block_size
        max_prefill_tokens = self.max_num_scheduled_tokens
        if self.long_prefill_token_threshold > 0:
            max_prefill_tokens = min(max_prefill_tokens, self.long_prefill_token_threshold)
        use_internal_checkpoint = False
        if end >= prefill_end:
            use_internal_checkpoint = is_mamba_prefill_checkpoint_valid(
                self.rules, vllm_config, query_start=start, query_end=end,
                checkpoint_position=get_mamba_prefill_checkpoint_position(self.rules, vllm_config, prefill_end),
                mamba_block_size=block_size)
        tail = 0
        is_finer = config.hash_block_size < config.scheduler_block_size
        if self.rules.stops_at_tail(config.enable_partial_hash_hits, is_finer):
            tail = tail_boundary(self.rules, vllm_config, request.num_prompt_tokens)
        split = self.rules.split(ChunkSplit(
            start=start,
            end=end,
            prefill_end=prefill_end,
            num_prompt_tokens=request.num_prompt_tokens,
            block_size=block_size,
            max_prefill_tokens=max_prefill_tokens,
            last_cache_position=last_cache_position(self.rules, vllm_config, request.num_tokens, block_size),
            tail_boundary=tail,
            use_internal_checkpoint=use_internal_checkpoint,
            junction=request.shared_prefix_boundary,
            is_running=request.is_running,
            mamba_shared_prefix_checkpoint=config.mamba_shared_prefix_checkpoint,
        ))  # fmt: skip
        if start >= prefill_end:
            return int(split.value)
        return int(log_decision(self.log, split, request))

    def _reserve_prefill_lookahead(self, request: Request, num_computed_tokens: int, num_new_tokens: int) -> int:
        """Return the tokens of the next chunk, without those that are left for the last one."""
        remaining = request.num_tokens - num_computed_tokens - num_new_tokens
        left = self.rules.leave_lookahead(remaining, num_new_tokens, self.num_prefill_lookahead)
        if num_new_tokens and not left:
            because = {"n": request.num_tokens, "computed": num_computed_tokens, "new": num_new_tokens,
                       "remaining": remaining, "lookahead": self.num_prefill_lookahead}  # fmt: skip
            self.log.emit(Decided(request.request_id, rule_id(self.rules.leave_lookahead), left, because=because))
        return left

    def _preempt_request_for(self, in_need: Request, step: StepInProgress) -> int | None:
        """Preempt a running request, because too few blocks are free for the one ``in_need``; return its place, None =
        its blocks would not be free now."""
        decision = self.rules.preempt(
            self.policy, [request.order for request in self.running], self.kv_cache_manager.num_refused_blocks,
            self.kv_cache_manager.block_pool.get_num_free_blocks())
        if not self.deferred_frees.can_be_freed(self.running[decision.value]):
            return None
        at: int = log_decision(self.log, decision, None)
        step.is_preempted = True
        request = self.running.pop(at)
        step.token_budget += step.output.remove(request.request_id)
        step.encoder_budget += sum(image.length for image in step.encoded.pop(request.request_id, ()))
        if self.notes.is_recorded:
            holders = (number_of(in_need),) if in_need is not request else numbers_of(self.running)
            self.notes.preempt(request, request.num_computed_tokens, block_limit(
                self.vllm_config.options, self.kv_cache_manager.refusal, holders))
        self._preempt_request(request, drop_stale_output=False)
        return at

    def _preempt_request(self, request: Request, drop_stale_output: bool) -> None:
        """Take the blocks of a request that left the running ones; it waits first. ``drop_stale_output``: its tokens in
        flight are not delivered."""
        self.log.emit(Preempted(request.request_id, request.num_computed_tokens))
        self.deferred_frees.free_request_blocks(request)
        self.encoder_cache_manager.free(request)
        stale = request.drop_stale_output and request.num_stale_output_tokens > 0
        request.drop_stale_output = drop_stale_output or stale
        left = self.rules.stale_output(OutputInFlight(
            num_in_flight_tokens=request.num_in_flight_tokens,
            num_output_placeholders=request.num_output_placeholders,
            num_discarded_outputs=request.num_discarded_outputs,
            is_reset=drop_stale_output,
        ))  # fmt: skip
        request.num_stale_output_tokens = left.num_stale_output_tokens
        request.num_output_placeholders = left.num_output_placeholders
        request.num_discarded_outputs = left.num_discarded_outputs
        request.status = RequestStatus.PREEMPTED
        request.num_computed_tokens = 0
        request.spec_token_ids = []
        request.num_preemptions += 1
        self.waiting.insert(0, request)

    # Waiting requests.

    def _schedule_waiting(self, step: StepInProgress) -> bool:
        """Admit the waiting request that is next; return True if others may follow."""
        decision = self.rules.next_waiting(self.policy, waiting_queue(self.waiting))
        at: int = log_decision(self.log, decision, None)
        request = self.waiting[at]
        step.refused = number_of(request)
        undelivered = request.num_stale_output_tokens and not request.drop_stale_output
        if undelivered or self._waits_for_remote_kvs(request):
            self.notes.hold(request, StepLimit(LimitKind.IN_FLIGHT if undelivered else LimitKind.LOAD))
            return self._skip_request(step, at)
        new_computed = self.kv_cache_manager.empty_kv_cache_blocks
        if not request.num_computed_tokens:
            new_computed = self.kv_cache_manager.get_computed_blocks(request)
            request.shared_prefix_boundary = new_computed.junction
            external = self._get_num_external_tokens(request, new_computed.n)
            if external is None:
                self.notes.hold(request, StepLimit(LimitKind.TRANSFER))
                return self._skip_request(step, at)
            if external:
                new_computed = self.kv_cache_manager.truncate_computed_blocks(new_computed)
                has_begun = self._begin_load(step, request, new_computed, external)
                if not has_begun:
                    self._note_blocks(request)
                    return False
                self.notes.hold(request, StepLimit(LimitKind.LOAD))
                return self._skip_request(step, at)
        start = request.num_computed_tokens + new_computed.n
        chunk = self._waiting_chunk(step, request, start)
        if chunk is None:
            return False
        num_new_tokens = chunk.num_new_tokens
        if not num_new_tokens:
            if not self.rules.passes_over():
                return False
            return self._skip_request(step, at)
        if self.kv_cache_manager.allocate_slots(request, num_new_tokens, new_computed,
                                                num_lookahead_tokens=self.num_lookahead_tokens,
                                                has_scheduled_reqs=bool(self.running)) is None:
            self.encoder_cache_manager.free(request)
            self._note_blocks(request)
            return False
        if self.connector is not None:
            self.connector.update_state_after_alloc(
                request, self.kv_cache_manager.get_block_ids(request.request_id), num_external_tokens=0)
        self._start_request(request, start, num_new_tokens)
        step.encode(request, chunk.plan)
        self.encoder_cache_manager.allocate_inputs(request, chunk.plan)
        drafts = [NO_DRAFT] * self.num_spec_tokens if chunk.padded else []
        step.add(self._new_request_data(request), num_new_tokens, drafts)
        return True

    def _waiting_chunk(self, step: StepInProgress, request: Request, start: int) -> WaitingChunk | None:
        """Return the next chunk of a waiting request, None = no request may start now. A request with one token left
        gets places for drafts."""
        padded = self.rules.pad_drafts(DraftPadding(
            num_new_tokens=request.num_tokens - start,
            num_spec_tokens=self.num_spec_tokens,
            prefill_scheduled=step.has_prefill,
            num_computed_tokens=start,
            has_running_reqs=step.output.has_cached_reqs,
            fits_model_len=start + self.num_spec_tokens + 2 <= self.max_model_len,
            max_num_scheduled_tokens=self.max_num_scheduled_tokens,
        ))  # fmt: skip
        if padded and not self.rules.padded_fits(PaddedRequest(
            num_new_tokens=1 + self.num_spec_tokens,
            num_computed_tokens=start,
            token_budget=step.token_budget,
            max_model_len=self.max_model_len,
        )):  # fmt: skip
            because = {"n": request.num_tokens, "needed": 1 + self.num_spec_tokens, "free": step.token_budget,
                       "most": self.max_num_scheduled_tokens}  # fmt: skip
            self.log.emit(Decided(request.request_id, rule_id(self.rules.pad_drafts), True, because=because))
            self.notes.hold(request, draft_limit(self.vllm_config.options, step.token_budget))
            return None
        wanted = 1 + self.num_spec_tokens if padded else request.num_tokens - start
        allowed = min(wanted, step.cap or wanted, step.token_budget)
        end = self._split_and_encode(step, request, start, allowed)
        is_clipped = padded and 0 < end.split != wanted
        if is_clipped and self.rules.unpads_clipped():
            wanted = 1
            allowed = 1
            padded = False
            plan = self.encoder_cache_manager.try_schedule(request, start, 1, step.encoder_budget)
            end = ChunkEnd(1, plan, 0, 1 - plan.num_new_tokens)
        num_new_tokens = self._reserve_prefill_lookahead(request, start, end.num_new_tokens) if end.split else 0
        if num_new_tokens < wanted:
            self._note_chunk(request, ChunkStages(
                wanted=wanted, cap=step.cap, token_budget=step.token_budget, in_model_len=allowed,
                cut_by_state=end.cut_by_state, cut_by_images=end.cut_by_images, scheduled=num_new_tokens))
        if not end.split:
            return None
        return WaitingChunk(num_new_tokens, padded, end.plan)

    def _skip_request(self, step: StepInProgress, at: int) -> bool:
        """Leave a waiting request out of this step; return True: others may follow."""
        request = self.waiting.pop(at)
        request.is_skipped = True
        step.skipped_waiting.append(request)
        return True

    def _start_request(self, request: Request, start: int, num_new_tokens: int) -> None:
        """Move a waiting request to the running ones."""
        self.waiting.remove(request)
        self.running.append(request)
        cached = request.num_cached_tokens
        loaded = 0
        if request.num_computed_tokens and self.connector is not None:
            loaded = cached - self.connector.num_locally_computed_tokens(request)
        request.status = RequestStatus.RUNNING
        request.is_skipped = False
        request.num_computed_tokens = start
        request.is_prefill_chunk = start + num_new_tokens < request.num_tokens
        reused = {"block": cached - loaded, "chunk": loaded}
        repeated = cached - start                   # the last token of a prompt that was loaded whole
        if not request.launched:
            request.launched = True
            log_launch(self.log, request.task, request.request_id, reused, repeated)
        elif self._counts_again(request):
            count_reused(request.task, reused, repeated)

    def _counts_again(self, request: Request) -> bool:
        """True if the reply of a request that starts again counts the tokens that it reuses now."""
        return not request.num_output_tokens and self.rules.counts_again()

    def _new_request_data(self, request: Request) -> NewRequestData:
        """Return what the worker learns of a request that starts, or starts again."""
        block_ids = self.kv_cache_manager.get_block_ids(request.request_id)
        return NewRequestData(
            req_id=request.request_id, num_computed_tokens=request.num_computed_tokens,
            new_block_ids=[list(blocks) for blocks in block_ids],
            has_checkpoint_block=self.kv_cache_manager.has_checkpoint_block(request.request_id),
            request=request.task.request, text=request.text, prefill_token_ids=request.all_token_ids,
        )  # fmt: skip

    # Loads of the connector.

    def _get_num_external_tokens(self, request: Request, num_local_tokens: int) -> int | None:
        """Return the tokens that a request can load behind those of the pool; None = it waits."""
        external: int | None = 0
        if self.connector is not None:
            aligned = self.vllm_config.kv_cache_config.aligned_tokens(num_local_tokens)
            external = self.connector.get_num_new_matched_tokens(request, aligned)
            partial_tail = num_local_tokens - aligned
            if external is not None and partial_tail:           # a load replaces the part of a block, or none begins
                external = external if external > partial_tail else 0
                num_local_tokens = aligned if external else num_local_tokens
        if not request.launched or self._counts_again(request):
            request.num_cached_tokens = num_local_tokens + (external or 0)
        return external

    def _begin_load(
        self, step: StepInProgress, request: Request, new_computed: CacheHit, num_external_tokens: int
    ) -> bool:
        """Begin to load tokens behind a cached prefix; return True if enough blocks are free."""
        assert self.connector is not None
        new_blocks = self.kv_cache_manager.allocate_slots(
            request, 0, new_computed, num_external_computed_tokens=num_external_tokens,
            reserved_blocks=self._inflight_prefill_reserved_blocks(step) + self.load_reserve.own,
            has_scheduled_reqs=bool(self.running))
        if new_blocks is None:
            return False
        request.num_computed_tokens = new_computed.n + num_external_tokens
        request.status = RequestStatus.WAITING_FOR_REMOTE_KVS
        block_ids = self.kv_cache_manager.get_block_ids(request.request_id)
        self.connector.update_state_after_alloc(request, block_ids, num_external_tokens)
        return True

    def _inflight_prefill_reserved_blocks(self, step: StepInProgress) -> int:
        """Return the free blocks that a load leaves to other requests."""
        others = [request for request in (*self.running, *step.skipped_waiting, *self.waiting)
                  if (request.is_prefill_chunk if request.is_running else request.num_computed_tokens)]
        ahead = self.load_reserve.ahead
        missing = [self.kv_cache_manager.get_num_remaining_blocks(request, ahead) + self.load_reserve.each
                   for request in others]
        return self.rules.reserve_for_prompts(missing)

    def _waits_for_remote_kvs(self, request: Request) -> bool:
        """True if a request waits for its load. After the load its blocks are published."""
        if request.status != RequestStatus.WAITING_FOR_REMOTE_KVS or self.connector is None:
            return False
        if self.connector.has_transfers(request):
            return True
        request.status = RequestStatus.WAITING
        self.kv_cache_manager.cache_blocks(request, request.num_computed_tokens)
        request.num_computed_tokens = min(request.num_computed_tokens, self.rules.most_tokens(request.num_tokens))
        return False

    # Before and after the evaluation.

    def _update_after_schedule(self, output: SchedulerOutput) -> None:
        """Collect what comes before the evaluation, and count the tokens as computed."""
        output.new_block_ids_to_zero = self._get_new_block_ids_to_zero()
        output.kv_cache_block_copies = self.kv_cache_manager.take_kv_cache_block_copies()
        self.deferred_frees.free_copied_blocks(output.kv_cache_block_copies)
        self.deferred_frees.step_scheduled(bool(output.num_scheduled_tokens))
        for req_id, num_scheduled_tokens in output.num_scheduled_tokens.items():
            request = self.requests[req_id]
            request.num_computed_tokens += num_scheduled_tokens
            request.num_in_flight_tokens += num_scheduled_tokens
            request.last_sched_seq = self.deferred_frees.sched_step_seq
            known = request.num_tokens + request.num_output_placeholders
            request.is_prefill_chunk = request.num_computed_tokens < known
            samples_token = not request.is_prefill_chunk
            output.scheduled_reqs[req_id].samples_token = samples_token
            if samples_token and self.async_scheduling:
                request.num_output_placeholders += 1 + len(output.scheduled_spec_decode_tokens[req_id])
                request.spec_token_ids = [NO_DRAFT] * self.num_spec_tokens
        if self.connector is not None:
            output.boundary_state_offloads = self.kv_cache_manager.take_boundary_state_offloads()
            scheduled = [self.requests[req_id] for req_id in output.num_scheduled_tokens]
            output.kv_connector_metadata = self.connector.build_connector_meta(output, scheduled)

    def _get_new_block_ids_to_zero(self) -> list[int]:
        """Return the new blocks that the worker zeroes: in a model with states, those of rows."""
        new_block_ids = self.kv_cache_manager.take_new_block_ids()
        return new_block_ids if self.vllm_config.kv_cache_config.has_mamba_layers else []

    def update_from_output(self, scheduler_output: SchedulerOutput,
                           model_runner_output: ModelRunnerOutput) -> list[Request]:  # fmt: skip
        """Process the results of a step; return the finished requests."""
        self.deferred_frees.step_processed(bool(scheduler_output.num_scheduled_tokens))
        finished = list[Request]()
        for req_id, num_scheduled_tokens in scheduler_output.num_scheduled_tokens.items():
            request = self.requests[req_id]
            result = model_runner_output[req_id]
            new_token_ids = result.sampled_token_ids
            is_stale = request.num_stale_output_tokens > 0
            request.num_in_flight_tokens -= num_scheduled_tokens
            request.num_stale_output_tokens -= num_scheduled_tokens if is_stale else 0
            if request.is_finished or (is_stale and request.drop_stale_output):
                continue
            drafts = scheduler_output.scheduled_spec_decode_tokens[req_id]
            is_discarded = request.num_discarded_outputs > 0
            takes_back = not is_stale and (not is_discarded or self.rules.takes_back_discarded())
            if drafts and new_token_ids and takes_back:
                self._take_back_rejected(request, len(drafts) - (len(new_token_ids) - 1))
            self.encoder_cache_manager.free_computed_inputs(request)
            if not new_token_ids:
                continue
            if is_discarded:
                request.num_discarded_outputs -= 1
                continue
            placeholders = request.num_output_placeholders
            was_running = request.is_running
            stopped = self._update_request_with_output(request, new_token_ids, is_stale)
            if scheduler_output.scheduled_reqs[req_id].samples_token:
                request.task.answer.outputs += result.outputs[: len(new_token_ids)]
            less = self._num_uncached_tokens(request, placeholders)
            if less is not None and was_running and not is_stale:
                self.kv_cache_manager.cache_blocks(request, request.num_computed_tokens - less)
            if stopped:
                finished.append(request)
                if self.connector is not None:
                    self.connector.request_finished(request)
                self.deferred_frees.free_request_blocks(request)
        for request in finished:
            self._free_request(request, RequestStatus.FINISHED_STOPPED)
        self.kv_event_publisher.publish()
        return finished

    def _take_back_rejected(self, request: Request, num_rejected: int) -> None:
        """Take back the places of rejected drafts."""
        if request.num_computed_tokens:
            request.num_computed_tokens -= num_rejected
        if request.num_output_placeholders:
            request.num_output_placeholders -= num_rejected

    def _num_uncached_tokens(self, request: Request, placeholders: int) -> int | None:
        """Return the last computed tokens that are not published when tokens arrived, None = nothing is published.
        ``placeholders``: places before they arrived."""
        less: int | None = self.rules.publish_again(NewTokens(
            num_spec_tokens=self.num_spec_tokens,
            placeholders_before=placeholders,
            placeholders_after=request.num_output_placeholders,
            num_in_flight_tokens=request.num_in_flight_tokens,
            async_scheduling=self.async_scheduling,
        ))  # fmt: skip
        return less

    def _update_request_with_output(self, request: Request, new_token_ids: list[int], is_stale: bool) -> bool:
        """Append new tokens to a request, up to the one that ends the answer; return True if it ends."""
        num_extra = 0
        stopped = False
        for count, token_id in enumerate(new_token_ids, 1):
            request.append_output_token_ids(token_id)
            if self._stops(request, token_id):
                stopped = True
                num_extra = self.rules.uncounted(len(new_token_ids) - count)
                del new_token_ids[count:]
                break
        if not is_stale:
            request.num_computed_tokens -= num_extra
            if request.num_output_placeholders:
                request.num_output_placeholders -= len(new_token_ids) + num_extra
        return stopped

    def _stops(self, request: Request, token_id: int) -> bool:
        """True if a token ends an answer."""
        full = request.num_tokens >= self.max_model_len or request.num_remaining_tokens <= 0
        return full or token_id in request.task.request.eog

    def update_draft_token_ids(self, draft_token_ids: dict[int, list[int]]) -> None:
        """Take drafts for the next step."""
        for req_id, drafts in draft_token_ids.items():
            self.requests[req_id].spec_token_ids = drafts

    def update_connector_output(self, job_ids: Sequence[int]) -> None:
        """End transfers, and give back the blocks of ended requests that they wrote."""
        if self.connector is None:
            return
        waiting = {job_id: request for request in self.finished_recving for job_id in self.connector.jobs_of(request)}
        self.connector.update_connector_output(job_ids)
        for request in dict.fromkeys(waiting[job_id] for job_id in job_ids if job_id in waiting):
            if not self.connector.has_transfers(request):
                self.finished_recving.remove(request)
                self.deferred_frees.free_request_blocks(request)

    def finish_request(self, request: Request) -> None:
        """End a request whose client left."""
        if not request.is_finished:
            if self.connector is not None:
                self.connector.request_finished(request)
            self._free_request(request, RequestStatus.FINISHED_ABORTED)

    def _free_request(self, request: Request, status: RequestStatus) -> None:
        """End a request: it leaves its list, and its blocks are free, unless a load still writes them."""
        (self.running if request.is_running else self.waiting).remove(request)
        is_loading = request.status == RequestStatus.WAITING_FOR_REMOTE_KVS
        if self.connector is not None and is_loading and self.connector.has_transfers(request):
            self.finished_recving.append(request)
        else:
            self.deferred_frees.free_request_blocks(request)
        self.encoder_cache_manager.free(request)
        request.status = status
        held = 0 if is_loading else max(0, request.num_processed_tokens)
        aborted = status == RequestStatus.FINISHED_ABORTED
        computed = request.all_token_ids[: min(held, request.num_tokens - 1)]       # the last one is only an output
        record_answer(request.task.answer, "none" if aborted else "limit", aborted, computed)
        if request.launched:
            self.log.emit(Release(request.request_id, request.task.id, held, 0))

    def has_unfinished_transfers(self) -> bool:
        """True if transfers are open, or begin with the next step."""
        return self.connector is not None and self.connector.has_pending_push_work()

    def reset_prefix_cache(self, reset_running_requests: bool) -> bool:
        """Clear the prefix cache; return True if it was done. ``reset_running_requests``: these restart."""
        if self.rules.reset_preempts(reset_running_requests):
            while self.running:
                self._preempt_request(self.running.pop(), drop_stale_output=True)
        return self.kv_cache_manager.reset_prefix_cache()
