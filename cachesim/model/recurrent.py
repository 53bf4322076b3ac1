"""How does a recurrent layer go on from a state? Delta net, SSM and short convolution in step form.

Each function takes the normed input of a run and the state before it, and returns what the layer reads and
the numbers of the state after it; it writes into neither. All that does not depend on the recurrent matrix is
computed for a block of tokens at once; the matrix itself goes token by token, so chunking cannot change it.
Sources: Yang et al. 2024 (gated delta net), Dao and Gu 2024 (Mamba-2), LFM2 (llama.cpp src/models/lfm2.cpp).
Letters: t tokens, q k v queries, keys, values, z output gate, a decay, h recurrent matrix, 4 heads of 16.
"""

from __future__ import annotations

from typing import Iterator, NamedTuple

import numpy as np

from cachesim.errors import Crash
from cachesim.model import grid, tables
from cachesim.model.grid import frozen, project
from cachesim.model.store import LayerState, Values
from cachesim.model.weights import BETA_BIAS, HEAD, HEADS, WIDE, ConvWeights, D, LayerWeights, RecurrentWeights

_BLOCK = 64                   # tokens prepared at a time: their matrices stay within the processor's cache
_HEAD_STARTS = np.arange(HEADS) * len(tables.SOFTPLUS)


class Step(NamedTuple):
    """What a run made of a recurrent layer."""

    y: Values                 # (t, width) before the output projection
    conv_x: Values            # (taps-1, channels)
    h: Values | None          # (4, 16, 16)


def recur(u: Values, weights: LayerWeights, state: LayerState | None) -> tuple[Step, Values]:
    """The recurrent part of a layer, whichever it has, and the projection that follows."""
    if weights.delta is not None:
        return delta_net(u, weights.delta, state), weights.delta.out
    if weights.ssm is not None:
        return ssm(u, weights.ssm, state), weights.ssm.out
    if weights.conv is not None:
        return short_conv(u, weights.conv, state), weights.conv.out
    raise Crash("this layer is not recurrent")


def delta_net(u: Values, weights: RecurrentWeights, state: LayerState | None) -> Step:
    """G: h = a (h - b k (k.h)) + b k v, y = rms(q.h) * silu(z)."""
    p = project(u, weights.into)                                            # (t, 264): qkv 192, z 64, b 4, a 4
    inputs = _with_past(p[:, : 3 * WIDE], state, len(weights.taps))
    p[:, : 3 * WIDE] = _convolve(inputs, weights.taps)
    p[:, 4 * WIDE : 4 * WIDE + HEADS] += _BETA_BIAS
    gates = tables.lookup(tables.SIGMOID, p[:, : 4 * WIDE + HEADS], tables.SIGMOID_STEP)
    act = np.rint(p[:, : 4 * WIDE] * gates[:, : 4 * WIDE])                  # (t, 256) after SiLU
    qk = _unit(act[:, : 2 * WIDE].reshape(-1, 2, HEADS, HEAD))              # (t, 2, 4, 16)
    v = act[:, 2 * WIDE : 3 * WIDE].reshape(-1, HEADS, HEAD)
    a = weights.decay[_gate_index(p[:, 4 * WIDE + HEADS :]) + _HEAD_STARTS]         # (t, 4)
    bk = gates[:, 4 * WIDE :, None] * qk[:, 1]                              # (t, 4, 16)
    o, h = _delta_scan(qk[:, 0], qk[:, 1], v, a, bk, _matrix(state))
    y = _head_norm(o, weights.norm).reshape(-1, WIDE)
    return Step(np.rint(y * act[:, 3 * WIDE :]), _last(inputs, weights.taps), h)


def ssm(u: Values, weights: RecurrentWeights, state: LayerState | None) -> Step:
    """S: h = a h + dt x B, y = rms((h.C + D x) * silu(z))."""
    p = project(u, weights.into)                                            # (t, 164): xBC 96, z 64, dt 4
    channels = weights.taps.shape[1]
    inputs = _with_past(p[:, :channels], state, len(weights.taps))
    p[:, :channels] = _convolve(inputs, weights.taps)
    p_act = p[:, : channels + WIDE]
    act = np.rint(p_act * tables.lookup(tables.SIGMOID, p_act, tables.SIGMOID_STEP))
    x = act[:, :WIDE].reshape(-1, HEADS, HEAD)                              # (t, 4, 16)
    b, c, z = act[:, WIDE : WIDE + HEAD], act[:, WIDE + HEAD : channels], act[:, channels:]
    place = _gate_index(p[:, channels + WIDE :])
    dx = (tables.SOFTPLUS[place] * _INTO_SSM)[..., None] * x                # (t, 4, 16)
    read, h = _ssm_scan(dx, b, c, weights.decay[place + _HEAD_STARTS], _matrix(state))
    y = (read + weights.skip * x).reshape(-1, WIDE) * (z * grid.UNIT)
    return Step(_wide_norm(y, weights.norm), _last(inputs, weights.taps), h)


def short_conv(u: Values, weights: ConvWeights, state: LayerState | None) -> Step:
    """C: y = C * conv(B * x)."""
    p = project(u, weights.into)                                            # (t, 96): B, C, x
    bx = np.rint(p[:, :D] * p[:, 2 * D :] * grid.UNIT)
    inputs = _with_past(bx, state, len(weights.taps))
    y = p[:, D : 2 * D] * _convolve(inputs, weights.taps)
    return Step(np.rint(y * grid.UNIT), _last(inputs, weights.taps), None)


