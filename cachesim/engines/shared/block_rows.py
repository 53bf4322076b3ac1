"""Rows in numbered blocks: a block of a layer is a run of cells, one for each of its tokens."""

from __future__ import annotations

from typing import Iterable, Mapping, Sequence

import numpy as np

from cachesim.engines.shared.kv_rows import empty_rows, read_rows, write_rows, zero_rows
from cachesim.model import Rows, Spec


class BlockRows:
    """Rows in blocks. ``sizes``: tokens of a block, by layer."""

    def __init__(self, kind: Spec, sizes: Mapping[int, int]) -> None:
        self.kind, self.sizes, self.rows = kind, sizes, empty_rows(sizes)
        self.reach = {layer.part: layer.window for layer in sorted(kind.layers, key=lambda layer: layer.window)}

    def zero(self, blocks: Sequence[int]) -> None:
        """Zero the rows in blocks."""
        for layer, size in self.sizes.items() if blocks else ():
            zero_rows(self.rows[layer], cells_of(blocks, size))

    def copy(self, source: int, copy: int) -> None:
        """Copy the rows in a block to another."""
        for layer, size in self.sizes.items():
            rows = read_rows(self.rows[layer], cells_of([source], size))
            write_rows(self.rows, layer, cells_of([copy], size), rows)

    def read(self, layers: Iterable[int], blocks: Sequence[int], pos: np.ndarray) -> dict[int, Rows]:
        """Return the rows of layers at positions of a table of blocks, for reading only."""
        table = np.array(blocks, np.int64)
        return {layer: read_rows(self.rows[layer], table[pos // size] * size + pos % size)
                for layer in layers for size in (self.sizes[layer],)}  # fmt: skip

    def first_read(self, part: str, start: int) -> int:
        """Return the first position that a token at ``start`` reads in this part of the memory."""
        size = self.reach[part]
        return start // size * size if part == "chunk" else max(0, start - size + 1) if size else 0


def cells_of(blocks: Sequence[int], size: int) -> np.ndarray:
    """Return the cells of blocks of this size."""
    return (np.array(blocks, np.int64)[:, None] * size + np.arange(size)).ravel()
