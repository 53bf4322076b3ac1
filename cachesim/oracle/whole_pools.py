"""Attention to pools of rows (P) over a whole sequence: rows 4j .. 4j+3 are pool j."""

from __future__ import annotations

from typing import Sequence

import numpy as np

from cachesim.model.chosen_rows import ChoosingWeights
from cachesim.model.grid import Digests, Values
from cachesim.model.hash_mixing import MASK, mix_int
from cachesim.model.rope import Rotation
from cachesim.model.spec import Layer
from cachesim.model.weights import KV_HEADS
from cachesim.oracle.whole_chosen import (
    ChosenDigests,
    ChosenRead,
    SecondRows,
    best_of,
    index_numbers,
    read_chosen,
    scores_of,
)
from cachesim.oracle.whole_parts import attention_heads

TOKENS = 4                    # of a pool


def pooled_attention(u: Values, weights: ChoosingWeights, turn: Rotation, layer: Layer) -> ChosenRead:
    """Evaluate P over the whole sequence."""
    q, k, v = attention_heads(u, weights.into, turn)
    index = index_numbers(u, weights, None)
    pooled = np.array([index.k[at : at + TOKENS].sum(axis=0) for at in range(0, len(u) - TOKENS + 1, TOKENS)])
    pooled = pooled.reshape(-1, index.k.shape[1])

    def choice(i: int) -> Sequence[Sequence[int]]:
        complete = (i + 1) // TOKENS
        pools = best_of(scores_of(index.q[i], pooled[:complete]), layer.count // TOKENS)
        rows = [pool * TOKENS + at for pool in pools for at in range(TOKENS)]
        return [[*rows, *range(complete * TOKENS, i + 1)]] * KV_HEADS

    return ChosenRead(read_chosen(q, k, v, choice), k, v, SecondRows(index.k[:, None], index.k[:, None, :0]))


def pooled_digests(index_rows: Digests, inputs: Digests, layer: Layer, row_key: Digests) -> ChosenDigests:
    """Return what each token reads through the pools of P: all complete ones, if it has to choose."""
    rows = index_rows.tolist()
    read = []
    total = 0
    for i in range(len(rows)):
        if (i + 1) % TOKENS == 0:
            total = (total + mix_int(sum(rows[i + 1 - TOKENS : i + 1]))) & MASK
        read.append(total if (i + 1) // TOKENS > layer.count // TOKENS else 0)
    return ChosenDigests(index_rows, np.array(read, np.uint64))
