"""Managers of the blocks of one group each: full attention, windows, chunks, states.

The managers stand in one file, as in the original, because each shows how it differs from the first. Source: vLLM
vllm/v1/core/single_type_kv_cache_manager.py (0.33.0).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, NamedTuple, Sequence

from cachesim.engines.rule import rule_id
from cachesim.engines.shared.server_loop import log_decision
from cachesim.engines.vllm.core.block_pool import ERASED, BlockMask, BlockPool, EngineCoreDied
from cachesim.engines.vllm.kv_cache_interface import (
    KVCacheGroupSpec,
    VllmConfig,
    get_mamba_prefill_checkpoint_position,
    is_mamba_prefill_checkpoint_valid,
    tail_boundary,
)
from cachesim.engines.vllm.request import Request
from cachesim.engines.vllm.rules.blocks import BlockNeed, PublicationMask
from cachesim.engines.vllm.rules.lookup import GroupMatch, GroupQuery
from cachesim.engines.vllm.rules.states import StateInside, StateTail
from cachesim.events import Log

if TYPE_CHECKING:
    from cachesim.engines.vllm.profiles import Rules


class BoundaryState(NamedTuple):
    """A published state of a request: its group, its block, and the tokens that it stands for."""

    request: Request
    group_id: int
    block_id: int
    boundary_tokens: int


class SingleTypeKVCacheManager:
    """The blocks of requests in a group, by request. ``req_to_blocks``: 0 = no storage; ``num_cached_block``: first
    blocks that are published or left out; ``new_block_ids``: blocks that the worker zeroes;
    ``cached_blocks_this_step``: keys of blocks whose contents this step computes; ``awaited_block``: one of them, for
    which the last request that asked for blocks waits, None = none."""

    def __init__(self, kv_cache_group: KVCacheGroupSpec, block_pool: BlockPool, *, vllm_config: VllmConfig,
                 rules: Rules, log: Log) -> None:  # fmt: skip
        self.kv_cache_group = kv_cache_group
        self.kv_cache_group_id = kv_cache_group.group_id
        self.block_size = kv_cache_group.block_size
        self.use_eagle = kv_cache_group.use_eagle
        self.max_admission_blocks_per_request = kv_cache_group.max_admission_blocks_per_request
        self.block_pool = block_pool
        self.vllm_config = vllm_config
        self.rules = rules
        self.log = log
        self.find_rule: Callable[[GroupQuery], GroupMatch] = rules.find_full
        self.mask_rule = rules.mask_full           # leaves out complete blocks
        self.missing_block_rule = ""                    # rule behind complete blocks without storage, "" = not needed
        self.cache_hit_alignment_tokens = vllm_config.kv_cache_config.cache_hit_alignment_tokens
        self.retention_interval = vllm_config.options.prefix_cache_retention_interval
        self.num_speculative_blocks = vllm_config.options.num_speculative_tokens
        self.new_block_ids: list[int] = []
        self.req_to_blocks: dict[int, list[int]] = {}
        self.num_cached_block: dict[int, int] = {}
        self.partial_hit_reqs: dict[int, tuple[int, int]] = {}      # place and number of a block to be copied
        self.pending_cow_copies: list[tuple[int, int]] = []
        self.cached_blocks_this_step: set[int] = set()
        self.awaited_block: int | None = None

    def find_longest_cache_hit(self, request: Request, max_length: int, group_ids: Sequence[int],
                               drop_eagle_block: bool) -> GroupMatch:
        """Look a request up in groups that are equal to this one. An index beyond the known hashes ends the process."""
        pool = self.block_pool
        config = self.vllm_config.kv_cache_config
        unit = config.hash_block_size
        ask = GroupQuery(
            block_hashes=request.block_hashes,
            hash_block_size=unit,
            block_size=self.block_size,
            max_length=self.rules.look_at(max_length, len(request.block_hashes) * unit),
            alignment_tokens=config.cache_hit_alignment_tokens,
            drop_eagle_block=drop_eagle_block,
            window=self.kv_cache_group.window,
            num_groups=len(group_ids),
            get_cached_block=lambda block_hash: pool.get_cached_block(block_hash, group_ids),
        )
        try:
            return self.find_rule(ask)
        except IndexError:
            raise EngineCoreDied("IndexError: list index out of range", "find_longest_cache_hit") from None
        except AssertionError as failed:
            raise EngineCoreDied(f"AssertionError: {failed}", "find_longest_cache_hit") from None

    def get_num_blocks_to_allocate(self, request: Request, num_tokens: int, new_computed_blocks: Sequence[int], *,
                                   total_computed_tokens: int, num_local_computed_tokens: int,
                                   num_tokens_main_model: int, apply_admission_cap: bool = False) -> int:
        """Return the free blocks that a request takes for storage of so many tokens; ``num_tokens_main_model``: without
        those behind the chunk. More than there are = it waits for contents that this step computes."""
        has_partial_hit = self._has_partial_local_hit(new_computed_blocks, num_local_computed_tokens)
        if self._waits_for_this_step(request, new_computed_blocks, has_partial_hit):
            return self.block_pool.num_gpu_blocks + 1
        blocks = self.req_to_blocks.get(request.request_id, ())
        first = request.request_id not in self.num_cached_block
        skipped = self.get_num_skipped_tokens(total_computed_tokens) // self.block_size if first else 0
        kept = new_computed_blocks[max(0, skipped - len(blocks)) :]
        return self.rules.needed(BlockNeed(
            num_tokens=num_tokens,
            block_size=self.block_size,
            num_req_blocks=len(blocks),
            num_new_computed_blocks=len(new_computed_blocks),
            num_evictable_blocks=self._get_num_evictable_blocks(kept),
            num_skipped_blocks=skipped,
            is_new_request=first,
            has_partial_hit=has_partial_hit,
            max_admission_blocks_per_request=self.max_admission_blocks_per_request if apply_admission_cap else 0,
        ))  # fmt: skip

    def _get_num_evictable_blocks(self, blocks: Sequence[int]) -> int:
        ref_cnt = self.block_pool.ref_cnt
        return sum(1 for block in blocks if block and not ref_cnt[block])

    def _has_partial_local_hit(self, new_computed_blocks: Sequence[int], num_local_computed_tokens: int) -> bool:
        """True if found tokens end inside a block."""
        return bool(new_computed_blocks) and num_local_computed_tokens % self.block_size != 0

    def _waits_for_this_step(self, request: Request, new_computed_blocks: Sequence[int], partial: bool) -> bool:
        """Decide whether a request waits, because this step computes the last block that it found."""
        self.awaited_block = None
        if not new_computed_blocks or not self.cached_blocks_this_step:
            return False
        keys = self.block_pool.keys_of(new_computed_blocks[-1])
        if self.cached_blocks_this_step.isdisjoint(keys):
            return False
        promised = keys[0] in self.cached_blocks_this_step
        starts = self.rules.wait_for_state(self.kv_cache_group.kind, partial, promised)
        waits = not log_decision(self.log, starts, request)
        if waits:
            self.awaited_block = new_computed_blocks[-1]
        return waits

    def add_local_computed_blocks(self, request_id: int, new_computed_blocks: Sequence[int], *,
                                  num_local_computed_tokens: int, total_computed_tokens: int) -> None:
        """Add the found blocks to a request. ``total_computed_tokens``: with those that are loaded behind them."""
        skipped = max(0, self.get_num_skipped_tokens(total_computed_tokens)) // self.block_size
        found = new_computed_blocks[skipped:]
        self.block_pool.touch(found)
        blocks = [self.block_pool.null_block] * skipped
        blocks += found
        self.req_to_blocks[request_id] = blocks
        self.num_cached_block[request_id] = len(blocks)
        if found and num_local_computed_tokens % self.block_size:
            at = num_local_computed_tokens // self.block_size
            self.num_cached_block[request_id] = at
            self.partial_hit_reqs[request_id] = at, blocks[-1]

    def allocate_external_computed_blocks(self, request_id: int, total_computed_tokens: int) -> None:
        """Add blocks for the tokens that are loaded, as far as a later token reads them. The worker does not zero
        them."""
        blocks = self.req_to_blocks[request_id]
        missing = max(0, -(-total_computed_tokens // self.block_size) - len(blocks))
        blocks += self.block_pool.get_new_blocks(missing)

    def allocate_new_blocks(self, request_id: int, num_tokens: int, num_tokens_main_model: int) -> list[int]:
        """Add the blocks that a request still needs; return those added, copies included."""
        cow_blocks = list[int]()
        if request_id in self.partial_hit_reqs:
            block_idx, source_block = self.partial_hit_reqs.pop(request_id)
            [cow_block] = self.block_pool.get_new_blocks(1)
            self._apply_cow(request_id, block_idx, source_block, cow_block)
            cow_blocks.append(cow_block)
        blocks = self.req_to_blocks.setdefault(request_id, [])
        new_blocks = self.block_pool.get_new_blocks(max(0, -(-num_tokens // self.block_size) - len(blocks)))
        blocks += new_blocks
        self.new_block_ids += cow_blocks
        self._record_new_blocks(new_blocks)
        return cow_blocks + new_blocks

    def _record_new_blocks(self, new_blocks: Sequence[int]) -> None:
        """Let the worker zero new blocks."""
        if self.rules.zeroes(self.kv_cache_group.kind):
            self.new_block_ids += new_blocks

    def take_new_block_ids(self) -> list[int]:
        """Return the blocks to be zeroed, and forget them."""
        taken = self.new_block_ids
        self.new_block_ids = []
        return taken

    def take_pending_cow_copies(self) -> list[tuple[int, int]]:
        """Return the blocks to be copied, with their copies, and forget them."""
        taken = self.pending_cow_copies
        self.pending_cow_copies = []
        return taken

    def _apply_cow(self, request_id: int, block_idx: int, source_block: int, cow_block: int) -> None:
        """Replace a shared block by a copy, before the request writes in it. Both stay in use until it is copied."""
        self.req_to_blocks[request_id][block_idx] = cow_block
        self.pending_cow_copies.append((source_block, cow_block))
        self.block_pool.ref_cnt[cow_block] += 1

    def cache_blocks(self, request: Request, num_tokens: int, replay_boundaries: Sequence[int]) -> None:
        """Publish the blocks of a request that end within its first tokens."""
        request_id = request.request_id
        num_hashed_tokens = len(request.block_hashes) * self.block_pool.hash_block_size
        num_cached_blocks = self.num_cached_block.get(request_id, 0)
        num_full_blocks = min(num_tokens, num_hashed_tokens) // self.block_size
        if num_full_blocks > num_cached_blocks:
            self._cache_full_blocks(request, num_cached_blocks, num_full_blocks, replay_boundaries)
            self.num_cached_block[request_id] = num_full_blocks
        partial_key = self._cache_partial_tail_block(request, num_tokens)
        if partial_key is not None:
            self.cached_blocks_this_step.add(partial_key)
        if num_full_blocks > num_cached_blocks:
            block_hash = self.block_pool.block_hash
            blocks = [block for block in self.req_to_blocks[request_id][num_cached_blocks:num_full_blocks]
                      if block_hash[block] >= 0]  # fmt: skip
            self.cached_blocks_this_step.update(block_hash[block] for block in blocks)
            self._offer_boundary_states(request, blocks)

    def _offer_boundary_states(self, request: Request, blocks: Sequence[int]) -> None:
        """Offer the states in newly published blocks to a connector."""

    def take_pending_boundary_state_offloads(self) -> list[BoundaryState]:
        """Return the states that a connector may store, and forget them."""
        return []

    def _cache_full_blocks(self, request: Request, num_cached_blocks: int, num_full_blocks: int,
                           replay_boundaries: Sequence[int]) -> None:
        """Publish complete blocks, unless the group's mask leaves them out."""
        ends = replay_boundaries
        if request.shared_prefix_boundary:
            ends = [*ends, *self.rules.junction_ends(request.shared_prefix_boundary, self.block_size, self.use_eagle)]
        kept = self.reachable_block_mask(num_cached_blocks, num_full_blocks, ends)
        self.block_pool.cache_full_blocks(
            request, self.req_to_blocks[request.request_id], num_cached_blocks=num_cached_blocks,
            num_full_blocks=num_full_blocks, block_size=self.block_size, kv_cache_group_id=self.kv_cache_group_id,
            mask=BlockMask(kept, rule_id(self.mask_rule), self.missing_block_rule),
        )  # fmt: skip

    def reachable_block_mask(self, start_block: int, end_block: int, ends: Sequence[int]) -> list[bool] | None:
        """Return which complete blocks are kept, None = all; ``ends``: lengths at which a request may resume."""
        kept: list[bool] | None = self.mask_rule(PublicationMask(
            start_block=start_block,
            end_block=end_block,
            block_size=self.block_size,
            alignment_tokens=self.rules.mask_alignment(
                self.cache_hit_alignment_tokens, self.vllm_config.kv_cache_config.scheduler_block_size),
            retention_interval=self.retention_interval,
            reachable_boundaries=ends,
            sliding_window=self.kv_cache_group.window,
            use_eagle=self.use_eagle,
        ))  # fmt: skip
        return kept

    def _cache_partial_tail_block(self, request: Request, num_tokens: int) -> int | None:
        """Publish a part of a block; return its key, None = nothing is published."""
        return None

    def free(self, request_id: int) -> None:
        """Give back the blocks of a request, the last ones first."""
        self.block_pool.free_blocks(reversed(self.pop_blocks_for_free(request_id)))

    def pop_blocks_for_free(self, request_id: int) -> list[int]:
        """Forget a request; return its blocks."""
        self.num_cached_block.pop(request_id, None)
        self.partial_hit_reqs.pop(request_id, None)
        return self.req_to_blocks.pop(request_id, [])

    def remove_skipped_blocks(self, request: Request, processed_computed_tokens: int) -> None:
        """Give back the blocks that the next tokens do not read."""
        last_block = self.get_num_skipped_tokens(processed_computed_tokens) // self.block_size
        self._remove_blocks_in_range(request.request_id, 0, last_block)

    def _remove_blocks_in_range(self, request_id: int, first_block: int, last_block: int) -> None:
        """Give back blocks, the last ones first, up to one that is gone already."""
        blocks = self.req_to_blocks.get(request_id, [])
        freed = list[int]()
        for at in range(min(last_block, len(blocks)) - 1, first_block - 1, -1):
            if not blocks[at]:
                break
            freed.append(blocks[at])
            blocks[at] = self.block_pool.null_block
        self.block_pool.free_blocks(freed)

    def get_num_skipped_tokens(self, num_computed_tokens: int) -> int:
        """Return the tokens that are not read any more, after so many computed ones."""
        group = self.kv_cache_group
        return self.rules.skipped(group.kind, group.window, num_computed_tokens)

    def new_step_starts(self) -> None:
        """Begin a step."""
        self.cached_blocks_this_step.clear()


