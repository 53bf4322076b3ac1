"""The worker: contents of the blocks, and the evaluation of a step with a toy model.

Source: vLLM vllm/v1/worker/gpu/model_runner.py (0.33.0).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Iterable, Mapping, Sequence

import numpy as np

from cachesim.base.errors import NotInBuild
from cachesim.base.keyed_tokens import IDS
from cachesim.base.tokens import TokenList
from cachesim.engines.base import Output
from cachesim.engines.base import Request as ClientRequest
from cachesim.engines.shared.evaluation_cost import cost_of
from cachesim.engines.shared.vocab import WRONG, CountingSampler, forced_draft
from cachesim.engines.vllm.core.scheduler_output import (
    CachedRequestData,
    ModelRunnerOutput,
    NewRequestData,
    RequestOutput,
    SchedulerOutput,
)
from cachesim.engines.vllm.kv_cache_interface import VllmConfig
from cachesim.engines.vllm.kv_offload.connector_worker import OffloadingConnectorWorker
from cachesim.engines.vllm.request import RequestText
from cachesim.engines.vllm.worker.block_contents import BlockContents, BlockSpan, BlockStep
from cachesim.engines.vllm.worker.draft_rows import DraftRows
from cachesim.engines.vllm.worker.mamba_hybrid import MambaHybridModelState
from cachesim.events import Decoded, Log
from cachesim.model import Model, Spec
from cachesim.model.hash_mixing import MASK

if TYPE_CHECKING:
    from cachesim.engines.vllm.profiles import Rules


@dataclass(slots=True, eq=False)
class CachedRequestState:
    """A request as the worker knows it. ``block_ids``: its blocks of each group; ``cells``: cell of each position in
    them; ``running_column``: column of the running state by group."""

    req_id: int
    request: ClientRequest
    text: RequestText
    block_ids: list[list[int]] = field(default_factory=list)
    cells: list[np.ndarray] = field(default_factory=list)
    running_column: dict[int, int] = field(default_factory=dict)
    num_accepted_tokens: int = 1            # in the last step
    draft_marks: list[int] = field(default_factory=list)

    @property
    def token_ids(self) -> list[int]:
        """Its tokens, prompt and answer."""
        return self.text.token_ids

    @property
    def num_output_tokens(self) -> int:
        """Number of tokens of its answer."""
        return len(self.text.token_ids) - len(self.request.prompt)

    @property
    def key_offset(self) -> int:
        """Number that turns a token into its identity."""
        return self.text.key * IDS

    def restart(self, token_ids: Sequence[int]) -> None:
        """Take over the tokens of a request that starts or restarts."""
        self.text.token_ids = TokenList(token_ids)
        self.running_column = {}
        self.num_accepted_tokens = 1
        self.draft_marks = [self.text.key & MASK]


@dataclass(slots=True, eq=False)
class ScheduledChunk:
    """Tokens start .. start + n - 1 of a request in a step, the last ``draft_token_ids`` of them drafted.
    ``samples_token``: its output is a new token."""

    state: CachedRequestState
    start: int
    n: int
    draft_token_ids: list[int]
    samples_token: bool
    has_checkpoint_block: bool
    num_accepted_drafts: int = 0
    sampled_token_ids: list[int] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)

    @property
    def end(self) -> int:
        """End of the tokens."""
        return self.start + self.n

    @property
    def num_accepted_end(self) -> int:
        """End of the tokens without rejected drafts."""
        return self.end - len(self.draft_token_ids) + self.num_accepted_drafts


class ModelRunner:
    """The worker. ``requests``: those that it has learned so far; ``kv_caches``: contents of the blocks."""

    def __init__(self, vllm_config: VllmConfig, rules: Rules, log: Log, *, spec: Spec, model: Model | None,
                 sampler: CountingSampler) -> None:  # fmt: skip
        config = vllm_config.kv_cache_config
        options = vllm_config.options
        self.vllm_config = vllm_config
        self.log = log
        self.model = model
        self.sampler = sampler
        self.num_speculative_tokens = options.num_speculative_tokens
        self.async_scheduling = options.async_scheduling
        self.requests: dict[int, CachedRequestState] = {}
        drafted = [group for group in config.kv_cache_groups
                   if group.kind != "mamba" and group.is_eagle_group and config.speculation.num_prefill_lookahead]
        self.kv_caches = BlockContents(spec, config.kv_cache_groups, drafted, self.requests)
        self.draft_rows = DraftRows(self.kv_caches, drafted, log.emit)
        self.mamba = MambaHybridModelState(vllm_config, rules, self.kv_caches)
        contents = None if model is None else self.kv_caches
        self.kv_connector = OffloadingConnectorWorker(contents, options.num_gpu_blocks)

    def execute_model(self, scheduler_output: SchedulerOutput,
                      accepted: Mapping[int, int] | None) -> ModelRunnerOutput:  # fmt: skip
        """Evaluate a step. ``accepted``: number of right draft tokens by request, None = as the requests state."""
        chunks = list[ScheduledChunk]()
        for data in scheduler_output.scheduled_reqs.values():
            chunk = self._update_states(data, scheduler_output)
            chunks.append(chunk)
            if chunk.samples_token:
                self._sample(chunk, None if accepted is None else accepted.get(data.req_id, 0))
        self._spend(chunks)
        metadata = scheduler_output.kv_connector_metadata
        self.kv_connector.start_kv_transfers(metadata)
        if chunks and self.model is not None:
            self._execute(chunks, scheduler_output, self.model)
        self.kv_connector.prepare_store_kv(metadata)
        return {chunk.state.req_id: RequestOutput(
                    chunk.sampled_token_ids, num_accepted_drafts=chunk.num_accepted_drafts,
                    num_evaluated_tokens=chunk.num_accepted_end, outputs=chunk.outputs) for chunk in chunks}

    def _update_states(self, data: CachedRequestData, scheduler_output: SchedulerOutput) -> ScheduledChunk:
        """Take over the blocks that the scheduler added, and the tokens of a request that starts (again)."""
        restarts = isinstance(data, NewRequestData)
        if isinstance(data, NewRequestData):
            state = self.requests.get(data.req_id)
            if state is None:
                state = self.requests[data.req_id] = CachedRequestState(data.req_id, data.request, data.text)
            state.restart(data.prefill_token_ids)
        state = self.requests[data.req_id]
        self.kv_caches.learn(state, data.new_block_ids, restarts)
        start = data.num_computed_tokens
        drafts = scheduler_output.scheduled_spec_decode_tokens[data.req_id]
        if not restarts:
            start = min(start, len(state.token_ids) - 1)        # without the drafts that a step in flight rejected
            if drafts and self.async_scheduling:
                drafts = self.propose_draft_token_ids(data.req_id)[: len(drafts)]
        return ScheduledChunk(
            state, start, scheduler_output.num_scheduled_tokens[data.req_id], draft_token_ids=drafts,
            samples_token=data.samples_token, has_checkpoint_block=data.has_checkpoint_block,
        )  # fmt: skip

    def propose_draft_token_ids(self, req_id: int) -> list[int]:
        """Return the drafted tokens behind the last one: as many right ones as the request states."""
        state = self.requests[req_id]
        right = min(self.num_speculative_tokens, state.request.right_drafts(len(state.token_ids) - 1))
        return forced_draft(self.sampler, state.token_ids, state.request, n_gen=state.num_output_tokens, right=right,
                            drafted=self.num_speculative_tokens)  # fmt: skip

    def _sample(self, chunk: ScheduledChunk, accepted: int | None) -> None:
        """Choose the new tokens of a request: after each right draft token one more."""
        state = chunk.state
        drafts = chunk.draft_token_ids
        while True:
            token = self.sampler(state.token_ids, state.request, state.num_output_tokens)
            state.token_ids.append(token)
            chunk.sampled_token_ids.append(token)
            at = len(chunk.sampled_token_ids) - 1
            right = drafts[at : at + 1] == [token] if accepted is None else at < accepted
            if at >= len(drafts) or not right:
                chunk.num_accepted_drafts = at
                return

    def _spend(self, chunks: Iterable[ScheduledChunk]) -> None:
        """Count the cost of a step."""
        tokens = 0
        before = 0
        for chunk in chunks:
            tokens += chunk.n
            before += chunk.end * chunk.n
        tokens, passes, exact = cost_of(self.model, tokens, max(1, tokens), before)
        self.log.spend(tokens, passes, exact)

    def _execute(self, chunks: Sequence[ScheduledChunk], scheduler_output: SchedulerOutput, model: Model) -> None:
        """Evaluate the tokens of a step. Raise NotInBuild for drafts with too few rows."""
        if any(chunk.n <= len(chunk.draft_token_ids) for chunk in chunks):
            raise NotInBuild("a step has fewer rows than the drafts of a resumed request need; what the worker of this "
                             "release computes then is not modelled", hint="a prefix_match_unit of 0")  # fmt: skip
        self.log.emit(Decoded(scheduler_output.total_num_scheduled_tokens))
        self.kv_caches.change(scheduler_output.new_block_ids_to_zero, scheduler_output.kv_cache_block_copies)
        for chunk in chunks:
            self.mamba.preprocess_state(chunk)
        spans = list[BlockSpan]()
        owners = list[ScheduledChunk]()
        for chunk in chunks:
            parts = self._spans(chunk)
            spans += parts
            owners += [chunk] * len(parts)
        store = BlockStep(self.kv_caches, spans, self.vllm_config.kv_cache_config.need_mamba_block_aligned_split)
        hidden_states = model.forward(store.runs(), store)
        for run, (chunk, span, hidden) in enumerate(zip(owners, spans, hidden_states, strict=True)):
            store.finish(run)
            if not chunk.samples_token or (span.draft <= chunk.num_accepted_drafts and not span.inside):
                x = model.readout(hidden.x[-1:])[0] if chunk.samples_token and hidden.x is not None else None
                chunk.outputs.append(Output(span.start + len(span.tokens) - 1, int(hidden.digest[-1]), x))
        for chunk in chunks:
            self.mamba.postprocess_state(chunk)
            self.draft_rows.mark(chunk)
        for chunk in chunks:
            self.draft_rows.check(chunk)

    def _spans(self, chunk: ScheduledChunk) -> list[BlockSpan]:
        """Divide a chunk where its states are kept: inside it, and before each draft token."""
        drafts = chunk.draft_token_ids
        sampled = chunk.sampled_token_ids
        key = chunk.state.key_offset
        base = chunk.end - len(drafts)
        text = [token + key for token in chunk.state.token_ids[chunk.start : base]]
        edges = [chunk.start, *self.mamba.compute_mamba_prefill_checkpoints(chunk), base]
        spans = list[BlockSpan]()
        for at, to in pairwise(edges):
            tokens = text[at - chunk.start : to - chunk.start]
            spans.append(BlockSpan(chunk, at, tokens, draft=0, inside=to != base))
        for i, drafted in enumerate(drafts):
            token = sampled[i] if i < chunk.num_accepted_drafts else WRONG + i if drafted < 0 else drafted
            if i >= chunk.num_accepted_drafts and sampled[i : i + 1] == [token]:
                token = WRONG + i
            spans.append(BlockSpan(chunk, base + i, [token + key], draft=i + 1, inside=False))
        return spans
