"""K/V rows kept in cells: taken out as copies, put back in place.

The arrays are as long as the cells that were ever written need; a row beyond their end is zero. Those of digests refuse
to be written by anybody but ``put``, which tells of it.
"""

from __future__ import annotations

from typing import Any, Iterable

import numpy as np

from cachesim.engines.shared.growing_table import longer, room
from cachesim.engines.shared.writes import Writes, stretch_of
from cachesim.model import Rows
from cachesim.model.grid import Values


class RowTable(dict[int, Rows]):
    """The rows of each of these layers by cell; ``writes``, which may be that of the table of the cells, knows which of
    them have been written."""

    __slots__ = ("writes",)

    def __init__(self, layers: Iterable[int], writes: Writes | None = None) -> None:
        super().__init__((layer, Rows(np.zeros(0, np.uint64), None, None)) for layer in layers)
        self.writes = writes or Writes()

    def __setitem__(self, layer: int, rows: Rows) -> None:
        """All rows of a layer are others now."""
        self.writes.touch()
        self.extend(layer, rows)

    def extend(self, layer: int, rows: Rows) -> None:
        """The rows of a layer are in these arrays now; they are the same, or about to be told of."""
        rows.digest.flags.writeable = False
        super().__setitem__(layer, rows)

    def _elsewhere(self, *_: Any, **__: Any) -> Any:
        raise TypeError("rows are put into a table, or all of a layer are replaced")

    __delitem__ = clear = pop = popitem = setdefault = update = __ior__ = _elsewhere


def take(rows: Rows, cells: np.ndarray | slice) -> Rows:
    """The rows in the given cells, for reading only; those of a slice change with the cells."""
    need = _stop(cells)
    if need > len(rows.digest):
        rows = _longer(rows, need)
    return Rows(
        rows.digest[cells],
        None if rows.k is None else rows.k[cells],
        None if rows.v is None else rows.v[cells],
    )


def copied(rows: Rows, cells: np.ndarray | slice) -> Rows:
    """The rows in the given cells as they are now."""
    found = take(rows, cells)
    if not isinstance(cells, slice):
        return found
    k, v = (None if x is None else x.copy() for x in (found.k, found.v))
    return Rows(found.digest.copy(), k, v)


def put(kept: RowTable, layer: int, cells: np.ndarray | slice, rows: Rows) -> None:
    """Write rows into cells: the arrays grow with them; those of numbers are made when the first numbers arrive."""
    mine, need = kept[layer], _stop(cells)
    if need > len(mine.digest):
        mine = _longer(mine, room(len(mine.digest), need))
        kept.extend(layer, mine)
    kept.writes.touch(*stretch_of(cells))
    flags = mine.digest.flags
    flags.writeable = True
    mine.digest[cells] = rows.digest
    flags.writeable = False
    if rows.k is None or rows.v is None:
        return
    if mine.k is None or mine.v is None:
        k, v = (np.zeros((len(mine.digest), *x.shape[1:])) for x in (rows.k, rows.v))
        mine = Rows(mine.digest, k, v)
        kept.extend(layer, mine)
    assert mine.k is not None and mine.v is not None
    mine.k[cells] = rows.k
    mine.v[cells] = rows.v


def put_all(kept: RowTable, layer: int, rows: Rows) -> None:
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
    k, v = (None if x is None else longer(x, n) for x in (rows.k, rows.v))
    return Rows(longer(rows.digest, n), k, v)


def by_position(cells: np.ndarray, pos: np.ndarray) -> tuple[np.ndarray, np.ndarray | slice]:
    """(positions ascending, cells in that order); a slice where the cells allow it."""
    if len(pos) > 1 and not (pos[1:] >= pos[:-1]).all():
        order = np.argsort(pos, kind="stable")
        return pos[order], cells[order]
    if len(cells) and int(cells[-1]) - int(cells[0]) + 1 == len(cells):
        return pos, slice(int(cells[0]), int(cells[-1]) + 1)
    return pos, cells
