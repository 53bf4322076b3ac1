"""Step forms of recurrent layers: delta net, SSM and short convolution.

A step takes the normed input of some tokens and the state before them, and returns the layer's output and the numbers
of the state after them. It modifies neither argument. Everything independent of the recurrent matrix is computed for a
block of tokens at once. The matrix advances token by token, so chunking cannot change it.
Sources: Yang et al. 2024 (gated delta net), Dao and Gu 2024 (Mamba-2), LFM2 (llama.cpp src/models/lfm2.cpp).
Letters: t tokens, q k v queries, keys, values, z output gate, a decay, h recurrent matrix, 4 heads of 16.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cachesim.model import function_tables, grid
from cachesim.model.grid import Values, frozen, project
from cachesim.model.norms import head_norm, unit, wide_norm
from cachesim.model.weights import BETA_BIAS, HEAD, HEADS, WIDE, ConvWeights, D, RecurrentWeights

_NO_MATRIX: Values = frozen(np.zeros((0, 0, 0)))


class _Places(NamedTuple):
    """Table entries of the columns of a projection: those of ``sigmoid_table``, and in the last four columns those of
    each head's own table."""

    scale: Values             # (columns,)
    middle: Values            # place of 0, plus a half for rounding

    def of(self, p: Values) -> np.ndarray[tuple[int, ...], np.dtype[np.intp]]:
        """Return the table entries of each column, (t, columns)."""
        place = p * self.scale
        place += self.middle
        return place.astype(np.intp)


