"""Provenance of a whole sequence in a single pass, for the oracle.

The formulas are those of ``provenance.py``, but the evaluation differs and only ``hash_mixing.py`` is shared: positions
are indices, and there is neither memory, past nor run. Attention is a difference of two prefix sums. The rolling hash
is a scan by doubling (after round s every element holds its last 2**s terms).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Sequence

import numpy as np

from cachesim.model.grid import Digests, frozen
from cachesim.model.hash_mixing import MASK, STEP, TAPS, layer_keys, mix, token_digests
from cachesim.model.spec import Layer, Spec
from cachesim.model.store import index_of
from cachesim.oracle.whole_sequence import WHOLE


@dataclass(slots=True)
class WholeDigests:
    """Provenance of every layer at every position of a sequence of n tokens."""

    last: Digests                                                   # (n,) after the last layer
    padded: dict[int, Digests] = field(default_factory=dict)        # layer -> (taps-1 + n,) zeros, recurrent inputs
    hashes: dict[int, Digests] = field(default_factory=dict)        # layer -> (n,) its rolling hash; none for C
    rows: dict[int, Digests] = field(default_factory=dict)          # layer -> (n,) its K/V rows


def whole_digests(spec: Spec, seed: int, tokens: Sequence[int]) -> WholeDigests:
    """Evaluate the sequence from its first token to its last, layer by layer."""
    found = WholeDigests(token_digests(tokens, seed))
    for index, layer in enumerate(spec.layers):
        found.last = _layer(found, index, layer, seed)
    return found


def _layer(found: WholeDigests, index: int, layer: Layer, seed: int) -> Digests:
    keys = layer_keys(seed, index)
    x, whole = found.last, WHOLE[layer.kind]
    read = np.zeros(len(x), np.uint64)
    odd = np.arange(1, 2 * len(x), 2).astype(np.uint64)                             # (n,) 2*pos + 1
    if whole.attention or whole.chosen:
        rows = found.rows[index] = mix(x ^ keys.row) * odd
        read = read + _visible_sums(rows, layer.reach)
    if whole.digests:
        second = layer_keys(seed, index_of(index))
        beside = whole.digests(mix(x ^ second.row) * odd, x, layer, second.row)
        found.rows[index_of(index)], read = beside.second, read + beside.read
        if beside.ring:
            found.padded[index] = frozen(np.concatenate((np.zeros(beside.ring, np.uint64), x)))
    if whole.recurrence:
        padded = found.padded[index] = frozen(np.concatenate((np.zeros(whole.taps - 1, np.uint64), x)))
        older = _older(padded, whole.taps)
        if whole.rolling:
            older = found.hashes[index] = _scan(mix(x + older))
        read = read + older
    return mix(x * keys.own + keys.out + read)


def _visible_sums(rows: Digests, window: int) -> Digests:
    """Return for each i the sum of the rows max(0, i-window+1) .. i, (n,); from row 0 on without a window, from the
    start of its chunk of -window rows with a window below 0."""
    total = np.cumsum(rows)
    if window < 0:
        starts = np.arange(len(rows)) // -window * -window
        return total - np.concatenate(([np.uint64(0)], total))[starts]
    return total - _shifted(total, window) if window else total


def _older(padded: Digests, taps: int) -> Digests:
    """Return the part that the convolution adds to each input, (n,): the inputs 1 .. taps-1 tokens back. ``padded``:
    zeros before the first input, then the inputs."""
    n = len(padded) - taps + 1
    return sum((padded[taps - 1 - back :][:n] * TAPS[back - 1] for back in range(1, taps)), np.zeros(n, np.uint64))


def _shifted(x: Digests, back: int) -> Digests:
    """Return the element ``back`` places earlier, (n,), 0 before the start."""
    out = np.zeros(len(x), np.uint64)
    if back < len(x):
        out[back:] = x[: len(x) - back]
    return out


def _scan(terms: Digests) -> Digests:
    """Return h_i = STEP*h_{i-1} + terms_i from h = 0, (n,), by doubling."""
    h = terms.copy()
    factor = STEP
    reach = 1
    while reach < len(h):
        h[reach:] += h[: len(h) - reach] * factor           # the product is complete before the addition
        factor = np.uint64(int(factor) ** 2 & MASK)
        reach *= 2
    return h

