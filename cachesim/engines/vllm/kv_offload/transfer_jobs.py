"""Transfers of requests that store their blocks in CPU memory and load them, in chunks of blocks.

All groups of layers are full attention. The caller says when a transfer ends (`TransferJobs.complete`). Source: vLLM
vllm/distributed/kv_transfer/kv_connector/v1/offloading/scheduler.py (0.33.0).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import AbstractSet, NamedTuple, Sequence

from cachesim.engines.vllm.kv_offload.cpu_manager import (
    MISS,
    PENDING,
    CPUOffloadingManager,
    Key,
    RequestCacheAccess,
)


@dataclass(slots=True)
class RequestOffloadState:
    """A request, with a list for each of its groups."""

    num_groups: int
    ends: dict[Key, int] = field(default_factory=dict)              # length of the prompt at the end of each chunk
    access: RequestCacheAccess = field(init=False)
    offload_keys: list[list[Key]] = field(init=False)               # of its chunks
    block_ids: Sequence[Sequence[int]] = field(init=False)          # its blocks since it last started
    next_stored_chunk_idx: list[int] = field(init=False)            # number of chunks that were offered
    num_locally_computed_tokens: int = 0                            # tokens found in the pool
    transfer_jobs: set[int] = field(default_factory=set)            # those that have not ended

    def __post_init__(self) -> None:
        self.access = RequestCacheAccess(self.ends)
        self.offload_keys = [[] for _ in range(self.num_groups)]
        self.restart()

    def restart(self) -> None:
        """Forget the blocks of an earlier start."""
        self.block_ids = [[] for _ in range(self.num_groups)]
        self.next_stored_chunk_idx = [0] * self.num_groups


class StoreOffer(NamedTuple):
    """Complete chunks of a request. ``ends``: their number in each group; ``missing``: chunks that can be stored;
    ``free``: places without a chunk; ``idle``: chunks that can make room."""

    state: RequestOffloadState
    ends: Sequence[int]
    missing: Sequence[Key]
    free: int
    idle: AbstractSet[Key]


class BlockPart(NamedTuple):
    """A block of the pool, and its place in a chunk."""

    block: int
    key: Key
    part: int


@dataclass(slots=True, frozen=True)
class TransferJob:
    """A transfer of chunks. ``copies``: block of the pool and block of CPU memory of each copy; a store evicts
    chunks."""

    job_id: int
    state: RequestOffloadState
    keys: tuple[Key, ...]
    copies: tuple[tuple[int, int], ...]
    is_store: bool
    evicted: int = 0


class OffloadConfig(NamedTuple):
    """Sizes. ``tokens_per_block``: of each group; ``caching``: the pool publishes blocks."""

    tokens_per_block: Sequence[int]
    blocks_per_chunk: int
    tokens_per_hash: int
    caching: bool


class TransferJobs:
    """All transfers of a server. ``chunks_being_loaded``: those that other requests wait for."""

    def __init__(self, manager: CPUOffloadingManager, config: OffloadConfig) -> None:
        self.manager = manager
        self.config = config
        self.tokens_per_chunk = [size * config.blocks_per_chunk for size in config.tokens_per_block]
        self.jobs: dict[int, TransferJob] = {}
        self.chunks_being_loaded: set[Key] = set()
        self.job_counter = 0

    def update_offload_keys(self, state: RequestOffloadState, block_hashes: Sequence[int]) -> None:
        """Add the keys of the chunks that are complete in a list of hashes."""
        for group, (keys, tokens) in enumerate(zip(state.offload_keys, self.tokens_per_chunk, strict=True)):
            step = tokens // self.config.tokens_per_hash
            for at in range(step * len(keys) + step - 1, len(block_hashes), step):
                key = block_hashes[at], group
                keys.append(key)
                state.ends[key] = len(keys) * tokens

    def lookup(self, state: RequestOffloadState, block_hashes: Sequence[int], num_computed_tokens: int,
               num_tokens: int) -> int | None:
        """Return the tokens behind the computed ones that a request can load when it starts; None = it waits for
        transfers."""
        if state.transfer_jobs:
            return None
        self.update_offload_keys(state, block_hashes)
        state.num_locally_computed_tokens = num_computed_tokens
        return self._lookup(state, num_computed_tokens, num_tokens)

    def _lookup(self, state: RequestOffloadState, local: int, end: int) -> int | None:
        waits = False
        bounds = [0] * len(self.tokens_per_chunk)
        while bounds != [end] * len(bounds):
            bounds = []
            for keys, tokens in zip(state.offload_keys, self.tokens_per_chunk, strict=True):
                end = min(end, len(keys) * tokens)
                if end - local < tokens:
                    return 0
                found, pending = self._maximal_prefix_lookup(keys[local // tokens : -(-end // tokens)])
                waits |= pending
                if not pending or not found:
                    end = min(end, (local // tokens + found) * tokens)
                if not found or end - local < tokens:
                    return 0
                bounds.append(end)
        return None if waits or self._is_being_loaded(state, local, end) else end - local

    def _maximal_prefix_lookup(self, keys: Sequence[Key]) -> tuple[int, bool]:
        """Return how many chunks from the first one are there, and whether one of them is being written."""
        states = [self.manager.lookup(key) for key in keys]
        n = next((at for at, state in enumerate(states) if state == MISS), len(states))
        return n, PENDING in states[:n]

    def _is_being_loaded(self, state: RequestOffloadState, local: int, end: int) -> bool:
        """True if another request loads a chunk of these tokens."""
        return any(key in self.chunks_being_loaded
                   for keys, tokens in zip(state.offload_keys, self.tokens_per_chunk, strict=True)
                   for key in keys[local // tokens : -(-end // tokens)])  # fmt: skip

    def begin_load(self, state: RequestOffloadState, block_ids: Sequence[Sequence[int]],
                   num_tokens: int) -> TransferJob:  # fmt: skip
        """Begin to load this many tokens into the blocks of a request."""
        local = state.num_locally_computed_tokens
        end = local + num_tokens
        per_chunk = self.config.blocks_per_chunk
        keys = list[Key]()
        parts = list[BlockPart]()
        for group, size in enumerate(self.config.tokens_per_block):
            chunk = self.tokens_per_chunk[group]
            last = -(-end // chunk)
            own = state.offload_keys[group]
            keys += own[local // chunk : last]
            parts += [BlockPart(block_ids[group][at], own[at // per_chunk], at % per_chunk)
                      for at in range(local // size, -(-end // size))]  # fmt: skip
            state.next_stored_chunk_idx[group] = last
        self.manager.prepare_load(keys, state.access)
        if self.config.caching:
            self.chunks_being_loaded.update(keys)
        return self._begin(state, keys, parts, is_store=False)

    def offer(self, state: RequestOffloadState, block_hashes: Sequence[int], num_tokens: int) -> StoreOffer:
        """Offer those complete chunks of the first tokens that no earlier offer or load contained."""
        self.update_offload_keys(state, block_hashes)
        ends = [min(num_tokens // chunk, len(blocks) // self.config.blocks_per_chunk, len(keys))
                for chunk, blocks, keys in zip(self.tokens_per_chunk, state.block_ids, state.offload_keys, strict=True)]
        keys = [key for own, first, end in zip(state.offload_keys, state.next_stored_chunk_idx, ends, strict=True)
                for key in own[first:end]]  # fmt: skip
        missing = self.manager.offer(keys, state.access) if keys else []
        free, idle = self.manager.get_room(keys) if missing else (0, set[Key]())
        return StoreOffer(state, ends, missing, free=free, idle=idle)

    def begin_store(self, offer: StoreOffer, n: int) -> TransferJob | None:
        """Accept an offer, and begin to store its first ``n`` missing chunks; None = nothing is stored."""
        state = offer.state
        missing = offer.missing[:n]
        per_chunk = self.config.blocks_per_chunk
        evicted = self.manager.prepare_store(missing, offer.idle, state.access)
        wanted = {*missing}
        parts = list[BlockPart]()
        for group, end in enumerate(offer.ends):
            first = state.next_stored_chunk_idx[group]
            for at in range(first * per_chunk, end * per_chunk):
                key = state.offload_keys[group][at // per_chunk]
                if key in wanted:
                    parts.append(BlockPart(state.block_ids[group][at], key, at % per_chunk))
            state.next_stored_chunk_idx[group] = max(first, end)
        return self._begin(state, missing, parts, is_store=True, evicted=len(evicted)) if parts else None

    def _begin(self, state: RequestOffloadState, keys: Sequence[Key], parts: Sequence[BlockPart], *, is_store: bool,
               evicted: int = 0) -> TransferJob:
        places = self.manager.places
        copies = [(block, places[key] * self.config.blocks_per_chunk + part) for block, key, part in parts]
        job = TransferJob(
            self.job_counter, state, keys=tuple(keys), copies=tuple(copies), is_store=is_store, evicted=evicted)
        self.jobs[job.job_id] = job
        state.transfer_jobs.add(job.job_id)
        self.job_counter += 1
        return job

    def complete(self, job_id: int) -> None:
        """End a transfer."""
        job = self.jobs.pop(job_id)
        job.state.transfer_jobs.discard(job_id)
        if job.is_store:
            self.manager.complete_store(job.keys, True)
        else:
            self.manager.complete_load(job.keys)
            self.chunks_being_loaded.difference_update(job.keys)
