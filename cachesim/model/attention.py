"""What does attention read, row by row handed out by a memory? GQA with RoPE, in blocks of keys (step form).

Scores are rounded to the steps of the softmax table, so the best score is exact; weights are integers, their
sum and the weighted sums of V are exact; then one division and one rounding. No temporary exceeds 4 MiB.
Letters: t queries, n rows, g = 2 queries that share a K/V head. Source: Ainslie et al. 2023 (GQA).
"""

from __future__ import annotations

from typing import Iterator, NamedTuple

import numpy as np

from cachesim.errors import BadInput
from cachesim.model import grid, tables
from cachesim.model.grid import project
from cachesim.model.rope import Turn, rotate
from cachesim.model.store import Rows, Values
from cachesim.model.view import Visible
from cachesim.model.weights import HEAD, HEADS, KV_HEADS, LIMB, MAX_CONTEXT, WIDE, AttentionWeights

GROUP = HEADS // KV_HEADS
SCORE = grid.ROPE_UNIT**2 / np.sqrt(HEAD) / tables.WEIGHT_STEP      # steps of the table per unit of q.k
_QUERIES = 64                 # queries worked on at a time
_SCORES = 2**19               # scores held at a time
_HIDDEN, _NONE = -(2.0**40), -(2.0**30)


class Heads(NamedTuple):
    """What the tokens of a run ask and offer."""

    q: Values                 # (t, 4, 16) rotated, in steps of the softmax table
    k: Values                 # (t, 2, 16) rotated, in ROPE_UNIT
    v: Values                 # (t, 2, 16)


def heads(u: Values, weights: AttentionWeights, turn: Turn) -> Heads:
    """Queries, keys and values of new tokens at their positions."""
    y = project(u, weights.into)                                            # (t, 128)
    q, k, v = (part.reshape(len(u), -1, HEAD) for part in np.split(y, (WIDE, WIDE + KV_HEADS * HEAD), axis=1))
    scale = grid.UNIT / grid.ROPE_UNIT
    return Heads(rotate(q, turn, scale) * SCORE, rotate(k, turn, scale), v)


def attend(q: Values, rows: Rows, visible: Visible) -> Values:
    """(t, 64) the weighted mean of the V rows that each query sees; 0 where it sees none."""
    if rows.k is None or rows.v is None:
        raise BadInput("an exact model needs a store that keeps K and V")
    if len(rows.k) > MAX_CONTEXT:
        raise BadInput(f"exact attention over {len(rows.k)} rows", hint=f"at most {MAX_CONTEXT}")
    high = np.rint(rows.v / LIMB)                                           # (n, 2, 16)
    low = rows.v - high * LIMB
    out = np.empty((len(q), WIDE))
    for start in range(0, len(q), _QUERIES):
        part = slice(start, start + _QUERIES)
        block = _QueryBlock(q[part], Visible(visible.lo[part], visible.hi[part]), rows.k)
        out[part] = block.mean(high, low)
    return out


class _QueryBlock:
    """Some queries against all keys that any of them sees."""

    def __init__(self, q: Values, visible: Visible, k: Values) -> None:
        self.t, self.visible = len(q), visible
        self.q = q.reshape(self.t, KV_HEADS, GROUP, HEAD).transpose(1, 0, 2, 3).reshape(KV_HEADS, -1, HEAD)
        self.k = k.transpose(1, 2, 0)                                       # (2, 16, n)
        self.first, self.last = int(visible.lo.min()), int(visible.hi.max())
        self.size = max(1, _SCORES // (self.t * HEADS))

    def mean(self, high: Values, low: Values) -> Values:
        """(t, 64) from the two halves of V."""
        best = np.full((KV_HEADS, self.t * GROUP, 1), _NONE)
        kept = None
        for block in self._blocks():
            kept = block, self._scores(block)
            np.maximum(best, kept[1].max(axis=2, keepdims=True), out=best)
        sums = np.zeros((2, KV_HEADS, self.t * GROUP, HEAD))
        total = np.zeros((KV_HEADS, self.t * GROUP, 1))
        for block in self._blocks():
            scores = kept[1] if kept and kept[0] == block else self._scores(block)
            weights = _weights(scores, best)
            total += np.add.reduce(weights, axis=2, keepdims=True)
            sums[0] += weights @ high[block].transpose(1, 0, 2)
            sums[1] += weights @ low[block].transpose(1, 0, 2)
        mean = (sums[0] * LIMB + sums[1]) / np.maximum(total, 1.0)
        np.rint(mean, out=mean)
        return mean.reshape(KV_HEADS, self.t, GROUP * HEAD).transpose(1, 0, 2).reshape(self.t, WIDE)

    def _blocks(self) -> Iterator[slice]:
        for start in range(self.first, self.last, self.size):
            yield slice(start, min(start + self.size, self.last))

    def _scores(self, block: slice) -> Values:
        """(2, t*g, n) rounded scores of a block of keys, hidden ones far below all others."""
        scores = self.q @ self.k[:, :, block]
        np.rint(scores, out=scores)
        lo, hi = self.visible.lo[:, None], self.visible.hi[:, None]         # (t, 1)
        by_query = scores.reshape(KV_HEADS, self.t, GROUP, -1)
        for start, stop in ((self.first, int(lo.max())), (int(hi.min()), self.last)):
            start, stop = max(start, block.start), min(stop, block.stop)
            if start < stop:
                row = np.arange(start, stop)
                hidden = (row < lo) | (row >= hi)                           # (t, edge)
                edge = by_query[..., start - block.start : stop - block.start]
                edge[np.broadcast_to(hidden[None, :, None], edge.shape)] = _HIDDEN
        return scores


def _weights(scores: Values, best: Values) -> Values:
    """(2, t*g, n) integers from 0 to WEIGHT_ONE; the scores are used up."""
    np.subtract(best, scores, out=scores)
    return tables.WEIGHTS.take(scores.astype(np.int64), mode="clip")
