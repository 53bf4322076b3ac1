"""Attention over the rows of a memory: GQA with RoPE, in blocks of keys (step form).

Scores are rounded to the steps of the softmax table, so the best score is exact. Weights are integers, so their sum and
the weighted sums of V are exact. A single division and a rounding follow. V is summed in two halves (``LIMB``). No
other temporary array exceeds 1 MiB.
Letters: t queries, n rows, g = 2 queries that share a K/V head. Source: Ainslie et al. 2023 (GQA).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cachesim.base.errors import BadInput
from cachesim.base.limits import EXACT_ROWS
from cachesim.model import function_tables, grid
from cachesim.model.attention_mask import Bounds, VisibleRows
from cachesim.model.grid import Values, project
from cachesim.model.rope import Rotation, rotate, turns
from cachesim.model.store import KVRows
from cachesim.model.weights import HEAD, HEADS, KV_HEADS, LIMB, WIDE, AttentionWeights

GROUP = HEADS // KV_HEADS
SCORE = grid.ROPE_UNIT**2 / np.sqrt(HEAD) / function_tables.WEIGHT_STEP      # steps of the table per unit of q.k
_SCORES = 2**16               # scores held at a time: small enough for the processor's cache
_HIDDEN, _NONE = -(2.0**40), -(2.0**30)


class Heads(NamedTuple):
    """Queries, keys and values of the tokens of a run."""

    q: Values                 # (t, 4, 16) rotated, in steps of the softmax table
    k: Values                 # (t, 2, 16) rotated, in ROPE_UNIT
    v: Values                 # (t, 2, 16)


def heads(u: Values, weights: AttentionWeights, turn: Rotation) -> Heads:
    """Return queries, keys and values of new tokens at their positions."""
    y = project(u, weights.into)                                            # (t, 128)
    y = y.reshape(len(u), HEADS + 2 * KV_HEADS, HEAD)
    qk = rotate(y[:, : HEADS + KV_HEADS], turn, grid.UNIT / grid.ROPE_UNIT)     # (t, 6, 16)
    return Heads(qk[:, :HEADS] * SCORE, qk[:, HEADS:], y[:, HEADS + KV_HEADS :])


def unrotated_heads(u: Values, weights: AttentionWeights, turn: Rotation) -> Heads:
    """Return queries, keys and values of new tokens, without their positions."""
    return heads(u, weights, turns(np.zeros(len(u), np.int64)))


def attend(q: Values, rows: KVRows, visible: VisibleRows) -> Values:
    """Return the weighted mean (t, 64) of the V rows that each query sees; 0 if it sees none."""
    if rows.k is None or rows.v is None:
        raise BadInput("an exact model needs a store that keeps K and V")
    n = len(rows.k)
    EXACT_ROWS.check(n, "exact attention")
    halves = _halves(rows.v)
    step = min(len(q), max(8, _SCORES // (HEADS * max(n, 1))))              # queries processed at a time
    work = _Work(step, max(1, min(n, _SCORES // (HEADS * step))))
    out = np.empty((len(q), WIDE))
    for start in range(0, len(q), step):
        part = slice(start, start + step)
        out[part] = _QueryBlock(q[part], rows.k, visible.lo[part], visible.hi[part], work).mean(halves)
    return out


def _halves(v: Values) -> tuple[Values, Values]:
    """Split V into whole multiples of LIMB and the rest, (n, 2, 16) each."""
    high = v * (1.0 / LIMB)
    np.rint(high, out=high)
    low = high * -LIMB
    low += v
    return high, low


class _Work:
    """Buffers for the scores of a block of queries and keys, reused for every block."""

    def __init__(self, queries: int, keys: int) -> None:
        self.keys = keys
        size = HEADS * queries * keys
        self.scores = np.empty(size)
        self.weights = np.empty(size)
        self.places = np.empty(size, np.int64)

    def shaped(self, queries: int, keys: int) -> tuple[Values, Values, npt.NDArray[np.int64]]:
        """Return views of shape (2, t*g, n) of the three buffers: scores, weights, places in the softmax table."""
        shape, size = (KV_HEADS, queries * GROUP, keys), HEADS * queries * keys
        return self.scores[:size].reshape(shape), self.weights[:size].reshape(shape), self.places[:size].reshape(shape)


class _QueryBlock:
    """A block of queries with all keys that any of them sees."""

    def __init__(self, q: Values, k: Values, lo: Bounds, hi: Bounds, work: _Work) -> None:
        self.t = len(q)
        self.lo = lo[:, None]
        self.hi = hi[:, None]
        self.work = work
        self.q = q.reshape(self.t, KV_HEADS, GROUP, HEAD).transpose(1, 0, 2, 3).reshape(KV_HEADS, -1, HEAD)
        self.k = k.transpose(1, 2, 0)                                       # (2, 16, n)
        first, last = int(lo[0]), int(hi[-1])                               # both bounds ascend with the query
        self.blocks = [slice(at, min(at + work.keys, last)) for at in range(first, last, work.keys)]
        self.edges = (first, int(lo[-1])), (int(hi[0]), last)               # rows that only some queries see

    def mean(self, halves: tuple[Values, Values]) -> Values:
        """Return the means (t, 64) from the two halves of V: first the best score, then the sums."""
        if not self.blocks:
            return np.zeros((self.t, WIDE))
        best = self._best(self.blocks[0])
        for block in self.blocks[1:]:
            np.maximum(best, self._best(block), out=best)
        total, high, low = self._sums(self.blocks[0], best, halves, len(self.blocks) == 1)
        for block in self.blocks[1:]:
            for whole, part in zip((total, high, low), self._sums(block, best, halves, False), strict=True):
                whole += part
        high *= LIMB
        high += low
        mean: Values = high / np.maximum(total, 1.0, out=total)
        np.rint(mean, out=mean)
        return mean.reshape(KV_HEADS, self.t, GROUP * HEAD).transpose(1, 0, 2).reshape(self.t, WIDE)

    def _best(self, block: slice) -> Values:
        """Return the best score of each query in a block of keys, (2, t*g, 1)."""
        return np.maximum.reduce(self._scores(block), axis=2, keepdims=True, initial=_NONE)

    def _sums(self, block: slice, best: Values, halves: tuple[Values, Values], at_hand: bool) -> list[Values]:
        """Return the sum of the weights (2, t*g, 1) of a block of keys, and the sums of the weighted halves of V (2,
        t*g, 16)."""
        weights = self._weights(block, best, at_hand)
        total = np.add.reduce(weights, axis=2, keepdims=True)
        return [total, *(weights @ half[block].transpose(1, 0, 2) for half in halves)]

    def _weights(self, block: slice, best: Values, at_hand: bool) -> Values:
        """Return the weights (2, t*g, n), integers from 0 to WEIGHT_ONE. ``at_hand``: the buffer still holds the
        scores."""
        scores, weights, places = self.work.shaped(self.t, block.stop - block.start)
        np.subtract(best, scores if at_hand else self._scores(block), out=places, casting="unsafe")
        return function_tables.weight_table().take(places, mode="clip", out=weights)

    def _scores(self, block: slice) -> Values:
        """Return the rounded scores (2, t*g, n) of a block of keys. Hidden keys score far below all others."""
        scores = self.work.shaped(self.t, block.stop - block.start)[0]
        np.matmul(self.q, self.k[:, :, block], out=scores)
        np.rint(scores, out=scores)
        for start, stop in self.edges:
            start, stop = max(start, block.start), min(stop, block.stop)
            if start < stop:
                row = np.arange(start, stop)
                hidden = (row < self.lo) | (row >= self.hi)                 # (t, edge)
                edge = scores.reshape(KV_HEADS, self.t, GROUP, -1)[..., start - block.start : stop - block.start]
                np.copyto(edge, _HIDDEN, where=hidden[None, :, None])
        return scores
