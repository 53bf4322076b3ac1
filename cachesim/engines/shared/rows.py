"""K/V rows kept in cells: taken out as copies, put back in place."""

from __future__ import annotations

import numpy as np

from cachesim.model import Rows


def take(rows: Rows, cells: np.ndarray | slice) -> Rows:
    """A copy of the rows in the given cells."""
    return Rows(
        rows.digest[cells],
        None if rows.k is None else rows.k[cells],
        None if rows.v is None else rows.v[cells],
    )


def put(kept: dict[int, Rows], layer: int, cells: np.ndarray | slice, rows: Rows) -> None:
    """Write rows into cells. The arrays of numbers are made when the first numbers arrive."""
    mine = kept[layer]
    mine.digest[cells] = rows.digest
    if rows.k is None or rows.v is None:
        return
    if mine.k is None or mine.v is None:
        k, v = (np.zeros((len(mine.digest), *x.shape[1:])) for x in (rows.k, rows.v))
        mine = kept[layer] = Rows(mine.digest, k, v)
    assert mine.k is not None and mine.v is not None
    mine.k[cells] = rows.k
    mine.v[cells] = rows.v


def by_position(cells: np.ndarray, pos: np.ndarray) -> tuple[np.ndarray, np.ndarray | slice]:
    """(positions ascending, cells in that order); a slice where the cells allow it."""
    if len(pos) > 1 and not (pos[1:] >= pos[:-1]).all():
        order = np.argsort(pos, kind="stable")
        return pos[order], cells[order]
    if len(cells) and int(cells[-1]) - int(cells[0]) + 1 == len(cells):
        return pos, slice(int(cells[0]), int(cells[-1]) + 1)
    return pos, cells
