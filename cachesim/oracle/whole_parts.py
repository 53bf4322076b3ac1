"""Parts of a layer over a whole sequence: attention, and recurrences as scans from zero.

Attention is a causal matrix, head by head, some query rows at a time with all their keys. The recurrent matrices are
stored transposed relative to ``recurrent.py``: that of the delta net is (head, v, k) and multiplied from the right,
that of the SSM is (n, head and p) with all heads side by side. Everything independent of the matrix is prepared for
some hundred tokens at a time, which bounds memory; the scan itself never restarts.
"""

from __future__ import annotations

from typing import Iterator, Mapping, NamedTuple

import numpy as np

from cachesim.model import function_tables, grid
from cachesim.model import weights as drawn
from cachesim.model.grid import Values, project
from cachesim.model.norms import head_norm, unit, wide_norm
from cachesim.model.rope import Rotation, rotate, turns
from cachesim.model.weights import BETA_BIAS, HEAD, HEADS, WIDE, D

_ROWS, _SCORES = 64, 2**18    # rows of a head, and their scores, processed at a time: at most 2 MiB
_SPLIT = 2.0**18              # V is summed as multiples of this number, plus the rest
_PREPARED = 128               # tokens whose matrices are prepared together


class WholeRead(NamedTuple):
    """Output of an attention part for n tokens, and their rows."""

    y: Values                 # (n, 64) before the output projection
    k: Values                 # (n, 2, 16)
    v: Values                 # (n, 2, 16)


class WholeScan(NamedTuple):
    """Output of a recurrent part for n tokens, and the numbers of its states."""

    y: Values                 # (n, width) before the output projection
    inputs: Values            # (n, channels) of the short convolution
    h: Mapping[int, Values]   # mark -> recurrent matrix after that many tokens, including 0; empty for C


def attention(u: Values, weights: drawn.AttentionWeights, turn: Rotation, window: int) -> WholeRead:
    """Evaluate A, W and the attention of H over the whole sequence; ``window`` 0 = none."""
    q, k, v = attention_heads(u, weights.into, turn)
    out = np.empty((len(u), WIDE))
    for head in range(HEADS):
        shared = head * k.shape[1] // HEADS
        out[:, head * HEAD : (head + 1) * HEAD] = _one_head(q[:, head], k[:, shared], v[:, shared], window)
    return WholeRead(out, k, v)


