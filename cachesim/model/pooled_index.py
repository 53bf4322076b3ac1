"""Attention to pools of rows (P, step form): consecutive rows of a sequence share an index key.

A pool is four rows by their rank in the sequence. Its key is the sum of the keys of its rows, which have no positions.
A token reads the best complete pools that end at or before it, and always the rows after the last complete pool.
Source: llama.cpp src/models/qwen4exp.cpp, src/llama-memory-hybrid-idx.cpp kpool_layout (b11549).
"""

from __future__ import annotations

import numpy as np

from cachesim.model import grid
from cachesim.model.attention import SCORE
from cachesim.model.chosen_rows import (
    INDEX_HEADS,
    Chooser,
    ChoosingWeights,
    IndexHeads,
    Seen,
    SeenRows,
    best,
    index_scores,
)
from cachesim.model.grid import Digests, Values, project
from cachesim.model.hash_mixing import mix
from cachesim.model.rope import Rotation
from cachesim.model.weights import HEAD

POOL = 4                      # rows of a pool


def pooled_heads(u: Values, weights: ChoosingWeights, turn: Rotation) -> IndexHeads:
    """Return index queries and keys of new tokens, without their positions."""
    y = np.rint(project(u, weights.lookup) * (grid.UNIT / grid.ROPE_UNIT)).reshape(len(u), INDEX_HEADS + 1, HEAD)
    return IndexHeads(y[:, :INDEX_HEADS] * SCORE, y[:, INDEX_HEADS:])


def pool_sums(digest: Digests, rows: SeenRows, count: int) -> Digests:
    """Return the sum of the digests of the complete pools of each token that has to choose, (t,)."""
    pools = mix(digest[: len(digest) // POOL * POOL].reshape(-1, POOL).sum(axis=1, dtype=np.uint64))
    total = np.zeros(len(pools) + 1, np.uint64)
    np.add.accumulate(pools, out=total[1:])
    complete = rows.hi // POOL
    return np.where(complete > count // POOL, total[complete], np.uint64(0))


def best_pools(q: Values, k: Values, rows: SeenRows, count: int) -> Seen:
    """Return the rows of the best pools of each token, and those after its last complete pool, (t, n)."""
    n = len(k)
    keys = k[: n // POOL * POOL, 0].reshape(-1, POOL, HEAD).sum(axis=1)                  # (pools, 16)
    complete = np.arange(len(keys)) < (rows.hi // POOL)[:, None]                         # (t, pools)
    pools = best(index_scores(q, keys), complete, count // POOL)
    chosen = np.zeros((len(q), n), bool)
    chosen[:, : len(keys) * POOL] = np.repeat(pools, POOL, axis=1)
    row = np.arange(n)
    tail = (row >= (rows.hi // POOL * POOL)[:, None]) & (row < rows.hi[:, None])
    return chosen | tail


BEST_POOLS = Chooser(pooled_heads, pool_sums, best_pools, rotated=False)
"""P: the best pools and the incomplete one."""
