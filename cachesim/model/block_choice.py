"""Attention to blocks of rows (B, step form): each K/V head of a token chooses blocks of 16 positions.

The score of a block is the largest product of an index query with the keys of its visible rows. The block of the token
itself is always read; among equal scores the lower block comes first.
Source: llama.cpp src/models/minimax-m3.cpp (b11549).
"""

from __future__ import annotations

import numpy as np

from cachesim.model.chosen_rows import Chooser, Seen, SeenRows, best, index_heads, visible_rows
from cachesim.model.grid import Digests, Values

BLOCK = 16                    # positions of a block
_UNSEEN = -(2.0**50)


def block_sums(digest: Digests, rows: SeenRows, count: int) -> Digests:
    """Return the sum of the digests of the index rows of each token that has to choose, (t,)."""
    total = np.zeros(len(digest) + 1, np.uint64)
    np.add.accumulate(digest, out=total[1:])
    blocks = _own_block(rows) - _first_block(rows) + 1
    return np.where(blocks > count, total[rows.hi] - total[rows.lo], np.uint64(0))


def best_blocks(q: Values, k: Values, rows: SeenRows, count: int) -> Seen:
    """Return the rows of the best blocks of each token and K/V head, (t, 2, n)."""
    blocks = rows.positions // BLOCK                                                     # (n,) ascending
    starts = np.flatnonzero(np.diff(blocks, prepend=-1))
    visible = visible_rows(rows)
    chosen = np.zeros((len(q), q.shape[1], len(k)), bool)
    own = blocks[starts] == _own_block(rows)[:, None]                                    # (t, blocks)
    for head in range(q.shape[1]):
        scores = np.where(visible, np.rint(q[:, head] @ k[:, 0].T), _UNSEEN)
        tops = np.maximum.reduceat(scores, starts, axis=1)
        picked = best(np.where(own, np.inf, tops), tops > _UNSEEN, count)
        chosen[:, head] = np.repeat(picked, np.diff(starts, append=len(k)), axis=1) & visible
    return chosen


def _own_block(rows: SeenRows) -> np.ndarray:
    return rows.positions[rows.hi - 1] // BLOCK


def _first_block(rows: SeenRows) -> np.ndarray:
    return rows.positions[rows.lo] // BLOCK


BEST_BLOCKS = Chooser(index_heads, block_sums, best_blocks)
"""B: the best blocks and the token's own."""