class FullAttentionManager(SingleTypeKVCacheManager):
    """Blocks of full attention."""

    def _cache_partial_tail_block(self, request: Request, num_tokens: int) -> int | None:
        """Publish the last part of a block of the prompt."""
        unit = self.block_pool.hash_block_size
        if self.block_size <= unit:
            return None
        end = self.rules.partial_rows(request.num_prompt_tokens, unit, len(request.block_hashes), self.use_eagle)
        at = end // self.block_size
        blocks = self.req_to_blocks.get(request.request_id, ())
        if not end or end > num_tokens or end % self.block_size == 0 or at >= len(blocks):
            return None
        return self.block_pool.cache_partial_block(request, blocks[at], end, self.kv_cache_group_id)


class RSWAManager(FullAttentionManager):
    """Blocks of a reference window: the prompt, and the last tokens."""

    def remove_skipped_blocks(self, request: Request, processed_computed_tokens: int) -> None:
        """Give back the blocks between the prompt and the window."""
        first_block, last_block = self.rules.reference_gap(
            request.num_prompt_tokens, processed_computed_tokens, self.kv_cache_group.window, self.block_size)
        self._remove_blocks_in_range(request.request_id, first_block, last_block)


class SlidingWindowManager(SingleTypeKVCacheManager):
    """Blocks of a sliding window."""

    def __init__(self, kv_cache_group: KVCacheGroupSpec, block_pool: BlockPool, *, vllm_config: VllmConfig,
                 rules: Rules, log: Log) -> None:  # fmt: skip
        super().__init__(kv_cache_group, block_pool, vllm_config=vllm_config, rules=rules, log=log)
        self.find_rule = self.rules.find_swa
        self.mask_rule = self.rules.mask_swa


