"""K/V rows kept in cells: taken out as copies, put back in place.

The arrays are as long as the cells that were ever written need; a row beyond their end is zero.
"""

from __future__ import annotations

from typing import Callable, Iterable

import numpy as np

from cachesim.model import Rows
from cachesim.model.grid import Values

# How large is a table that grows with what is put into it? What is declared costs nothing until it is used.
#
# A context may be declared with 2^31 cells. Tables have room for the cells that were ever used, and double when there
# is none left; cells beyond their end are free.

FIRST = 256              # cells of the smallest table


def grown_size(has: int, need: int, most: int | None = None) -> int:
    """Length of a table of ``has`` cells that ``need`` cells are to fit into: doubled, but never above ``most``."""
    if need <= has:
        return has
    size = max(FIRST, has)
    while size < need:
        size *= 2
    return size if most is None else min(size, most)


def extend_array(array: np.ndarray, n: int, axis: int = 0, fill: int = 0) -> np.ndarray:
    """A copy of the array with n entries along an axis; new ones hold ``fill``."""
    shape = list(array.shape)
    shape[axis] = n
    out = np.full(shape, fill, array.dtype) if fill else np.zeros(shape, array.dtype)
    out[(slice(None),) * axis + (slice(array.shape[axis]),)] = array
    return out


RowTable = dict[int, Rows]
"""The rows of each layer by cell."""


def empty_rows(layers: Iterable[int]) -> RowTable:
    """A table of these layers, in which nothing was written yet."""
    return {layer: Rows(np.zeros(0, np.uint64), None, None) for layer in layers}


def read_rows(rows: Rows, cells: np.ndarray | slice) -> Rows:
    """The rows in the given cells, for reading only; those of a slice change with the cells."""
    need = _stop(cells)
    if need > len(rows.digest):
        rows = _longer(rows, need)
    return _each(rows, lambda array: array[cells])


def copy_rows(rows: Rows) -> Rows:
    """The rows as they are now."""
    return _each(rows, lambda array: array.copy())


def write_rows(kept: RowTable, layer: int, cells: np.ndarray | slice, rows: Rows) -> None:
    """Write rows into cells: the arrays grow with them; those of numbers are made when the first numbers arrive."""
    mine, need = kept[layer], _stop(cells)
    if need > len(mine.digest):
        kept[layer] = mine = _longer(mine, grown_size(len(mine.digest), need))
    mine.digest[cells] = rows.digest
    if rows.k is None or rows.v is None:
        return
    if mine.k is None or mine.v is None:
        k, v = (np.zeros((len(mine.digest), *x.shape[1:])) for x in (rows.k, rows.v))
        kept[layer] = mine = Rows(mine.digest, k, v)
    assert mine.k is not None and mine.v is not None
    mine.k[cells] = rows.k
    mine.v[cells] = rows.v


def replace_rows(kept: RowTable, layer: int, rows: Rows) -> None:
    """Overwrite all rows of a layer by copies of these, and what lies beyond them by zeros."""
    mine = kept[layer]
    k, v = (_copy(old, new, len(rows.digest)) for old, new in ((mine.k, rows.k), (mine.v, rows.v)))
    kept[layer] = Rows(rows.digest.copy(), k, v)


def _copy(old: Values | None, new: Values | None, n: int) -> Values | None:
    if new is not None:
        return new.copy()
    return None if old is None else np.zeros((n, *old.shape[1:]))


def _stop(cells: np.ndarray | slice) -> int:
    """One more than the last cell; 0 for a slice without an end."""
    if isinstance(cells, slice):
        return cells.stop or 0
    return int(cells.max()) + 1 if len(cells) else 0


def _longer(rows: Rows, n: int) -> Rows:
    return _each(rows, lambda array: extend_array(array, n))


def _each(rows: Rows, change: Callable[[np.ndarray], np.ndarray]) -> Rows:
    k = None if rows.k is None else change(rows.k)
    return Rows(change(rows.digest), k, None if rows.v is None else change(rows.v))


def sort_by_position(cells: np.ndarray, pos: np.ndarray) -> tuple[np.ndarray, np.ndarray | slice]:
    """(positions ascending, cells in that order); a slice where the cells allow it."""
    if len(pos) > 1 and not (pos[1:] >= pos[:-1]).all():
        order = np.argsort(pos, kind="stable")
        return pos[order], cells[order]
    if len(cells) and int(cells[-1]) - int(cells[0]) + 1 == len(cells):
        return pos, slice(int(cells[0]), int(cells[-1]) + 1)
    return pos, cells


def contiguous_length(pos: np.ndarray) -> int:
    """Number of rows from position 0 on without a hole. ``pos``: (n,) positions, mostly ascending."""
    if len(pos) and pos[0] == 0 and pos[-1] == len(pos) - 1 and bool((pos[1:] - pos[:-1] == 1).all()):
        return len(pos)
    present = np.unique(pos)
    gaps = np.flatnonzero(present != np.arange(len(present)))
    return int(gaps[0]) if len(gaps) else len(present)
