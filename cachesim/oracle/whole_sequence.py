"""A whole sequence in one pass from nothing, for the oracle: its table of the kinds of layers, and the numbers.

The formulas are those of the step forms, evaluated another way and in code of their own; no state, no store, no runs.
Shared are weights, tables, rotation, norms and ``project``. A test compares the table with that of the model.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple

import numpy as np

from cachesim.model import function_tables, grid
from cachesim.model import weights as drawn
from cachesim.model.grid import Digests, Values, add_residual, project
from cachesim.model.norms import head_norm, rms_norm, unit, wide_norm
from cachesim.model.rope import Rotation, rotate, turns
from cachesim.model.spec import Spec
from cachesim.model.weights import BETA_BIAS, HEAD, HEADS, WIDE, D, embed

# The parts of a layer over a whole sequence, for the oracle: attention, and recurrences as scans from zero.
#
# Attention is one causal matrix, head by head, some query rows at a time, all their keys at once. The matrices of the
# recurrences lie the other way round than in ``recurrent.py``: the delta net's is (head, v, k) and multiplied from the
# right, the SSM's is (n, head and p) with all heads side by side. Memory stays bounded because what does not depend on
# the matrix is prepared for some hundred tokens at a time; the scan itself never starts again.

_ROWS, _SCORES = 64, 2**18    # rows of one head, and their scores, worked on at a time: at most 2 MiB
_SPLIT = 2.0**18              # V is summed as multiples of this, and the rest
_PREPARED = 128               # tokens whose matrices are prepared together


class WholeRead(NamedTuple):
    """The output of an attention part for n tokens, and their rows."""

    y: Values                 # (n, 64) before the output projection
    k: Values                 # (n, 2, 16)
    v: Values                 # (n, 2, 16)


class WholeScan(NamedTuple):
    """The output of a recurrent part for n tokens, and the numbers of its states."""

    y: Values                 # (n, width) before the output projection
    inputs: Values            # (n, channels) of the short convolution
    h: Mapping[int, Values]   # mark -> recurrent matrix after that many tokens, 0 included; none for C


def attention(u: Values, weights: drawn.AttentionWeights, turn: Rotation, window: int) -> WholeRead:
    """A, W and the attention of H over the whole sequence; ``window`` 0 = none."""
    columns = np.split(project(u, weights.into), (WIDE, WIDE + (weights.into.shape[1] - WIDE) // 2), axis=1)
    q, k, v = (part.reshape(len(u), part.shape[1] // HEAD, HEAD) for part in columns)
    q, k, v = rotate(q, turn, grid.UNIT / grid.ROPE_UNIT), rotate(k, turn, grid.UNIT / grid.ROPE_UNIT), v.copy()
    out = np.empty((len(u), WIDE))
    for head in range(HEADS):
        shared = head * k.shape[1] // HEADS
        out[:, head * HEAD : (head + 1) * HEAD] = _one_head(q[:, head], k[:, shared], v[:, shared], window)
    return WholeRead(out, k, v)


def _one_head(q: Values, k: Values, v: Values, window: int) -> Values:
    """(n, 16) one row of the causal matrix for each position, ``stop - start`` rows at a time."""
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
        np.minimum(scores, len(function_tables.WEIGHTS) - 1, out=scores)
        sums = function_tables.WEIGHTS.take(scores.astype(np.int64)) @ both[first:stop]                     # (rows, 33)
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
    """G over the whole sequence."""
    inputs, z, b, gate = np.split(project(u, weights.into), (3 * WIDE, 4 * WIDE, 4 * WIDE + HEADS), axis=1)
    q, k, v = (part.reshape(-1, HEADS, HEAD) for part in np.split(_silu(_conv(inputs, weights.taps)), 3, axis=1))
    q, k = unit(q), unit(k)
    biased = b + np.array(BETA_BIAS) / grid.UNIT
    beta = function_tables.lookup(function_tables.SIGMOID, biased, function_tables.SIGMOID_STEP)    # (n, 4)
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
    """(t, 4, 16, 16) each: a (1 - b k k^T), which is its own transpose, and v (b k)^T."""
    bk = beta[..., None] * k
    erase = (bk * (a * grid.KEY_UNIT)[..., None])[..., None] * k[..., None, :]
    np.rint(erase, out=erase)
    keep = np.rint(a / grid.KEY_UNIT)[..., None, None] * np.eye(HEAD)
    np.subtract(keep, erase, out=keep)
    keep *= grid.KEY_UNIT
    write = (bk * (grid.KEY_UNIT * grid.UNIT / grid.DELTA_UNIT))[..., None, :] * v[..., None]
    return keep, np.rint(write, out=write)


def ssm(u: Values, weights: drawn.RecurrentWeights, marks: list[int]) -> WholeScan:
    """S over the whole sequence."""
    channels = weights.taps.shape[1]
    inputs, z, gate = np.split(project(u, weights.into), (channels, channels + WIDE), axis=1)
    x, b, c = np.split(_silu(_conv(inputs, weights.taps)), (WIDE, WIDE + HEAD), axis=1)             # (n, 64), 16, 16
    dt = np.repeat(_by_head(np.tile(function_tables.SOFTPLUS, HEADS), gate), HEAD, axis=1)                   # (n, 64)
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
    """C over the whole sequence. Its inputs are its state."""
    b, c, x = np.split(project(u, weights.into), (D, 2 * D), axis=1)
    inputs = np.rint(b * x * grid.UNIT)
    return WholeScan(np.rint(c * _conv(inputs, weights.taps) * grid.UNIT), inputs, {})


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
    place = np.floor(gate * (grid.UNIT / function_tables.GATE_STEP) + 0.5).astype(np.int64) + by_head.shape[1] // 2
    return by_head[np.arange(HEADS), place]


class WholeKind(NamedTuple):
    """A row of the table: the whole forms of the two parts that a layer may have, and the reach of its state."""

    attention: Callable[[Values, Any, Rotation, int], WholeRead] | None = None
    recurrence: Callable[[Values, Any, list[int]], WholeScan] | None = None
    taps: int = 0             # inputs that the recurrent part reads directly, the token's own included
    rolling: bool = False     # the state depends on all inputs


WHOLE: Mapping[str, WholeKind] = {
    "A": WholeKind(attention),
    "W": WholeKind(attention),
    "G": WholeKind(None, delta_net, 4, True),
    "S": WholeKind(None, ssm, 4, True),
    "C": WholeKind(None, short_conv, 3),
    "H": WholeKind(attention, ssm, 4, True),
}


@dataclass(slots=True)
class WholeNumbers:
    """The numbers of one sequence of n tokens; of recurrent states only those after ``marks`` tokens."""

    x: Values                                                                       # (n, d) after the last layer
    k: dict[int, Values] = field(default_factory=dict)                              # layer -> (n, 2, 16)
    v: dict[int, Values] = field(default_factory=dict)                              # layer -> (n, 2, 16)
    states: dict[tuple[int, int], tuple[Values, Values]] = field(default_factory=dict)      # (layer, mark) -> conv_x, h


def whole_numbers(spec: Spec, weights: drawn.Weights, tokens: Digests, marks: Iterable[int]) -> WholeNumbers:
    """Evaluate the sequence layer by layer; ``tokens`` are the digests that enter the first layer."""
    found = WholeNumbers(embed(tokens, weights))
    turn, wanted = turns(np.arange(len(tokens))), sorted(set(marks))
    for index, (layer, part) in enumerate(zip(spec.layers, weights.layers, strict=True)):
        whole, u = WHOLE[layer.kind], rms_norm(found.x, part.norm)
        if whole.attention:
            read, found.k[index], found.v[index] = whole.attention(u, part.attention, turn, layer.window)
            found.x = add_residual(found.x, project(read, part.attention.out))
        if whole.recurrence:
            scan = whole.recurrence(u, part.recurrence, wanted)
            found.x = add_residual(found.x, project(scan.y, part.recurrence.out))
            for mark in wanted:
                found.states[index, mark] = _state(scan, whole.taps - 1, mark)
    return found


def _state(scan: WholeScan, back: int, mark: int) -> tuple[Values, Values]:
    """``conv_x`` and ``h`` after ``mark`` tokens."""
    conv_x, last = np.zeros((back, scan.inputs.shape[1])), scan.inputs[max(0, mark - back) : mark]
    conv_x[back - len(last) :] = last
    return conv_x, scan.h.get(mark, np.zeros((0, 0, 0)))
