"""Requests that store their blocks in CPU memory and load them: chunks of blocks, transfers, and their order.

All groups of layers are full attention. The caller says when a transfer ends (`Transfers.end`). Source: vLLM
vllm/distributed/kv_transfer/kv_connector/v1/offloading/scheduler.py OffloadingConnectorScheduler (0.33.0).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import AbstractSet, NamedTuple, Sequence

from cachesim.engines.vllm.kv_offload.cpu_offload import MISS, PENDING, Access, Key, Offload


@dataclass(slots=True)
class OffloadClient:
    """A request. For each group: ``keys`` of its chunks, ``tables`` of its blocks since it last started, ``stored``
    chunks that were offered. ``ends``: length of the prompt at the end of each chunk; ``local``: tokens found in the
    pool; ``transfers``: those that have not ended."""

    groups: int
    ends: dict[Key, int] = field(default_factory=dict)
    access: Access = field(init=False)
    keys: list[list[Key]] = field(init=False)
    tables: Sequence[Sequence[int]] = field(init=False)
    stored: list[int] = field(init=False)
    local: int = 0
    transfers: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.access = Access(self.ends)
        self.keys, self.tables = [[] for _ in range(self.groups)], [[] for _ in range(self.groups)]
        self.stored = [0] * self.groups


class Offer(NamedTuple):
    """Complete chunks of a request. ``ends``: their number in each group; ``missing``: chunks that can be stored;
    ``free``: places without a chunk; ``idle``: chunks that can make room."""

    client: OffloadClient
    ends: Sequence[int]
    missing: Sequence[Key]
    free: int
    idle: AbstractSet[Key]


@dataclass(slots=True, frozen=True)
class Transfer:
    """A transfer of chunks. ``copies``: block of the pool and block of CPU memory of each copy; a store evicts
    chunks."""

    number: int
    client: OffloadClient
    keys: tuple[Key, ...]
    copies: tuple[tuple[int, int], ...]
    is_store: bool
    evicted: int = 0


class Transfers:
    """All transfers of a server. ``sizes``: tokens of a block of each group; ``per_chunk``: blocks of a chunk;
    ``unit``: tokens of a hash; ``caching``: the pool publishes blocks."""

    def __init__(self, offload: Offload, sizes: Sequence[int], per_chunk: int, unit: int, caching: bool) -> None:
        self.offload, self.per_chunk, self.unit, self.caching = offload, per_chunk, unit, caching
        self.sizes, self.chunks = sizes, [size * per_chunk for size in sizes]
        self.open, self.loading, self.last = dict[int, Transfer](), set[Key](), 0

    def _learn(self, client: OffloadClient, hashes: Sequence[int]) -> None:
        """Add the keys of the chunks that are complete in a list of hashes."""
        for group, (keys, tokens) in enumerate(zip(client.keys, self.chunks, strict=True)):
            step = tokens // self.unit
            for at in range(step * len(keys) + step - 1, len(hashes), step):
                keys.append((hashes[at], group))
                client.ends[keys[-1]] = len(keys) * tokens

    def match(self, client: OffloadClient, hashes: Sequence[int], local: int, total: int, reads: bool) -> int | None:
        """Return the tokens after ``local`` that a request can load when it starts; None = it waits for transfers."""
        client.tables, client.stored = [[] for _ in self.sizes], [0] * len(self.sizes)
        if not reads:
            return 0
        if client.transfers:
            return None
        self._learn(client, hashes)
        client.local = local
        return self._match(client, local, total)

    def _match(self, client: OffloadClient, local: int, end: int) -> int | None:
        waits = False
        bounds = [0] * len(self.sizes)
        while bounds != [end] * len(bounds):
            bounds = []
            for keys, tokens in zip(client.keys, self.chunks, strict=True):
                end = min(end, len(keys) * tokens)
                if end - local < tokens:
                    return 0
                found, pending = self._found(keys[local // tokens : -(-end // tokens)])
                waits |= pending
                if not pending or not found:
                    end = min(end, (local // tokens + found) * tokens)
                if not found or end - local < tokens:
                    return 0
                bounds.append(end)
        return None if waits or self._loads(client, local, end) else end - local

    def _found(self, keys: Sequence[Key]) -> tuple[int, bool]:
        """Return how many chunks from the first one are there, and whether one of them is being written."""
        states = [self.offload.look_up(key) for key in keys]
        n = next((at for at, state in enumerate(states) if state == MISS), len(states))
        return n, PENDING in states[:n]

    def _loads(self, client: OffloadClient, local: int, end: int) -> bool:
        return any(key in self.loading for keys, tokens in zip(client.keys, self.chunks, strict=True)
                   for key in keys[local // tokens : -(-end // tokens)])  # fmt: skip

    def load(self, client: OffloadClient, tables: Sequence[Sequence[int]], tokens: int) -> Transfer:
        """Begin to load this many tokens into the blocks of a request."""
        end, keys, parts = client.local + tokens, list[Key](), list[tuple[int, Key, int]]()
        for group, (size, chunk) in enumerate(zip(self.sizes, self.chunks, strict=True)):
            last = -(-end // chunk)
            keys += client.keys[group][client.local // chunk : last]
            parts += [(tables[group][at], client.keys[group][at // self.per_chunk], at % self.per_chunk)
                      for at in range(client.local // size, -(-end // size))]  # fmt: skip
            client.stored[group] = last
        self.offload.load(keys, client.access)
        if self.caching:
            self.loading.update(keys)
        return self._begin(client, keys, parts, False)

    def offer(self, client: OffloadClient, hashes: Sequence[int], tokens: int) -> Offer:
        """Offer those complete chunks of the first ``tokens`` tokens that no earlier offer or load contained."""
        self._learn(client, hashes)
        ends = [min(tokens // chunk, len(blocks) // self.per_chunk, len(keys))
                for chunk, blocks, keys in zip(self.chunks, client.tables, client.keys, strict=True)]  # fmt: skip
        keys = [key for have, first, end in zip(client.keys, client.stored, ends, strict=True)
                for key in have[first:end]]  # fmt: skip
        missing = self.offload.offer(keys, client.access) if keys else []
        return Offer(client, ends, missing, *(self.offload.room(keys) if missing else (0, set[Key]())))

    def store(self, offer: Offer, n: int) -> Transfer | None:
        """Accept an offer, and begin to store its first ``n`` missing chunks; None = nothing is stored."""
        client, missing = offer.client, offer.missing[:n]
        evicted = self.offload.store(missing, offer.idle, client.access)
        parts, wanted = list[tuple[int, Key, int]](), {*missing}
        for group, end in enumerate(offer.ends):
            for at in range(client.stored[group] * self.per_chunk, end * self.per_chunk):
                if (key := client.keys[group][at // self.per_chunk]) in wanted:
                    parts.append((client.tables[group][at], key, at % self.per_chunk))
            client.stored[group] = max(client.stored[group], end)
        return self._begin(client, missing, parts, True, len(evicted)) if parts else None

    def _begin(self, client: OffloadClient, keys: Sequence[Key], parts: Sequence[tuple[int, Key, int]], is_store: bool,
               evicted: int = 0) -> Transfer:  # fmt: skip
        copies = [(block, self.offload.places[key] * self.per_chunk + part) for block, key, part in parts]
        made = Transfer(self.last, client, tuple(keys), tuple(copies), is_store, evicted)
        self.open[made.number] = made
        client.transfers.add(made.number)
        self.last += 1
        return made

    def end(self, number: int) -> None:
        """End a transfer."""
        made = self.open.pop(number)
        made.client.transfers.discard(number)
        if made.is_store:
            self.offload.stored(made.keys, True)
        else:
            self.offload.loaded(made.keys)
            self.loading.difference_update(made.keys)
