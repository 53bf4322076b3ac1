"""Positions of a sequence as a set, as builds b5504 to b5741 keep them beside the cells.

While cells move one by one, two cells can have the same position for a moment. A set loses this position when the
first of them moves on.
Source: llama.cpp src/llama-kv-cells.h, ggml-org/llama.cpp#14339.
"""

from __future__ import annotations

from typing import Iterable, Sequence

import numpy as np


class PositionSets:
    """For each of ``n_seq`` sequences the positions that its cells hold and its set has lost."""

    def __init__(self, n_seq: int) -> None:
        self.lost: list[set[int]] = [set() for _ in range(n_seq)]

    def known_positions(self, seq: int, held: np.ndarray) -> np.ndarray:
        """Return the positions of ``held`` that the set has."""
        return held[~np.isin(held, list(self.lost[seq]))] if self.lost[seq] else held

    def move(self, seq: int, held: Iterable[int], moved: Sequence[int], delta: int) -> None:
        """Move the positions ``moved``, in the order of their cells, out of all positions ``held``."""
        kept = set(held) - self.lost[seq]
        after = [pos for pos in held if pos not in set(moved)] + [pos + delta for pos in moved]
        for pos in moved:
            kept.discard(pos)
            kept.add(pos + delta)
        self.lost[seq] = set(after) - kept

    def change(self, seq: int, positions: Iterable[int]) -> None:
        """Record that cells with these positions are added or removed: the set agrees with the cells there."""
        self.lost[seq] -= set(positions)
