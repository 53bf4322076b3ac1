"""Window and compressed rows (D) over a whole sequence: row j is made from tokens r j .. r j + r - 1, r = ratio."""

from __future__ import annotations

import numpy as np

from cachesim.model import grid
from cachesim.model.compressed_rows import CompressingWeights
from cachesim.model.function_tables import WEIGHT_STEP
from cachesim.model.grid import Digests, Values, project
from cachesim.model.hash_mixing import MASK, mix_int
from cachesim.model.rope import Rotation, rotate, turns
from cachesim.model.spec import Layer
from cachesim.model.weights import HEAD, KV_HEADS
from cachesim.oracle.whole_chosen import ChosenDigests, ChosenRead, SecondRows, best_of, read_chosen, scores_of
from cachesim.oracle.whole_parts import attention_heads

BOTH = 4                      # with this ratio a row is also made from the block before, and an index chooses rows


def compressed_attention(u: Values, weights: CompressingWeights, turn: Rotation, layer: Layer) -> ChosenRead:
    """Evaluate D over the whole sequence."""
    q, k, v = attention_heads(u, weights.into, turn)
    inputs = project(u, weights.compress)
    made = _rows(inputs, layer.ratio)
    steps = grid.ROPE_UNIT**2 / HEAD**0.5 / WEIGHT_STEP
    queries = project(u, weights.lookup).reshape(len(u), weights.lookup.shape[1] // HEAD, HEAD)
    asked = rotate(queries, turn, grid.UNIT / grid.ROPE_UNIT) * steps
    m = len(made.k)
    keys, values = np.concatenate((made.k[:, :KV_HEADS], k)), np.concatenate((made.v, v))

    def choice(i: int) -> list[list[int]]:
        shown = (i + 1) // layer.ratio
        if layer.ratio == BOTH and layer.count:
            rows = best_of(scores_of(asked[i], made.k[:shown, KV_HEADS]), layer.count)
        else:
            rows = [*range(shown)]
        return [[*rows, *range(m + max(0, i + 1 - layer.window), m + i + 1)]] * KV_HEADS

    return ChosenRead(read_chosen(q, keys, values, choice), k, v, made, inputs, _reach(layer.ratio))


def _reach(ratio: int) -> int:
    """Return the number of tokens from which a row is made."""
    return 2 * BOTH if ratio == BOTH else ratio


def _rows(inputs: Values, ratio: int) -> SecondRows:
    """Return the compressed rows of a sequence: K with the index key (m, 3, 16), V (m, 2, 16)."""
    m, wide = len(inputs) // ratio, inputs.shape[1]
    sums = inputs[: m * ratio].reshape(m, ratio, wide).sum(axis=1)
    if ratio == BOTH:
        sums = 3.0 * sums + np.concatenate((np.zeros((1, wide)), sums))[:m]
    mean = np.rint(sums / (16.0 if ratio == BOTH else ratio)).reshape(m, wide // HEAD, HEAD)
    turn = turns(np.arange(0, m * ratio, ratio))
    return SecondRows(rotate(mean[:, : KV_HEADS + 1], turn, grid.UNIT / grid.ROPE_UNIT), mean[:, KV_HEADS + 1 :])


def compressed_digests(index_rows: Digests, inputs: Digests, layer: Layer, row_key: Digests) -> ChosenDigests:
    """Return the digests of the compressed rows, and for each token the sum of those of the complete blocks."""
    key, reach = int(row_key), _reach(layer.ratio)
    mixed = [mix_int(0 ^ key)] * reach + [mix_int(x ^ key) for x in inputs.tolist()]
    rows: list[int] = []
    sums: list[int] = []
    total = 0
    for i in range(len(inputs)):
        if (i + 1) % layer.ratio == 0:
            block = mixed[i + 1 : i + 1 + reach]
            row = mix_int(sum((2 * at + 1) * one for at, one in enumerate(block))) * (2 * len(rows) + 1) & MASK
            rows.append(row)
            total = (total + row) & MASK
        sums.append(total)
    return ChosenDigests(np.array(rows, np.uint64), np.array(sums, np.uint64), reach)
