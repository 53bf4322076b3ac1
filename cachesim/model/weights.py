"""Weights from a seed, on their grid, with the bounds that keep sums exact: a function for each part of a layer.

Every projection has columns of 2-norm about 1, so a normed x gives values of size about 1. Letters of a projection's
columns: q k v of attention and delta net, z output gate, b write strength (beta), a decay gate; x B C dt of the SSM. A
layer has 4 ``heads`` of width 16 and 2 K/V heads; the width of the model is 32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Sequence

import numpy as np

from cachesim.base.errors import Crash
from cachesim.base.keyed_tokens import key_of, plain_tokens
from cachesim.base.limits import EXACT_ROWS
from cachesim.model import function_tables, grid
from cachesim.model.grid import Digests, Values, frozen, require
from cachesim.model.hash_mixing import mix, mix_int, token_digests

D = 32
HEADS = 4
KV_HEADS = 2
HEAD = 16
WIDE = HEADS * HEAD           # 64
LOGITS = 64
GATED_TAPS, SHORT_TAPS = 4, 3       # inputs read by the short convolution of G and S, and by that of C
LIMB = 2.0**16                # V is summed in two halves: its multiples of LIMB units, and the rest

HALF_LIVES = (16, 80, 400, 2000)
"""Tokens after which a head of G or S has decayed by half, at a decay gate of 0."""
MOST_DECAY = 1.0 - 1.0 / 2896
BETA_BIAS = (0.0, -0.5, -1.0, -2.0)
"""Heads of G with slow decay write weakly, because a strong write erases the direction that it writes to."""


class AttentionWeights(NamedTuple):
    """GQA attention: q 64, k 32, v 32 columns."""

    into: Values              # (d, 128)
    out: Values               # (64, d)


class RecurrentWeights(NamedTuple):
    """G: q k v 64 each (convolved), z 64, b 4, a 4. S: x 64, B 16, C 16 (convolved), z 64, dt 4."""

    into: Values              # (d, 264) for G, (d, 164) for S
    taps: Values              # (4, 192) for G, (4, 96) for S; the newest input first
    norm: Values              # (16,) for G, (64,) for S
    skip: Values              # (4, 1) D of S, unused by G
    decay: Values             # (4 * 4097,) a table for each head
    factors: Values           # by the same gate. G, (3, 4 * 4097): minus the decay in KEY_UNIT, the units of what is
                              # written, the decay in whole KEY_UNIT. S, (2, 4 * 4097): dt in those units, the decay
    out: Values               # (64, d)


class ConvWeights(NamedTuple):
    """LFM2 short convolution: B, C, x of 32 columns each."""

    into: Values              # (d, 96)
    taps: Values              # (3, 32)
    out: Values               # (32, d)


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """A layer: the weights of the parts that its kind has, each with its output projection ``out``."""

    norm: Values              # (d,)
    attention: Any
    recurrence: Any


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of a whole model."""

    layers: tuple[LayerWeights, ...]
    lanes: Digests            # (d,) convert a token's digest into its embedding
    norm: Values              # (d,)
    readout: Values           # (d, 64)


def embed(digest: Digests, weights: Weights) -> Values:
    """Return the embedding (n, d) of each token digest, between -1 and 1. Every digest has an embedding."""
    return (mix(digest[:, None] ^ weights.lanes) >> np.uint64(43)).astype(np.float64) * 2.0**10 - 2.0**30


def embed_tokens(tokens: Sequence[int], seed: int, weights: Weights) -> Values:
    """Return the embedding (n, d) of each identity. The adapters of its key are a rank-one update of its embedding:
    x + (x . a) b, with a and b drawn from the key."""
    x = embed(token_digests(plain_tokens(tokens), seed), weights)
    for key in sorted({key_of(token) for token in tokens} - {0}):
        draw, at = WeightDraw(key, -1), [i for i, token in enumerate(tokens) if key_of(token) == key]
        a, b = (np.where(draw.bits(D) & np.uint64(1), 1.0, -1.0) for _ in range(2))
        x[at] = grid.add_residual(x[at], np.rint(x[at] @ a / D)[:, None] * b)
    return x


class WeightDraw:
    """A stream of random numbers for each layer, so a layer's weights do not depend on its neighbours."""

    def __init__(self, seed: int, index: int) -> None:
        self.key = mix_int(mix_int(seed + 1) + mix_int(index + 2))

    def bits(self, n: int) -> Digests:
        """Return n random uint64 numbers, (n,)."""
        self.key = mix_int(self.key + 1)
        return mix(np.arange(n, dtype=np.uint64) + np.uint64(self.key))

    def uniform(self, *shape: int) -> Values:
        """Return random numbers between -1 and 1."""
        return (self.bits(int(np.prod(shape))) >> np.uint64(11)).astype(np.float64).reshape(shape) * 2.0**-52 - 1.0

    def matrix(self, n_in: int, n_out: int) -> Values:
        """Return a random matrix (in, out) with columns of 2-norm about 1."""
        return _on_grid(self.uniform(n_in, n_out) * np.sqrt(3.0 / n_in))

    def norm(self, n: int) -> Values:
        """Return norm weights between 0.75 and 1.25, (n,)."""
        return _on_grid(1.0 + 0.25 * self.uniform(n))

    def taps(self, taps: int, channels: int) -> Values:
        """Return convolution taps (taps, channels) with absolute sums of at most 1.2."""
        signed = self.uniform(taps, channels)
        return _on_grid(np.where(signed < 0, -0.8, 0.8) / taps + 0.4 / taps * signed)


