"""Inspection of the server: contents of requests and of prefixes that can be found, and the blocks of the pool."""

from __future__ import annotations

from itertools import chain
from typing import Mapping, NamedTuple, Sequence

import numpy as np

from cachesim.base.tokens import Tokens
from cachesim.engines.inspection import (
    BlockCell,
    ExceededLimit,
    Key,
    ResumeUnit,
    RowsPart,
    StatePart,
    StoredContent,
    StoredObject,
    TokenPrefix,
)
from cachesim.engines.server_parts import CacheCells
from cachesim.engines.shared.request_queue import RequestInspection, too_many
from cachesim.engines.vllm.core.kv_cache_manager import KVCacheManager
from cachesim.engines.vllm.core.scheduler import Scheduler
from cachesim.engines.vllm.kv_cache_interface import FULL, KVCacheGroupSpec, VllmConfig
from cachesim.engines.vllm.pool_points import PoolPoints
from cachesim.engines.vllm.prefix_points import Prefix
from cachesim.engines.vllm.request import Request, RequestText
from cachesim.engines.vllm.worker.model_runner import ModelRunner
from cachesim.model import LayerState


class StoredPrefix(NamedTuple):
    """The first ``end`` tokens of a request, in these blocks of each group: all, or if ``is_part`` those from the first
    one on that is read. ``running_column``: column of the state in a group; ``has_states``: the states are those after
    the last token."""

    end: int
    block_ids: Sequence[Sequence[int]]
    is_part: bool
    start: int
    running_column: Mapping[int, int]
    has_states: bool


def first_row(group: KVCacheGroupSpec, start: int, end: int) -> int:
    """Return the first position of the rows of a group that belong to tokens start .. end-1: those of a window are
    those that the next token reads."""
    return start if group.kind in FULL else group.first_read(end)


def request_text(node: Prefix) -> RequestText:
    """Return the text of the request that stored a prefix."""
    assert isinstance(node.text, RequestText)
    return node.text


