"""A scheduled step, as the worker receives it, and what the worker returns.

Source: vLLM vllm/v1/core/sched/output.py, vllm/v1/outputs.py (0.33.0).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Mapping, Sequence

from cachesim.base.tokens import TokenList
from cachesim.engines.base import Output
from cachesim.engines.base import Request as ClientRequest
from cachesim.engines.vllm.core.single_type_kv_cache_manager import BoundaryState
from cachesim.engines.vllm.kv_offload.transfer_jobs import TransferJob
from cachesim.engines.vllm.request import RequestText


@dataclass(slots=True, kw_only=True)
class CachedRequestData:
    """A request that the worker knows already, in a step."""

    req_id: int
    num_computed_tokens: int
    new_block_ids: Sequence[Sequence[int]]          # blocks of each group that the worker learns
    samples_token: bool = False                     # its output is a new token
    has_checkpoint_block: bool = False              # a block is reserved for a state inside the chunk


@dataclass(slots=True, kw_only=True)
class NewRequestData(CachedRequestData):
    """A request that starts, or starts again, in a step: the worker learns all its blocks and tokens."""

    request: ClientRequest
    text: RequestText
    prefill_token_ids: TokenList                    # its known tokens


@dataclass(slots=True)
class OffloadingConnectorMetadata:
    """Transfers that begin with a step. The stores of ended requests (``jobs_to_flush``) and the loads come before its
    evaluation, other stores after it."""

    jobs_to_flush: list[TransferJob] = field(default_factory=list)
    load_jobs: list[TransferJob] = field(default_factory=list)
    store_jobs: list[TransferJob] = field(default_factory=list)


@dataclass(slots=True)
class SchedulerOutput:
    """A step. All of it by request, in the order in which the requests were scheduled. Blocks are zeroed, then copied,
    before the evaluation. ``boundary_state_offloads``: states that the connector may store, which no worker sees."""

    scheduled_reqs: dict[int, CachedRequestData] = field(default_factory=dict)
    num_scheduled_tokens: dict[int, int] = field(default_factory=dict)
    scheduled_spec_decode_tokens: dict[int, list[int]] = field(default_factory=dict)
    new_block_ids_to_zero: list[int] = field(default_factory=list)
    kv_cache_block_copies: list[tuple[int, int]] = field(default_factory=list)
    boundary_state_offloads: Mapping[int, Sequence[BoundaryState]] = field(default_factory=dict)
    kv_connector_metadata: OffloadingConnectorMetadata = field(default_factory=OffloadingConnectorMetadata)

    @property
    def total_num_scheduled_tokens(self) -> int:
        """Number of tokens of the step."""
        return sum(self.num_scheduled_tokens.values())

    @property
    def has_cached_reqs(self) -> bool:
        """True if the worker knows one of the requests already."""
        return any(not isinstance(data, NewRequestData) for data in self.scheduled_reqs.values())

    def add(self, data: CachedRequestData, num_scheduled_tokens: int, spec_token_ids: list[int]) -> None:
        """Add a request; the last of its tokens are drafted."""
        self.scheduled_reqs[data.req_id] = data
        self.num_scheduled_tokens[data.req_id] = num_scheduled_tokens
        self.scheduled_spec_decode_tokens[data.req_id] = spec_token_ids

    def remove(self, req_id: int) -> int:
        """Remove a request, if the step has it; return the number of its tokens."""
        self.scheduled_reqs.pop(req_id, None)
        self.scheduled_spec_decode_tokens.pop(req_id, None)
        return self.num_scheduled_tokens.pop(req_id, 0)


@dataclass(slots=True)
class RequestOutput:
    """Result of a step for a request: new tokens, accepted drafts, end of the evaluated and accepted tokens, and
    outputs of the model."""

    sampled_token_ids: list[int]
    num_accepted_drafts: int
    num_evaluated_tokens: int
    outputs: list[Output]


ModelRunnerOutput = dict[int, RequestOutput]
"""Results of a step by request."""