def _on_grid(w: Values) -> Values:
    return frozen(np.rint(w / grid.WEIGHT_UNIT) * grid.WEIGHT_UNIT)


def draw_attention(draw: WeightDraw) -> AttentionWeights:
    """Draw the weights of an attention part."""
    weights = AttentionWeights(draw.matrix(D, WIDE + 2 * KV_HEADS * HEAD), draw.matrix(WIDE, D))
    most = project_bound(weights.into)
    require((np.sqrt(HEAD) * most / grid.ROPE_UNIT) ** 2, "score of a query and a key")
    largest = function_tables.WEIGHT_ONE * EXACT_ROWS.value * max(most / grid.UNIT / LIMB, LIMB)
    require(largest, "sum over the keys of a softmax")
    require_product(np.sqrt(WIDE) * most, weights.out)
    return weights


def draw_delta_net(draw: WeightDraw) -> RecurrentWeights:
    """Draw the weights of a gated delta net (G)."""
    weights = _recurrent(draw, 3 * WIDE + WIDE + 2 * HEADS, draw.taps(GATED_TAPS, 3 * WIDE), HEAD)
    write = np.full_like(weights.decay, grid.KEY_UNIT * grid.UNIT / grid.DELTA_UNIT)        # units of k, units of v
    factors = np.stack((weights.decay * -grid.KEY_UNIT, write, np.rint(weights.decay / grid.KEY_UNIT)))
    weights = weights._replace(factors=frozen(factors))
    most = _conv_bound(weights)
    # The transition contracts by MOST_DECAY, minus the rounding of its 16 x 16 entries, so its inputs add up to:
    column = most / (1.0 - MOST_DECAY - HEAD * grid.KEY_UNIT)
    require(1.01 / grid.KEY_UNIT * column / grid.DELTA_UNIT, "recurrent matrix of a delta net")
    require_product(np.sqrt(WIDE) * 1.25 * most, weights.out)
    return weights


def draw_ssm(draw: WeightDraw) -> RecurrentWeights:
    """Draw the weights of an SSM (S, H)."""
    weights = _recurrent(draw, WIDE + 2 * HEAD + WIDE + HEADS, draw.taps(GATED_TAPS, WIDE + 2 * HEAD), WIDE)
    softplus = function_tables.softplus_table()
    write = np.tile(softplus * (grid.UNIT**2 / grid.SSM_UNIT), HEADS)       # units of x, units of B
    weights = weights._replace(factors=frozen(np.stack((write, weights.decay))))
    most = _conv_bound(weights)
    gain = max(float((softplus / (1.0 - decay)).max()) for decay in weights.decay.reshape(HEADS, -1))
    require(HEAD * most / grid.READ_UNIT * most**2 * gain / grid.SSM_UNIT, "recurrent matrix of an SSM")
    require_product(np.sqrt(WIDE) * 1.25, weights.out)
    return weights


def _recurrent(draw: WeightDraw, columns: int, taps: Values, norm: int) -> RecurrentWeights:
    decay = frozen(np.concatenate([function_tables.decays(1.0 / half, MOST_DECAY) for half in HALF_LIVES]))
    skip = _on_grid(1.0 + 0.25 * draw.uniform(HEADS, 1))
    return RecurrentWeights(draw.matrix(D, columns), taps, draw.norm(norm), skip, decay, decay, draw.matrix(WIDE, D))


def draw_short_conv(draw: WeightDraw) -> ConvWeights:
    """Draw the weights of a short convolution (C)."""
    weights = ConvWeights(draw.matrix(D, 3 * D), draw.taps(SHORT_TAPS, D), draw.matrix(D, D))
    most = project_bound(weights.into)
    after = most**2 * _absolute(weights.taps)
    require(after / grid.UNIT / grid.WEIGHT_UNIT, "short convolution")
    require_product(np.sqrt(D) * most * after, weights.out)
    return weights


def project_bound(into: Values) -> float:
    """Return the largest value that a projection of a normed x can have. Raise Crash unless its sums are exact."""
    require_product(grid.NORM_BOUND, into)
    return grid.NORM_BOUND * _column_norm(into) + grid.UNIT


def _conv_bound(weights: RecurrentWeights) -> float:
    """Return the largest value after the short convolution of G or S. Raise Crash if gates may leave their tables."""
    most = project_bound(weights.into)
    require(most * _absolute(weights.taps) / grid.UNIT / grid.WEIGHT_UNIT, "short convolution")
    if most >= function_tables.GATE_RANGE:
        raise Crash(f"a gate may reach {most}, its table ends at {function_tables.GATE_RANGE}")
    return most * max(1.0, _absolute(weights.taps)) + grid.UNIT


def require_product(norm: float, weight: Values) -> None:
    """Raise Crash unless products of vectors of this 2-norm with a weight are exact. The Cauchy-Schwarz inequality
    bounds every partial sum."""
    require(norm / grid.UNIT * _column_norm(weight) / grid.WEIGHT_UNIT, "projection")


def _column_norm(weight: Values) -> float:
    return float(np.sqrt((weight**2).sum(axis=0)).max())


def _absolute(taps: Values) -> float:
    return float(np.abs(taps).sum(axis=0).max())
