"""Attention to blocks of rows (B) over a whole sequence: rows 16j .. 16j+15 are block j."""

from __future__ import annotations

from typing import Sequence

import numpy as np

from cachesim.model.chosen_rows import ChoosingWeights
from cachesim.model.grid import Digests, Values
from cachesim.model.rope import Rotation
from cachesim.model.spec import Layer
from cachesim.oracle.whole_chosen import ChosenDigests, ChosenRead, SecondRows, best_of, index_numbers, read_chosen
from cachesim.oracle.whole_parts import attention_heads

TOKENS = 16                   # of a block


def block_attention(u: Values, weights: ChoosingWeights, turn: Rotation, layer: Layer) -> ChosenRead:
    """Evaluate B over the whole sequence."""
    q, k, v = attention_heads(u, weights.into, turn)
    index = index_numbers(u, weights, turn)

    def choice(i: int) -> Sequence[Sequence[int]]:
        return [_rows_of_blocks(np.rint(index.k[: i + 1] @ query), layer.count) for query in index.q[i]]

    return ChosenRead(read_chosen(q, k, v, choice), k, v, SecondRows(index.k[:, None], index.k[:, None, :0]))


def _rows_of_blocks(products: Values, count: int) -> list[int]:
    """Return the rows of the last block and of the best others, by the products of a query with all keys so far."""
    last = (len(products) - 1) // TOKENS
    tops = np.array([products[at * TOKENS : (at + 1) * TOKENS].max() for at in range(last)])
    blocks = [*best_of(tops, count - 1), last]
    return [row for block in blocks for row in range(block * TOKENS, min((block + 1) * TOKENS, len(products)))]


def block_digests(index_rows: Digests, inputs: Digests, layer: Layer, row_key: Digests) -> ChosenDigests:
    """Return what each token reads through the index of B: all index rows up to itself, if it has to choose."""
    sums = np.cumsum(index_rows)
    sums[: layer.count * TOKENS] = 0
    return ChosenDigests(index_rows, sums)
