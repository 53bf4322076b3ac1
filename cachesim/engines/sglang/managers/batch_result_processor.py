"""Results of a step: the tokens of answers, and the places of the states that requests track.

While a step runs, the next one may have been launched (overlap): a request is then a token further than its results
say, and the place of its next state is already chosen.
Source: sgl-project/sglang python/sglang/srt/managers/scheduler_components/batch_result_processor.py (0.5.23).
"""

from __future__ import annotations

from math import lcm
from typing import Sequence

from cachesim.engines.base import Output
from cachesim.engines.sglang.managers.req import Req
from cachesim.engines.sglang.managers.schedule_batch import ScheduleBatch, TrackPlan
from cachesim.engines.sglang.mem_cache.unified_radix_cache import UnifiedRadixCache
from cachesim.engines.sglang.runtime_context import RuntimeContext


class BatchResultProcessor:
    """What requests learn from the results of their steps."""

    def __init__(self, context: RuntimeContext, tree_cache: UnifiedRadixCache, max_req_len: int) -> None:
        self.context = context
        self.tree_cache = tree_cache
        self.max_req_len = max_req_len

    def append_outputs(self, req: Req, outputs: Sequence[Output], is_decode: bool) -> None:
        """Append the tokens that a step sampled to the answer of a request, up to its end. With drafts the tokens that
        it evaluated count as computed now."""
        if is_decode and self.context.num_draft_tokens:
            req.kv.kv_committed_len += len(outputs)
        answer = req.task.answer
        answer.outputs += outputs
        for _ in outputs:
            token_id = req.append_output_id()
            is_at_limit = req.num_remaining_tokens <= 0 or req.seqlen >= self.max_req_len
            req.is_answered = req.is_answered or is_at_limit or token_id in req.task.request.eog

    def update_tracked_states(self, req: Req, batch: ScheduleBatch, num_accepted: int) -> None:
        """Note which states a decode step has tracked of a request; it evaluated ``num_accepted`` tokens."""
        plan = batch.plans.get(req)
        if plan is None:
            return
        if self.context.num_draft_tokens:
            self._update_after_drafts(req, plan, num_accepted)
        elif self.context.enable_mamba_extra_buffer_lazy:
            self._update_lazy(req, plan)
        else:
            self._update(req, plan)

    def _update(self, req: Req, plan: TrackPlan) -> None:
        """Note the state at a boundary, and choose the other place for the next one as soon as the step that tracks is
        launched."""
        kv = req.kv
        lookahead = req.decode_batch_idx - plan.decode_batch_idx
        if plan.is_boundary:
            kv.mamba_last_track_idx = plan.track_idx
            kv.mamba_prev_track_seqlen = kv.mamba_last_track_seqlen
            kv.mamba_last_track_seqlen = kv.kv_committed_len - lookahead
        is_launched = plan.is_next_boundary if lookahead else plan.is_boundary
        is_reused = plan.is_boundary and kv.mamba_next_track_idx == plan.track_idx
        if self.context.rules.takes_other_place(is_launched, is_reused):
            kv.mamba_next_track_idx = self.context.other_track_idx(kv.mamba_next_track_idx)

    def _update_lazy(self, req: Req, plan: TrackPlan) -> None:
        """Note the state at a boundary, and free the slot of the one before. A request that ends while its next step
        overwrites its last state hands over none."""
        kv = req.kv
        lookahead = req.decode_batch_idx - plan.decode_batch_idx
        is_overwritten = lookahead and plan.is_next_boundary
        if req.is_answered and is_overwritten and kv.mamba_next_track_idx == kv.mamba_last_track_idx:
            req.mamba_lazy_checkpoint = False
        if not plan.is_boundary:
            return
        kv.mamba_last_track_seqlen = kv.kv_committed_len - lookahead
        kv.mamba_last_track_idx = plan.track_idx
        kv.mamba_next_track_idx = plan.track_idx
        self._empty_place(req, 1 - plan.track_idx)

    def _update_after_drafts(self, req: Req, plan: TrackPlan, num_accepted: int) -> None:
        """Note the state at the last boundary among the tokens that a step with drafts evaluated."""
        kv = req.kv
        step = lcm(self.context.mamba_track_grid, self.context.server_args.mamba_track_interval)
        n = req.seqlen - 1
        is_crossed = n // step != (n - num_accepted) // step
        if self.context.enable_mamba_extra_buffer_lazy:
            self._update_lazy_after_drafts(req, plan, n // step * step if is_crossed else None)
        elif is_crossed:
            kv.mamba_prev_track_seqlen = kv.mamba_last_track_seqlen
            kv.mamba_last_track_seqlen = n // step * step
            kv.mamba_last_track_idx = kv.mamba_next_track_idx
            kv.mamba_next_track_idx = self.context.other_track_idx(kv.mamba_next_track_idx)

    def _update_lazy_after_drafts(self, req: Req, plan: TrackPlan, crossed: int | None) -> None:
        """Note the state that a step has tracked after ``crossed`` tokens. A request that ends hands over its last
        state unless this step, or the one in flight, may have overwritten it."""
        kv = req.kv
        buffer = kv.mamba_ping_pong_track_buffer
        assert buffer is not None
        if req.is_answered:
            was_written = crossed is not None and plan.track_idx == kv.mamba_next_track_idx
            may_be_written = buffer[1 - kv.mamba_next_track_idx] is None and self.context.reaches_boundary(
                kv.kv_committed_len)
            if was_written or may_be_written:
                req.mamba_lazy_checkpoint = False
        elif crossed is not None:
            if plan.track_idx != kv.mamba_next_track_idx:
                self._empty_place(req, kv.mamba_next_track_idx)
                kv.mamba_next_track_idx = plan.track_idx
            kv.mamba_last_track_idx = plan.track_idx
            kv.mamba_last_track_seqlen = crossed

    def _empty_place(self, req: Req, track_idx: int) -> None:
        """Free the slot in a place of the buffer of a request, if it has one."""
        buffer = req.kv.mamba_ping_pong_track_buffer
        assert buffer is not None
        slot = buffer[track_idx]
        if slot is not None:
            self.tree_cache.req_to_token_pool.mamba_allocator.free(slot)
            buffer[track_idx] = None