class ChunkedLocalAttentionManager(SingleTypeKVCacheManager):
    """Blocks of attention within chunks."""

    def __init__(self, kv_cache_group: KVCacheGroupSpec, block_pool: BlockPool, *, vllm_config: VllmConfig,
                 rules: Rules, log: Log) -> None:  # fmt: skip
        super().__init__(kv_cache_group, block_pool, vllm_config=vllm_config, rules=rules, log=log)
        self.find_rule = self.rules.find_chunked


class MambaManager(SingleTypeKVCacheManager):
    """States. With the mode "align" a state is kept where a chunk ends: ``last_state_block_idx`` is the column of the
    older state, ``num_retired_blocks`` columns have none, ``allocated_block_reqs`` have a running state, and
    ``checkpoints`` are length and column of a state inside the chunk."""

    def __init__(self, kv_cache_group: KVCacheGroupSpec, block_pool: BlockPool, *, vllm_config: VllmConfig,
                 rules: Rules, log: Log) -> None:  # fmt: skip
        super().__init__(kv_cache_group, block_pool, vllm_config=vllm_config, rules=rules, log=log)
        self.align = kv_cache_group.align
        self.find_rule = self.rules.find_mamba
        self.mask_rule = self.rules.mask_mamba
        self.missing_block_rule = rule_id(self.rules.split) if self.align else ""       # no chunk ended there
        self.last_state_block_idx: dict[int, int] = {}
        self.num_retired_blocks: dict[int, int] = {}
        self.allocated_block_reqs: set[int] = set()
        self.checkpoints: dict[int, tuple[int, int]] = {}
        self.pending_boundary_state_offloads: list[BoundaryState] = []

    def get_num_blocks_to_allocate(self, request: Request, num_tokens: int, new_computed_blocks: Sequence[int], *,
                                   total_computed_tokens: int, num_local_computed_tokens: int,
                                   num_tokens_main_model: int, apply_admission_cap: bool = False) -> int:
        """Return the free blocks that a request takes for states."""
        if not self.align:
            return super().get_num_blocks_to_allocate(
                request, num_tokens + self.block_size * self.num_speculative_blocks, new_computed_blocks,
                total_computed_tokens=total_computed_tokens, num_local_computed_tokens=num_local_computed_tokens,
                num_tokens_main_model=num_tokens_main_model, apply_admission_cap=apply_admission_cap)
        has_partial_hit = self._has_partial_local_hit(new_computed_blocks, num_local_computed_tokens)
        if self._waits_for_this_step(request, new_computed_blocks, has_partial_hit):
            return self.block_pool.num_gpu_blocks + 1
        request_id = request.request_id
        checkpoint = self._internal_checkpoint(request, total_computed_tokens, num_tokens_main_model)
        if not apply_admission_cap:
            self.checkpoints.pop(request_id, None)
            if checkpoint is not None:
                self.checkpoints[request_id] = checkpoint
        need = BlockNeed(
            num_tokens=num_tokens_main_model,
            block_size=self.block_size,
            num_req_blocks=len(self.req_to_blocks.get(request_id, ())),
            num_new_computed_blocks=len(new_computed_blocks),
            num_evictable_blocks=self._get_num_evictable_blocks(new_computed_blocks),
            num_skipped_blocks=0,
            is_new_request=request_id not in self.num_cached_block,
            has_partial_hit=has_partial_hit or request_id in self.partial_hit_reqs,
            max_admission_blocks_per_request=self.max_admission_blocks_per_request if apply_admission_cap else 0,
        )
        allocated = request_id in self.allocated_block_reqs
        return self.rules.states_needed(need, self.num_speculative_blocks, allocated, checkpoint is not None)

    def _internal_checkpoint(self, request: Request, query_start: int, query_end: int) -> tuple[int, int] | None:
        """Return length and column of the state that is kept inside a chunk, None = no such state."""
        if not self.vllm_config.options.mamba_prefill_checkpoint_alignment:
            return None
        if not self.rules.reserves_inside(query_end, request.prefill_end, self.retention_interval):
            return None
        position = get_mamba_prefill_checkpoint_position(self.rules, self.vllm_config, query_end)
        column = -(-query_end // self.block_size) - 2
        if not position or column < 0:
            return None
        if not is_mamba_prefill_checkpoint_valid(
                self.rules, self.vllm_config, query_start=query_start, query_end=query_end,
                checkpoint_position=position, mamba_block_size=self.block_size):
            return None
        blocks = self.req_to_blocks.get(request.request_id, ())
        left = len(blocks) - column             # from this column on
        scratch = request.request_id in self.allocated_block_reqs and left <= self.num_speculative_blocks
        if left > 0 and blocks[column] and not scratch:
            return None
        return position, column

    def allocate_new_blocks(self, request_id: int, num_tokens: int, num_tokens_main_model: int) -> list[int]:
        """Add the block of the running state; scratch blocks that are left behind move to the end."""
        if not self.align:
            num_tokens += self.block_size * self.num_speculative_blocks
            return super().allocate_new_blocks(request_id, num_tokens, num_tokens_main_model)
        blocks = self.req_to_blocks.setdefault(request_id, [])
        num_skipped_blocks = -(-num_tokens_main_model // self.block_size) - 1
        num_required_blocks = num_skipped_blocks + 1 + self.num_speculative_blocks
        checkpoint_block = request_id in self.checkpoints
        has_partial_hit = request_id in self.partial_hit_reqs
        prev_block_len = len(blocks)
        added = list[int]()
        if num_required_blocks > prev_block_len or has_partial_hit or checkpoint_block:
            self._record_last_state(request_id, prev_block_len)
            if prev_block_len < num_skipped_blocks:
                gap = num_skipped_blocks - prev_block_len
                if checkpoint_block:
                    gap -= 1
                blocks += [self.block_pool.null_block] * gap
            if request_id in self.allocated_block_reqs:
                self._relocate_speculative_blocks(blocks, prev_block_len, num_skipped_blocks, checkpoint_block)
            num_new_blocks = max(num_required_blocks - len(blocks), 0)
            if has_partial_hit:
                num_new_blocks += 1
            new_blocks = self.block_pool.get_new_blocks(num_new_blocks)
            relocated = blocks[prev_block_len:]
            if has_partial_hit:
                added += self._copy_partial_hit(request_id, new_blocks.pop(0))
            blocks += new_blocks
            added += relocated
            added += new_blocks
            self.allocated_block_reqs.add(request_id)
        elif self.rules.begins_without_block():
            self.allocated_block_reqs.add(request_id)
        return added

    def _record_last_state(self, request_id: int, num_blocks: int) -> None:
        """Note the column of the state that becomes the older one."""
        if request_id in self.allocated_block_reqs:
            self.last_state_block_idx[request_id] = num_blocks - 1 - self.num_speculative_blocks
        elif num_blocks:
            self.last_state_block_idx[request_id] = num_blocks - 1

    def _relocate_speculative_blocks(self, blocks: list[int], prev_block_len: int, num_skipped_blocks: int,
                                     checkpoint_block: bool) -> None:
        """Move the scratch blocks that are left behind to the end."""
        stop = min(prev_block_len, self.rules.left_behind(num_skipped_blocks, checkpoint_block))
        for at in range(prev_block_len - self.num_speculative_blocks, stop):
            blocks.append(blocks[at])
            blocks[at] = self.block_pool.null_block

    def _copy_partial_hit(self, request_id: int, cow_block: int) -> list[int]:
        """Copy a block before the step writes in it; return the copy if the request uses it. A running request writes
        its own part of a block: the keys move to the copy."""
        block_idx, source_block = self.partial_hit_reqs.pop(request_id)
        if self.req_to_blocks[request_id][block_idx] != source_block:       # a later chunk gave it back
            raise EngineCoreDied("AssertionError: ", "allocate_new_blocks")
        if request_id not in self.allocated_block_reqs:
            self._apply_cow(request_id, block_idx, source_block, cow_block)
            return [cow_block]
        self.pending_cow_copies.append((source_block, cow_block))
        self.block_pool.move_block_hashes(source_block, cow_block)
        self.block_pool.ref_cnt[source_block] += 1
        self.cached_blocks_this_step.update(self.block_pool.keys_of(cow_block)[:1])
        return []

    def _offer_boundary_states(self, request: Request, blocks: Sequence[int]) -> None:
        """Offer the states in newly published blocks to a connector."""
        if self.align and self.vllm_config.options.num_cpu_chunks:
            lengths = self.block_pool.block_hash_num_tokens
            self.pending_boundary_state_offloads += [
                BoundaryState(request, self.kv_cache_group_id, block, lengths[block]) for block in blocks]

    def take_pending_boundary_state_offloads(self) -> list[BoundaryState]:
        """Return the states that a connector may store, and forget them."""
        taken = self.pending_boundary_state_offloads
        self.pending_boundary_state_offloads = []
        return taken

    def _cache_partial_tail_block(self, request: Request, num_tokens: int) -> int | None:
        """Publish the state inside the chunk, or the state at the end of the chunk if the prompt can resume there."""
        if not self.align:
            return None
        checkpoint = self.checkpoints.get(request.request_id)
        if checkpoint is not None:
            return self._cache_checkpoint(request, num_tokens, checkpoint)
        block_idx = -(-num_tokens // self.block_size) - 1
        blocks = self.req_to_blocks.get(request.request_id, ())
        if num_tokens <= 0 or block_idx >= len(blocks) or not self._resumes_at(request, num_tokens):
            return None
        source_block = blocks[block_idx]
        if not source_block or (self.block_pool.ends_at(source_block, num_tokens) and not self.rules.key_again()):
            return None
        key = self.block_pool.cache_partial_block(request, source_block, num_tokens, self.kv_cache_group_id)
        if num_tokens % self.block_size:
            self.partial_hit_reqs[request.request_id] = block_idx, source_block
            self.num_cached_block[request.request_id] = block_idx
        return key

    def _resumes_at(self, request: Request, num_tokens: int) -> bool:
        """True if a prompt, or a sibling of it, resumes after so many tokens, at the end of a chunk."""
        config = self.vllm_config
        unit = self.block_pool.hash_block_size
        if num_tokens % unit:
            return False
        prompt = request.num_prompt_tokens
        junction = (config.kv_cache_config.mamba_shared_prefix_checkpoint
                    and num_tokens == request.shared_prefix_boundary
                    and request.num_computed_tokens < num_tokens <= prompt)
        return self.rules.state_tail(StateTail(
            num_tokens=num_tokens,
            latest_prompt_hash_boundary=tail_boundary(self.rules, config, prompt),
            own_hash_boundary=tail_boundary(self.rules, config, prompt, drop_eagle_block=self.use_eagle),
            hash_block_size=unit,
            block_size=self.block_size,
            is_junction=junction,
        ))  # fmt: skip

    def _cache_checkpoint(self, request: Request, num_tokens: int, checkpoint: tuple[int, int]) -> int | None:
        """Publish the state inside a chunk of ``num_tokens``, if it is kept."""
        position, column = checkpoint
        block = self.req_to_blocks[request.request_id][column]
        if not self._keeps_checkpoint(request, position, num_tokens):
            self.block_pool.remove_cached_block_hashes(block, ERASED)
            return None
        counted = self.num_cached_block.get(request.request_id, 0)
        self.num_cached_block[request.request_id] = self.rules.counted_blocks(counted, column)
        if self.block_pool.ends_at(block, position):
            return None
        return self.block_pool.cache_partial_block(request, block, position, self.kv_cache_group_id,
                                                   replace_existing_hashes=True)

    def _keeps_checkpoint(self, request: Request, position: int, num_tokens: int) -> bool:
        """True if the state inside a chunk that ends after so many tokens is kept."""
        own = position == get_mamba_prefill_checkpoint_position(
            self.rules, self.vllm_config, request.num_prompt_tokens)
        kept: list[bool] | None = [False]
        if position % self.block_size == 0:
            at = position // self.block_size - 1
            kept = self.reachable_block_mask(at, at + 1, ())
        return self.rules.keeps_inside(StateInside(
            is_prompt_checkpoint=own,
            is_junction=position == request.shared_prefix_boundary,
            ends_prompt=num_tokens >= request.num_prompt_tokens,
            retention_interval=self.retention_interval,
            is_retained_checkpoint=kept is None or kept[0],
        ))  # fmt: skip

    def pop_blocks_for_free(self, request_id: int) -> list[int]:
        """Forget a request; return its blocks."""
        self.last_state_block_idx.pop(request_id, None)
        self.num_retired_blocks.pop(request_id, None)
        self.allocated_block_reqs.discard(request_id)
        self.checkpoints.pop(request_id, None)
        self.pending_boundary_state_offloads = [
            state for state in self.pending_boundary_state_offloads if state.request.request_id != request_id]
        return super().pop_blocks_for_free(request_id)

    def remove_skipped_blocks(self, request: Request, processed_computed_tokens: int) -> None:
        """Give back the states that the next tokens do not read, and the older state."""
        processed_computed_tokens = self.rules.settled_states(processed_computed_tokens, self.num_speculative_blocks)
        super().remove_skipped_blocks(request, processed_computed_tokens)
        if not self.align:
            return
        at = self.last_state_block_idx.get(request.request_id, -1)
        if 0 <= at < -(-processed_computed_tokens // self.block_size) - 1:
            blocks = self.req_to_blocks[request.request_id]
            if blocks[at]:
                self.block_pool.free_blocks([blocks[at]])
                blocks[at] = self.block_pool.null_block

    def _remove_blocks_in_range(self, request_id: int, first_block: int, last_block: int) -> None:
        """Give back states in columns that are not retired; chunks leave columns without a state between them."""
        if not self.align:
            super()._remove_blocks_in_range(request_id, first_block, last_block)
            return
        blocks = self.req_to_blocks.get(request_id, [])
        retired = self.num_retired_blocks.get(request_id, 0)
        last_block = min(last_block, len(blocks))
        freed = list[int]()
        for at in range(last_block - 1, max(first_block, retired) - 1, -1):
            is_gap = not blocks[at]
            if not is_gap:
                freed.append(blocks[at])
                blocks[at] = self.block_pool.null_block
            if not self.rules.retires_further(is_gap):
                break
        self.block_pool.free_blocks(freed)
        self.num_retired_blocks[request_id] = max(retired, last_block)


MANAGERS: dict[str, type[SingleTypeKVCacheManager]] = {
    "full": FullAttentionManager, "rswa": RSWAManager, "swa": SlidingWindowManager,
    "chunked": ChunkedLocalAttentionManager, "mamba": MambaManager,
}  # fmt: skip


def get_manager_for_kv_cache_spec(kv_cache_group: KVCacheGroupSpec, block_pool: BlockPool, *, vllm_config: VllmConfig,
                                  rules: Rules, log: Log) -> SingleTypeKVCacheManager:  # fmt: skip
    """Return a manager of this kind of group."""
    manager = MANAGERS[kv_cache_group.kind]
    return manager(kv_cache_group, block_pool, vllm_config=vllm_config, rules=rules, log=log)