class Inspection(RequestInspection):
    """Contents of requests and of prefixes that can be found. ``slots``: all requests received so far."""

    slots: Sequence[Request]
    points: PoolPoints

    def __init__(self, vllm_config: VllmConfig, slots: Sequence[Request], scheduler: Scheduler,
                 model_runner: ModelRunner, points: PoolPoints) -> None:
        super().__init__(slots, points)
        self.opts = vllm_config.options
        self.kv_cache_groups = vllm_config.kv_cache_config.kv_cache_groups
        self.hash_block_size = vllm_config.kv_cache_config.hash_block_size
        self.deferred_frees = scheduler.deferred_frees
        self.encoder_cache_manager = scheduler.encoder_cache_manager
        self.connector = scheduler.connector
        self.running = scheduler.running
        self.kv_cache_manager = scheduler.kv_cache_manager
        self.model_runner = model_runner

    @property
    def resume_unit(self) -> ResumeUnit:
        """The block of a single group, or the tokens after which blocks of all groups end."""
        return ResumeUnit(self.points.align, "block")

    def occupied_slots(self) -> list[int]:
        """Return the running requests."""
        return [request.request_id for request in self.running]

    def tokens_of(self, slot: int) -> Tokens:
        """Return the computed tokens of a request, with the key that they were computed under."""
        tokens, n = self.prefix_of(slot)
        return tokens[:n]

    def prefix_of(self, slot: int) -> TokenPrefix:
        """Return the computed tokens of a request as a prefix of all that it has."""
        request = self.slots[slot]
        tokens = request.text.full()
        _, n, _ = slice(request.num_processed_tokens).indices(len(tokens))
        return TokenPrefix(tokens, n)

    def stored(self, key: Key, start: int = 0) -> StoredObject:
        """Return the content of a prefix that can be found; for a slot, the content of a request's blocks."""
        kind, owner, _ = key
        if kind == "slot":
            rows, state = self._of_request(owner)
            return StoredObject(kind, owner, (), self._num_computed(owner), rows, state)
        node = self.points.prefix(key)
        first = max(start, node.start)
        text = request_text(node)
        tokens = text.full() if node.start else text.full()[: node.end]
        rows, state = self._of_prefix(node, text, first)
        return StoredObject(kind, owner, tokens, node.end, rows, state, first)

    def content(self, key: Key, start: int = 0) -> StoredContent:
        """Return the rows and states of ``stored``."""
        kind, owner, _ = key
        if kind == "slot":
            return self._of_request(owner)
        node = self.points.prefix(key)
        return self._of_prefix(node, request_text(node), max(start, node.start))

    def _of_prefix(self, node: Prefix, text: RequestText, start: int) -> StoredContent:
        """Return what the pool holds of a prefix from position ``start`` on."""
        groups = self.kv_cache_groups
        block_ids = [self._blocks_of(group, text, first_row(group, start, node.end), node.end) for group in groups]
        return self._content(StoredPrefix(node.end, block_ids, is_part=True, start=start, running_column={},
                                          has_states=True))  # fmt: skip

    def _blocks_of(self, group: KVCacheGroupSpec, text: RequestText, start: int, end: int) -> list[int]:
        """Return the blocks of a group that hold tokens start .. end-1 of a request, 0 where none is needed."""
        pool = self.kv_cache_manager.block_pool
        unit = self.hash_block_size
        hashes = text.block_hashes
        block = group.block_size
        rest = end % block
        first = start // block * block + block
        ends = [end] if group.kind == "mamba" else [*range(first, end + 1, block), *([end] if rest else ())]
        found = [pool.get_cached_block(hashes[stop // unit - 1], (group.group_id,)) for stop in ends]
        if rest and not found[-1]:
            last = min(end - rest + block, len(hashes) * unit)
            longer = hashes[end // unit - 1 : last // unit]
            blocks = (pool.get_cached_block(block_hash, (group.group_id,)) for block_hash in longer)
            found[-1] = next(filter(None, blocks), None)
        return [blocks[0] if blocks else 0 for blocks in found]

    def _num_computed(self, req_id: int) -> int:
        """Return the number of tokens of a request whose rows its blocks hold."""
        request = self.slots[req_id]
        return min(request.num_processed_tokens, len(request.text.token_ids))

    def _of_request(self, req_id: int) -> StoredContent:
        """Return what the blocks of a request hold of its computed tokens. With drafts, or with steps in flight, its
        states are ahead of its tokens."""
        state = self.model_runner.requests.get(req_id)
        if state is None:
            return StoredContent((), None)
        ahead = self.opts.async_scheduling or self.opts.num_speculative_tokens
        prefix = StoredPrefix(
            end=self._num_computed(req_id),
            block_ids=state.block_ids,
            is_part=False,
            start=0,
            running_column=state.running_column,
            has_states=not ahead,
        )
        return self._content(prefix)

    def _content(self, prefix: StoredPrefix) -> StoredContent:
        """Return the rows and states in the blocks of a prefix."""
        contents = self.model_runner.kv_caches
        end = prefix.end
        parts = list[RowsPart]()
        states = dict[int, LayerState | None]()
        for group in self.kv_cache_groups if end else ():
            blocks = prefix.block_ids[group.group_id]
            if group.kind == "mamba":
                column = prefix.running_column.get(group.group_id, 0)
                for layer in group.layers if prefix.has_states else ():
                    states[layer] = contents.state_in(layer, blocks, column, 0)
                continue
            first = first_row(group, prefix.start, end)
            pos = np.arange(first, end)
            rows = contents.read(group.layers, blocks, pos, first // group.block_size if prefix.is_part else 0)
            parts.append(RowsPart(end - first + 1 if group.window else 0, pos, rows))    # a window of the next token
        return StoredContent(tuple(parts), StatePart(end - 1, states) if states else None)

    def checkpoints(self, slot: int) -> list[int]:
        """Return the lengths of all prefixes that can be found, ascending: all requests share them."""
        return self.points.lengths.in_order()

    def check(self) -> None:
        """Raise Crash unless pool and tables agree, and so do the places of images and of chunks in CPU memory."""
        manager = self.kv_cache_manager
        tables = [blocks for request in self.slots for blocks in manager.get_block_ids(request.request_id)]
        manager.block_pool.check(chain(*tables, self.deferred_frees.blocks()))
        self.encoder_cache_manager.check()
        if self.connector is not None:
            self.connector.manager.check()

    def exceeded_limits(self) -> list[ExceededLimit]:
        """Return an excess if more requests run than allowed."""
        return too_many(len(self.running), self.opts.max_num_seqs)


class PoolCells(CacheCells):
    """The blocks of a pool, for pictures."""

    def __init__(self, kv_cache_manager: KVCacheManager) -> None:
        self.kv_cache_manager = kv_cache_manager

    def blocks(self) -> list[BlockCell]:
        """Return the blocks of the pool that were used."""
        manager = self.kv_cache_manager
        return manager.block_pool.cells(manager.block_owners)
