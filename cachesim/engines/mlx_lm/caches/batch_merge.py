"""How do rows come into one buffer? All rows end in the same column; what lies before the first token is zeros."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Sequence

import numpy as np

from cachesim.engines.mlx_lm.caches.array_ops import Array, blank, columns, joined, stored


class Side(NamedTuple):
    """One of two batches that become one: buffers [B, H, T, D] or None, the next column, the rows."""

    keys: Array | None
    values: Array | None
    idx: int
    rows: int


def join_sides(a: Side, b: Side, empty_side: Callable[..., Any]) -> tuple[Array, Array]:
    """Keys and values of the rows of ``a`` followed by those of ``b``; at least one side has buffers."""
    end = max(a.idx, b.idx)
    width = max(columns(side.keys) for side in (a, b) if side.keys is not None)
    return _joined(a, b, 0, end, width, empty_side), _joined(a, b, 1, end, width, empty_side)


def _joined(a: Side, b: Side, part: int, end: int, width: int, empty_side: Callable[..., Any]) -> Array:
    sides = []
    for side, other in ((a, b), (b, a)):
        buffer = (side.keys, side.values)[part]
        if buffer is None:
            like = stored((other.keys, other.values)[part])
            # Keys decide the dtype of both.
            rows, dtype = empty_side(side.rows, like.shape[0], stored(other.keys).dtype)
            buffer = blank(like, 0, rows=rows, dtype=dtype)
        sides.append(_placed(buffer, end - side.idx, width))
    return np.concatenate(sides)


def _placed(buffer: Array, left: int, width: int) -> Array:
    """The buffer in ``width`` columns, ``left`` columns further right than it was."""
    right = width - columns(buffer) - left
    if right < 0:
        buffer, right = buffer[:, :, :right], 0
    return joined(blank(buffer, left), buffer, blank(buffer, right)) if left or right else buffer


class Row(NamedTuple):
    """What one cache brings into a batch: the column where it begins, how many it takes, what is copied there."""

    start: int
    width: int
    rows: Array | None


def stacked(rows: Sequence[Row], length: int) -> Array:
    """[B, H, length, D] from one Row per row of the batch; a row without content is zeros."""
    some = [row.rows for row in rows if row.rows is not None]
    heads, depth = max(x.shape[1] for x in some), max(x.shape[3] for x in some)
    out = np.zeros((len(rows), heads, length, depth), some[0].dtype)
    for i, row in enumerate(rows):
        if row.rows is not None:
            out[i : i + 1, :, row.start : row.start + row.width] = row.rows
    return out
