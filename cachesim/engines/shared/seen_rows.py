"""Which rows of a slot are still what they were at the last look? Compared with copies, by provenance."""

from __future__ import annotations

from typing import Mapping

import numpy as np

from cachesim.engines.judge_view import RowsPart
from cachesim.engines.shared.growing_table import longer, room
from cachesim.engines.shared.rows import take
from cachesim.model import Rows
from cachesim.model.arrays import Digests

ByLayer = Mapping[int, Digests]
"""layer -> (n,) digests of its rows at positions 0 .. n-1."""


def in_line(pos: np.ndarray, cells: np.ndarray | range, rows: Mapping[int, Rows]) -> ByLayer | None:
    """The digests of rows that lie in neighbouring cells in the order 0, 1, .. of their positions, to be read at once;
    None = they do not. ``pos``: (cells,) position in each cell of the table."""
    n = len(cells)
    first = int(cells[0]) if n else 0
    at = slice(first, first + n)
    if n and (int(cells[-1]) != first + n - 1 or bool((pos[at] != np.arange(n)).any())):
        return None
    return {layer: take(Rows(one.digest, None, None), at).digest for layer, one in rows.items()}


class SeenRows:
    """Copies of the first ``n`` rows of each layer."""

    def __init__(self) -> None:
        self.n = 0
        self.layers: dict[int, Digests] = {}

    def alike(self, n: int, rows: ByLayer) -> int:
        """How many of the first rows are those of the copies? There are ``n`` now."""
        if self.layers.keys() != rows.keys():
            return 0
        same = min(n, self.n)
        for layer, now in rows.items():
            differ = now[:same] != self.layers[layer][:same]
            at = int(differ.argmax()) if same else 0
            if same and differ[at]:
                same = at
        return same

    def take(self, same: int, n: int, rows: ByLayer) -> RowsPart:
        """Copy the rows from position ``same`` on, and forget others that were there; returns them."""
        self.n = n
        new = {}
        for layer, now in rows.items():
            kept = self.layers.get(layer, now[:0])
            if len(kept) < n:
                self.layers[layer] = kept = longer(kept, room(len(kept), n))
            kept[same:n] = now[same:n]
            new[layer] = Rows(now[same:n].copy(), None, None)
        return RowsPart(0, np.arange(same, n), new)
