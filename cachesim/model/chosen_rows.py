"""Attention to chosen rows (step form): an index decides which of the visible rows a token reads.

A token has index queries, a row has an index key. The score of a row is the sum over the queries of their products with
its key, where they are positive. The best rows are read; among equal scores the lower position comes first. A token
that sees no more rows than it may choose reads all of them, so that its index does not matter.
Letters: t queries, n rows, h = 2 index queries of a token. Source: DeepSeek-AI 2025 (DeepSeek V3.2, sparse attention).
"""

from __future__ import annotations

from typing import Callable, NamedTuple

import numpy as np
import numpy.typing as npt

from cachesim.base.errors import BadInput
from cachesim.base.limits import EXACT_ROWS
from cachesim.model import function_tables, grid
from cachesim.model.attention import GROUP, SCORE
from cachesim.model.attention_mask import View
from cachesim.model.grid import Digests, Positions, Values, project, require
from cachesim.model.rope import Rotation, rotate
from cachesim.model.store import KVRows
from cachesim.model.weights import (
    HEAD,
    HEADS,
    KV_HEADS,
    LIMB,
    WIDE,
    AttentionWeights,
    D,
    WeightDraw,
    draw_attention,
    project_bound,
)

Seen = npt.NDArray[np.bool_]
INDEX_HEADS = 2
_HIDDEN, _NONE = -(2.0**40), -(2.0**30)
_SCORES = 2**18               # scores held at a time


class ChoosingWeights(NamedTuple):
    """Attention and its index: q k v as in attention; ``lookup``: 2 queries of 16, a key of 16."""

    into: Values              # (d, 128)
    out: Values               # (64, d)
    lookup: Values            # (d, 48)


class IndexHeads(NamedTuple):
    """Index queries and keys of the tokens of a run."""

    q: Values                 # (t, 2, 16), in steps of the softmax table
    k: Values                 # (t, 1, 16), in ROPE_UNIT


class SeenRows(NamedTuple):
    """Rows of a memory for the tokens of a run: token i sees rows lo[i] .. hi[i]-1 of those at ``positions``."""

    lo: Positions             # (t,)
    hi: Positions             # (t,)
    positions: Positions      # (n,)


class Chooser(NamedTuple):
    """A choice of rows. ``heads``: index queries and keys of new tokens; ``sums``: sums of the digests on which each
    token's choice depends, for digests, rows and the number of a layer; ``choose``: the rows that each token reads, for
    each K/V head or for all; ``rotated``: a K-shift rotates index keys."""

    heads: Callable[[Values, ChoosingWeights, Rotation], IndexHeads]
    sums: Callable[[Digests, SeenRows, int], Digests]
    choose: Callable[[Values, Values, SeenRows, int], Seen]
    rotated: bool = True
    part: str = "idx"


def draw_choosing(draw: WeightDraw) -> ChoosingWeights:
    """Draw the weights of an attention part with an index."""
    plain: AttentionWeights = draw_attention(draw)
    index = draw.matrix(D, (INDEX_HEADS + 1) * HEAD)
    most = project_bound(index)
    require(4 * (np.sqrt(HEAD) * most / grid.ROPE_UNIT) ** 2, "score of an index key")
    return ChoosingWeights(plain.into, plain.out, index)


def index_heads(u: Values, weights: ChoosingWeights, turn: Rotation) -> IndexHeads:
    """Return index queries and keys of new tokens, rotated to their positions."""
    y = project(u, weights.lookup).reshape(len(u), INDEX_HEADS + 1, HEAD)
    y = rotate(y, turn, grid.UNIT / grid.ROPE_UNIT)
    return IndexHeads(y[:, :INDEX_HEADS] * SCORE, y[:, INDEX_HEADS:])


def seen_rows(view: View, asked: Positions, window: int) -> SeenRows:
    """Return the rows that the tokens at positions ``asked`` see."""
    visible = view.visible(window)
    return SeenRows(visible.lo, visible.hi, view.places(asked))


def index_sums(digest: Digests, rows: SeenRows, count: int) -> Digests:
    """Return the sum of the digests of the index rows of each token that has to choose, (t,)."""
    total = np.zeros(len(digest) + 1, np.uint64)
    np.add.accumulate(digest, out=total[1:])
    return np.where(rows.hi - rows.lo > count, total[rows.hi] - total[rows.lo], np.uint64(0))


def best_rows(q: Values, k: Values, rows: SeenRows, count: int) -> Seen:
    """Return the ``count`` best visible rows of each token, (t, n)."""
    return best(index_scores(q, k[:, 0]), visible_rows(rows), count)


def index_scores(q: Values, k: Values) -> Values:
    """Return the scores (t, n) of index keys (n, 16)."""
    products = np.rint(np.einsum("thi,ni->thn", q, k))
    scores: Values = np.maximum(products, 0.0, out=products).sum(axis=1)
    return scores


def visible_rows(rows: SeenRows) -> Seen:
    """Return the rows that each token sees, (t, n)."""
    row = np.arange(len(rows.positions))
    return (row >= rows.lo[:, None]) & (row < rows.hi[:, None])


def best(scores: Values, visible: Seen, count: int) -> Seen:
    """Return the ``count`` best visible columns of each row, (t, n); the first of several equal ones."""
    order = np.argsort(np.where(visible, -scores, np.inf), axis=1, kind="stable")[:, :count]
    chosen = np.zeros_like(visible)
    np.put_along_axis(chosen, order, True, axis=1)
    return chosen & visible


def attend_chosen(q: Values, rows: KVRows, chosen: Seen) -> Values:
    """Return the weighted mean (t, 64) of the V rows that each query reads, 0 if it reads none. ``chosen``: (t, n), or
    (t, 2, n) for each K/V head."""
    if rows.k is None or rows.v is None:
        raise BadInput("an exact model needs a store that keeps K and V")
    n = len(rows.k)
    EXACT_ROWS.check(n, "exact attention")
    if chosen.ndim == 2:
        chosen = chosen[:, None]
    high = np.rint(rows.v * (1.0 / LIMB))
    both = np.concatenate((high, rows.v - high * LIMB), axis=2).transpose(1, 0, 2)      # (2, n, 32)
    step = max(1, _SCORES // (HEADS * max(n, 1)))
    out = np.empty((len(q), WIDE))
    for start in range(0, len(q), step):
        part = slice(start, start + step)
        out[part] = _means(q[part], rows.k, both, chosen[part])
    return out


def _means(q: Values, k: Values, both: Values, chosen: Seen) -> Values:
    """Return the means (t, 64). ``both``: the two halves of V side by side."""
    grouped = q.reshape(len(q), KV_HEADS, GROUP, HEAD)
    scores = np.rint(np.einsum("tkgi,nki->tkgn", grouped, k))
    np.copyto(scores, _HIDDEN, where=~chosen[:, :, None])
    best_score = scores.max(axis=3, keepdims=True, initial=_NONE)
    places = np.minimum(best_score - scores, function_tables.WEIGHT_COUNT - 1).astype(np.int64)
    weights = function_tables.weight_table().take(places)                                       # (t, 2, g, n)
    sums = np.einsum("tkgn,kni->tkgi", weights, both)                                    # (t, 2, g, 32)
    mean = (sums[..., :HEAD] * LIMB + sums[..., HEAD:]) / np.maximum(weights.sum(axis=3, keepdims=True), 1.0)
    out: Values = np.rint(mean).reshape(len(q), WIDE)
    return out


BEST_ROWS = Chooser(index_heads, index_sums, best_rows)
"""I: the best rows."""
