"""Restore points of a block pool: prefixes that keys of computed blocks stand for.

A key may be entered when its block is scheduled; the prefix is reported once the block is computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, Sequence

from cachesim.engines.rule import rule_id
from cachesim.engines.shared.server_loop import log_decision
from cachesim.engines.vllm.core.block_pool import CLEARED, EVICTED, REPLACED, BlockPool
from cachesim.engines.vllm.kv_cache_interface import VllmConfig
from cachesim.engines.vllm.prefix_points import ALL, CHUNK, STATE, WINDOW, GroupPieces, PrefixPoints, UnitChain
from cachesim.engines.vllm.request import Request, RequestText
from cachesim.events import Log

if TYPE_CHECKING:
    from cachesim.engines.vllm.profiles import Rules

PIECES = {"full": ALL, "rswa": ALL, "swa": WINDOW, "chunked": CHUNK, "mamba": STATE}


class PoolPoints(PrefixPoints):
    """Restore points of a pool. ``entered``: keys that are not computed yet, with the block, the text, and the length
    of the prefix; ``found``: computed ones, each with its block in a number; ``reports``: restore points are
    reported, unless nothing reads the log of the run."""

    def __init__(self, vllm_config: VllmConfig, rules: Rules, log: Log, block_pool: BlockPool) -> None:
        config = vllm_config.kv_cache_config
        pieces = [GroupPieces(PIECES[group.kind], group.block_size, group.window) for group in config.kv_cache_groups]
        super().__init__(log, pieces, config.cache_hit_alignment_tokens)
        self.rules = rules
        self.log = log
        self.pool = block_pool
        self.unit = config.hash_block_size
        self.found: set[int] = set()
        self.entered: list[tuple[int, int, RequestText, int]] = []
        self.reports = True
        block_pool.reporter = self

    def named(self, request: Request, keys: Sequence[int], blocks: Sequence[int], ends: Sequence[int]) -> None:
        """Note that blocks have these keys, as the ends of prefixes of a request."""
        if self.reports and self.log.is_read:
            text = request.text
            self.entered += [(key, block, text, end) for key, block, end in zip(keys, blocks, ends, strict=True)]

    def computed(self) -> None:
        """Report the blocks that were entered, unless they lost their key, as computed."""
        contain = self.pool.cached_block_hash_to_block.contain
        num_blocks = self.pool.num_gpu_blocks
        num_groups = self.pool.num_groups
        unit = self.unit
        chain: UnitChain | None = None
        for key, block, text, end in self.entered:
            number = key * num_blocks + block
            if number not in self.found and contain(key, block):
                self.found.add(number)
                if chain is None or chain.text is not text:
                    chain = UnitChain(text.block_hashes, unit, tokens=text.full(), text=text)
                self.gained(key % num_groups, chain, end // unit)
        self.entered.clear()

    def lost(self, block: int, keys: Sequence[int], cause: str) -> None:
        """Decide on the loss of a block's keys, and report that it can no longer be found under these."""
        rules = self.rules
        removed_by: dict[str, Callable[..., object]] = {REPLACED: rules.partial_rows, CLEARED: rules.reset_preempts}
        rule = rule_id(removed_by.get(cause, rules.state_inside))
        if cause == EVICTED:
            decision = rules.evict(block, self.pool.block_hash_num_tokens[block])
            log_decision(self.log, decision, None)
            rule = decision.rule
        for key in keys:
            number = key * self.pool.num_gpu_blocks + block
            if number in self.found:
                self.found.remove(number)
                self.gone(key % self.pool.num_groups, key // self.pool.num_groups, cause, rule)

    def moved(self, block: int, copy: int) -> None:
        """Note that keys of a block now belong to its copy, whose content is the same."""
        self.entered = [(key, copy if at == block else at, text, end) for key, at, text, end in self.entered]
        for key in self.pool.keys_of(copy):
            number = key * self.pool.num_gpu_blocks + block
            if number in self.found:
                self.found.remove(number)
                self.found.add(key * self.pool.num_gpu_blocks + copy)
