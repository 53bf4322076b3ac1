"""How does a recurrent layer go on from a state? Delta net, SSM and short convolution in step form.

A step takes the normed input of some tokens and the state before them, and returns what the layer reads and
the numbers of the state after them; it writes into neither. All that does not depend on the recurrent matrix
is computed for a block of tokens at once; the matrix goes token by token, so chunking cannot change it.
Sources: Yang et al. 2024 (gated delta net), Dao and Gu 2024 (Mamba-2), LFM2 (llama.cpp src/models/lfm2.cpp).
Letters: t tokens, q k v queries, keys, values, z output gate, a decay, h recurrent matrix, 4 heads of 16.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cachesim.errors import Crash
from cachesim.model import function_tables, grid
from cachesim.model.arrays import Values
from cachesim.model.grid import frozen, project
from cachesim.model.norms import head_norm, unit, wide_norm
from cachesim.model.store import LayerState
from cachesim.model.weights import BETA_BIAS, HEAD, HEADS, WIDE, ConvWeights, D, LayerWeights, RecurrentWeights

_BLOCK = 64                   # tokens prepared at a time: their matrices stay within the processor's cache
_HEAD_STARTS = np.arange(HEADS) * len(function_tables.SOFTPLUS)
_NO_MATRIX: Values = frozen(np.zeros((0, 0, 0)))
_BETA_BIAS = np.array(BETA_BIAS) / grid.UNIT
_INTO_DELTA = grid.KEY_UNIT * grid.UNIT / grid.DELTA_UNIT                   # units of k times units of v
_INTO_SSM = grid.UNIT**2 / grid.SSM_UNIT                                    # units of x times units of B
_ONE = 1.0 / grid.KEY_UNIT


class Step(NamedTuple):
    """What a run made of a recurrent layer."""

    y: Values                 # (t, width) before the output projection
    conv_x: Values            # (taps-1, channels)
    h: Values                 # (4, 16, 16); empty in a C layer


def recur(u: Values, weights: LayerWeights, state: LayerState | None) -> tuple[Step, Values]:
    """The recurrent part of a layer, whichever it has, and the weights of the projection that follows."""
    part = weights.delta or weights.ssm or weights.conv
    if part is None:
        raise Crash("this layer is not recurrent")
    if state is None or state.conv_x is None or state.h is None:
        conv_x, h = np.zeros((len(part.taps) - 1, part.taps.shape[1])), np.zeros((HEADS, HEAD, HEAD))
    else:
        conv_x, h = state.conv_x, state.h
    y = []
    for start in range(0, len(u), _BLOCK):
        step = _step(u[start : start + _BLOCK], weights, conv_x, h)
        conv_x, h = step.conv_x, step.h
        y.append(step.y)
    return Step(y[0] if len(y) == 1 else np.concatenate(y), frozen(conv_x.copy()), frozen(h.copy())), part.out


def _step(u: Values, weights: LayerWeights, conv_x: Values, h: Values) -> Step:
    if weights.delta is not None:
        return delta_net(u, weights.delta, conv_x, h)
    if weights.ssm is not None:
        return ssm(u, weights.ssm, conv_x, h)
    assert weights.conv is not None
    return short_conv(u, weights.conv, conv_x)


def delta_net(u: Values, weights: RecurrentWeights, conv_x: Values, h: Values) -> Step:
    """G: h = a (h - b k (k.h)) + b k v, y = rms(q.h) * silu(z)."""
    p = project(u, weights.into)                                            # (t, 264): qkv 192, z 64, b 4, a 4
    inputs = np.concatenate((conv_x, p[:, : 3 * WIDE]))
    p[:, : 3 * WIDE] = _convolve(inputs, weights.taps)
    p[:, 4 * WIDE : 4 * WIDE + HEADS] += _BETA_BIAS
    gates = function_tables.lookup(function_tables.SIGMOID, p[:, : 4 * WIDE + HEADS], function_tables.SIGMOID_STEP)
    act = np.rint(p[:, : 4 * WIDE] * gates[:, : 4 * WIDE])                  # (t, 256) after SiLU
    qk = unit(act[:, : 2 * WIDE].reshape(-1, 2, HEADS, HEAD))              # (t, 2, 4, 16)
    v = act[:, 2 * WIDE : 3 * WIDE].reshape(-1, HEADS, HEAD)
    a = weights.decay.take(_gate_index(p[:, 4 * WIDE + HEADS :]) + _HEAD_STARTS)    # (t, 4)
    bk = gates[:, 4 * WIDE :, None] * qk[:, 1]                              # (t, 4, 16)
    o, h = _delta_scan(qk[:, 0], qk[:, 1], v, a, bk, h)
    y = head_norm(o, weights.norm).reshape(-1, WIDE)
    return Step(np.rint(y * act[:, 3 * WIDE :]), _last(inputs, weights.taps), h)


def ssm(u: Values, weights: RecurrentWeights, conv_x: Values, h: Values) -> Step:
    """S: h = a h + dt x B, y = rms((h.C + D x) * silu(z))."""
    p = project(u, weights.into)                                            # (t, 164): xBC 96, z 64, dt 4
    channels = weights.taps.shape[1]
    inputs = np.concatenate((conv_x, p[:, :channels]))
    p[:, :channels] = _convolve(inputs, weights.taps)
    p_act = p[:, : channels + WIDE]
    act = np.rint(p_act * function_tables.lookup(function_tables.SIGMOID, p_act, function_tables.SIGMOID_STEP))
    x = act[:, :WIDE].reshape(-1, HEADS, HEAD)                              # (t, 4, 16)
    b, c, z = act[:, WIDE : WIDE + HEAD], act[:, WIDE + HEAD : channels], act[:, channels:]
    place = _gate_index(p[:, channels + WIDE :])
    dx = (function_tables.SOFTPLUS[place] * _INTO_SSM)[..., None] * x                # (t, 4, 16)
    read, h = _ssm_scan(dx, b, c, weights.decay[place + _HEAD_STARTS], h)
    y = (read + weights.skip * x).reshape(-1, WIDE) * (z * grid.UNIT)
    return Step(wide_norm(y, weights.norm), _last(inputs, weights.taps), h)


def short_conv(u: Values, weights: ConvWeights, conv_x: Values) -> Step:
    """C: y = C * conv(B * x)."""
    p = project(u, weights.into)                                            # (t, 96): B, C, x
    bx = np.rint(p[:, :D] * p[:, 2 * D :] * grid.UNIT)
    inputs = np.concatenate((conv_x, bx))
    y = p[:, D : 2 * D] * _convolve(inputs, weights.taps)
    return Step(np.rint(y * grid.UNIT), _last(inputs, weights.taps), _NO_MATRIX)


def _delta_scan(q: Values, k: Values, v: Values, a: Values, bk: Values, h: Values) -> tuple[Values, Values]:
    """(t, 4, 16) what the queries read, in DELTA_UNIT, and the matrix at the end."""
    left = bk * (a * -grid.KEY_UNIT)[..., None]                             # (t, 4, 16)
    turn = left[..., None] * k[:, :, None, :]                               # (t, 4, 16, 16) - a b k k
    np.rint(turn, out=turn)
    turn.reshape(-1, HEADS, HEAD * HEAD)[:, :, :: HEAD + 1] += np.rint(a * _ONE)[..., None]
    turn *= grid.KEY_UNIT
    new = (bk * _INTO_DELTA)[..., None] * v[:, :, None, :]                  # (t, 4, 16, 16) b k v
    np.rint(new, out=new)
    moved = np.empty_like(h)
    for step, into in zip(turn, new, strict=True):
        np.matmul(step, h, out=moved)
        into += moved
        h = np.rint(into, out=into)
    return (q[:, :, None, :] @ new)[:, :, 0] * grid.KEY_UNIT, h


def _ssm_scan(dx: Values, b: Values, c: Values, a: Values, h: Values) -> tuple[Values, Values]:
    """(t, 4, 16) what C reads, in units of the grid, and the matrix (4 heads, 16 of x, 16 of B) at the end."""
    new = dx[..., None] * b[:, None, None, :]                               # (t, 4, 16, 16) dt x B
    np.rint(new, out=new)
    kept = np.empty_like(h)
    for keep, into in zip(a[:, :, None, None], new, strict=True):
        np.multiply(keep, h, out=kept)
        into += kept
        h = np.rint(into, out=into)
    read = new @ np.rint(c * (grid.UNIT / grid.READ_UNIT))[:, None, :, None]
    return read[..., 0] * (grid.SSM_UNIT * grid.READ_UNIT / grid.UNIT), h


def _convolve(inputs: Values, taps: Values) -> Values:
    """(t, channels) each channel's weighted sum of its last inputs."""
    n, k = len(inputs), len(taps)
    if n == k:                                                              # one token: the same sum in one call
        return np.rint(np.add.reduce(inputs * taps[::-1], axis=0, keepdims=True))
    y: Values = inputs[k - 1 :] * taps[0]
    for back in range(1, k):
        y += inputs[k - 1 - back : n - back] * taps[back]
    np.rint(y, out=y)
    return y


def _last(inputs: Values, taps: Values) -> Values:
    return inputs[len(inputs) - len(taps) + 1 :]


def _gate_index(gate: Values) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """(t, 4) the place of each gate in a table like SOFTPLUS."""
    middle = len(function_tables.SOFTPLUS) // 2
    return (gate * (grid.UNIT / function_tables.GATE_STEP) + (middle + 0.5)).astype(np.int64)
