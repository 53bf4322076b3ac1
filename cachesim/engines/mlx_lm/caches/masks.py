"""Which keys may a query see? True = may.

N: queries of this step.  offset: keys that were there before.  A mask is [N, offset + N], or
[B, 1, N, offset + N] where rows of a batch differ. Of a long prompt that is many numbers which say little: ``Ranges``
are the same mask before it is written out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from cachesim.engines.mlx_lm.caches.array_ops import Array


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
