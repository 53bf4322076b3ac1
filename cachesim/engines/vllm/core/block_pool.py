"""A pool of numbered blocks: the free list, the users of each block, the keys under which blocks are found, and events.

A key is a hash and a group of layers, in one number. Block 0, the null block, stands for positions without storage. A
block without users keeps its keys until it is taken again.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Callable, Iterable, Mapping, Sequence

from cachesim.base.errors import Crash
from cachesim.engines.inspection import BlockCell
from cachesim.engines.shared.class_recording import RecordedEvent
from cachesim.engines.shared.free_list import FreeList
from cachesim.engines.vllm.core.block_keys import UNKEYED, BlockKeys
from cachesim.events import Event, frozen

NULL = 0
EVICTED, REPLACED, ERASED, CLEARED = "evicted", "replaced", "erased", "cleared"
"""Causes of the loss of keys."""
FRONT, BACK = "front", "back"
"""Ends of the free list."""
Blocks = Sequence[int]


@frozen
class Touched(RecordedEvent, ev="touch"):
    """Found blocks have a user more."""

    blocks: Blocks


@frozen
class Evicted(RecordedEvent, ev="evict"):
    """A block lost its keys."""

    block: int
    hashes: Sequence[int]


@frozen
class Keyed(RecordedEvent, ev="key"):
    """Blocks of a group can be found: each under a hash, which stands for so many ``tokens`` of a prompt."""

    group: int
    blocks: Blocks
    hashes: Sequence[int]
    tokens: Sequence[int]

    def rows(self) -> list[list[Any]]:
        return [[self.ev, block, digest, self.group, end]
                for block, digest, end in zip(self.blocks, self.hashes, self.tokens, strict=True)]


@frozen
class Moved(RecordedEvent, ev="move"):
    """The keys of a block now belong to its copy."""

    block: int
    copy: int


@frozen
class Freed(RecordedEvent, ev="free"):
    """Blocks lost a user: those that joined the free list at the front, at the back, and those that are in use."""

    front: Blocks
    back: Blocks
    used: Blocks


class BlockPool:
    """A pool of ``n`` blocks for ``groups`` groups. ``side``: rule for the free list, from whether a block has keys;
    ``lost`` is called with a block, its keys and the cause before it loses them, ``moved`` with a block and its copy
    after the keys moved; nothing by default. ``refs``: users of each block; ``tokens``: prefix of its first key."""

    moved: Callable[[int, int], None] = staticmethod(lambda block, copy: None)

    def __init__(self, n: int, groups: int, caching: bool, side: Callable[[bool], str],
                 emit: Callable[[Event], None], lost: Callable[[int, Sequence[int], str], None]) -> None:
        self.n, self.groups, self.caching, self.side, self.emit = n, groups, caching, side, emit
        self.lost = lost
        self.free, self.named, self.refs, self.tokens = FreeList(n), BlockKeys(n), [0] * n, [0] * n
        self.key, self.keys = self.named.primary, self.named.of
        self.free.remove(NULL)

    def find(self, digest: int, groups: Sequence[int]) -> list[int] | None:
        """Return a block of each group for a hash, None if a group has none."""
        found = []
        for group in groups:
            block = self.named.find(digest * self.groups + group)
            if block is None:
                return None
            found.append(block)
        return found

    def take(self, m: int) -> list[int]:
        """Take blocks from the front of the free list; each loses its keys."""
        found = [self.free.pop() for _ in range(m)]
        for block in found:
            self.drop_keys(block, EVICTED)
            self.refs[block] = 1
        return found

    def touch(self, blocks: Iterable[int]) -> None:
        """Add a user to each block."""
        real = [block for block in blocks if block]
        for block in real:
            if not self.refs[block]:
                self.free.remove(block)
            self.refs[block] += 1
        if real:
            self.emit(Touched(real))

    def give_back(self, blocks: Iterable[int]) -> None:
        """Remove a user from each block, in the order in which they should be evicted."""
        front, back, used = list[int](), list[int](), list[int]()
        sides = [front if self.side(keyed and self.caching) == FRONT else back for keyed in (False, True)]
        for block in blocks:
            if block:
                self.refs[block] -= 1
                (used if self.refs[block] else sides[self.key[block] != UNKEYED]).append(block)
        self.free.prepend(front)
        self.free.append(back)
        if front or back or used:
            self.emit(Freed(front, back, used))

    def add_keys(self, group: int, blocks: Iterable[int], hashes: Iterable[int], ends: Iterable[int]) -> None:
        """Let blocks of a group be found, each under a hash, as the ends of prefixes of so many tokens."""
        new = list[tuple[int, int, int]]()
        for block, digest, end in zip(blocks, hashes, ends, strict=True):
            if not self.named.has(block, digest * self.groups + group):
                self._add(digest * self.groups + group, block, end)
                new.append((block, digest, end))
        if new:
            self.emit(Keyed(group, *map(list, zip(*new, strict=True))))

    def drop_keys(self, block: int, cause: str) -> None:
        """Remove all keys of a block."""
        if self.key[block] != UNKEYED:
            self.lost(block, self.keys(block), cause)
            keys = self.named.remove(block)
            if cause != REPLACED:
                self.emit(Evicted(block, [key // self.groups for key in keys]))

    def move_keys(self, block: int, copy: int) -> None:
        """Let the copy be found in place of the block."""
        end = self.tokens[block]
        for key in self.named.remove(block):
            self._add(key, copy, end)
            self.emit(Keyed(key % self.groups, [copy], [key // self.groups], [end]))
        self.moved(block, copy)
        self.emit(Moved(block, copy))

    def reset(self) -> bool:
        """Remove all keys, if no block is in use. Returns whether it was done."""
        if len(self.free) != self.n - 1:
            return False
        for block in range(self.n):
            if self.key[block] != UNKEYED:
                self.lost(block, self.keys(block), CLEARED)
                self.named.remove(block)
        return True

    def _add(self, key: int, block: int, end: int) -> None:
        if self.key[block] == UNKEYED:
            self.tokens[block] = end
        self.named.add(block, key)

    def cells(self, owner: Mapping[int, int]) -> list[BlockCell]:
        """Return the blocks without the null block, for pictures; ``owner``: request that last took a block."""
        place = {block: at for at, block in enumerate(self.free)}
        return [BlockCell(block, keys[0] % self.groups if keys else -1, self.tokens[block] if keys else 0,
                          owner.get(block, -1), self.refs[block], place.get(block, -1), len(keys))
                for block in range(1, self.n) for keys in (self.keys(block),)]  # fmt: skip

    def check(self, used: Iterable[int]) -> None:
        """Raise Crash unless the users of each block agree with the tables of all requests."""
        counts, free = Counter(used), set(self.free)
        for block in range(1, self.n):
            if counts[block] != self.refs[block] or (block in free) is (self.refs[block] > 0):
                raise Crash(f"block {block} has {self.refs[block]} users and is listed in {counts[block]} tables")
