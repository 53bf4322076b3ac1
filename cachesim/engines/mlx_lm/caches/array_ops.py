"""What is done with buffers of rows. Nothing here writes into an array that somebody else may hold.

A buffer is [B, H, T, D]: rows of the batch, heads, columns (tokens), width. The dtype is the caller's business,
structured ones included: rows are moved and never computed with, and padding is zeros.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
INDEX = np.int32                 # counters per row of a batch, as in mlx


def stored(array: Array | None) -> Array:
    """The buffer itself. Raises TypeError where there is none, as indexing a None does in the original."""
    if array is None:
        raise TypeError("the cache holds no buffer yet")
    return array


def columns(buffer: Array) -> int:
    """T: the columns that are allocated."""
    return int(buffer.shape[2])


def blank(like: Array, width: int, *, rows: int | None = None, dtype: Any = None) -> Array:
    """[rows, H, width, D] of zeros, the other axes as in ``like``."""
    b, h, _, d = like.shape
    return np.zeros((b if rows is None else rows, h, width, d), like.dtype if dtype is None else dtype)


def joined(*parts: Array) -> Array:
    """The columns of all parts, one after the other."""
    return np.concatenate(parts, axis=2)


def written(buffer: Array, start: int, rows: Array) -> Array:
    """A copy of the buffer with ``rows`` in the columns from ``start`` on."""
    out = buffer.copy()
    out[:, :, start : start + columns(rows)] = rows
    return out


def with_room(buffer: Array | None, held: int, rows: Array, step: int) -> Array:
    """A buffer whose columns from ``held`` on can take ``rows``; what is missing is added in blocks of ``step``.

    A buffer that does not end with a whole block is cut to ``held`` columns first.
    """
    new = columns(rows)
    if buffer is not None and held + new <= columns(buffer):
        return buffer
    block = blank(rows, -(-new // step) * step)
    if buffer is None:
        return block
    return joined(buffer[:, :, :held] if held % step else buffer, block)


def rolled(buffer: Array, shifts: Array) -> Array:
    """Each row of the batch turned right by its own number of columns. shifts: [B]."""
    t = columns(buffer)
    source = (np.arange(t)[None, :] - shifts[:, None]) % t             # [B, T]
    return np.take_along_axis(buffer, source[:, None, :, None], axis=2)


def chosen(array: Array, rows: Sequence[int] | Array) -> Array:
    """The rows of axis 0 with these numbers, in this order."""
    return array[np.asarray(rows, dtype=np.intp)]


def counters(values: Sequence[int] | Array) -> Array:
    """One counter per row of the batch: int32[B]."""
    return np.array(values, dtype=INDEX)


# Which keys may a query see? True = may.
#
# N: queries of this step.  offset: keys that were there before.  A mask is [N, offset + N], or
# [B, 1, N, offset + N] where rows of a batch differ. Of a long prompt that is many numbers which say little: ``Ranges``
# are the same mask before it is written out.

@dataclass(frozen=True, slots=True, eq=False)
class Ranges:
    """A causal mask: query i of row b sees keys lo[b, i] .. hi[b, i]-1 of ``width``, none where that is no range.
    ``batch``: it is a mask of a batch, else that of one row."""

    lo: Array                 # [B or 1, N]
    hi: Array                 # [B or 1, N]
    width: int
    batch: bool

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        keys = np.arange(self.width)
        seen = (keys >= self.lo[..., None]) & (keys < self.hi[..., None])
        return seen[:, None] if self.batch else seen[0]


Mask = Array | Ranges | Literal["causal"] | None


def causal_ranges(
    N: int,
    offset: int = 0,
    window_size: int | None = None,
    right_padding: Array | None = None,
    left_padding: Array | None = None,
) -> Ranges:
    """No key after the query, none outside the window, none in a row's padding. paddings: [B]."""
    queries = np.arange(offset, offset + N)[None]
    lo, hi = np.zeros_like(queries), queries + 1
    if window_size is not None:
        lo = np.maximum(lo, hi - window_size)
    if right_padding is not None:
        hi = np.minimum(hi, (offset + N - right_padding)[:, None])
    if left_padding is not None:
        lo = np.maximum(lo, left_padding[:, None])
    if lo.shape != hi.shape:
        lo, hi = np.broadcast_arrays(lo, hi)
    return Ranges(lo, hi, max(0, offset + N), left_padding is not None or right_padding is not None)


def create_causal_mask(
    N: int,
    offset: int = 0,
    window_size: int | None = None,
    right_padding: Array | None = None,
    left_padding: Array | None = None,
) -> Array:
    """``causal_ranges``, written out."""
    return np.asarray(causal_ranges(N, offset, window_size, right_padding, left_padding))


def create_attention_mask(N: int, offset: int, return_array: bool, window_size: int | None) -> Mask:
    """An array where it is needed or asked for, the word "causal" where a kernel knows it, None for one query."""
    if window_size is not None:
        return create_causal_mask(N, offset, window_size)
    if N == 1:
        return None
    return create_causal_mask(N, offset) if return_array else "causal"
