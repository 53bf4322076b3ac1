"""Requests of a step: their chunks, their next tokens, and the retraction of running requests.

Source: sgl-project/sglang python/sglang/srt/managers/schedule_batch.py ScheduleBatch (0.5.23).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Sequence

from cachesim.engines.sglang.managers.req import Req
from cachesim.engines.sglang.managers.schedule_policy import AdmissionResult
from cachesim.engines.sglang.mem_cache.allocation import alloc_for_decode, alloc_for_extend
from cachesim.engines.sglang.mem_cache.allocator import ceil_align
from cachesim.engines.sglang.mem_cache.common import release_kv_cache
from cachesim.engines.sglang.mem_cache.unified_radix_cache import UnifiedRadixCache
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


@dataclass(slots=True)
class PrefillStats:
    """The queue of a prefill step as the policy sorted it, and the verdicts of admission."""

    queue: Sequence[int]
    verdicts: Sequence[AdmissionResult]


class ScheduleBatch:
    """Requests of a step. ``ranges``: what the step evaluates first; ``retracted``, ``aborted``: requests that a decode
    step had no room for. ``batch_is_full``: a request found no slots, and no request has left since."""

    def __init__(self, context: RuntimeContext, tree_cache: UnifiedRadixCache, reqs: list[Req],
                 prefill_stats: PrefillStats | None = None) -> None:  # fmt: skip
        self.context = context
        self.rules = context.rules
        self.tree_cache = tree_cache
        self.reqs = reqs
        self.forward_mode = ForwardMode.DECODE if prefill_stats is None else ForwardMode.EXTEND
        self.prefill_stats = prefill_stats
        self.ranges: list[ForwardRange] = []
        self.retracted: list[Req] = []
        self.aborted: list[Req] = []
        self.batch_is_full = False

    def is_empty(self) -> bool:
        """True if the batch has no requests."""
        return not self.reqs

    @property
    def mamba_track_grid(self) -> int:
        """Tokens between the states that a chunk can keep."""
        return ceil_align(self.context.server_args.state_grid, self.context.page_size)

    # Prefill.

    def prepare_for_extend(self) -> None:
        """Allocate the slots of a prefill step and set its ranges."""
        alloc_for_extend(self.reqs, self.tree_cache)
        self.ranges = [self._prefill_range(req) for req in self.reqs]

    def _prefill_range(self, req: Req) -> ForwardRange:
        """Return the chunk of a request, with the state that it keeps."""
        kv = req.kv
        track_seqlen = None
        if kv.mamba_ping_pong_track_buffer is not None:
            track_seqlen = self.context.decide(self.rules.track_prefill(
                req.prefix_len, req.extend_end, req.mamba_branching_seqlen, self.mamba_track_grid), req)
        if track_seqlen is not None:
            kv.mamba_last_track_idx = 1 - kv.mamba_last_track_idx
            kv.mamba_last_track_seqlen = track_seqlen
        return ForwardRange(req, req.prefix_len, req.extend_end, track_seqlen)

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
        self.retracted = []
        self.aborted = []
        if self.check_decode_mem(self.reqs):
            return
        reqs = list(self.reqs)
        lengths = [(req.num_output_tokens, req.num_input_tokens) for req in reqs]
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
            if self.rules.slides(req.decode_batch_idx, self.context.swa_retain_window):
                swa.free_out_of_window_slots(req, self.rules.window_frontier, req.seqlen - 1, interval)

    def prepare_for_decode(self) -> None:
        """Allocate the slots of a decode step and set its ranges."""
        self.ranges = []
        if self.is_empty():
            return
        alloc_for_decode(self.reqs, self.tree_cache)
        interval = self.context.server_args.mamba_track_interval
        for req in self.reqs:
            computed = req.kv.kv_committed_len
            right = req.task.request.right_drafts(computed)
            req.decode_batch_idx += 1
            req.extend_end = computed + 1 + min(self.context.num_draft_tokens, right)
            track = self.rules.track_decode(computed, req.extend_end, self.mamba_track_grid, interval)
            req.mamba_track_seqlen = None
            if req.kv.mamba_ping_pong_track_buffer is not None:
                req.mamba_track_seqlen = self.context.decide(track, req)
        self.ranges = [self._decode_range(req) for req in self.reqs]

    def next_ranges(self) -> list[ForwardRange]:
        """Return the right draft tokens that a decode step evaluates next."""
        if self.forward_mode == ForwardMode.EXTEND:
            return []
        reqs = [one.req for one in self.ranges]
        return [self._decode_range(req) for req in reqs if req.kv.kv_committed_len < req.extend_end]

    def _decode_range(self, req: Req) -> ForwardRange:
        """Return the next token of a request in a decode step."""
        kv = req.kv
        n = kv.kv_committed_len + 1
        if req.mamba_track_seqlen != n:
            return ForwardRange(req, n - 1, n)
        kv.mamba_prev_track_seqlen = kv.mamba_last_track_seqlen
        kv.mamba_last_track_seqlen = n
        kv.mamba_last_track_idx = 1 - kv.mamba_last_track_idx
        return ForwardRange(req, n - 1, n, n)

    def evaluated_ranges(self) -> list[ForwardRange]:
        """Return what the step has evaluated, the right draft tokens included."""
        if self.forward_mode == ForwardMode.EXTEND:
            return self.ranges
        return [replace(one, end=one.req.kv.kv_committed_len) for one in self.ranges]
