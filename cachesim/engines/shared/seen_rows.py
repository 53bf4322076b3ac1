"""Which rows of a slot are still what they were at the last look? Compared with copies, by provenance."""

from __future__ import annotations

from typing import Mapping

import numpy as np

from cachesim.engines.judge_view import RowsPart
from cachesim.engines.shared.growing_table import longer, room
from cachesim.engines.shared.rows import take
from cachesim.model import Rows
from cachesim.model.grid import Digests

ByLayer = Mapping[int, Digests]
"""layer -> (n,) digests of its rows at positions 0 .. n-1."""


def in_line(
    pos: np.ndarray, cells: np.ndarray | range, rows: Mapping[int, Rows], known: int = 0
) -> ByLayer | None:
    """The digests of rows that lie in neighbouring cells in the order 0, 1, .. of their positions, to be read at once;
    None = they do not. ``pos``: (cells,) position in each cell of the table, the first ``known`` of which are what they
    should be."""
    n = len(cells)
    first = int(cells[0]) if n else 0
    if n and (int(cells[-1]) != first + n - 1 or
              (known < n and bool((pos[first + known : first + n] != np.arange(known, n)).any()))):
        return None
    at = slice(first, first + n)
    return {layer: one.digest[at] if len(one.digest) >= first + n else take(Rows(one.digest, None, None), at).digest
            for layer, one in rows.items()}  # fmt: skip


class SeenRows:
    """Copies of the first ``n`` rows of each layer."""

    def __init__(self) -> None:
        self.n = 0
        self.layers: dict[int, Digests] = {}

    def alike(self, n: int, rows: ByLayer, known: int = 0) -> int:
        """How many of the first rows are those of the copies? There are ``n`` now, of which the first ``known`` were
        not written since they were copied."""
        if self.layers.keys() != rows.keys():
            return 0
        same, known = min(n, self.n), min(known, n, self.n)
        for layer, now in rows.items() if known < same else ():
            differ = now[known:same] != self.layers[layer][known:same]
            at = int(differ.argmax()) if same > known else 0
            if same > known and differ[at]:
                same = known + at
        return same

    def take(self, same: int, n: int, rows: ByLayer) -> RowsPart:
        """Copy the rows from position ``same`` on, and forget others that were there; returns them."""
        self.n = n
        new = {}
        for layer, now in rows.items():
            kept = self.layers.get(layer, now[:0])
            if len(kept) < n:
                self.layers[layer] = kept = longer(kept, room(len(kept), n))
            if same < n:
                kept[same:n] = now[same:n]
            new[layer] = Rows(now[same:n].copy(), None, None)
        return RowsPart(0, np.arange(same, n), new)
