"""Coordinators of the managers of all groups: a prefix is cached if every group has it.

Source: vLLM vllm/v1/core/kv_cache_coordinator.py (0.33.0).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import chain
from typing import TYPE_CHECKING, Mapping, Sequence

from cachesim.engines.rule import rule_id
from cachesim.engines.vllm.core.block_pool import BlockPool
from cachesim.engines.vllm.core.single_type_kv_cache_manager import get_manager_for_kv_cache_spec
from cachesim.engines.vllm.kv_cache_interface import VllmConfig
from cachesim.engines.vllm.request import Request
from cachesim.engines.vllm.rules.blocks import PublishableBlocks
from cachesim.engines.vllm.rules.lookup import CacheHit, PromptQuery
from cachesim.events import Log

if TYPE_CHECKING:
    from cachesim.engines.vllm.profiles import Rules

Blocks = Mapping[int, Sequence[int]]
"""Blocks by group."""


class KVCacheCoordinator(ABC):
    """The managers of all groups, and their pool."""

    def __init__(self, vllm_config: VllmConfig, rules: Rules, log: Log) -> None:
        config = vllm_config.kv_cache_config
        options = vllm_config.options
        self.rules = rules
        self.kv_cache_config = config
        self.block_pool = BlockPool(
            options.num_gpu_blocks, len(config.kv_cache_groups), enable_caching=options.enable_prefix_caching,
            hash_block_size=config.hash_block_size, emit=log.emit,
            free_side=rules.free_side if options.enable_prefix_caching else rules.free_side_uncached,
        )  # fmt: skip
        self.single_type_managers = tuple(
            get_manager_for_kv_cache_spec(group, self.block_pool, vllm_config=vllm_config, rules=rules, log=log)
            for group in config.kv_cache_groups
        )
        self.num_reprefillable_tokens = config.num_reprefillable_tokens

    def get_num_blocks_to_allocate(self, request: Request, num_tokens: int, new_computed_blocks: Blocks, *,
                                   total_computed_tokens: int, num_local_computed_tokens: int,
                                   num_tokens_main_model: int, apply_admission_cap: bool = False) -> int:
        """Return the free blocks that a request takes in all groups, see the managers."""
        num_blocks = 0
        for manager in self.single_type_managers:
            num_blocks += manager.get_num_blocks_to_allocate(
                request, num_tokens, new_computed_blocks[manager.kv_cache_group_id],
                total_computed_tokens=total_computed_tokens, num_local_computed_tokens=num_local_computed_tokens,
                num_tokens_main_model=num_tokens_main_model, apply_admission_cap=apply_admission_cap)
        return num_blocks

    def allocate_new_computed_blocks(self, request_id: int, new_computed_blocks: Blocks, *,
                                     num_local_computed_tokens: int, num_external_computed_tokens: int) -> None:
        """Add the found blocks to a request, then blocks for the tokens that are loaded behind them."""
        if any(new_computed_blocks.values()) or num_external_computed_tokens:
            total = num_local_computed_tokens + num_external_computed_tokens
            for manager in self.single_type_managers:
                found = new_computed_blocks[manager.kv_cache_group_id]
                manager.add_local_computed_blocks(
                    request_id, found, num_local_computed_tokens=num_local_computed_tokens, total_computed_tokens=total)
        if num_external_computed_tokens:
            for manager in self.single_type_managers:
                manager.allocate_external_computed_blocks(request_id, total)

    def allocate_new_blocks(self, request_id: int, num_tokens: int, num_tokens_main_model: int) -> list[list[int]]:
        """Add the blocks that a request still needs; return those added to each group."""
        return [manager.allocate_new_blocks(request_id, num_tokens, num_tokens_main_model)
                for manager in self.single_type_managers]  # fmt: skip

    def get_num_cacheable_tokens(self, num_computed_tokens: int, kv_cache_group_id: int) -> int:
        """Return the tokens of a group whose blocks are published."""
        return self.rules.publishable_one(self._publishable(num_computed_tokens, kv_cache_group_id))

    def _publishable(self, num_computed_tokens: int, kv_cache_group_id: int) -> PublishableBlocks:
        group = self.kv_cache_config.kv_cache_groups[kv_cache_group_id]
        return PublishableBlocks(
            num_computed_tokens=num_computed_tokens,
            alignment_tokens=self._alignment,
            block_size=group.block_size,
            use_eagle=group.use_eagle,
            num_reprefillable_tokens=self.num_reprefillable_tokens,
        )

    @property
    def _alignment(self) -> int:
        """Multiple of tokens that is published."""
        return 1

    def cache_blocks(self, request: Request, num_computed_tokens: int) -> None:
        """Publish the blocks of a request that end within its first tokens."""
        config = self.kv_cache_config
        replay_boundaries = self.rules.boundaries(
            request.num_prompt_tokens, config.scheduler_block_size, config.speculation.use_eagle_block_drop)
        for manager in self.single_type_managers:
            num_tokens = self.get_num_cacheable_tokens(num_computed_tokens, manager.kv_cache_group_id)
            manager.cache_blocks(request, num_tokens, replay_boundaries)

    def free(self, request_id: int) -> None:
        """Give back the blocks of a request."""
        for manager in self.single_type_managers:
            manager.free(request_id)

    def pop_blocks_for_free(self, request_id: int) -> list[int]:
        """Forget a request; return its blocks, group by group."""
        return [*chain(*(manager.pop_blocks_for_free(request_id) for manager in self.single_type_managers))]

    def remove_skipped_blocks(self, request: Request, processed_computed_tokens: int) -> None:
        """Give back the blocks that the next tokens do not read."""
        for manager in self.single_type_managers:
            manager.remove_skipped_blocks(request, processed_computed_tokens)

    def get_blocks(self, request_id: int) -> list[list[int]]:
        """Return the blocks of a request in each group."""
        return [manager.req_to_blocks.get(request_id, []) for manager in self.single_type_managers]

    @abstractmethod
    def find_longest_cache_hit(self, request: Request, max_cache_hit_length: int) -> CacheHit:
        """Return the longest prefix of a request that all groups have."""

    @property
    @abstractmethod
    def lookup_rule_id(self) -> str:
        """Id of the rule that finds a prefix."""

    def _lookup(self, request: Request, max_cache_hit_length: int) -> PromptQuery:
        config = self.kv_cache_config
        known = len(request.block_hashes) * config.hash_block_size
        return PromptQuery(
            max_cache_hit_length=max_cache_hit_length,
            max_peek_length=self.rules.reach(max_cache_hit_length, known),
            partial_hit_unit=config.hash_block_size if config.enable_partial_hash_hits else 0,
            attention_groups=config.attention_groups,
        )

    def new_step_starts(self) -> None:
        """Begin a step."""
        for manager in self.single_type_managers:
            manager.new_step_starts()

    def awaited_block(self) -> int | None:
        """Return a block whose contents this step computes, and for which the last request that asked for blocks
        waits; None = it waits for none."""
        blocks = [manager.awaited_block for manager in self.single_type_managers]
        return next((block for block in blocks if block is not None), None)


class UnitaryKVCacheCoordinator(KVCacheCoordinator):
    """The coordinator of a single group."""

    @property
    def lookup_rule_id(self) -> str:
        """Id of the rule that finds a prefix."""
        return rule_id(self.rules.look_up_one)

    def find_longest_cache_hit(self, request: Request, max_cache_hit_length: int) -> CacheHit:
        """Return the longest prefix of a request that the group has."""
        [manager] = self.single_type_managers
        found: CacheHit = self.rules.look_up_one(
            self._lookup(request, max_cache_hit_length),
            lambda kind, most, drop: manager.find_longest_cache_hit(request, most, kind.group_ids, drop),
        )
        return found


class HybridKVCacheCoordinator(KVCacheCoordinator):
    """The coordinator of several groups."""

    @property
    def lookup_rule_id(self) -> str:
        """Id of the rule that finds a prefix."""
        return rule_id(self.rules.reconcile)

    @property
    def _alignment(self) -> int:
        """Multiple of tokens that is published."""
        config = self.kv_cache_config
        return 1 if config.enable_partial_hash_hits else config.scheduler_block_size

    def get_num_cacheable_tokens(self, num_computed_tokens: int, kv_cache_group_id: int) -> int:
        """Return the tokens of a group whose blocks are published."""
        return self.rules.publishable(self._publishable(num_computed_tokens, kv_cache_group_id))

    def find_longest_cache_hit(self, request: Request, max_cache_hit_length: int) -> CacheHit:
        """Return the longest prefix of a request that all groups have."""
        managers = self.single_type_managers
        found: CacheHit = self.rules.reconcile(
            self._lookup(request, max_cache_hit_length),
            lambda kind, most, drop: managers[kind.group_ids[0]].find_longest_cache_hit(
                request, most, kind.group_ids, drop),
        )
        return found


def get_kv_cache_coordinator(vllm_config: VllmConfig, rules: Rules, log: Log) -> KVCacheCoordinator:
    """Return a coordinator for the groups of a server."""
    if len(vllm_config.kv_cache_config.kv_cache_groups) > 1:
        return HybridKVCacheCoordinator(vllm_config, rules, log)
    return UnitaryKVCacheCoordinator(vllm_config, rules, log)
