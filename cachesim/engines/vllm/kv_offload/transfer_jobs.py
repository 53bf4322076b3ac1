"""Transfers of requests that store their blocks in CPU memory and load them, in chunks of blocks.

The caller says when a transfer ends (`TransferJobs.complete`). Source: vLLM
vllm/distributed/kv_transfer/kv_connector/v1/offloading/scheduler.py (0.33.0).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import AbstractSet, Callable, NamedTuple, Sequence

from cachesim.engines.vllm.kv_offload.chunk_lookup import ChunkLookup, ChunkQuery, OffloadedGroup
from cachesim.engines.vllm.kv_offload.cpu_manager import CPUOffloadingManager, Key, RequestCacheAccess


@dataclass(slots=True)
class RequestOffloadState:
    """A request, with a list for each of its groups."""

    num_groups: int
    ends: dict[Key, int] = field(default_factory=dict)              # length of the prompt at the end of each chunk
    access: RequestCacheAccess = field(init=False)
    offload_keys: list[list[Key]] = field(init=False)               # of its chunks
    block_ids: list[list[int]] = field(init=False)                  # its blocks since it last started, 0 = none
    next_stored_chunk_idx: list[int] = field(init=False)            # number of chunks that were offered
    num_locally_computed_tokens: int = 0                            # tokens found in the pool
    num_hit_tokens: int = 0                                         # tokens found in pool and CPU memory
    transfer_jobs: set[int] = field(default_factory=set)            # those that have not ended
    is_ended: bool = False                                          # the last chunks of the request were offered

    def __post_init__(self) -> None:
        self.access = RequestCacheAccess(self.ends)
        self.offload_keys = [[] for _ in range(self.num_groups)]
        self.restart(offers_again=True)

    def restart(self, offers_again: bool) -> None:
        """Forget the blocks of an earlier start. ``offers_again``: all chunks are offered again."""
        self.block_ids = [[] for _ in range(self.num_groups)]
        if offers_again:
            self.next_stored_chunk_idx = [0] * self.num_groups


class OfferedTokens(NamedTuple):
    """The first tokens of a request, whose complete chunks can be stored. ``decoding``: they go beyond the prompt, and
    the request is in progress: the last chunk of a drafter may change."""

    num_tokens: int
    decoding: bool


ChunkFilter = Callable[[int, int, int], Sequence[bool] | None]
"""Tells which of the chunks first .. last - 1 of a group can be found again, None = all."""


class StoreOffer(NamedTuple):
    """Complete chunks of a request. ``ends``: their number in each group; ``missing``: chunks that can be stored;
    ``free``: places without a chunk; ``idle``: chunks that can make room."""

    state: RequestOffloadState
    ends: Sequence[int]
    missing: Sequence[Key]
    free: int
    idle: AbstractSet[Key]


class GroupTransfer(NamedTuple):
    """The part of a transfer that belongs to a group: blocks of the pool, the place of the first one in the request's
    table, and the chunks."""

    blocks: Sequence[int]
    first: int
    keys: Sequence[Key]


@dataclass(slots=True, frozen=True)
class TransferJob:
    """A transfer of chunks. ``copies``: block of the pool and block of CPU memory of each copy; a store evicts
    chunks; ``is_whole``: every chunk gets a block, without which the worker stops."""

    job_id: int
    state: RequestOffloadState
    keys: tuple[Key, ...]
    copies: tuple[tuple[int, int], ...]
    is_store: bool
    evicted: int = 0
    is_whole: bool = True


class OffloadConfig(NamedTuple):
    """The groups, sizes, and whether the pool publishes blocks (``caching``). ``stores_chunk``: True if a chunk is
    stored, of whose blocks the request holds some, and of which some can be found again; ``touches``: first chunk that
    a lookup or store touches, None = none; ``load_end``: returns the end of a load, from the end that other groups
    leave and the tokens of a chunk of states."""

    groups: Sequence[OffloadedGroup]
    blocks_per_chunk: int
    tokens_per_hash: int
    caching: bool
    stores_chunk: Callable[[Sequence[bool], Sequence[bool]], bool]
    touches: Callable[[int, int], int | None]
    load_end: Callable[[int, int], int]


class TransferJobs:
    """All transfers of a server. ``chunks_being_loaded``: those that other requests wait for."""

    def __init__(self, manager: CPUOffloadingManager, config: OffloadConfig) -> None:
        self.manager = manager
        self.config = config
        self.groups = config.groups
        self.chunk_lookup = ChunkLookup(config.groups, manager.lookup, config.load_end)
        self.jobs: dict[int, TransferJob] = {}
        self.chunks_being_loaded: set[Key] = set()
        self.job_counter = 0

    def update_offload_keys(self, state: RequestOffloadState, block_hashes: Sequence[int]) -> None:
        """Add the keys of the chunks that are complete in a list of hashes."""
        for number, (keys, group) in enumerate(zip(state.offload_keys, self.groups, strict=True)):
            step = group.tokens_per_chunk // self.config.tokens_per_hash
            for at in range(step * len(keys) + step - 1, len(block_hashes), step):
                key = block_hashes[at], number
                keys.append(key)
                state.ends[key] = len(keys) * group.tokens_per_chunk

    def lookup(self, state: RequestOffloadState, block_hashes: Sequence[int], num_computed_tokens: int,
               num_tokens: int, reads: bool = True) -> int | None:
        """Return the tokens behind the computed ones that a request can load when it starts; None = it waits for
        transfers. ``reads``: the request may load chunks."""
        if state.transfer_jobs:
            return None
        self.update_offload_keys(state, block_hashes)
        state.num_locally_computed_tokens = num_computed_tokens
        found: int | None = 0
        if reads:
            found = self.chunk_lookup.find(ChunkQuery(state.offload_keys, num_computed_tokens, num_tokens))
        if found and self._is_being_loaded(state, num_computed_tokens + found):
            found = None
        state.num_hit_tokens = num_computed_tokens + (found or 0)
        self.touch(state)
        return found

    def _is_being_loaded(self, state: RequestOffloadState, end: int) -> bool:
        """True if another request loads a chunk that a load up to ``end`` needs."""
        for keys, group in zip(state.offload_keys, self.groups, strict=True):
            size = group.tokens_per_chunk
            needed = keys[state.num_locally_computed_tokens // size : -(-end // size)]
            if not self.chunks_being_loaded.isdisjoint(needed[-group.load_window(end) :]):
                return True
        return False

    def touch(self, state: RequestOffloadState) -> None:
        """Count the chunks that a request needs as used, if the release does so."""
        for keys, group in zip(state.offload_keys, self.groups, strict=True):
            first = self.config.touches(state.num_hit_tokens // group.tokens_per_chunk, group.window_chunks)
            if first is not None:
                self.manager.touch(keys[first:])

    def begin_load(self, state: RequestOffloadState, block_ids: Sequence[Sequence[int]],
                   num_tokens: int) -> TransferJob:  # fmt: skip
        """Begin to load this many tokens into the blocks of a request; blocks that no later token reads are 0."""
        local = state.num_locally_computed_tokens
        end = local + num_tokens
        per_chunk = self.config.blocks_per_chunk
        parts = list[GroupTransfer]()
        for number, group in enumerate(self.groups):
            size = group.tokens_per_block
            blocks = block_ids[number]
            last = -(-end // size)
            first = next((at for at in range(-(-local // size), last) if blocks[at]), last)
            own = state.offload_keys[number]
            chunks = own[first // per_chunk : -(-end // group.tokens_per_chunk)] if first < last else ()
            parts.append(GroupTransfer(blocks[first:last], first, chunks))
            state.next_stored_chunk_idx[number] = -(-end // group.tokens_per_chunk)
        keys = [*chain(*(part.keys for part in parts))]
        self.manager.prepare_load(keys, state.access)
        if self.config.caching:
            self.chunks_being_loaded.update(keys)
        return self._begin(state, keys, parts, is_store=False)

    def offer(self, state: RequestOffloadState, block_hashes: Sequence[int], tokens: OfferedTokens,
              reachable: ChunkFilter) -> StoreOffer:  # fmt: skip
        """Offer those complete chunks of the first tokens that no earlier offer or load contained. Groups of states
        offer theirs one by one."""
        self.update_offload_keys(state, block_hashes)
        ends = [self._num_storable_chunks(state, number, tokens) for number in range(len(self.groups))]
        keys = list[Key]()
        for number, end in enumerate(ends):
            first = state.next_stored_chunk_idx[number]
            if end > first and not self.groups[number].is_state:
                keys += self._stored_chunks(state, number, end, reachable(number, first, end))
        missing = self.manager.offer(keys, state.access) if keys else []
        free, idle = self.manager.get_room(keys) if missing else (0, set[Key]())
        return StoreOffer(state, ends, missing, free=free, idle=idle)

    def _num_storable_chunks(self, state: RequestOffloadState, number: int, tokens: OfferedTokens) -> int:
        """Return the complete chunks of a group that have blocks and keys."""
        group = self.groups[number]
        complete = tokens.num_tokens // group.tokens_per_chunk
        if group.is_eagle and tokens.decoding:
            complete = max(0, complete - 1)
        return min(complete, len(state.block_ids[number]) // self.config.blocks_per_chunk,
                   len(state.offload_keys[number]))

    def _stored_chunks(self, state: RequestOffloadState, number: int, end: int,
                       kept: Sequence[bool] | None) -> list[Key]:  # fmt: skip
        """Return the keys of the chunks from the next one to ``end`` that can be found again and have their blocks.
        ``kept``: blocks of them that can be found, None = all."""
        per_chunk = self.config.blocks_per_chunk
        first = state.next_stored_chunk_idx[number]
        found = list[Key]()
        for at in range(first, end):
            blocks = state.block_ids[number][at * per_chunk : (at + 1) * per_chunk]
            start = (at - first) * per_chunk
            wanted = [True] * per_chunk if kept is None else kept[start : start + per_chunk]
            if self.config.stores_chunk([block > 0 for block in blocks], wanted):
                found.append(state.offload_keys[number][at])
        return found

    def begin_store(self, offer: StoreOffer, n: int) -> TransferJob | None:
        """Accept an offer, and begin to store its first ``n`` missing chunks; None = nothing is stored."""
        state = offer.state
        missing = offer.missing[:n]
        per_chunk = self.config.blocks_per_chunk
        evicted = self.manager.prepare_store(missing, offer.idle, state.access)
        if missing:
            self.touch(state)
        wanted = {*missing}
        parts = list[GroupTransfer]()
        for group, end in enumerate(offer.ends):
            first = state.next_stored_chunk_idx[group]
            chunks = [at for at in range(first, end) if state.offload_keys[group][at] in wanted]
            table = state.block_ids[group]
            places = [at * per_chunk + part for at in chunks for part in range(per_chunk)
                      if table[at * per_chunk + part]]  # fmt: skip
            if places:
                keys = [state.offload_keys[group][at] for at in chunks]
                parts.append(GroupTransfer([table[at] for at in places], places[0], keys))
            state.next_stored_chunk_idx[group] = max(first, end)
        return self._begin(state, missing, parts, is_store=True, evicted=len(evicted)) if parts else None

    def offer_state(self, state: RequestOffloadState, key: Key, num_tokens: int) -> StoreOffer:
        """Offer a state, which stands for so many tokens."""
        state.ends[key] = num_tokens
        missing = self.manager.offer([key], state.access)
        free, idle = self.manager.get_room([key]) if missing else (0, set[Key]())
        return StoreOffer(state, (), missing, free=free, idle=idle)

    def begin_state_store(self, offer: StoreOffer, block_id: int) -> TransferJob:
        """Accept an offer of a state, and begin to store it from its block."""
        evicted = self.manager.prepare_store(offer.missing, offer.idle, offer.state.access)
        part = GroupTransfer([block_id], self.config.blocks_per_chunk - 1, offer.missing)
        return self._begin(offer.state, offer.missing, [part], is_store=True, evicted=len(evicted))

    def _begin(self, state: RequestOffloadState, keys: Sequence[Key], parts: Sequence[GroupTransfer], *, is_store: bool,
               evicted: int = 0) -> TransferJob:
        copies = [*chain(*map(self._copies_of, parts))]
        per_chunk = self.config.blocks_per_chunk
        whole = all(len(part.keys) == -(-(part.first % per_chunk + len(part.blocks)) // per_chunk) for part in parts)
        job = TransferJob(self.job_counter, state, keys=tuple(keys), copies=tuple(copies), is_store=is_store,
                          evicted=evicted, is_whole=whole)  # fmt: skip
        self.jobs[job.job_id] = job
        state.transfer_jobs.add(job.job_id)
        self.job_counter += 1
        return job

    def _copies_of(self, part: GroupTransfer) -> list[tuple[int, int]]:
        """Return the copies of a group. The worker takes its blocks for consecutive ones of the request's table, even
        if a window gave one between them back."""
        per_chunk = self.config.blocks_per_chunk
        places = [self.manager.places[key] for key in part.keys]
        skipped = part.first % per_chunk
        return [(block, places[at // per_chunk] * per_chunk + at % per_chunk)
                for at, block in enumerate(part.blocks, skipped)]  # fmt: skip

    def complete(self, job_id: int) -> None:
        """End a transfer."""
        job = self.jobs.pop(job_id)
        job.state.transfer_jobs.discard(job_id)
        if job.is_store:
            self.manager.complete_store(job.keys, True)
        else:
            self.manager.complete_load(job.keys)
            self.chunks_being_loaded.difference_update(job.keys)
