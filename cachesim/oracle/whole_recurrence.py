"""Recurrent layers over a whole sequence, each one scan from zero; the part of ``whole.py`` that walks in time.

The matrices lie the other way round than in ``recurrent.py``: the delta net's is (head, v, k) and multiplied
from the right, the SSM's is (n, head and p) with all heads side by side. Memory stays bounded because what does
not depend on the matrix is prepared for some hundred tokens at a time; the scan itself never starts again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cachesim.model import function_tables
from cachesim.model.grid import DELTA_UNIT, KEY_UNIT, READ_UNIT, SSM_UNIT, UNIT, Values, project
from cachesim.model.norms import head_norm, unit, wide_norm
from cachesim.model.weights import BETA_BIAS, HEAD, HEADS, WIDE, ConvWeights, D, RecurrentWeights

_PREPARED = 128               # tokens whose matrices are prepared together


@dataclass(slots=True)
class WholeScan:
    """What a recurrent layer made of a sequence of n tokens."""

    y: Values                 # (n, width) before the output projection
    inputs: Values            # (n, channels) of the short convolution
    taps: int
    h: dict[int, Values]      # mark -> (4, 16, 16) after that many tokens; none for C


def delta_net(u: Values, weights: RecurrentWeights, marks: list[int]) -> WholeScan:
    """G over the whole sequence."""
    inputs, z, b, gate = np.split(project(u, weights.into), (3 * WIDE, 4 * WIDE, 4 * WIDE + HEADS), axis=1)
    q, k, v = (part.reshape(-1, HEADS, HEAD) for part in np.split(_silu(_conv(inputs, weights.taps)), 3, axis=1))
    q, k = unit(q), unit(k)
    biased = b + np.array(BETA_BIAS) / UNIT
    beta = function_tables.lookup(function_tables.SIGMOID, biased, function_tables.SIGMOID_STEP)    # (n, 4)
    a = _by_head(weights.decay, gate)                                                               # (n, 4)
    read, kept = np.empty_like(v), {}
    h = np.zeros((HEADS, HEAD, HEAD))                                                               # (4, v, k)
    for start in range(0, len(u), _PREPARED):
        part = slice(start, start + _PREPARED)
        turn, history = _delta_matrices(k[part], v[part], a[part], beta[part])
        for i, write in enumerate(history):
            write += h @ turn[i]
            h = np.rint(write, out=write)
            if start + i + 1 in marks:
                kept[start + i + 1] = h.transpose(0, 2, 1).copy()
        read[part] = (history @ q[part][..., None])[..., 0] * KEY_UNIT
    y = np.rint(head_norm(read, weights.norm).reshape(-1, WIDE) * _silu(z))
    return WholeScan(y, inputs, len(weights.taps), _with_start(kept, marks))


def _delta_matrices(k: Values, v: Values, a: Values, beta: Values) -> tuple[Values, Values]:
    """(t, 4, 16, 16) each: a (1 - b k k^T), which is its own transpose, and v (b k)^T."""
    bk = beta[..., None] * k
    erase = (bk * (a * KEY_UNIT)[..., None])[..., None] * k[..., None, :]
    np.rint(erase, out=erase)
    keep = np.rint(a / KEY_UNIT)[..., None, None] * np.eye(HEAD)
    np.subtract(keep, erase, out=keep)
    keep *= KEY_UNIT
    write = (bk * (KEY_UNIT * UNIT / DELTA_UNIT))[..., None, :] * v[..., None]
    return keep, np.rint(write, out=write)


def ssm(u: Values, weights: RecurrentWeights, marks: list[int]) -> WholeScan:
    """S over the whole sequence."""
    channels = weights.taps.shape[1]
    inputs, z, gate = np.split(project(u, weights.into), (channels, channels + WIDE), axis=1)
    x, b, c = np.split(_silu(_conv(inputs, weights.taps)), (WIDE, WIDE + HEAD), axis=1)             # (n, 64), 16, 16
    dt = np.repeat(_by_head(np.tile(function_tables.SOFTPLUS, HEADS), gate), HEAD, axis=1)                   # (n, 64)
    a = np.repeat(_by_head(weights.decay, gate), HEAD, axis=1)                                      # (n, 64)
    dx = dt * (UNIT**2 / SSM_UNIT) * x
    c_read = np.rint(c * (UNIT / READ_UNIT))
    read, kept = np.empty_like(x), {}
    h = np.zeros((HEAD, WIDE))                                                                      # (n of B, 64)
    for start in range(0, len(u), _PREPARED):
        part = slice(start, start + _PREPARED)
        history = b[part, :, None] * dx[part, None, :]                                              # (t, 16, 64)
        np.rint(history, out=history)
        for i, write in enumerate(history):
            write += a[start + i] * h
            h = np.rint(write, out=write)
            if start + i + 1 in marks:
                kept[start + i + 1] = h.reshape(HEAD, HEADS, HEAD).transpose(1, 2, 0).copy()
        read[part] = (c_read[part, None, :] @ history)[:, 0]
    read *= SSM_UNIT * READ_UNIT / UNIT
    y = (read + np.repeat(weights.skip, HEAD, axis=0)[:, 0] * x) * (_silu(z) * UNIT)
    return WholeScan(wide_norm(y, weights.norm), inputs, len(weights.taps), _with_start(kept, marks))


def short_conv(u: Values, weights: ConvWeights) -> WholeScan:
    """C over the whole sequence."""
    b, c, x = np.split(project(u, weights.into), (D, 2 * D), axis=1)
    inputs = np.rint(b * x * UNIT)
    return WholeScan(np.rint(c * _conv(inputs, weights.taps) * UNIT), inputs, len(weights.taps), {})


def _conv(x: Values, taps: Values) -> Values:
    """(n, channels) each channel's weighted sum of its last inputs, zeros before the first."""
    total = np.zeros_like(x)
    for back in reversed(range(len(taps))):
        total[back:] += x[: len(x) - back] * taps[back]
    return np.rint(total)


def _silu(x: Values) -> Values:
    return np.rint(x * function_tables.lookup(function_tables.SIGMOID, x, function_tables.SIGMOID_STEP))


def _by_head(table: Values, gate: Values) -> Values:
    """(n, 4) each head's gate looked up in its own table."""
    by_head = table.reshape(HEADS, -1)
    place = np.floor(gate * (UNIT / function_tables.GATE_STEP) + 0.5).astype(np.int64) + by_head.shape[1] // 2
    return by_head[np.arange(HEADS), place]


def _with_start(kept: dict[int, Values], marks: list[int]) -> dict[int, Values]:
    return kept | ({0: np.zeros((HEADS, HEAD, HEAD))} if 0 in marks else {})
