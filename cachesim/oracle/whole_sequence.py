"""What are the numbers of a whole sequence? One pass from nothing, for the oracle; no state, no store, no runs.

The formulas are those of ``attention.py`` and ``recurrent.py``, evaluated another way and in code of its own:
attention as one causal matrix (some query rows at a time, all their keys at once, head by head), convolutions
as shifts of the whole sequence, recurrences as one scan from zero with the matrix lying the other way round.
Shared are weights, tables, rotation, norms and ``project``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Iterable, Iterator

import numpy as np

from cachesim.model.function_tables import WEIGHT_STEP, WEIGHTS
from cachesim.model.grid import ROPE_UNIT, UNIT, Digests, Values, add_residual, project
from cachesim.model.norms import rms_norm
from cachesim.model.rope import Rotation, rotate, turns
from cachesim.model.spec import Layer, Spec
from cachesim.model.weights import HEAD, HEADS, KV_HEADS, WIDE, AttentionWeights, LayerWeights, Weights, embed
from cachesim.oracle import whole_recurrence

_ROWS, _SCORES = 64, 2**18    # rows of one head, and their scores, worked on at a time: at most 2 MiB
_SPLIT = 2.0**18              # V is summed as multiples of this, and the rest


@dataclass(slots=True)
class WholeNumbers:
    """The numbers of one sequence of n tokens; of recurrent states only those after ``marks`` tokens."""

    x: Values                                                                       # (n, d) after the last layer
    k: dict[int, Values] = field(default_factory=dict)                              # layer -> (n, 2, 16)
    v: dict[int, Values] = field(default_factory=dict)                              # layer -> (n, 2, 16)
    conv_x: dict[tuple[int, int], Values] = field(default_factory=dict)             # (layer, mark) -> (taps-1, c)
    h: dict[tuple[int, int], Values] = field(default_factory=dict)                  # (layer, mark) -> (4, 16, 16)


def whole_numbers(spec: Spec, weights: Weights, tokens: Digests, marks: Iterable[int]) -> WholeNumbers:
    """Evaluate the sequence layer by layer; ``tokens`` are the digests that enter the first layer."""
    found = WholeNumbers(embed(tokens, weights))
    turn, wanted = turns(np.arange(len(tokens))), sorted(set(marks))
    for index, (layer, part) in enumerate(zip(spec.layers, weights.layers, strict=True)):
        u = rms_norm(found.x, part.norm)
        if part.attention is not None:
            read = _attention(found, index, layer, u, part.attention, turn)
            found.x = add_residual(found.x, project(read, part.attention.out))
        if layer.taps:
            found.x = add_residual(found.x, _recurrence(found, index, u, part, wanted))
    return found


def _attention(
    found: WholeNumbers, index: int, layer: Layer, u: Values, weights: AttentionWeights, turn: Rotation
) -> Values:
    """(n, 64) what every position reads."""
    n, key_columns = len(u), KV_HEADS * HEAD
    y = project(u, weights.into)                                                    # (n, 128)
    q = rotate(y[:, :WIDE].reshape(n, HEADS, HEAD), turn, UNIT / ROPE_UNIT)
    k = rotate(y[:, WIDE : WIDE + key_columns].reshape(n, KV_HEADS, HEAD), turn, UNIT / ROPE_UNIT)
    v = y[:, WIDE + key_columns :].reshape(n, KV_HEADS, HEAD).copy()
    found.k[index], found.v[index] = k, v
    out = np.empty((n, WIDE))
    for head in range(HEADS):
        shared = head * KV_HEADS // HEADS
        out[:, head * HEAD : (head + 1) * HEAD] = _one_head(q[:, head], k[:, shared], v[:, shared], layer.window)
    return out


def _one_head(q: Values, k: Values, v: Values, window: int) -> Values:
    """(n, 16) one row of the causal matrix for each position, ``stop - start`` rows at a time."""
    q, turned = q * (ROPE_UNIT**2 / HEAD**0.5 / WEIGHT_STEP), k.T.copy()                    # (n, 16), (16, n)
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
        np.minimum(scores, len(WEIGHTS) - 1, out=scores)
        sums = WEIGHTS.take(scores.astype(np.int64)) @ both[first:stop]                     # (rows, 33)
        out[start:stop] = (sums[:, :HEAD] * _SPLIT + sums[:, HEAD : 2 * HEAD]) / sums[:, 2 * HEAD :]
    return np.rint(out, out=out)


def _row_blocks(n: int, window: int) -> Iterator[tuple[int, int]]:
    start = 0
    while start < n:
        keys = min(start, window or n) + _ROWS
        stop = min(n, start + min(_ROWS, max(1, _SCORES // keys)))
        yield start, stop
        start = stop


def _recurrence(found: WholeNumbers, index: int, u: Values, weights: LayerWeights, marks: list[int]) -> Values:
    """(n, d) what the recurrent part of a layer adds; keeps its states at the marks."""
    if weights.delta is not None:
        whole, out = whole_recurrence.delta_net(u, weights.delta, marks), weights.delta.out
    elif weights.ssm is not None:
        whole, out = whole_recurrence.ssm(u, weights.ssm, marks), weights.ssm.out
    else:
        assert weights.conv is not None
        whole, out = whole_recurrence.short_conv(u, weights.conv), weights.conv.out
    back = whole.taps - 1
    for mark in marks:
        kept = found.conv_x[index, mark] = np.zeros((back, whole.inputs.shape[1]))
        if mark:
            last = whole.inputs[max(0, mark - back) : mark]
            kept[back - len(last) :] = last
        found.h[index, mark] = whole.h.get(mark, np.zeros((0, 0, 0)))
    return project(whole.y, out)
