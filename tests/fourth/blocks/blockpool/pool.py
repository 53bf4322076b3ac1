"""A pool of numbered blocks: the free list, the users of each block, and the key under which it is found.

A key is a hash and a group of layers, in one number. Block 0 stands for positions without storage. A block without
users keeps its key until it is taken again.
"""

from __future__ import annotations

from collections import Counter
from typing import Callable, Iterable, Sequence

from cachesim.base.errors import Crash
from cachesim.engines.shared.free_list import FreeList

UNKEYED = -1
EVICTED = "evicted"


class BlockPool:
    """A pool of ``n`` blocks for ``groups`` groups. ``side``: rule for the end of the free list, from whether a block
    has a key; ``lost`` is called with a block, its key and the cause before it loses the key. ``refs``: users of each
    block; ``tokens``: length of the prefix that its key stands for."""

    def __init__(self, n: int, groups: int, side: Callable[[bool], str],
                 lost: Callable[[int, Sequence[int], str], None]) -> None:
        self.n = n
        self.groups = groups
        self.side = side
        self.lost = lost
        self.free = FreeList(n)
        self.free.remove(0)
        self.refs = [0] * n
        self.tokens = [0] * n
        self.key = [UNKEYED] * n
        self.blocks: dict[int, list[int]] = {}

    def keys(self, block: int) -> list[int]:
        """Return the key of a block, [] without one."""
        return [] if self.key[block] == UNKEYED else [self.key[block]]

    def find(self, number: int, group: int) -> int | None:
        """Return the block of a group that has had a hash longest, None without one."""
        blocks = self.blocks.get(number * self.groups + group)
        return blocks[0] if blocks else None

    def take(self, m: int) -> list[int]:
        """Take blocks from the front of the free list; each loses its key."""
        found = [self.free.pop() for _ in range(m)]
        for block in found:
            self._drop_key(block)
            self.refs[block] = 1
        return found

    def touch(self, blocks: Iterable[int]) -> None:
        """Add a user to each block."""
        for block in blocks:
            if not self.refs[block]:
                self.free.remove(block)
            self.refs[block] += 1

    def give_back(self, blocks: Iterable[int]) -> None:
        """Remove a user from each block, in the order in which they should be evicted."""
        front, back = list[int](), list[int]()
        for block in blocks:
            self.refs[block] -= 1
            if not self.refs[block]:
                side = self.side(self.key[block] != UNKEYED)
                (front if side == "front" else back).append(block)
        self.free.prepend(front)
        self.free.append(back)

    def add_key(self, group: int, block: int, number: int, end: int) -> None:
        """Let a block without a key be found under a hash, as the end of a prefix of so many tokens."""
        key = number * self.groups + group
        self.key[block] = key
        self.tokens[block] = end
        self.blocks.setdefault(key, []).append(block)

    def _drop_key(self, block: int) -> None:
        key = self.key[block]
        if key == UNKEYED:
            return
        self.lost(block, (key,), EVICTED)
        self.key[block] = UNKEYED
        self.blocks[key].remove(block)
        if not self.blocks[key]:
            del self.blocks[key]

    def check(self, used: Iterable[int]) -> None:
        """Raise Crash unless the users of each block agree with the tables of all requests."""
        counts, free = Counter(used), set(self.free)
        for block in range(1, self.n):
            if counts[block] != self.refs[block] or (block in free) is (self.refs[block] > 0):
                raise Crash(f"block {block} has {self.refs[block]} users and is listed in {counts[block]} tables")
