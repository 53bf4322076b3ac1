"""How large is a table that grows with what is put into it? What is declared costs nothing until it is used.

A context may be declared with 2^31 cells. Tables have room for the cells that were ever used, and double when there is
none left; cells beyond their end are free.
"""

from __future__ import annotations

import numpy as np

FIRST = 256              # cells of the smallest table


def room(has: int, need: int, most: int | None = None) -> int:
    """Length of a table of ``has`` cells that ``need`` cells are to fit into: doubled, but never above ``most``."""
    if need <= has:
        return has
    size = max(FIRST, has)
    while size < need:
        size *= 2
    return size if most is None else min(size, most)


def longer(array: np.ndarray, n: int, axis: int = 0, fill: int = 0) -> np.ndarray:
    """A copy of the array with n entries along an axis; new ones hold ``fill``."""
    shape = list(array.shape)
    shape[axis] = n
    out = np.full(shape, fill, array.dtype) if fill else np.zeros(shape, array.dtype)
    out[(slice(None),) * axis + (slice(array.shape[axis]),)] = array
    return out
