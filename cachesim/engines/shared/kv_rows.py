"""K/V rows in memory cells: copied out, and written back in place.

The arrays are as long as the highest written cell requires; rows after their end are zero. A context may declare 2^31
cells; its tables cover only the cells that were ever used and double when they are full. Cells after their end are
free.
"""

from __future__ import annotations

from typing import Callable, Iterable

import numpy as np

from cachesim.model import KVRows
from cachesim.model.grid import Values

FIRST = 256              # cells of the smallest table


def grown_size(has: int, need: int, most: int | None = None) -> int:
    """Return the length of a table of ``has`` cells after growth to at least ``need`` cells: doubled as often as
    necessary, at most ``most``."""
    if need <= has:
        return has
    size = max(FIRST, has)
    while size < need:
        size *= 2
    return size if most is None else min(size, most)


def extend_array(array: np.ndarray, n: int, axis: int = 0, fill: int = 0) -> np.ndarray:
    """Return a copy of the array with ``n`` entries along an axis; new entries hold ``fill``."""
    shape = list(array.shape)
    shape[axis] = n
    out = np.full(shape, fill, array.dtype) if fill else np.zeros(shape, array.dtype)
    out[(slice(None),) * axis + (slice(array.shape[axis]),)] = array
    return out


RowTable = dict[int, KVRows]
"""Layer -> rows by cell."""


def empty_rows(layers: Iterable[int]) -> RowTable:
    """Return a table of these layers without rows."""
    return {layer: KVRows(np.zeros(0, np.uint64), None, None) for layer in layers}


def read_rows(rows: KVRows, cells: np.ndarray | slice) -> KVRows:
    """Return the rows in the given cells, for reading only. For a slice they are a view that changes with the cells."""
    if isinstance(cells, slice) and _stop(cells) > len(rows.digest):
        rows = _longer(rows, _stop(cells))
    try:
        return _each(rows, lambda array: array[cells])
    except IndexError:                                   # cells that were never written
        return _each(_longer(rows, _stop(cells)), lambda array: array[cells])


def copy_rows(rows: KVRows) -> KVRows:
    """Return a copy of the rows."""
    return _each(rows, lambda array: array.copy())


def write_rows(kept: RowTable, layer: int, cells: np.ndarray | slice, rows: KVRows) -> None:
    """Write rows into cells. The arrays grow as needed; arrays of numbers are allocated when the first numbers
    arrive."""
    table = kept[layer]
    if isinstance(cells, slice) and _stop(cells) > len(table.digest):
        kept[layer] = table = _grown(table, cells)
    try:
        table.digest[cells] = rows.digest
    except IndexError:
        kept[layer] = table = _grown(table, cells)
        table.digest[cells] = rows.digest
    if rows.k is None or rows.v is None:
        return
    if table.k is None or table.v is None:
        k, v = (np.zeros((len(table.digest), *x.shape[1:])) for x in (rows.k, rows.v))
        kept[layer] = table = KVRows(table.digest, k, v)
    assert table.k is not None and table.v is not None
    table.k[cells] = rows.k
    table.v[cells] = rows.v


def zero_rows(table: KVRows, cells: np.ndarray) -> None:
    """Zero the cells that exist."""
    for array in table:
        if array is not None:
            array[cells[cells < len(array)]] = 0


def replace_rows(kept: RowTable, layer: int, rows: KVRows) -> None:
    """Replace all rows of a layer by copies of ``rows``; cells after them become zero."""
    table = kept[layer]
    k, v = (_copy(old, new, len(rows.digest)) for old, new in ((table.k, rows.k), (table.v, rows.v)))
    kept[layer] = KVRows(rows.digest.copy(), k, v)


def _copy(old: Values | None, new: Values | None, n: int) -> Values | None:
    if new is not None:
        return new.copy()
    return None if old is None else np.zeros((n, *old.shape[1:]))


def _stop(cells: np.ndarray | slice) -> int:
    """Return the last cell plus 1; 0 for a slice without an end."""
    if isinstance(cells, slice):
        return cells.stop or 0
    return int(cells.max()) + 1 if len(cells) else 0


def _grown(table: KVRows, cells: np.ndarray | slice) -> KVRows:
    return _longer(table, grown_size(len(table.digest), _stop(cells)))


def _longer(rows: KVRows, n: int) -> KVRows:
    return _each(rows, lambda array: extend_array(array, n))


def _each(rows: KVRows, change: Callable[[np.ndarray], np.ndarray]) -> KVRows:
    k = None if rows.k is None else change(rows.k)
    return KVRows(change(rows.digest), k, None if rows.v is None else change(rows.v))


def sort_by_position(cells: np.ndarray, pos: np.ndarray) -> tuple[np.ndarray, np.ndarray | slice]:
    """Return the positions in ascending order and the cells in that order, as a slice if the cells are contiguous."""
    if len(pos) > 1 and not (pos[1:] >= pos[:-1]).all():
        order = np.argsort(pos, kind="stable")
        return pos[order], cells[order]
    if len(cells) and int(cells[-1]) - int(cells[0]) + 1 == len(cells):
        return pos, slice(int(cells[0]), int(cells[-1]) + 1)
    return pos, cells


def contiguous_length(pos: np.ndarray) -> int:
    """Return the number of rows from position 0 on without a gap. ``pos``: (n,) positions, mostly ascending."""
    if len(pos) and pos[0] == 0 and pos[-1] == len(pos) - 1 and bool((pos[1:] - pos[:-1] == 1).all()):
        return len(pos)
    present = np.unique(pos)
    gaps = np.flatnonzero(present != np.arange(len(present)))
    return int(gaps[0]) if len(gaps) else len(present)
