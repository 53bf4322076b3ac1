"""Which keys may a query see? True = may.

N: queries of this step.  offset: keys that were there before.  A mask is [N, offset + N], or
[B, 1, N, offset + N] where rows of a batch differ.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from cachesim.engines.mlx_lm.caches.array_ops import Array

Mask = Array | Literal["causal"] | None


def create_causal_mask(
    N: int,
    offset: int = 0,
    window_size: int | None = None,
    right_padding: Array | None = None,
    left_padding: Array | None = None,
) -> Array:
    """No key after the query, none outside the window, none in a row's padding. paddings: [B]."""
    keys = np.arange(offset + N)[None, :]
    queries = (np.arange(offset, offset + N) if offset else np.arange(N))[:, None]
    seen = queries >= keys
    if window_size is not None:
        seen = seen & (queries - keys < window_size)
    if right_padding is not None:
        seen = seen & (keys < (offset + N - right_padding)[:, None, None, None])
    if left_padding is not None:
        seen = seen & (keys >= left_padding[:, None, None, None])
    return seen


def create_attention_mask(N: int, offset: int, return_array: bool, window_size: int | None) -> Mask:
    """An array where it is needed or asked for, the word "causal" where a kernel knows it, None for one query."""
    if window_size is not None:
        return create_causal_mask(N, offset, window_size)
    if N == 1:
        return None
    return create_causal_mask(N, offset) if return_array else "causal"
