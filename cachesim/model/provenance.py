"""Which tokens went into this value? Provenance in step form: one run of tokens upon what the memory holds.

Per layer, with the layer's real reach and no loop over tokens (all modulo 2**64, k = taps of the convolution):
  A, W, H   row_j = mix(x_j ^ key) * (2*pos_j + 1), and the sum of row_j over the visible keys
  G, S, H   c_i = x_i + T1*x_{i-1} + ... over the last k inputs, h_i = B*h_{i-1} + mix(c_i), and h_i
  C         T1*x_{i-1} + T2*x_{i-2}, and nothing older
  all       x'_i = mix(x_i * own + out + what the layer read)
Sums do not depend on the order of cells; a missing, foreign or duplicate row changes them.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from cachesim.model.attention_mask import View
from cachesim.model.grid import Digests, Positions
from cachesim.model.hash_mixing import MASK, STEP, TAPS, LayerKeys, inverse, mix, mix_int, place, places, powers
from cachesim.model.spec import Layer
from cachesim.model.store import LayerState


class Trail(Protocol):
    """The digests of one run on their way through the layers; in each layer ``leave`` comes last."""

    @property
    def digest(self) -> Digests:
        """(t,) between two layers."""
        ...

    def rows(self, keys: LayerKeys) -> Digests:
        """(t,) of the K/V rows that the tokens write."""
        ...

    def attend(self, rows: Digests, view: View, window: int) -> None:
        """Read those of the rows that each token sees."""
        ...

    def recur(self, layer: Layer, state: LayerState | None) -> tuple[Digests, int]:
        """Read the recurrent state; returns ``conv`` and ``hash`` of the state after the run."""
        ...

    def leave(self, keys: LayerKeys) -> None:
        """Mix what was read into the digests."""
        ...


class RunTrail:
    """A run of any length."""

    def __init__(self, digest: Digests, pos0: int) -> None:
        self.digest = digest                                                # (t,)
        self.placed = places(pos0, len(digest))                             # (t,)
        self.read: Digests | None = None                                    # (t,) in this layer, None = nothing so far

    def rows(self, keys: LayerKeys) -> Digests:
        rows = mix(self.digest ^ keys.row)
        rows *= self.placed
        return rows

    def attend(self, rows: Digests, view: View, window: int) -> None:
        self._add(view.visible_sum(rows, window))

    def recur(self, layer: Layer, state: LayerState | None) -> tuple[Digests, int]:
        k = layer.taps
        past = np.zeros(k - 1, np.uint64) if state is None else state.conv
        inputs = np.concatenate((past, self.digest))                        # (k-1 + t,)
        older = _older_inputs(inputs, k)
        conv = inputs[len(inputs) - k + 1 :].copy()
        conv.flags.writeable = False
        if layer.kind == "C":
            self._add(older)
            return conv, 0
        older += self.digest
        hashes = _rolling_hash(older, 0 if state is None else int(state.hash))
        last = int(hashes[-1])
        self._add(hashes)
        return conv, last

    def _add(self, what: Digests) -> None:
        """What was read, which nobody else holds."""
        if self.read is not None:
            what += self.read
        self.read = what

    def leave(self, keys: LayerKeys) -> None:
        y = self.digest * keys.own
        y += keys.out
        if self.read is not None:
            y += self.read
        self.digest, self.read = mix(y), None


def moved(digest: Digests, old_pos: Positions, new_pos: Positions) -> Digests:
    """(n,) digests of rows whose K was rotated from the old to the new positions."""
    return digest * inverse(place(np.asarray(old_pos))) * place(np.asarray(new_pos))


def _older_inputs(inputs: Digests, k: int) -> Digests:
    """(t,) the weighted sum of the inputs 1 .. k-1 tokens back."""
    n = len(inputs)
    total = inputs[k - 2 : n - 1] * TAPS[0]
    for back in range(2, k):
        total += inputs[k - 1 - back : n - back] * TAPS[back - 1]
    return total


def _rolling_hash(c: Digests, before: int) -> Digests:
    """(t,) after each token: h_i = B**(i+1) * (h + sum of B**-(j+1) * mix(c_j) for j <= i)."""
    h = mix(c)
    up, down = powers(len(h))
    h *= down
    np.add.accumulate(h, out=h)
    h += np.uint64(before)
    h *= up
    return h


# The digests of a run of a few tokens, in Python integers: a quick copy of ``RunTrail``.
#
# One numpy call costs more than the work for one token, and most runs of a long trace have one to four. A property
# compares the two. The oracle never comes here.

FEW = 9                       # tokens from which on arrays are quicker
_STEP = int(STEP)
_TAPS = tuple(int(tap) for tap in TAPS)


class ShortTrail:
    """A few tokens at consecutive positions."""

    def __init__(self, digest: Digests, pos0: int) -> None:
        self.x: list[int] = digest.tolist()                                 # t
        self.placed = range(2 * pos0 + 1, 2 * (pos0 + len(self.x)), 2)      # t
        self.read = [0] * len(self.x)                                       # t

    @property
    def digest(self) -> Digests:
        """(t,) between two layers."""
        return np.array(self.x, np.uint64)

    def rows(self, keys: LayerKeys) -> Digests:
        key = keys.ints[0]
        return np.array([mix_int(x ^ key) * odd & MASK for x, odd in zip(self.x, self.placed, strict=True)], np.uint64)

    def attend(self, rows: Digests, view: View, window: int) -> None:
        read = self.read
        if view.tail and not window:                        # all rows before the run, and its own up to the token
            first = view.n - len(read)
            total = int(np.add.reduce(rows[:first])) if first else 0
            for i, own in enumerate(rows[first:].tolist()):
                total += own
                read[i] += total
            return
        seen = view.visible(window)
        for i, (lo, hi) in enumerate(zip(seen.lo.tolist(), seen.hi.tolist(), strict=True)):
            read[i] += int(np.add.reduce(rows[lo:hi]))

    def recur(self, layer: Layer, state: LayerState | None) -> tuple[Digests, int]:
        past, after = ([0] * (layer.taps - 1), 0) if state is None else (state.conv.tolist(), int(state.hash))
        if layer.kind == "C":
            b, c = past                                                     # the inputs before, c the last one
            for i, x in enumerate(self.x):
                self.read[i] += c * _TAPS[0] + b * _TAPS[1]
                b, c = c, x
            return _frozen(b, c), 0
        a, b, c = past
        for i, x in enumerate(self.x):
            after = after * _STEP + mix_int(x + c * _TAPS[0] + b * _TAPS[1] + a * _TAPS[2]) & MASK
            self.read[i] += after
            a, b, c = b, c, x
        return _frozen(a, b, c), after

    def leave(self, keys: LayerKeys) -> None:
        _, own, out = keys.ints
        self.x = [mix_int(x * own + out + read) for x, read in zip(self.x, self.read, strict=True)]
        self.read = [0] * len(self.x)


def _frozen(*inputs: int) -> Digests:
    conv = np.array(inputs, np.uint64)
    conv.flags.writeable = False
    return conv
