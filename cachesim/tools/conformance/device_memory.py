"""A stand-in for the device memory of a block manager, which itself holds block numbers and hashes and no data.

A manager decides which block a token's keys and values are written to. Here every (block, slot) holds a digest of its
token and of all slots that this token's attention reads, found through the block table, at the time of writing. So the
digest of the last token is that of a cold run only if every slot that it reads holds what a cold run wrote there.
"""

from __future__ import annotations

from typing import Sequence

MASK = (1 << 64) - 1
UNWRITTEN = 0x9E3779B97F4A7C15
PRIME = 0x100000001B3


class PagedMemory:
    """Blocks of ``block_size`` slots. ``window``: a token reads this many slots, its own included; None = all."""

    def __init__(self, block_size: int, window: int | None = None) -> None:
        self.block_size, self.window = block_size, window
        self.slots: dict[tuple[int, int], int] = {}      # (block, slot) -> digest

    def evaluate(self, table: Sequence[int], start: int, tokens: Sequence[int]) -> int:
        """Evaluate tokens at the positions from ``start`` on and write them through the block table, one block for
        ``block_size`` positions. Returns the digest of the last one (``read`` of all where there are no tokens).
        Raises IndexError if the table is too short."""
        digest = seen = self._fold(table, self._first(start), start)
        for position, token in enumerate(tokens, start):
            if self.window is not None:
                seen = self._fold(table, self._first(position), position)
            digest = _mix(seen, token)
            self.slots[self._slot(table, position)] = digest
            seen = _mix(seen, digest)
        return digest

    def read(self, table: Sequence[int], length: int) -> int:
        """A digest of the first ``length`` positions as they are in memory."""
        return self._fold(table, 0, length)

    def copy(self, source: int, target: int) -> None:
        """Copy a block, as a manager does that writes into a shared one."""
        for slot in range(self.block_size):
            self.slots.pop((target, slot), None)
            if (source, slot) in self.slots:
                self.slots[target, slot] = self.slots[source, slot]

    def _first(self, position: int) -> int:
        return 0 if self.window is None else max(0, position + 1 - self.window)

    def _fold(self, table: Sequence[int], first: int, stop: int) -> int:
        seen = 0
        for position in range(first, stop):
            seen = _mix(seen, self.slots.get(self._slot(table, position), UNWRITTEN))
        return seen

    def _slot(self, table: Sequence[int], position: int) -> tuple[int, int]:
        index, slot = divmod(position, self.block_size)
        return table[index], slot


def _mix(seen: int, value: int) -> int:
    mixed = ((seen ^ value) * PRIME + UNWRITTEN) & MASK
    return mixed ^ (mixed >> 29)
