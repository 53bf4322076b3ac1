"""The cache of a server: lookup, allocation, publication and release of the blocks of requests.

Source: vLLM vllm/v1/core/kv_cache_manager.py (0.33.0).
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from cachesim.engines.base import CACHE_OFF, UNREAD
from cachesim.engines.rule import Decision
from cachesim.engines.shared.server_loop import log_decision
from cachesim.engines.vllm.core.kv_cache_coordinator import get_kv_cache_coordinator
from cachesim.engines.vllm.core.kv_cache_events import AskedForBlocks, Got, LookedUp, Refused
from cachesim.engines.vllm.core.single_type_kv_cache_manager import BoundaryState, MambaManager
from cachesim.engines.vllm.core.step_limits import BlockRefusal
from cachesim.engines.vllm.kv_cache_interface import VllmConfig
from cachesim.engines.vllm.request import Request
from cachesim.engines.vllm.rules.lookup import CacheHit
from cachesim.events import Log

if TYPE_CHECKING:
    from cachesim.engines.vllm.profiles import Rules


FOUND = 2                    # looks at a block that is found in the cache


class KVCacheManager:
    """The cache. ``empty_kv_cache_blocks``: a lookup that found nothing; ``block_owners``: request that last took a
    block; ``num_uncached_common_prefix_tokens``: tokens that one group has behind the prefix that was found last;
    ``num_refused_blocks``: blocks that the last refused request needed; ``refusal``: its numbers."""

    def __init__(self, vllm_config: VllmConfig, rules: Rules, log: Log) -> None:
        config = vllm_config.kv_cache_config
        options = vllm_config.options
        self.vllm_config = vllm_config
        self.rules = rules
        self.log = log
        self.emit = log.emit
        self.max_model_len = config.max_model_len
        self.enable_caching = options.enable_prefix_caching
        self.is_offloading = options.num_cpu_chunks > 0
        self.full_sequence_must_fit = options.scheduler_reserve_full_isl
        self.watermark = options.watermark
        self.coordinator = get_kv_cache_coordinator(vllm_config, rules, log)
        self.block_pool = self.coordinator.block_pool
        self.empty_kv_cache_blocks = CacheHit(0, {group.group_id: [] for group in config.kv_cache_groups})
        self.block_owners: dict[int, int] = {}
        self.num_uncached_common_prefix_tokens = 0
        self.num_refused_blocks = 0
        self.refusal = BlockRefusal(0, needed=0, watermark=0, free=0, awaits=None)

    def prefix_cache_lookup_enabled(self, request: Request) -> bool:
        """True if a request is looked up. Without CPU offload its answer reports what keeps it from being found."""
        if not self.enable_caching and not self.is_offloading:
            request.task.answer.unread = CACHE_OFF
        elif request.skip_reading_prefix_cache:
            request.task.answer.unread = UNREAD
        return self.enable_caching and not request.skip_reading_prefix_cache

    def get_computed_blocks(self, request: Request) -> CacheHit:
        """Return the cached prefix of a request."""
        found = self.empty_kv_cache_blocks
        if self.prefix_cache_lookup_enabled(request):
            max_cache_hit_length = self.rules.most_tokens(request.num_tokens)
            found = self.coordinator.find_longest_cache_hit(request, max_cache_hit_length)
            self.log.look(FOUND * found.n // self.vllm_config.kv_cache_config.hash_block_size)
            self.num_uncached_common_prefix_tokens = max(found.junction - found.n, 0)
            because = {"n": request.num_tokens, "junction": found.junction, "lengths": dict(found.lengths)}
            log_decision(self.log, Decision(found.n or None, because, self.coordinator.lookup_rule_id), request)
        else:
            found = found._replace(longest=self.rules.unread_junction(self.num_uncached_common_prefix_tokens))
        managers = self.coordinator.single_type_managers
        tables = [found.tables[manager.kv_cache_group_id] for manager in managers] if found.n else ()
        self.emit(LookedUp(request.request_id, found.n, found.junction, tables))
        return found

    def allocate_slots(self, request: Request, num_new_tokens: int, new_computed: CacheHit | None = None, *,
                       num_lookahead_tokens: int = 0, num_external_computed_tokens: int = 0, reserved_blocks: int = 0,
                       has_scheduled_reqs: bool = True) -> list[list[int]] | None:
        """Return the new blocks of a request for its next tokens, None if too few are free. ``new_computed``: it is
        admitted with this prefix, and external tokens behind it are loaded if ``reserved_blocks`` stay free."""
        computed = new_computed or self.empty_kv_cache_blocks
        self.emit(AskedForBlocks(request.request_id, request.num_computed_tokens, hit=computed.n, new=num_new_tokens,
                                 lookahead=num_lookahead_tokens))  # fmt: skip
        local = request.num_computed_tokens + computed.n
        num_computed_tokens = local + num_external_computed_tokens
        total_computed_tokens = min(num_computed_tokens, self.max_model_len)
        watermark_blocks = self.rules.reserve(self.watermark, self.block_pool.num_gpu_blocks,
                                              new_computed is not None, has_scheduled_reqs)  # fmt: skip
        full_sequence = 0
        if new_computed is not None and self.full_sequence_must_fit:
            full_sequence = self._num_blocks_of_full_sequence(request, computed, total_computed_tokens, 0)
        main = total_computed_tokens + num_new_tokens
        need_slot = min(main + num_lookahead_tokens, self.max_model_len)
        num_blocks = 0
        if full_sequence + watermark_blocks <= self.block_pool.get_num_free_blocks():
            self.remove_skipped_blocks(request, total_computed_tokens)
            num_blocks = self.coordinator.get_num_blocks_to_allocate(
                request, need_slot, computed.tables, total_computed_tokens=num_computed_tokens,
                num_local_computed_tokens=local, num_tokens_main_model=main)
        required_blocks = num_blocks + reserved_blocks
        free = self.block_pool.get_num_free_blocks()
        admitted = True
        if new_computed is not None:
            admission = self.rules.admit(full_sequence, required_blocks, watermark_blocks, free)
            admitted = log_decision(self.log, admission, request)
        if not admitted or required_blocks + watermark_blocks > free:
            self.num_refused_blocks = required_blocks + watermark_blocks
            self.refusal = BlockRefusal(
                full_sequence, needed=required_blocks, watermark=watermark_blocks, free=free,
                awaits=self._request_that_computes(self.coordinator.awaited_block()))
            self.emit(Refused())
            return None
        self.coordinator.allocate_new_computed_blocks(
            request.request_id, computed.tables, num_local_computed_tokens=local,
            num_external_computed_tokens=num_external_computed_tokens)
        new_blocks = self.coordinator.allocate_new_blocks(request.request_id, need_slot, main)
        if num_external_computed_tokens:
            return self._record_owner(request, self._blocks_behind(request, computed))
        self.cache_blocks(request, min(main, request.num_tokens))
        return self._record_owner(request, new_blocks)

    def _request_that_computes(self, block: int | None) -> int | None:
        """Return the number of the request that computes the contents of a block, None without a block."""
        return None if block is None else self.block_owners.get(block)

    def _blocks_behind(self, request: Request, computed: CacheHit) -> list[list[int]]:
        """Return the blocks of a request behind those that were found."""
        tables = self.get_block_ids(request.request_id)
        return [blocks[len(computed.tables[group]) :] for group, blocks in enumerate(tables)]

    def remove_skipped_blocks(self, request: Request, total_computed_tokens: int) -> None:
        """Give back the blocks that neither the next tokens nor steps in flight read."""
        settled = self.rules.settled(total_computed_tokens, request.num_in_flight_tokens)
        self.coordinator.remove_skipped_blocks(request, settled)

    def _record_owner(self, request: Request, new_blocks: list[list[int]]) -> list[list[int]]:
        """Record which request took blocks; return these."""
        self.block_owners |= dict.fromkeys(chain(*new_blocks), request.task.answer.request)
        self.emit(Got(new_blocks))
        return new_blocks

    def _num_blocks_of_full_sequence(self, request: Request, computed: CacheHit, total_computed_tokens: int,
                                     num_tokens_ahead: int) -> int:  # fmt: skip
        """Return the free blocks that a request takes until all its known tokens are computed, with places for
        ``num_tokens_ahead`` tokens behind them."""
        full_num_tokens = min(request.num_tokens, self.max_model_len)
        return self.coordinator.get_num_blocks_to_allocate(
            request, full_num_tokens + num_tokens_ahead, computed.tables, total_computed_tokens=total_computed_tokens,
            num_local_computed_tokens=request.num_computed_tokens + computed.n, num_tokens_main_model=full_num_tokens,
            apply_admission_cap=True)

    def get_num_remaining_blocks(self, request: Request, num_tokens_ahead: int) -> int:
        """Return the free blocks that a request in progress takes until all its known tokens are computed, with places
        for ``num_tokens_ahead`` tokens behind them."""
        return self._num_blocks_of_full_sequence(
            request, self.empty_kv_cache_blocks, request.num_computed_tokens, num_tokens_ahead)

    def free(self, request: Request) -> None:
        """Give back the blocks of a request, of each group the last ones first."""
        self.coordinator.free(request.request_id)

    def pop_blocks_for_free(self, request: Request) -> list[int]:
        """Forget a request; return its blocks in the order of its tables. Whoever frees them begins with the last."""
        return self.coordinator.pop_blocks_for_free(request.request_id)

    def reset_prefix_cache(self) -> bool:
        """Remove all keys, if no block is in use. Return whether it was done."""
        return self.block_pool.reset_prefix_cache()

    def get_block_ids(self, request_id: int) -> list[list[int]]:
        """Return the blocks of a request in each group."""
        return self.coordinator.get_blocks(request_id)

    def cache_blocks(self, request: Request, num_computed_tokens: int) -> None:
        """Publish the blocks of a request that end within its first tokens."""
        if self.enable_caching:
            self.coordinator.cache_blocks(request, num_computed_tokens)

    def has_checkpoint_block(self, request_id: int) -> bool:
        """True if a block is reserved for a state inside the chunk of a request, in the first group of
        states."""
        managers = self.coordinator.single_type_managers
        first = next((manager for manager in managers if isinstance(manager, MambaManager)), None)
        return first is not None and request_id in first.checkpoints

    def take_new_block_ids(self) -> list[int]:
        """Return the blocks to be zeroed, and forget them."""
        return [*chain(*(manager.take_new_block_ids() for manager in self.coordinator.single_type_managers))]

    def take_boundary_state_offloads(self) -> dict[int, list[BoundaryState]]:
        """Return the states that a connector may store, by request, and forget them."""
        offloads = dict[int, list[BoundaryState]]()
        for manager in self.coordinator.single_type_managers:
            for state in manager.take_pending_boundary_state_offloads():
                offloads.setdefault(state.request.request_id, []).append(state)
        return offloads

    def truncate_computed_blocks(self, computed: CacheHit) -> CacheHit:
        """Return a cached prefix up to the last common end of blocks; its state may be missing there."""
        num_computed_tokens = self.vllm_config.kv_cache_config.aligned_tokens(computed.n)
        tables = {manager.kv_cache_group_id: computed.tables[manager.kv_cache_group_id][
                      : num_computed_tokens // manager.block_size]
                  for manager in self.coordinator.single_type_managers}  # fmt: skip
        return computed._replace(n=num_computed_tokens, tables=tables)

    def take_kv_cache_block_copies(self) -> list[tuple[int, int]]:
        """Return the blocks to be copied, with their copies, and forget them. Both keep a user until the caller frees
        them."""
        managers = self.coordinator.single_type_managers
        return [*chain(*(manager.take_pending_cow_copies() for manager in managers))]

    def new_step_starts(self) -> None:
        """Begin a step."""
        self.coordinator.new_step_starts()
