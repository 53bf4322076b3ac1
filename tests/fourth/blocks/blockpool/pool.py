"""Pool of blocks for rows and states: the free queue, and lookup by key.

A block holds the rows of B tokens or a state. Its key is the hash of its tokens and of everything before them, and the
group of layers. Several blocks may have equal keys; lookup returns the first. Source: vLLM vllm/v1/core/block_pool.py
(0.33.0).
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Callable, Iterable, NamedTuple

from cachesim.base.errors import Crash
from cachesim.base.tokens import Tokens

ROWS, STATE = "rows", "state"


class Key(NamedTuple):
    """Lookup key of a block."""

    hash: bytes
    group: str


class Place(NamedTuple):
    """Position of a block in a prompt: all tokens known when it was published, and the end of the block."""

    tokens: Tokens
    end: int


@dataclass(slots=True, eq=False)
class Block:
    """A block. ``refs``: number of requests that use it; ``key`` and ``place`` None = it cannot be found."""

    id: int
    refs: int = 0
    key: Key | None = None
    place: Place | None = None


class Pool:
    """A pool of ``n`` blocks, including the null block. ``side``: rule for the free queue; ``evicted`` is called for
    every block that can no longer be found."""

    def __init__(self, n: int, side: Callable[[bool], str], evicted: Callable[[Block, Key, Place], None]) -> None:
        self.side, self.evicted = side, evicted
        self.blocks = [Block(i) for i in range(1, n)]
        self.queue: OrderedDict[int, Block] = OrderedDict((block.id, block) for block in self.blocks)
        self.map: dict[Key, dict[int, Block]] = {}

    @property
    def free(self) -> int:
        """Number of unused blocks, including those that can be found."""
        return len(self.queue)

    def find(self, key: Key) -> Block | None:
        """Return the block with this key, else None."""
        return next(iter(self.map.get(key, {}).values()), None)

    def take(self) -> Block:
        """Take a block from the front of the queue. Its content is lost."""
        _, block = self.queue.popitem(last=False)
        if block.key is not None and block.place is not None:
            key, place = block.key, block.place
            self._forget(block, key)
            self.evicted(block, key, place)
        block.refs = 1
        return block

    def touch(self, block: Block) -> None:
        """Add a user to a block that was found."""
        if not block.refs:
            del self.queue[block.id]
        block.refs += 1

    def name(self, block: Block, key: Key, place: Place) -> None:
        """Publish a block under a key."""
        if block.key is None:
            block.key, block.place = key, place
            self.map.setdefault(key, {})[block.id] = block

    def give_back(self, blocks: Iterable[Block]) -> None:
        """Remove a user from each block. The caller passes the last block of a prompt first."""
        for block in blocks:
            block.refs -= 1
            if not block.refs:
                self.queue[block.id] = block
                if self.side(block.key is not None) == "front":
                    self.queue.move_to_end(block.id, last=False)

    def _forget(self, block: Block, key: Key) -> None:
        del self.map[key][block.id]
        if not self.map[key]:
            del self.map[key]
        block.key = block.place = None

    def findable(self) -> list[Block]:
        """Return every block that has a key."""
        return [block for same in self.map.values() for block in same.values()]

    def check(self, used: Iterable[Block]) -> None:
        """Raise Crash unless queue, map and counts agree with the tables of all requests."""
        counts: dict[int, int] = {}
        for block in used:
            counts[block.id] = counts.get(block.id, 0) + 1
        for block in self.blocks:
            listed = counts.get(block.id, 0)
            if block.refs != listed or (block.refs == 0) != (block.id in self.queue):
                raise Crash(f"block {block.id} has {block.refs} users and is listed in {listed} tables")
        if any(block.key != key for key, same in self.map.items() for block in same.values()):
            raise Crash("a block is listed under a wrong key")
