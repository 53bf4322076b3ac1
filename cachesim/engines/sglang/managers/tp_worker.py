"""The worker: rows and states in their slots, and the evaluation of a step with a toy model.

Source: sgl-project/sglang python/sglang/srt/managers/tp_worker.py (0.5.23).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Mapping, NamedTuple, Sequence

from cachesim.engines.base import Output
from cachesim.engines.sglang.managers.req import Req
from cachesim.engines.sglang.managers.schedule_batch import ForwardRange
from cachesim.engines.sglang.mem_cache.allocator import Slots
from cachesim.engines.sglang.mem_cache.memory_pool import MemoryPools, States
from cachesim.engines.sglang.rules.reported import TrackedState
from cachesim.engines.sglang.runtime_context import RuntimeContext
from cachesim.engines.shared.cell_step import CellRun, CellStep
from cachesim.engines.shared.evaluation_cost import cost_of
from cachesim.engines.shared.kv_rows import RowTable
from cachesim.engines.shared.vocab import CountingSampler
from cachesim.model import HiddenOutput, LayerState, Model, Spec


class GenerationBatchResult(NamedTuple):
    """What a step evaluated; ``hidden_states``: the output of each range in its last pass of the model, None without a
    model; ``outputs``: those after which a token was sampled, by request."""

    ranges: Sequence[ForwardRange]
    hidden_states: Sequence[HiddenOutput | None]
    outputs: Mapping[Req, Sequence[Output]]


class KVCacheView:
    """The rows of requests, for a pass of the model."""

    def __init__(self, context: RuntimeContext, pools: MemoryPools) -> None:
        self.kind: Spec = context.spec
        self.rows: RowTable = pools.token_to_kv_pool.kv_buffer
        self.sliding_window_size = context.sliding_window_size
        self.pools = pools

    def cells(self, layer: int, request: int, start: int, stop: int) -> Slots | slice:
        """Return the slots of a layer for positions start .. stop-1 of a request; a slice of consecutive ones."""
        pool = self.pools.req_to_token_pool
        if self.kind.layers[layer].window:
            return self.pools.swa_allocator.translate_loc_from_full_to_swa(pool.read(request, start, stop))
        return pool.cells(request, start, stop)

    def first_read(self, part: str, start: int) -> int:
        """Return the first position that a token at ``start`` reads in this part of the memory."""
        return max(0, start - self.sliding_window_size + 1) if part == "swa" else 0


class TpModelWorker:
    """The worker."""

    def __init__(self, context: RuntimeContext, pools: MemoryPools, model: Model | None,
                 sampler: CountingSampler) -> None:  # fmt: skip
        self.context = context
        self.model = model
        self.sampler = sampler
        self.kv_cache = KVCacheView(context, pools)
        self.mamba_pool = pools.req_to_token_pool.mamba_pool
        self.packs_states = any(layer.kind in "SH" for layer in context.spec.layers)     # Mamba-2: of the whole batch

    def forward_batch_generation(self, ranges: Sequence[ForwardRange], drafts: bool) -> GenerationBatchResult:
        """Evaluate ranges. With ``drafts`` their tokens are evaluated one by one."""
        outputs: dict[Req, list[Output]] = {one.req: [] for one in ranges}
        todo = [self._token_of(one, one.start) for one in ranges] if drafts else list(ranges)
        hidden: Sequence[HiddenOutput | None] = []
        last: Sequence[ForwardRange] = []
        ends = {one.req: one for one in ranges}
        while todo:
            last = todo
            hidden = self._pass(todo)
            for one, output in zip(todo, hidden, strict=True):
                one.req.seq_len = one.end
                sampled = self._sample(one.req, output)
                if sampled is not None:
                    outputs[one.req].append(sampled)
            todo = [self._token_of(ends[one.req], one.end) for one in todo if one.end < ends[one.req].end]
        return GenerationBatchResult(last, hidden, outputs)

    def _token_of(self, chunk: ForwardRange, start: int) -> ForwardRange:
        """Return the token at ``start`` of a range, with the state that is tracked after it."""
        tracks = chunk.mamba_track_seqlen == start + 1
        return replace(chunk, start=start, end=start + 1, mamba_track_seqlen=start + 1 if tracks else None)

    def _sample(self, req: Req, hidden: HiddenOutput | None) -> Output | None:
        """Sample the next token of a request; return the output, None if known tokens are not evaluated yet. A token
        that was sampled before a retraction is the same again."""
        n = req.seq_len + req.num_unread_tokens
        if n < req.seqlen:
            return None
        output = self.output_of(req, hidden)
        if len(req.fill_ids) == n:
            req.fill_ids.append(self.sampler(req.fill_ids, req.task.request, n - req.num_input_tokens))
        return output

    def _pass(self, ranges: Sequence[ForwardRange]) -> list[HiddenOutput | None]:
        """Evaluate ranges; one with a tracked state inside is evaluated in two pieces."""
        self._spend(ranges)
        for one in ranges:
            self._prepare_mamba_state(one)
        taken_after = self._taken_after(ranges)
        first = dict[int, ForwardRange]()
        rest = dict[int, ForwardRange]()
        for at, (one, taken) in enumerate(zip(ranges, taken_after, strict=True)):
            if taken is None:
                first[at] = one
                continue
            if taken != one.start:
                first[at] = replace(one, end=taken)
            if taken < one.end:
                rest[at] = replace(one, start=taken)
        hidden = self._forward(first)
        for one in ranges:
            self._track_mamba_state(one)
        hidden |= self._forward(rest)
        return [hidden.get(at) for at in range(len(ranges))]

    def _spend(self, ranges: Sequence[ForwardRange]) -> None:
        """Count the cost of a pass."""
        tokens = 0
        before = 0
        for one in ranges:
            tokens += one.end - one.start
            before += one.end * (one.end - one.start)
        self.context.log.spend(*cost_of(self.model, tokens, max(1, tokens), before))

    def _prepare_mamba_state(self, chunk: ForwardRange) -> None:
        """Copy or clear the running state of a request that starts."""
        kv = chunk.req.kv
        if kv.mamba_pool_idx is None:
            return
        if kv.mamba_cow_src_index is not None:
            self.mamba_pool.copy_from(kv.mamba_cow_src_index, kv.mamba_pool_idx)
        elif kv.mamba_needs_clear:
            self.mamba_pool.clear_slot(kv.mamba_pool_idx)
        kv.mamba_cow_src_index = None
        kv.mamba_needs_clear = False

    def _taken_after(self, ranges: Sequence[ForwardRange]) -> list[int | None]:
        """Return for each range the length after which its tracked state is taken."""
        grid = self.context.server_args.state_grid
        flat = 0
        chunks = 0
        lengths = list[int | None]()
        for one in ranges:
            n = one.end - one.start
            length = one.mamba_track_seqlen
            if self.packs_states and length is not None and n > 1:
                tracking = TrackedState(
                    len_to_track=length - one.start,
                    extend_seq_len=n,
                    query_start_loc=flat,
                    track_ssm_src_offset=chunks,
                    state_chunk_size=grid,
                )
                length = one.start + self.context.rules.taken_after(tracking)
            lengths.append(length)
            flat += n
            chunks += n // grid
        return lengths

    def _track_mamba_state(self, chunk: ForwardRange) -> None:
        """Copy the running state of a request to the slot of its tracked state."""
        if chunk.mamba_track_seqlen is not None and chunk.mamba_track_slot is not None:
            self.mamba_pool.copy_from(chunk.req.kv.mamba_pool_idx, chunk.mamba_track_slot)

    def _forward(self, ranges: Mapping[int, ForwardRange]) -> dict[int, HiddenOutput]:
        """Evaluate ranges; return the outputs. Both are by place. Without a model there are none."""
        if self.model is None or not ranges:
            return {}
        runs = [CellRun(one.req.rid, one.start, one.req.evaluated_tokens(one.start, one.end),
                        self.mamba_pool.read(one.req.kv.mamba_pool_idx)) for one in ranges.values()]  # fmt: skip
        step = CellStep(self.kv_cache, runs)
        outputs = self.model.forward(step.runs(), step)
        hidden = dict[int, HiddenOutput]()
        for (at, one), states, output in zip(ranges.items(), step.after, outputs, strict=True):
            hidden[at] = output
            slot = one.req.kv.mamba_pool_idx
            if slot is not None:
                self.mamba_pool.write(slot, states)
        return hidden

    def output_of(self, req: Req, hidden: HiddenOutput | None) -> Output:
        """Return the output of the model after the last token of a request."""
        digest = 0
        logits = None
        if hidden is not None and self.model is not None:
            digest = int(hidden.digest[-1])
            if hidden.x is not None:
                logits = self.model.readout(hidden.x[-1:])[0]
        return Output(req.seq_len + req.num_unread_tokens - 1, digest, logits)

    def read_states(self, slot: int | None) -> dict[int, LayerState | None]:
        """Return the states in a slot, by layer; None = the layer has none."""
        return self.states_by_layer(self.mamba_pool.read(slot))

    def states_by_layer(self, states: States) -> dict[int, LayerState | None]:
        """Return states by layer; None = the layer has none."""
        return {i: states.get(i) for i, layer in enumerate(self.context.spec.layers) if layer.recurrence}
