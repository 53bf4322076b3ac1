"""Attention to chosen rows (I) over a whole sequence, token by token, and what the other kinds with an index share."""

from __future__ import annotations

from typing import Callable, NamedTuple, Sequence

import numpy as np

from cachesim.model import function_tables, grid
from cachesim.model.chosen_rows import ChoosingWeights
from cachesim.model.grid import Digests, Values, project
from cachesim.model.rope import Rotation, rotate
from cachesim.model.spec import Layer
from cachesim.model.weights import HEAD, HEADS, KV_HEADS, WIDE
from cachesim.oracle.whole_parts import attention_heads

_SPLIT = 2.0**18              # V is summed as multiples of this number, plus the rest


class SecondRows(NamedTuple):
    """Numbers of the index rows or compressed rows of a sequence: K and V."""

    k: Values
    v: Values


class ChosenRead(NamedTuple):
    """Output of an attention part for n tokens, its rows, and the rows beside them."""

    y: Values                 # (n, 64) before the output projection
    k: Values                 # (n, 2, 16)
    v: Values                 # (n, 2, 16)
    second: SecondRows
    inputs: Values | None = None      # (n, channels) of a compressor
    ring: int = 0                     # inputs that it keeps


class ChosenDigests(NamedTuple):
    """Digests of a layer: of the rows beside its own, what each token reads through them, and its compressor's ring."""

    second: Digests
    read: Digests             # (n,)
    ring: int = 0             # inputs that a compressor keeps


class IndexNumbers(NamedTuple):
    """Index queries (n, 2, 16) in steps of the softmax table, and index keys (n, 16)."""

    q: Values
    k: Values


def index_numbers(u: Values, weights: ChoosingWeights, turn: Rotation | None) -> IndexNumbers:
    """Return the index queries and keys of a sequence, rotated unless ``turn`` is None."""
    three = project(u, weights.lookup).reshape(len(u), weights.lookup.shape[1] // HEAD, HEAD)
    if turn is None:
        three = np.rint(three * (grid.UNIT / grid.ROPE_UNIT))
    else:
        three = rotate(three, turn, grid.UNIT / grid.ROPE_UNIT)
    steps = grid.ROPE_UNIT**2 / HEAD**0.5 / function_tables.WEIGHT_STEP
    return IndexNumbers(three[:, :-1] * steps, three[:, -1])


Choice = Callable[[int], Sequence[Sequence[int]]]
"""Token -> the rows that it reads, for each K/V head."""


def read_chosen(q: Values, k: Values, v: Values, choice: Choice) -> Values:
    """Return the output of each token over the rows that it reads, (n, 64)."""
    out = np.zeros((len(q), WIDE))
    for i in range(len(q)):
        for group, rows in enumerate(choice(i)):
            for head in range(group * HEADS // KV_HEADS, (group + 1) * HEADS // KV_HEADS):
                out[i, head * HEAD : (head + 1) * HEAD] = _one_query(q[i, head], k[rows, group], v[rows, group])
    return out


def _one_query(q: Values, k: Values, v: Values) -> Values:
    """Return the output (16,) of a query over rows (m, 16)."""
    steps = grid.ROPE_UNIT**2 / HEAD**0.5 / function_tables.WEIGHT_STEP
    scores = np.rint(k @ (q * steps))
    places = np.minimum(scores.max() - scores, function_tables.WEIGHT_COUNT - 1).astype(np.int64)
    weights = function_tables.weight_table()[places]
    rest = np.fmod(v, _SPLIT)
    whole, part = weights @ ((v - rest) / _SPLIT), weights @ rest
    mean: Values = np.rint((whole * _SPLIT + part) / weights.sum())
    return mean


def scores_of(q: Values, keys: Values) -> Values:
    """Return the scores (m,) of index keys for the queries (2, 16) of a token."""
    total = np.zeros(len(keys))
    for query in q:
        products = np.rint(keys @ query)
        total += np.where(products > 0, products, 0.0)
    return total


def best_of(scores: Values, count: int) -> list[int]:
    """Return the indices of the largest scores, ascending; the first of several equal ones."""
    ranked: list[int] = np.lexsort((np.arange(len(scores)), -scores))[:count].tolist()
    return sorted(ranked)


def chosen_attention(u: Values, weights: ChoosingWeights, turn: Rotation, layer: Layer) -> ChosenRead:
    """Evaluate I over the whole sequence."""
    q, k, v = attention_heads(u, weights.into, turn)
    index = index_numbers(u, weights, turn)

    def choice(i: int) -> Sequence[Sequence[int]]:
        return [best_of(scores_of(index.q[i], index.k[: i + 1]), layer.count)] * KV_HEADS

    return ChosenRead(read_chosen(q, k, v, choice), k, v, SecondRows(index.k[:, None], index.k[:, None, :0]))


def chosen_digests(index_rows: Digests, inputs: Digests, layer: Layer, row_key: Digests) -> ChosenDigests:
    """Return what each token reads through the index of I: all index rows up to itself, if it has to choose."""
    sums = np.cumsum(index_rows)
    sums[: layer.count] = 0
    return ChosenDigests(index_rows, sums)
