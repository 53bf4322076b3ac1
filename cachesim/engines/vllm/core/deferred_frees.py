"""Blocks that are given back when the steps in flight that may write them are processed.

A load of a connector is not ordered with steps in flight, so that it may not take such blocks earlier. Source: vLLM
vllm/v1/core/sched/scheduler.py _free_request_blocks, _drain_deferred_frees (0.33.0).
"""

from __future__ import annotations

from collections import deque
from itertools import chain
from typing import TYPE_CHECKING, Iterable, NamedTuple

from cachesim.engines.vllm.core.kv_cache_manager import KVCacheManager
from cachesim.engines.vllm.request import Request

if TYPE_CHECKING:
    from cachesim.engines.vllm.profiles import Rules


class DeferredFree(NamedTuple):
    """Blocks in the order of their table, which are free after the step with this number."""

    fence: int
    blocks: list[int]


class DeferredFrees:
    """Blocks of ended and preempted requests. ``defer_block_free``: loads may overlap with steps in flight;
    ``sched_step_seq``, ``processed_step_seq``: number of steps with tokens that were scheduled, and processed."""

    def __init__(self, kv_cache_manager: KVCacheManager, rules: Rules, defer_block_free: bool) -> None:
        self.kv_cache_manager = kv_cache_manager
        self.rules = rules
        self.defer_block_free = defer_block_free
        self.sched_step_seq = 0
        self.processed_step_seq = 0
        self.queue = deque[DeferredFree]()

    def _is_safe(self, fence: int) -> bool:
        return not self.defer_block_free or self.rules.free_now(fence, self.processed_step_seq)

    def can_be_freed(self, request: Request) -> bool:
        """True if the blocks of a request are free as soon as it gives them back."""
        return self._is_safe(request.last_sched_seq)

    def free_request_blocks(self, request: Request) -> None:
        """Give back the blocks of a request, at the latest when the last step that writes them is processed."""
        if self.can_be_freed(request):
            self.kv_cache_manager.free(request)
        elif blocks := self.kv_cache_manager.pop_blocks_for_free(request):
            self.queue.append(DeferredFree(self.sched_step_seq, blocks))

    def free_copied_blocks(self, copies: Iterable[tuple[int, int]]) -> None:
        """Give back the blocks that the copies of the next step keep."""
        blocks = [*chain(*copies)]
        fence = self.sched_step_seq + 1
        if self._is_safe(fence):
            self.kv_cache_manager.block_pool.free_blocks(blocks)
        elif blocks:
            self.queue.append(DeferredFree(fence, blocks[::-1]))

    def step_scheduled(self, has_tokens: bool) -> None:
        """Count a step."""
        if has_tokens:
            self.sched_step_seq += 1

    def step_processed(self, has_tokens: bool) -> None:
        """Count a processed step, and give back the blocks that it was the last one to write."""
        if has_tokens:
            self.processed_step_seq += 1
        while self.queue and self.queue[0].fence <= self.processed_step_seq:
            self.kv_cache_manager.block_pool.free_blocks(reversed(self.queue.popleft().blocks))

    def blocks(self) -> list[int]:
        """Return the blocks that are given back later."""
        return [*chain(*(deferred.blocks for deferred in self.queue))]