def attention_heads(u: Values, into: Values, turn: Rotation) -> tuple[Values, Values, Values]:
    """Return the queries (n, 4, 16), keys and values (n, 2, 16) of a sequence."""
    columns = np.split(project(u, into), (WIDE, WIDE + (into.shape[1] - WIDE) // 2), axis=1)
    q, k, v = (part.reshape(len(u), part.shape[1] // HEAD, HEAD) for part in columns)
    return rotate(q, turn, grid.UNIT / grid.ROPE_UNIT), rotate(k, turn, grid.UNIT / grid.ROPE_UNIT), v.copy()


def unrotated_attention(u: Values, weights: drawn.AttentionWeights, turn: Rotation, window: int) -> WholeRead:
    """Evaluate N over the whole sequence: every token counts as the first."""
    return attention(u, weights, turns(np.zeros(len(u), np.int64)), window)


def _one_head(q: Values, k: Values, v: Values, window: int) -> Values:
    """Return the output of a head, (n, 16), computed in blocks of rows of the causal matrix."""
    q, turned = q * (grid.ROPE_UNIT**2 / HEAD**0.5 / function_tables.WEIGHT_STEP), k.T.copy()    # (n, 16), (16, n)
    out = np.empty_like(v)
    rest = np.fmod(v, _SPLIT)
    both = np.concatenate(((v - rest) / _SPLIT, rest, np.ones((len(v), 1))), axis=1)        # (n, 33)
    for start, stop in _row_blocks(len(q), window):
        first = max(0, start - window + 1) if window else 0
        scores = q[start:stop] @ turned[:, first:stop]                                      # (rows, keys)
        np.rint(scores, out=scores)
        own = scores[:, start - first :]                                                    # (rows, rows)
        own[~np.tri(stop - start, dtype=bool)] = -np.inf                                    # later than the row
        if window:
            scores[np.tri(stop - start, stop - first, start - first - window, dtype=bool)] = -np.inf
        np.subtract(scores.max(axis=1, keepdims=True), scores, out=scores)
        np.minimum(scores, function_tables.WEIGHT_COUNT - 1, out=scores)
        weights = function_tables.weight_table().take(scores.astype(np.int64))
        sums = weights @ both[first:stop]                     # (rows, 33)
        out[start:stop] = (sums[:, :HEAD] * _SPLIT + sums[:, HEAD : 2 * HEAD]) / sums[:, 2 * HEAD :]
    return np.rint(out, out=out)


def _row_blocks(n: int, window: int) -> Iterator[tuple[int, int]]:
    start = 0
    while start < n:
        keys = min(start, window or n) + _ROWS
        stop = min(n, start + min(_ROWS, max(1, _SCORES // keys)))
        yield start, stop
        start = stop


def delta_net(u: Values, weights: drawn.RecurrentWeights, marks: list[int]) -> WholeScan:
    """Evaluate G over the whole sequence."""
    inputs, z, b, gate = np.split(project(u, weights.into), (3 * WIDE, 4 * WIDE, 4 * WIDE + HEADS), axis=1)
    q, k, v = (part.reshape(-1, HEADS, HEAD) for part in np.split(_silu(_conv(inputs, weights.taps)), 3, axis=1))
    q, k = unit(q), unit(k)
    biased = b + np.array(BETA_BIAS) / grid.UNIT
    beta = function_tables.lookup(function_tables.sigmoid_table(), biased, function_tables.SIGMOID_STEP)    # (n, 4)
    a = _by_head(weights.decay, gate)                                                               # (n, 4)
    read, kept = np.empty_like(v), {0: np.zeros((HEADS, HEAD, HEAD))}
    h = np.zeros((HEADS, HEAD, HEAD))                                                               # (4, v, k)
    for start in range(0, len(u), _PREPARED):
        part = slice(start, start + _PREPARED)
        turn, history = _delta_matrices(k[part], v[part], a[part], beta[part])
        for i, write in enumerate(history):
            write += h @ turn[i]
            h = np.rint(write, out=write)
            if start + i + 1 in marks:
                kept[start + i + 1] = h.transpose(0, 2, 1).copy()
        read[part] = (history @ q[part][..., None])[..., 0] * grid.KEY_UNIT
    y = np.rint(head_norm(read, weights.norm).reshape(-1, WIDE) * _silu(z))
    return WholeScan(y, inputs, kept)


def _delta_matrices(k: Values, v: Values, a: Values, beta: Values) -> tuple[Values, Values]:
    """Return a (1 - b k k^T), which is symmetric, and v (b k)^T, (t, 4, 16, 16) each."""
    bk = beta[..., None] * k
    erase = (bk * (a * grid.KEY_UNIT)[..., None])[..., None] * k[..., None, :]
    np.rint(erase, out=erase)
    keep = np.rint(a / grid.KEY_UNIT)[..., None, None] * np.eye(HEAD)
    np.subtract(keep, erase, out=keep)
    keep *= grid.KEY_UNIT
    write = (bk * (grid.KEY_UNIT * grid.UNIT / grid.DELTA_UNIT))[..., None, :] * v[..., None]
    return keep, np.rint(write, out=write)


def ssm(u: Values, weights: drawn.RecurrentWeights, marks: list[int]) -> WholeScan:
    """Evaluate S over the whole sequence."""
    channels = weights.taps.shape[1]
    inputs, z, gate = np.split(project(u, weights.into), (channels, channels + WIDE), axis=1)
    x, b, c = np.split(_silu(_conv(inputs, weights.taps)), (WIDE, WIDE + HEAD), axis=1)             # (n, 64), 16, 16
    dt = np.repeat(_by_head(np.tile(function_tables.softplus_table(), HEADS), gate), HEAD, axis=1)           # (n, 64)
    a = np.repeat(_by_head(weights.decay, gate), HEAD, axis=1)                                      # (n, 64)
    dx = dt * (grid.UNIT**2 / grid.SSM_UNIT) * x
    c_read = np.rint(c * (grid.UNIT / grid.READ_UNIT))
    read, kept = np.empty_like(x), {0: np.zeros((HEADS, HEAD, HEAD))}
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
    read *= grid.SSM_UNIT * grid.READ_UNIT / grid.UNIT
    y = (read + np.repeat(weights.skip, HEAD, axis=0)[:, 0] * x) * (_silu(z) * grid.UNIT)
    return WholeScan(wide_norm(y, weights.norm), inputs, kept)


def short_conv(u: Values, weights: drawn.ConvWeights, marks: list[int]) -> WholeScan:
    """Evaluate C over the whole sequence. Its inputs are its state."""
    b, c, x = np.split(project(u, weights.into), (D, 2 * D), axis=1)
    inputs = np.rint(b * x * grid.UNIT)
    return WholeScan(np.rint(c * _conv(inputs, weights.taps) * grid.UNIT), inputs, {})


def _conv(x: Values, taps: Values) -> Values:
    """Return each channel's weighted sum of its last inputs, (n, channels), with zeros before the first input."""
    total = np.zeros_like(x)
    for back in reversed(range(len(taps))):
        total[back:] += x[: len(x) - back] * taps[back]
    return np.rint(total)


def _silu(x: Values) -> Values:
    return np.rint(x * function_tables.lookup(function_tables.sigmoid_table(), x, function_tables.SIGMOID_STEP))


def _by_head(table: Values, gate: Values) -> Values:
    """Look up each head's gate in the head's own table, (n, 4)."""
    by_head = table.reshape(HEADS, -1)
    place = np.floor(gate * (grid.UNIT / function_tables.GATE_STEP) + 0.5).astype(np.int64) + by_head.shape[1] // 2
    return by_head[np.arange(HEADS), place]
