"""Attention within chunks (K) over a whole sequence: each chunk is a sequence of its own, at its own positions."""

from __future__ import annotations

import numpy as np

from cachesim.model.grid import Values
from cachesim.model.rope import Rotation
from cachesim.model.weights import AttentionWeights
from cachesim.oracle.whole_parts import WholeRead, attention


def chunked_attention(u: Values, weights: AttentionWeights, turn: Rotation, chunk: int) -> WholeRead:
    """Evaluate K over the whole sequence."""
    parts = [_one_chunk(u, weights, turn, slice(a, a + chunk)) for a in range(0, max(len(u), 1), chunk)]
    y, k, v = (np.concatenate(part) for part in zip(*parts, strict=True))
    return WholeRead(y, k, v)


def _one_chunk(u: Values, weights: AttentionWeights, turn: Rotation, part: slice) -> WholeRead:
    return attention(u[part], weights, Rotation(turn.cos[part], turn.sin[part]), 0)
