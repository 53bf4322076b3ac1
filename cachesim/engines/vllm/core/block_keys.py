"""Keys under which numbered blocks are found: a block may have several keys, and a key several blocks."""

from __future__ import annotations

from typing import Sequence

UNKEYED = -1


class BlockKeys:
    """Keys of blocks 0 .. n - 1. ``primary``: the first key of each block, ``UNKEYED`` = none. Further keys are rare,
    and so are keys of several blocks: the first of these is found. A large pool keeps numbers, not objects."""

    def __init__(self, n: int) -> None:
        self.primary = [UNKEYED] * n
        self.more: dict[int, list[int]] = {}                    # further keys by block
        self.blocks: dict[int, int | dict[int, None]] = {}      # block by key, or several blocks

    def of(self, block: int) -> Sequence[int]:
        """Return the keys of a block, the primary key first."""
        first = self.primary[block]
        return [] if first == UNKEYED else [first, *self.more.get(block, ())]

    def find(self, key: int) -> int | None:
        """Return the block that has had a key longest, None if it has none."""
        found = self.blocks.get(key)
        return next(iter(found)) if isinstance(found, dict) else found

    def has(self, block: int, key: int) -> bool:
        """Return whether a block has a key."""
        found = self.blocks.get(key)
        return found == block or (isinstance(found, dict) and block in found)

    def add(self, block: int, key: int) -> None:
        """Add a key to a block that does not have it."""
        if self.primary[block] == UNKEYED:
            self.primary[block] = key
        else:
            self.more.setdefault(block, []).append(key)
        known = self.blocks.get(key)
        if known is None:
            self.blocks[key] = block
        elif isinstance(known, dict):
            known[block] = None
        else:
            self.blocks[key] = {known: None, block: None}

    def remove(self, block: int) -> Sequence[int]:
        """Remove all keys of a block and return them."""
        keys, self.primary[block] = self.of(block), UNKEYED
        self.more.pop(block, None)
        for key in keys:
            known = self.blocks[key]
            if isinstance(known, dict):
                del known[block]
            if not isinstance(known, dict) or not known:
                del self.blocks[key]
        return keys