def _places(columns: int, bias: tuple[float, ...] = ()) -> _Places:
    """Return the places for ``columns`` columns of ``sigmoid_table``, the last of which get a bias, and for four
    heads."""
    size = function_tables.SOFTPLUS_COUNT
    middle = np.full(columns + HEADS, function_tables.SIGMOID_COUNT // 2 + 0.5)
    middle[columns - len(bias) : columns] += np.array(bias) / function_tables.SIGMOID_STEP
    middle[columns:] = np.arange(HEADS) * size + (size // 2 + 0.5)          # gates lie within their tables
    steps = [function_tables.SIGMOID_STEP] * columns + [function_tables.GATE_STEP] * HEADS
    return _Places(grid.UNIT / np.array(steps), middle)


_DELTA, _SSM = _places(4 * WIDE + HEADS, BETA_BIAS), _places(2 * WIDE + 2 * HEAD)


class RecurrentStep(NamedTuple):
    """Output of a recurrent layer for some tokens, and the numbers of its state after them."""

    y: Values                 # (t, width) before the output projection
    conv_x: Values            # (taps-1, channels)
    h: Values                 # (4, 16, 16) in G, S and H; empty in C


def delta_net(u: Values, weights: RecurrentWeights, conv_x: Values, h: Values, room: Values) -> RecurrentStep:
    """Evaluate G: h = a (h - b k (k.h)) + b k v, y = rms(q.h) * silu(z). The returned h lies in ``room``, (2, t, 4, 16,
    16)."""
    p = project(u, weights.into)                                            # (t, 264): qkv 192, z 64, b 4, a 4
    inputs = np.concatenate((conv_x, p[:, : 3 * WIDE]))
    _convolve(inputs, weights.taps, p[:, : 3 * WIDE])
    place = _DELTA.of(p)
    gates = function_tables.sigmoid_table().take(place[:, : 4 * WIDE + HEADS], mode="clip")
    act = p[:, : 4 * WIDE]                                                  # (t, 256) after SiLU
    act *= gates[:, : 4 * WIDE]
    np.rint(act, out=act)
    qkv = act[:, : 3 * WIDE].reshape(-1, 3, HEADS, HEAD)
    qkv[:, :2] = unit(qkv[:, :2])
    factors = weights.factors.take(place[:, 4 * WIDE + HEADS :], axis=1)    # (3, t, 4)
    o, h = _delta_scan(qkv, factors, gates[:, 4 * WIDE :], h, room)
    y = head_norm(o, weights.norm).reshape(-1, WIDE)
    y *= act[:, 3 * WIDE :]
    return RecurrentStep(np.rint(y, out=y), _last(inputs, weights.taps), h)


def ssm(u: Values, weights: RecurrentWeights, conv_x: Values, h: Values, room: Values) -> RecurrentStep:
    """Evaluate S: h = a h + dt x B, y = rms((h.C + D x) * silu(z)). The returned h lies in ``room``, (2, t, 4, 16,
    16)."""
    p = project(u, weights.into)                                            # (t, 164): xBC 96, z 64, dt 4
    channels = weights.taps.shape[1]
    inputs = np.concatenate((conv_x, p[:, :channels]))
    _convolve(inputs, weights.taps, p[:, :channels])
    place = _SSM.of(p)
    act = p[:, : channels + WIDE]
    act *= function_tables.sigmoid_table().take(place[:, : channels + WIDE], mode="clip")
    np.rint(act, out=act)
    x = act[:, :WIDE].reshape(-1, HEADS, HEAD)                              # (t, 4, 16)
    b = act[:, WIDE : WIDE + HEAD]
    c = act[:, WIDE + HEAD : channels]
    z = act[:, channels:]
    write, keep = weights.factors.take(place[:, channels + WIDE :], axis=1)     # (t, 4) each
    read, h = _ssm_scan(write[..., None] * x, b, c, keep, h, room)
    y = (read + weights.skip * x).reshape(-1, WIDE) * (z * grid.UNIT)
    return RecurrentStep(wide_norm(y, weights.norm), _last(inputs, weights.taps), h)


def short_conv(u: Values, weights: ConvWeights, conv_x: Values, h: Values, room: Values) -> RecurrentStep:
    """Evaluate C: y = C * conv(B * x). It has no recurrent matrix."""
    p = project(u, weights.into)                                            # (t, 96): B, C, x
    bx = np.rint(p[:, :D] * p[:, 2 * D :] * grid.UNIT)
    inputs = np.concatenate((conv_x, bx))
    y = _convolve(inputs, weights.taps, np.empty_like(bx))
    y *= p[:, D : 2 * D]
    return RecurrentStep(np.rint(y * grid.UNIT), _last(inputs, weights.taps), _NO_MATRIX)


def _delta_scan(qkv: Values, factors: Values, beta: Values, h: Values, room: Values) -> tuple[Values, Values]:
    """Return the reads of the queries (t, 4, 16), in DELTA_UNIT, and the final matrix."""
    both = room[:, : len(qkv)]
    turn, new = both                                                        # (t, 4, 16, 16) - a b k k, and b k v
    left = beta[..., None] * qkv[:, 1] * factors[:2, ..., None]             # (2, t, 4, 16)
    np.multiply(left[..., None], qkv[:, 1:, :, None].swapaxes(0, 1), out=both)
    np.rint(both, out=both)
    turn.reshape(-1, HEADS, HEAD * HEAD)[..., :: HEAD + 1] += factors[2, ..., None]
    turn *= grid.KEY_UNIT
    moved = np.empty_like(h)
    for step, into in zip(turn, new, strict=True):
        np.matmul(step, h, moved)
        into += moved
        h = np.rint(into, into)
    read = np.matmul(qkv[:, 0, :, None], new)[:, :, 0]
    read *= grid.KEY_UNIT
    return read, h


def _ssm_scan(dx: Values, b: Values, c: Values, a: Values, h: Values, room: Values) -> tuple[Values, Values]:
    """Return the reads of C (t, 4, 16), in units of the grid, and the final matrix (4 heads, 16 of x, 16 of B)."""
    new = room[0, : len(dx)]                                                # (t, 4, 16, 16) dt x B
    np.multiply(dx[..., None], b[:, None, None, :], out=new)
    np.rint(new, out=new)
    kept = np.empty_like(h)
    for keep, into in zip(a[:, :, None, None], new, strict=True):
        np.multiply(keep, h, kept)
        into += kept
        h = np.rint(into, into)
    read = new @ np.rint(c * (grid.UNIT / grid.READ_UNIT))[:, None, :, None]
    return read[..., 0] * (grid.SSM_UNIT * grid.READ_UNIT / grid.UNIT), h


def _convolve(inputs: Values, taps: Values, out: Values) -> Values:
    """Write each channel's weighted sum of its last inputs into ``out``, (t, channels), and return it."""
    n, k = len(inputs), len(taps)
    if n == k:                                                              # a single token: the sum in one call
        np.add.reduce(inputs * taps[::-1], axis=0, keepdims=True, out=out)
        return np.rint(out, out=out)
    np.multiply(inputs[k - 1 :], taps[0], out=out)
    for back in range(1, k):
        out += inputs[k - 1 - back : n - back] * taps[back]
    return np.rint(out, out=out)


def _last(inputs: Values, taps: Values) -> Values:
    return inputs[len(inputs) - len(taps) + 1 :]
