"""The pool of blocks: the free list, the users of each block, and the keys under which blocks are found.

A key is a hash and a group, in one number. Block 0, the null block, stands for positions without storage. Source: vLLM
vllm/v1/core/block_pool.py.
"""

from __future__ import annotations

from typing import Callable, Iterable, Sequence

from cachesim.engines.shared.free_list import FreeList
from cachesim.engines.vllm.events import Evicted, Freed, Keyed, Moved, Touched
from cachesim.engines.vllm.rules import pool as rules
from cachesim.events import Event

NULL = 0
EVICTED, REPLACED, ERASED, CLEARED = "evicted", "replaced", "erased", "cleared"
"""Causes of the loss of keys."""


class Pool:
    """A pool of ``n`` blocks for ``groups`` groups. ``lost`` is called with a block, its keys and the cause before it
    loses them, ``moved`` with a block and its copy after the keys moved."""

    def __init__(self, n: int, groups: int, caching: bool, side: Callable[[bool], str],
                 emit: Callable[[Event], None], lost: Callable[[int, Sequence[int], str], None],
                 moved: Callable[[int, int], None]) -> None:
        self.n, self.groups, self.caching, self.side, self.emit = n, groups, caching, side, emit
        self.lost, self.moved = lost, moved
        self.refs = [0] * n
        self.free = FreeList(n)
        self.keys: list[list[int]] = [[] for _ in range(n)]     # the primary key first
        self.tokens = [0] * n                                   # prefix that the primary key stands for
        self.map: dict[int, int | dict[int, None]] = {}
        self.free.remove(NULL)

    def find(self, digest: int, groups: Sequence[int]) -> list[int] | None:
        """Return a block of each group for a hash, None if a group has none."""
        found = []
        for group in groups:
            block = self.map.get(digest * self.groups + group)
            if block is None:
                return None
            found.append(next(iter(block)) if isinstance(block, dict) else block)
        return found

    def take(self, m: int) -> list[int]:
        """Take blocks from the front of the free list; each loses its keys."""
        found = []
        for _ in range(m):
            block = self.free.pop()
            self.drop_keys(block, EVICTED)
            self.refs[block] = 1
            found.append(block)
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
        for block in blocks:
            if block:
                self.refs[block] -= 1
                if self.refs[block]:
                    used.append(block)
                else:
                    side = self.side(bool(self.keys[block]) and self.caching)
                    (front if side == rules.FRONT else back).append(block)
        self.free.prepend(front)
        self.free.append(back)
        if front or back or used:
            self.emit(Freed(front, back, used))

    def add_key(self, block: int, digest: int, group: int, tokens: int) -> None:
        """Let a block be found under a hash."""
        key = digest * self.groups + group
        known = self.map.get(key)
        if known == block or (type(known) is dict and block in known):
            return
        self._insert(key, block, tokens)
        self.emit(Keyed(block, digest, group, tokens))

    def drop_keys(self, block: int, cause: str) -> None:
        """Remove all keys of a block."""
        if keys := self.keys[block]:
            self.lost(block, keys, cause)
            self._forget(block)
            if cause != REPLACED:
                self.emit(Evicted(block, [key // self.groups for key in keys]))

    def move_keys(self, block: int, copy: int) -> None:
        """Let the copy be found in place of the block."""
        tokens = self.tokens[block]
        for key in self._forget(block):
            self._insert(key, copy, tokens)
            self.emit(Keyed(copy, key // self.groups, key % self.groups, tokens))
        self.moved(block, copy)
        self.emit(Moved(block, copy))

    def reset(self) -> bool:
        """Remove all keys, if no block is in use. Returns whether it was done."""
        if len(self.free) != self.n - 1:
            return False
        for block, keys in enumerate(self.keys):
            if keys:
                self.lost(block, keys, CLEARED)
                self.keys[block] = []
        self.map.clear()
        return True

    def _insert(self, key: int, block: int, tokens: int) -> None:
        if not self.keys[block]:
            self.tokens[block] = tokens
        self.keys[block].append(key)
        known = self.map.get(key)
        if known is None:
            self.map[key] = block
        elif isinstance(known, dict):
            known[block] = None
        else:
            self.map[key] = {known: None, block: None}

    def _forget(self, block: int) -> list[int]:
        keys, self.keys[block] = self.keys[block], []
        for key in keys:
            known = self.map[key]
            if isinstance(known, dict):
                del known[block]
            if not isinstance(known, dict) or not known:
                del self.map[key]
        return keys
