"""Which tokens went into this value? Provenance in step form: one run of tokens upon what the memory holds.

Per layer, with the layer's real reach and no loop over tokens (all modulo 2**64, k = taps of the convolution):
  A, W, H   row_j = mix(x_j ^ key) * (2*pos_j + 1), and the sum of row_j over the visible keys
  G, S, H   c_i = x_i + T1*x_{i-1} + ... over the last k inputs, h_i = B*h_{i-1} + mix(c_i), and h_i
  C         T1*x_{i-1} + T2*x_{i-2}, and nothing older
  all       x'_i = mix(x_i * own + out + what the layer read)
Sums do not depend on the order of cells; a missing, foreign or duplicate row changes them.
"""

from __future__ import annotations

import numpy as np

from cachesim.model.mixing import TAPS, LayerKeys, inverse, mix, place, powers
from cachesim.model.store import Digests, LayerState, Positions


def row_digests(x: Digests, placed: Digests, keys: LayerKeys) -> Digests:
    """(t,) digests of the K/V rows that the tokens write; ``placed`` = place(positions)."""
    rows = mix(x ^ keys.row)
    rows *= placed
    return rows


def output(x: Digests, keys: LayerKeys, read: Digests) -> Digests:
    """(t,) digests after the layer, from those before it and the sum of what the layer read."""
    y = x * keys.own
    y += keys.out
    y += read
    return mix(y)


def with_past(x: Digests, state: LayerState | None, taps: int) -> Digests:
    """(taps-1 + t,) the inputs of a short convolution, those kept in the state first."""
    past = np.zeros(taps - 1, np.uint64) if state is None else state.conv
    return np.concatenate((past, x))


def older_inputs(inputs: Digests, taps: int) -> Digests:
    """(t,) the weighted sum of the inputs 1 .. taps-1 tokens back."""
    n = len(inputs)
    total = inputs[taps - 2 : n - 1] * TAPS[0]
    for back in range(2, taps):
        total += inputs[taps - 1 - back : n - back] * TAPS[back - 1]
    return total


def rolling_hash(inputs: Digests, taps: int, before: int) -> Digests:
    """(t,) the hash after each token: h_i = B**(i+1) * (h + sum of B**-(j+1) * mix(c_j) for j <= i)."""
    c = older_inputs(inputs, taps)
    c += inputs[taps - 1 :]
    h = mix(c)
    up, down = powers(len(h))
    h *= down
    np.cumsum(h, out=h)
    h += np.uint64(before)
    h *= up
    return h


def last_inputs(inputs: Digests, taps: int) -> Digests:
    """(taps-1,) what the state keeps of the convolution's inputs; a copy of its own, frozen."""
    kept = inputs[len(inputs) - taps + 1 :].copy()
    kept.flags.writeable = False
    return kept


def moved(digest: Digests, old_pos: Positions, new_pos: Positions) -> Digests:
    """(n,) digests of rows whose K was rotated from the old to the new positions."""
    return digest * inverse(place(old_pos)) * place(new_pos)
