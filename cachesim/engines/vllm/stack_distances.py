"""Hits of the prefix cache with every size of the pool, from one run with room for everything.

The free queue of the pool lists blocks in the order of their last use. With one group of full attention, and requests
one after the other, a smaller pool has those blocks that a larger one would evict last: a request takes blocks from the
front of the queue, and gives its own back in the reverse order of its table, so that a block always leaves before the
blocks of the prefix that it continues.

A key may have two blocks: the last block of a prompt is computed again although it is cached, since one token must be
evaluated. A lookup finds the one that had the key first. Sizes for which a lookup finds different blocks of a key
continue with separate queues.

Source: vLLM vllm/v1/core/block_pool.py get_new_blocks, touch, free_blocks; kv_cache_manager.py get_computed_blocks
(0.33.0).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterator, NamedTuple, Sequence

from cachesim.base.errors import Crash
from cachesim.engines.shared.capacity import StackDistances, StackServer
from cachesim.engines.shared.engine_face import layers_of
from cachesim.engines.vllm.core.kv_cache_events import Evicted, Freed, Got, Keyed, LookedUp, Preempted
from cachesim.engines.vllm.flags import Options, options
from cachesim.engines.vllm.kv_cache_interface import KVCacheConfig
from cachesim.engines.vllm.kv_cache_planning import get_kv_cache_config
from cachesim.engines.vllm.profiles import Rules
from cachesim.engines.vllm.start_options import resolved
from cachesim.events import Event

SPARE = 2           # blocks of a pool beside the tokens of its longest request: the null block, and a token in flight


class PoolUse(NamedTuple):
    """What a request did to the pool. ``found``: keys of the blocks that its lookup found; ``behind``: keys of the
    blocks behind them that can be found after it, None = a block without a key; ``taken``: blocks that it held at its
    end."""

    found: Sequence[int]
    behind: Sequence[int | None]
    taken: int


@dataclass
class PoolSize:
    """A size of the pool. ``usable``: its blocks without the null block; ``held``: those of the queue that it has;
    ``oldest``: time of the one that it evicts first; ``lost``: blocks that it did not find and the run found."""

    usable: int
    held: int = 0
    oldest: int = 0
    lost: int = 0


class UseOrder:
    """Blocks in the order in which they joined the free queue, each at its time, and the sizes that have this order.
    A linked list: time 0 is its end in both directions."""

    def __init__(self, sizes: Sequence[PoolSize]) -> None:
        self.sizes = sizes
        self.newer = [0]
        self.older = [0]
        self.times_of: dict[int, list[int]] = {}            # of the blocks of a key, that had it first in front

    def copy_for(self, sizes: Sequence[PoolSize]) -> UseOrder:
        """Return a copy of the order for some of its sizes."""
        copy = UseOrder(sizes)
        copy.newer = [*self.newer]
        copy.older = [*self.older]
        copy.times_of = {key: [*times] for key, times in self.times_of.items()}
        return copy

    def find_block(self, size: PoolSize, key: int) -> int:
        """Return the time of the block of a key that a lookup finds with a size; 0 = it has none."""
        if not size.held:
            return 0
        return next((time for time in self.times_of.get(key, ()) if time >= size.oldest), 0)

    def find_blocks(self, size: PoolSize, keys: Sequence[int]) -> list[int]:
        """Return the times of the blocks that a lookup finds with a size, up to a key without a block."""
        found = list[int]()
        for key in keys:
            time = self.find_block(size, key)
            if not time:
                break
            found.append(time)
        return found

    def take(self, time: int) -> None:
        """Take the block of this time out of the queue."""
        newer = self.newer[time]
        older = self.older[time]
        for size in self.sizes:
            if size.oldest == time:
                size.oldest = newer
        self.older[newer] = older
        self.newer[older] = newer

    def append(self) -> int:
        """Add a block to the queue; return its time."""
        time = len(self.newer)
        last = self.older[0]
        self.newer.append(0)
        self.older.append(last)
        self.newer[last] = time
        self.older[0] = time
        return time

    def evict(self, size: PoolSize, number: int) -> None:
        """Remove the oldest blocks of a size."""
        for _ in range(number):
            size.oldest = self.newer[size.oldest]
        size.held -= number


class Hits(NamedTuple):
    """Sizes with which a lookup finds the same blocks, as far as they have them. ``times``: of the blocks that the
    largest size finds; ``counts``: number of blocks that each size finds."""

    times: Sequence[int]
    sizes: list[PoolSize]
    counts: list[int]

    def includes(self, order: UseOrder, size: PoolSize, times: Sequence[int], keys: Sequence[int]) -> bool:
        """True if a smaller size finds the first blocks of these, and has no block of the other keys."""
        n = len(times)
        if times != self.times[:n]:
            return False
        return not any(order.find_block(size, key) for key in keys[n : len(self.times)])


def look_up(order: UseOrder, keys: Sequence[int]) -> list[Hits]:
    """Return the blocks that a lookup finds with each size, the largest size first."""
    groups = list[Hits]()
    for size in reversed(order.sizes):
        times = order.find_blocks(size, keys)
        group = next((group for group in groups if group.includes(order, size, times, keys)), None)
        if group is None:
            group = Hits(times, [], [])
            groups.append(group)
        group.sizes.insert(0, size)
        group.counts.insert(0, len(times))
    return groups


def run_request(order: UseOrder, use: PoolUse) -> list[UseOrder]:
    """Apply a request to all sizes of an order. Return the orders with which they continue."""
    groups = look_up(order, use.found)
    orders = [order] if len(groups) == 1 else [order.copy_for(group.sizes) for group in groups]
    for hits, part in zip(groups, orders, strict=True):
        _use_blocks(part, hits, use)
    return orders


def _use_blocks(order: UseOrder, hits: Hits, use: PoolUse) -> None:
    """Take the found blocks, evict others for the blocks that are missing, and give all back."""
    for time in hits.times:
        order.take(time)
    for size, count in zip(hits.sizes, hits.counts, strict=True):
        size.held -= count
        size.lost += len(use.found) - count
        order.evict(size, max(0, size.held + use.taken - size.usable))
    first = len(order.newer)
    for key in reversed(use.behind):
        time = order.append()
        if key is not None:
            order.times_of.setdefault(key, []).append(time)
    for at in reversed(range(len(use.found))):
        _name_again(order, use.found[at], before=hits.times[at] if at < len(hits.times) else 0)
    added = len(use.found) + len(use.behind)
    for size in hits.sizes:
        if not size.held:
            size.oldest = first
        size.held += added


def _name_again(order: UseOrder, key: int, before: int) -> None:
    """Give back a block of the found prefix. ``before``: its time until now, 0 = no size has it. The blocks of a key
    keep their order."""
    time = order.append()
    times = order.times_of.setdefault(key, [])
    if before:
        times[times.index(before)] = time
    else:
        times.append(time)


def pool_uses(events: Sequence[Event]) -> Iterator[PoolUse]:
    """Yield what each request did to the pool. Raise Crash unless all had room, one after the other."""
    keys = dict[int, int]()
    found = list[int]()
    taken = 0
    for event in events:
        match event:
            case LookedUp():
                found = [*event.tables[0]] if event.tables else []
                taken = len(found)
            case Got():
                taken += len(event.blocks[0])
            case Keyed():
                keys.update(zip(event.blocks, event.hashes, strict=True))
            case Freed():
                table = [*event.back[::-1]]
                if event.used or table[: len(found)] != found:
                    raise Crash("the blocks of a request are in use by another one")
                yield PoolUse([keys[block] for block in found], [keys.get(block) for block in table[len(found) :]],
                              taken)  # fmt: skip
            case Evicted() | Preempted():
                raise Crash("a pool for all requests has too few blocks")


def _config(server: StackServer) -> tuple[Options, KVCacheConfig]:
    """Return options and groups of a server, as it resolves them at its start."""
    assert isinstance(server.rules, Rules)
    spec = layers_of(server.model, server.rules).spec
    opts = options(resolved(server.rules, spec, server.rules.options(server.options)))
    return opts, get_kv_cache_config(server.rules, opts, spec)


def _obstacle(server: StackServer) -> str:
    """Return why one run does not tell the hits with all sizes, "" = it does."""
    opts, config = _config(server)
    kinds = [group.kind for group in config.kv_cache_groups]
    if kinds != ["full"]:
        return "blocks of windows and states are given back while a request runs"
    if not opts.enable_prefix_caching:
        return "prefixes are not cached"
    if opts.num_cpu_chunks:
        return "chunks of CPU memory are loaded for blocks that the pool lacks"
    if opts.num_speculative_tokens:
        return "drafts take blocks that depend on the chunks of a prompt"
    return "the watermark depends on the size of the pool" if opts.watermark else ""


def _least(server: StackServer) -> int:
    """Return the blocks with which every request runs as in a larger pool."""
    _, config = _config(server)
    block = config.kv_cache_groups[0].block_size
    return max(-(-(request.prompt + request.answer) // block) for request in server.requests) + SPARE


def _lost_tokens(server: StackServer, events: Sequence[Event], values: Sequence[int]) -> list[int]:
    """Return the tokens that a server evaluates with each number of blocks, ascending, and did not evaluate in the run
    with these events."""
    _, config = _config(server)
    sizes = [PoolSize(value - 1) for value in values]
    orders = [UseOrder(sizes)]
    for use in pool_uses(events):
        orders = [part for order in orders for part in run_request(order, use)]
    return [size.lost * config.kv_cache_groups[0].block_size for size in sizes]


STACK = StackDistances("num_gpu_blocks", _obstacle, _least, _lost_tokens)