_BETA_BIAS = np.array(BETA_BIAS) / grid.UNIT
_INTO_DELTA = grid.KEY_UNIT * grid.UNIT / grid.DELTA_UNIT                   # units of k times units of v
_INTO_SSM = grid.UNIT**2 / grid.SSM_UNIT                                    # units of x times units of B
_ONE = 1.0 / grid.KEY_UNIT


def _delta_scan(q: Values, k: Values, v: Values, a: Values, bk: Values, h: Values) -> tuple[Values, Values]:
    """(t, 4, 16) what the queries read, in DELTA_UNIT, and the matrix at the end."""
    out = np.empty((len(q), HEADS, 1, HEAD))
    left = bk * (a * -grid.KEY_UNIT)[..., None]                             # (t, 4, 16)
    write = bk * _INTO_DELTA                                                # (t, 4, 16)
    for part in _blocks(len(q)):
        turn = left[part, :, :, None] * k[part, :, None, :]                 # (t, 4, 16, 16) - a b k k
        np.rint(turn, out=turn)
        turn.reshape(-1, HEADS, HEAD * HEAD)[:, :, :: HEAD + 1] += np.rint(a[part] * _ONE)[..., None]
        turn *= grid.KEY_UNIT
        new = write[part, :, :, None] * v[part, :, None, :]                 # (t, 4, 16, 16) b k v
        np.rint(new, out=new)
        for step, into in zip(turn, new, strict=True):
            into += step @ h
            h = np.rint(into, out=into)
        np.matmul(q[part, :, None, :], new, out=out[part])
    return out[:, :, 0] * grid.KEY_UNIT, frozen(h.copy())


def _ssm_scan(dx: Values, b: Values, c: Values, a: Values, h: Values) -> tuple[Values, Values]:
    """(t, 4, 16) what C reads, in units of the grid, and the matrix (4 heads, 16 of x, 16 of B) at the end."""
    out = np.empty((len(b), HEADS, HEAD, 1))
    c = np.rint(c * (grid.UNIT / grid.READ_UNIT))
    a = a[:, :, None, None]
    for part in _blocks(len(b)):
        new = dx[part, :, :, None] * b[part, None, None, :]                 # (t, 4, 16, 16) dt x B
        np.rint(new, out=new)
        for keep, into in zip(a[part], new, strict=True):
            into += keep * h
            h = np.rint(into, out=into)
        np.matmul(new, c[part, None, :, None], out=out[part])
    return out[..., 0] * (grid.SSM_UNIT * grid.READ_UNIT / grid.UNIT), frozen(h.copy())


def _blocks(t: int) -> Iterator[slice]:
    for start in range(0, t, _BLOCK):
        yield slice(start, start + _BLOCK)


def _matrix(state: LayerState | None) -> Values:
    """(4, 16, 16) the recurrent matrix before the run."""
    return np.zeros((HEADS, HEAD, HEAD)) if state is None or state.h is None else state.h


def _with_past(x: Values, state: LayerState | None, taps: int) -> Values:
    """(taps-1 + t, channels) inputs of a short convolution, those kept in the state first."""
    past = np.zeros((taps - 1, x.shape[1])) if state is None or state.conv_x is None else state.conv_x
    return np.concatenate((past, x))


def _convolve(inputs: Values, taps: Values) -> Values:
    """(t, channels) each channel's weighted sum of its last inputs."""
    n, k = len(inputs), len(taps)
    y = inputs[k - 1 :] * taps[0]
    for back in range(1, k):
        y += inputs[k - 1 - back : n - back] * taps[back]
    return np.rint(y, out=y)


def _last(inputs: Values, taps: Values) -> Values:
    return frozen(inputs[len(inputs) - len(taps) + 1 :].copy())


def _gate_index(gate: Values) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """(t, 4) the place of each gate in a table like SOFTPLUS."""
    return (gate * (grid.UNIT / tables.GATE_STEP) + (len(tables.SOFTPLUS) // 2 + 0.5)).astype(np.int64)


def _unit(x: Values) -> Values:
    """(..., 16) vectors of length 1, in KEY_UNIT."""
    square = np.rint(x * (grid.UNIT * 2.0**18))
    square *= square
    length = np.sqrt(np.add.reduce(square, axis=-1, keepdims=True) * 2.0**-36 + 2.0**-20)
    return np.rint(x * (grid.UNIT / grid.KEY_UNIT) / length)


def _head_norm(o: Values, weight: Values) -> Values:
    """(t, 4, 16) each head's reading divided by its root mean square, as real numbers."""
    grid.saturate(o, 2.0**8 / grid.DELTA_UNIT)
    square = np.rint(o * (grid.DELTA_UNIT * 2.0**16))
    square *= square
    mean = np.add.reduce(square, axis=-1, keepdims=True) * (2.0**-32 / HEAD)
    return o * (grid.DELTA_UNIT / np.sqrt(mean + grid.EPS)) * weight


def _wide_norm(y: Values, weight: Values) -> Values:
    """(t, 64) divided by the root mean square over all heads, rounded to the grid."""
    grid.saturate(y, 2.0**10 / grid.UNIT)
    square = np.rint(y * (grid.UNIT * 2.0**13))
    square *= square
    mean = np.add.reduce(square, axis=-1, keepdims=True) * (2.0**-26 / WIDE)
    return np.rint(y * (1.0 / np.sqrt(mean + grid.EPS)) * weight)
