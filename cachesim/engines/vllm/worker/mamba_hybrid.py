"""States of requests while a step is evaluated: where they come from, and which of them are kept.

Source: vLLM vllm/v1/worker/gpu/model_states/mamba_hybrid.py,
vllm/model_executor/layers/mamba/checkpoint.py (0.33.0).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Sequence

from cachesim.engines.vllm.kv_cache_interface import (
    VllmConfig,
    get_mamba_prefill_checkpoint_position,
    is_mamba_prefill_checkpoint_valid,
)
from cachesim.engines.vllm.worker.block_contents import BlockContents, BlockUser

if TYPE_CHECKING:
    from cachesim.engines.vllm.profiles import Rules


class StateChunk(Protocol):
    """Tokens start .. end - 1 of a request in a step, and the tokens that were sampled behind them."""

    start: int
    draft_token_ids: list[int]
    sampled_token_ids: list[int]
    has_checkpoint_block: bool

    @property
    def end(self) -> int: ...
    @property
    def state(self) -> BlockUser: ...


class MambaHybridModelState:
    """The columns of the states in the blocks of requests."""

    def __init__(self, vllm_config: VllmConfig, rules: Rules, kv_caches: BlockContents) -> None:
        config = vllm_config.kv_cache_config
        options = vllm_config.options
        self.vllm_config = vllm_config
        self.rules = rules
        self.kv_caches = kv_caches
        self.groups = kv_caches.states
        self.block_size = config.block_size
        self.scheduler_block_size = config.scheduler_block_size
        self.aligned = config.need_mamba_block_aligned_split
        self.enable_caching = options.enable_prefix_caching
        self.num_speculative_tokens = options.num_speculative_tokens
        self.prefill_checkpoint_alignment = options.mamba_prefill_checkpoint_alignment

    def preprocess_state(self, chunk: StateChunk) -> None:
        """Copy the state from the column in which the last chunk ended to that in which this one ends."""
        state = chunk.state
        moved = False
        for group in self.groups:
            now = -(-chunk.end // group.block_size) - 1
            first = self.rules.start_column(chunk.start, group.block_size, self.block_size)
            before = state.running_column.get(group.group_id, first)
            if before not in (-1, now):
                self.kv_caches.copy_state(state, group, before, now, shift=state.num_accepted_tokens - 1)
                moved = True
            state.running_column[group.group_id] = now
        if moved:
            state.num_accepted_tokens = 1

    def compute_mamba_prefill_checkpoints(self, chunk: StateChunk) -> Sequence[int]:
        """Return the lengths whose states the kernels keep inside a chunk: one, which the worker chooses without
        knowing what the scheduler reserved, or those at the ends of blocks."""
        group = next(iter(self.groups), None)
        if group is None or not self.enable_caching:
            return ()
        if not group.align:
            step = self.scheduler_block_size
            return range((chunk.start // step + 1) * step, chunk.end, step)
        position = get_mamba_prefill_checkpoint_position(self.rules, self.vllm_config, chunk.end)
        if not self.prefill_checkpoint_alignment or chunk.draft_token_ids:
            return ()
        if not self.rules.exports_inside(chunk.has_checkpoint_block):
            return ()
        is_valid = is_mamba_prefill_checkpoint_valid(
            self.rules, self.vllm_config, query_start=chunk.start, query_end=chunk.end, checkpoint_position=position,
            mamba_block_size=group.block_size)
        return [position] if is_valid else ()

    def postprocess_state(self, chunk: StateChunk) -> None:
        """After drafts, keep the state at a block boundary that the accepted tokens passed."""
        state = chunk.state
        reset = False
        state.num_accepted_tokens = max(1, len(chunk.sampled_token_ids))
        for group in self.groups if self.aligned and self.num_speculative_tokens else ():
            run = chunk.end - len(chunk.draft_token_ids)
            end = (run + state.num_accepted_tokens - 1) // group.block_size * group.block_size
            source = state.running_column[group.group_id]
            target = end // group.block_size - 1
            if end >= run:
                reset = reset or source == target
                if source != target or end > run:
                    self.kv_caches.copy_state(state, group, source, target, shift=end - run)
        if reset:
            state.num_accepted_tokens = 1
