"""Requests of a step: their chunks, their next tokens, and the retraction of running requests.

Source: sgl-project/sglang python/sglang/srt/managers/schedule_batch.py ScheduleBatch (0.5.23).
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from enum import Enum, auto
from math import lcm
from typing import Sequence

from cachesim.engines.sglang.managers.req import Req
from cachesim.engines.sglang.managers.schedule_policy import AdmissionResult
from cachesim.engines.sglang.mem_cache.allocation import alloc_for_decode, alloc_for_extend
from cachesim.engines.sglang.mem_cache.allocator import ceil_align
from cachesim.engines.sglang.mem_cache.common import release_kv_cache
from cachesim.engines.sglang.mem_cache.unified_radix_cache import UnifiedRadixCache
from cachesim.engines.sglang.rules.request import DecodeStep
from cachesim.engines.sglang.runtime_context import RuntimeContext


class ForwardMode(Enum):
    """Kind of a step."""

    EXTEND = auto()
    DECODE = auto()


@dataclass(frozen=True, slots=True)
class ForwardRange:
    """Tokens start .. end-1 of a request that a step evaluates."""

    req: Req
    start: int
    end: int
    mamba_track_seqlen: int | None = None       # length of the state to keep, None = none
    mamba_track_slot: int | None = None         # slot that the state is copied to


@dataclass(frozen=True, slots=True)
class TrackPlan:
    """What a decode step tracks of a request, as it was planned when the step was launched."""

    track_idx: int                      # place of the state in the buffer of the request
    decode_batch_idx: int               # decode steps of the request until this one
    is_boundary: bool                   # the step ends where a state is tracked
    is_next_boundary: bool              # the step after it does


@dataclass(slots=True)
class PrefillStats:
    """The queue of a prefill step as the policy sorted it, and the verdicts of admission."""

    queue: Sequence[int]
    verdicts: Sequence[AdmissionResult]


class ScheduleBatch:
    """Requests of a step. ``ranges``: what the step evaluates; ``plans``: what it tracks of requests;
    ``retracted``, ``aborted``: requests that a decode step had no room for. ``batch_is_full``: a request found
    no slots, and no request has left since; ``forward_iter``: number of the server's step in which it ran last."""

    def __init__(self, context: RuntimeContext, tree_cache: UnifiedRadixCache, reqs: list[Req],
                 prefill_stats: PrefillStats | None = None) -> None:  # fmt: skip
        self.context = context
        self.rules = context.rules
        self.tree_cache = tree_cache
        self.reqs = reqs
        self.forward_mode = ForwardMode.DECODE if prefill_stats is None else ForwardMode.EXTEND
        self.prefill_stats = prefill_stats
        self.ranges: list[ForwardRange] = []
        self.plans: dict[Req, TrackPlan] = {}
        self.retracted: list[Req] = []
        self.aborted: list[Req] = []
        self.batch_is_full = False
        self.forward_iter = 0

    def copy(self) -> ScheduleBatch:
        """Return what the processing of the results reads. The requests of the batch can change meanwhile."""
        twin = copy(self)
        twin.reqs = list(self.reqs)
        return twin

    def is_empty(self) -> bool:
        """True if the batch has no requests."""
        return not self.reqs

    def filter_batch(self, excluded: Sequence[Req] = ()) -> bool:
        """Keep the requests that are in progress and not excluded; return True if others left."""
        kept = [req for req in self.reqs if req.busy and req not in excluded]
        has_left = len(kept) < len(self.reqs)
        self.reqs[:] = kept
        return has_left

    def merge_batch(self, added: ScheduleBatch) -> None:
        """Add the requests of another batch."""
        self.reqs += added.reqs

    # Prefill.

    def prepare_for_extend(self) -> None:
        """Allocate the slots of a prefill step and set its ranges."""
        alloc_for_extend(self.reqs, self.tree_cache)
        self.ranges = [self._prefill_range(req) for req in self.reqs]
        for req in self.reqs:
            req.is_retracted = False

    def _prefill_range(self, req: Req) -> ForwardRange:
        """Return the chunk of a request, with the state that it keeps."""
        kv = req.kv
        req.kv.kv_committed_len = req.extend_end
        buffer = kv.mamba_ping_pong_track_buffer
        if buffer is None:
            return ForwardRange(req, req.prefix_len, req.extend_end)
        track_seqlen = self.context.decide(self.rules.track_prefill(
            req.prefix_len, req.extend_end, req.mamba_branching_seqlen, self.context.mamba_track_grid), req)
        if track_seqlen is None:
            return ForwardRange(req, req.prefix_len, req.extend_end)
        slot = buffer[kv.mamba_next_track_idx]
        kv.mamba_last_track_idx = kv.mamba_next_track_idx
        kv.mamba_last_track_seqlen = track_seqlen
        if not self.context.enable_mamba_extra_buffer_lazy:
            kv.mamba_next_track_idx = self.context.other_track_idx(kv.mamba_next_track_idx)
        return ForwardRange(
            req, req.prefix_len, end=req.extend_end, mamba_track_seqlen=track_seqlen, mamba_track_slot=slot
        )

    # Decode.

    def new_tokens_required_next_decode(self, reqs: Sequence[Req]) -> int:
        """Return the slots that requests lack for a decode step."""
        page = self.context.page_size
        ahead = self.context.alloc_reserve_per_decode
        return sum(max(0, ceil_align(req.kv.kv_committed_len + ahead, page) - ceil_align(req.kv.kv_allocated_len, page))
                   for req in reqs)  # fmt: skip

    def check_decode_mem(self, reqs: Sequence[Req]) -> bool:
        """Evict for a decode step of requests; return True if it fits."""
        num_tokens = self.new_tokens_required_next_decode(reqs)
        self.tree_cache.evict_from_tree_cache(num_tokens)
        return self.tree_cache.token_to_kv_pool_allocator.available_size() >= num_tokens

    def retract_decode(self) -> None:
        """Retract running requests until the next step fits. The last one is aborted if it does not fit alone."""
        reqs = list(self.reqs)
        lengths = [(req.num_output_ids, req.num_input_tokens) for req in reqs]
        order: list[int] = self.context.decide(self.rules.retract_order(lengths), None)
        while len(order) > 1 and not (self.retracted and self.check_decode_mem([reqs[at] for at in order])):
            req = reqs[order.pop()]
            self.release_req(req, remaining_req_count=len(order))
            self.retracted.append(req)
        if len(order) <= 1 and not self.check_decode_mem([reqs[at] for at in order]):
            self.aborted.append(reqs[order.pop()])
        self.reqs[:] = [reqs[at] for at in self.rules.kept_order(order)]

    def release_req(self, req: Req, remaining_req_count: int) -> None:
        """Free the memory of a request that is retracted. The tree keeps nothing of it."""
        self.context.decline(req, req.kv.cache_protected_len, self.rules.retract_order)
        release_kv_cache(req, self.tree_cache, checkpoint=False)
        self.tree_cache.evict_from_tree_cache(self.rules.retract_steps * remaining_req_count)
        req.reset_for_retract()

    def maybe_evict_swa(self) -> None:
        """Free the window slots that running requests no longer read."""
        swa = self.tree_cache.swa
        if swa is None:
            return
        interval = self.context.server_args.swa_eviction_interval
        for req in self.reqs:
            step = DecodeStep(
                decode_batch_idx=req.decode_batch_idx,
                forward_iter=self.forward_iter,
                sliding_window_size=self.context.swa_retain_window,
                page_size=self.context.page_size,
                eviction_interval=interval,
            )
            if self.rules.slides(step):
                swa.free_out_of_window_slots(req, self.rules.window_frontier, req.seqlen - 1, interval)

    def prepare_drafts(self) -> None:
        """Plan what a decode step with drafts tracks."""
        self.plans = {}
        if self.context.num_draft_tokens:
            for req in self.reqs:
                self._plan_drafts(req)

    def prepare_for_decode(self) -> None:
        """Allocate the slots of a decode step and set its ranges."""
        self.forward_mode = ForwardMode.DECODE
        self.prefill_stats = None
        alloc_for_decode(self.reqs, self.tree_cache)
        for req in self.reqs:
            req.decode_batch_idx += 1
            if not self.context.num_draft_tokens:
                req.kv.kv_committed_len += 1
                self._plan_decode(req)
        self.ranges = [self._decode_range(req) for req in self.reqs]

    def _plan_decode(self, req: Req) -> None:
        """Plan what a step that evaluates one token of a request tracks."""
        kv = req.kv
        if kv.mamba_ping_pong_track_buffer is None:
            return
        step = lcm(self.context.mamba_track_grid, self.context.server_args.mamba_track_interval)
        is_boundary = kv.kv_committed_len % step == 0
        if is_boundary and self.context.enable_mamba_extra_buffer_lazy:
            self._prealloc_at_boundary(req)
        self.plans[req] = TrackPlan(kv.mamba_next_track_idx, req.decode_batch_idx, is_boundary,
                                    is_next_boundary=kv.kv_committed_len % step == step - 1)  # fmt: skip

    def _prealloc_at_boundary(self, req: Req) -> None:
        """Take a slot for the state that a lazy request tracks now. Without a free one it tracks in the slot of its
        last state, which is lost."""
        kv = req.kv
        buffer = kv.mamba_ping_pong_track_buffer
        other = 1 - kv.mamba_next_track_idx
        if buffer is None or buffer[other] is not None:
            return
        buffer[other] = self.tree_cache.req_to_token_pool.mamba_allocator.alloc()
        if buffer[other] is not None:
            kv.mamba_next_track_idx = other
        elif self.rules.forgets_overwritten():
            kv.mamba_last_track_seqlen = None

    def _plan_drafts(self, req: Req) -> None:
        """Plan what a step with drafts tracks of a request. A lazy request needs a second slot if the draft, or the one
        in flight, can reach a boundary."""
        kv = req.kv
        buffer = kv.mamba_ping_pong_track_buffer
        if buffer is None:
            return
        track_idx = kv.mamba_next_track_idx
        if self.context.enable_mamba_extra_buffer_lazy and self.context.reaches_boundary(kv.kv_committed_len):
            other = 1 - track_idx
            if buffer[other] is None:
                buffer[other] = self.tree_cache.req_to_token_pool.mamba_allocator.alloc()
                if buffer[other] is None and self.rules.forgets_overwritten():
                    kv.mamba_last_track_seqlen = None
            track_idx = track_idx if buffer[other] is None else other
        self.plans[req] = TrackPlan(track_idx, req.decode_batch_idx, is_boundary=False, is_next_boundary=False)

    def _decode_range(self, req: Req) -> ForwardRange:
        """Return the tokens of a request in a decode step: its last token, and right draft tokens."""
        start = req.seq_len
        right = min(self.context.num_draft_tokens, req.task.request.right_drafts(start + req.num_unread_tokens))
        end = start + 1 + right
        plan = self.plans.get(req)
        if plan is None:
            return ForwardRange(req, start, end)
        buffer = req.kv.mamba_ping_pong_track_buffer
        assert buffer is not None
        track = self.rules.track_decode(start, end, self.context.mamba_track_grid,
                                        self.context.server_args.mamba_track_interval)  # fmt: skip
        track_seqlen = self.context.decide(track, req)
        slot = None if track_seqlen is None else buffer[plan.track_idx]
        return ForwardRange(req, start, end=end, mamba_track_seqlen=track_seqlen, mamba_track_slot=slot)
