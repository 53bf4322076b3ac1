"""Restore points of a block pool: prefixes that keys of computed blocks stand for.

A key may be entered when its block is scheduled; the prefix is reported once the block is computed.
"""

from __future__ import annotations

from itertools import repeat
from typing import Iterable, Protocol, Sequence

from cachesim.base.tokens import Tokens
from cachesim.engines.vllm.core.block_pool import BlockPool
from cachesim.engines.vllm.prefix_points import STATE, GroupPieces, PrefixPoints
from cachesim.events import Log


class HashedText(Protocol):
    """A request with the numbers of its units."""

    hashes: list[int]

    def full_text(self) -> Tokens:
        """Return its computed tokens."""
        ...


class PoolPoints(PrefixPoints):
    """Restore points of a pool whose hashes stand for ``unit`` tokens. ``named``: keys that are not computed yet, with
    the block, the request, and the length of the prefix; ``found``: computed ones, each with its block in a number."""

    def __init__(self, log: Log, pool: BlockPool, groups: Sequence[GroupPieces], unit: int, align: int) -> None:
        super().__init__(log, groups, align)
        self.pool, self.length, self.found = pool, unit, set[int]()
        pool.moved = self.moved_keys
        self.named: list[tuple[int, int, HashedText, int]] = []

    def enter(self, keys: Iterable[int], blocks: Iterable[int], text: HashedText, ends: Iterable[int]) -> None:
        """Note that blocks have these keys, as the ends of prefixes of a request."""
        self.named += zip(keys, blocks, repeat(text), ends)

    def computed(self) -> None:
        """Report the blocks that were entered, unless they lost their key, as computed."""
        pool, unit = self.pool, self.length
        for key, block, text, end in self.named:
            if key * pool.n + block not in self.found and pool.named.has(block, key):
                self.found.add(key * pool.n + block)
                self.gained(key % pool.groups, text.hashes, end // unit, unit, text.full_text(), text)
        self.named.clear()

    def blocks_of(self, group: int, text: HashedText, end: int) -> list[int]:
        """Return the blocks of a group that hold the first ``end`` tokens of a request, 0 where none is needed."""
        unit, (kind, block, _) = self.length, self.groups[group]
        rest, hashes = end % block, text.hashes
        ends = [end] if kind == STATE else [*range(block, end + 1, block), *([end] if rest else ())]
        found = [self.pool.find(hashes[one // unit - 1], (group,)) for one in ends]
        if rest and not found[-1]:
            last = min(end - rest + block, len(hashes) * unit)
            longer = hashes[end // unit - 1 : last // unit]
            found[-1] = next(filter(None, (self.pool.find(digest, (group,)) for digest in longer)), None)
        return [one[0] if one else 0 for one in found]

    def lost_keys(self, block: int, keys: Sequence[int], cause: str, rule: str) -> None:
        """Report that a block can no longer be found under these keys."""
        for key in keys:
            if key * self.pool.n + block in self.found:
                self.found.remove(key * self.pool.n + block)
                self.lost(key % self.pool.groups, key // self.pool.groups, cause, rule)

    def moved_keys(self, block: int, copy: int) -> None:
        """Note that keys of a block now belong to its copy, whose content is the same."""
        self.named = [(key, copy if at == block else at, text, end) for key, at, text, end in self.named]
        for key in self.pool.keys(copy):
            if key * self.pool.n + block in self.found:
                self.found.remove(key * self.pool.n + block)
                self.found.add(key * self.pool.n + copy)
