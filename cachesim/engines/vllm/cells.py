"""The blocks of the pool for pictures: key, owner, users, place in the free list."""

from __future__ import annotations

from typing import Iterable, Sequence

from cachesim.engines.inspection import BlockCell
from cachesim.engines.vllm.events import Asked, Got
from cachesim.engines.vllm.memory.pool import NULL, Pool
from cachesim.events import Event


def cells(pool: Pool, log: Iterable[Event], requests: Sequence[int]) -> list[BlockCell]:
    """Return the blocks without the null block. ``requests``: numbers of the requests by the numbers in events."""
    owner, asking = dict[int, int](), -1
    for event in log:
        if isinstance(event, Asked):
            asking = event.request
        elif isinstance(event, Got):
            owner.update((block, requests[asking]) for blocks in event.blocks for block in blocks)
    place = {block: at for at, block in enumerate(pool.free)}
    return [BlockCell(block, keys[0] % pool.groups if keys else -1, pool.tokens[block] if keys else 0,
                      owner.get(block, -1), pool.refs[block], place.get(block, -1), len(keys))
            for block in range(NULL + 1, pool.n) for keys in (pool.keys(block),)]  # fmt: skip
