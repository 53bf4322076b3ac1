"""Provenance in step form: digests of the tokens that a value depends on, for a run of tokens.

Per layer, with the layer's real reach and no loop over tokens (all modulo 2**64, k = taps of the recurrent part):
  K/V rows       row_j = mix(x_j ^ key) * (2*pos_j + 1), and the sum of row_j over the visible keys
  matrix         c_i = x_i + T1*x_{i-1} + ... over the last k inputs, h_i = B*h_{i-1} + mix(c_i), and h_i
  kept inputs    T1*x_{i-1} + ... over the last k inputs, and nothing older
  all            x'_i = mix(x_i * own + out + the sum of the layer's reads)
Sums do not depend on the order of cells; a missing, foreign or duplicate row changes them.
"""

from __future__ import annotations

import numpy as np

from cachesim.model.attention_mask import View
from cachesim.model.grid import Digests, Positions, frozen
from cachesim.model.hash_mixing import MASK, STEP, TAPS, LayerKeys, inverse, mix, mix_int, place, powers
from cachesim.model.layer_kinds import Recurrence
from cachesim.model.store import LayerState


class RunTrail:
    """Digests of a run of any length as they pass through the layers. Call ``leave`` last in each layer."""

    def __init__(self, digest: Digests, pos0: int) -> None:
        self.digest = digest                                                # (t,)
        self.placed = place(np.arange(pos0, pos0 + len(digest)))            # (t,)
        self.reads: list[Digests] = []                                      # (t,) each, in this layer

    def rows(self, keys: LayerKeys) -> Digests:
        """Return the digests of the K/V rows that the tokens write, (t,)."""
        rows = mix(self.digest ^ keys.row)
        rows *= self.placed
        return rows

    def attend(self, rows: Digests, view: View, window: int) -> None:
        """Read the rows that each token sees."""
        self.reads.append(view.visible_sum(rows, window))

    def add(self, sums: Digests) -> None:
        """Read something else, given by the sum of its digests for each token."""
        self.reads.append(sums)

    def recur(self, form: Recurrence, state: LayerState | None) -> tuple[Digests, int]:
        """Read the recurrent state. Return ``conv`` and ``hash`` of the state after the run."""
        k = form.taps
        past = np.zeros(k - 1, np.uint64) if state is None else state.conv
        inputs = np.concatenate((past, self.digest))                        # (k-1 + t,)
        conv = frozen(inputs[len(inputs) - k + 1 :].copy())
        read = inputs[k - 1 :]                                              # (t,)
        for back in range(1, k):
            read = read + inputs[k - 1 - back : len(inputs) - back] * TAPS[back - 1]
        read = _rolling_hash(read, 0 if state is None else int(state.hash)) if form.matrix else read - self.digest
        self.reads.append(read)
        return conv, int(read[-1]) if form.matrix else 0

    def leave(self, keys: LayerKeys) -> None:
        """Mix the layer's reads into the digests."""
        y = self.digest * keys.own
        y += keys.out
        for read in self.reads:
            y += read
        self.digest, self.reads = mix(y), []


def moved(digest: Digests, old_pos: Positions, new_pos: Positions) -> Digests:
    """Return the digests of rows whose K was rotated from the old to the new positions, (n,)."""
    return digest * inverse(place(np.asarray(old_pos))) * place(np.asarray(new_pos))


def _rolling_hash(c: Digests, before: int) -> Digests:
    """Return the rolling hash after each token, (t,): h_i = B**(i+1) * (h + sum of B**-(j+1) * mix(c_j) for j <= i)."""
    h = mix(c)
    up, down = powers(len(h))
    h *= down
    np.add.accumulate(h, out=h)
    h += np.uint64(before)
    h *= up
    return h


FEW = 9                       # from so many tokens on arrays are faster
_STEP = int(STEP)
_FACTORS = [tuple(int(tap) if i < k - 1 else 0 for i, tap in enumerate(TAPS)) for k in range(len(TAPS) + 2)]
"""Factors of the inputs 1, 2 and 3 tokens back, by number of taps."""


class ShortTrail:
    """``RunTrail`` for a few tokens, in Python integers: a numpy call costs more than the work for one token, and most
    runs of a long trace have 1 to 4 tokens. A property test compares the two classes."""

    def __init__(self, digest: Digests, pos0: int) -> None:
        self.x: list[int] = digest.tolist()                                 # t
        self.placed = range(2 * pos0 + 1, 2 * (pos0 + len(self.x)), 2)      # t
        self.read = [0] * len(self.x)                                       # t

    @property
    def digest(self) -> Digests:
        """Digests between two layers, (t,)."""
        return np.array(self.x, np.uint64)

    def rows(self, keys: LayerKeys) -> Digests:
        key = keys.ints[0]
        return np.array([mix_int(x ^ key) * odd & MASK for x, odd in zip(self.x, self.placed, strict=True)], np.uint64)

    def attend(self, rows: Digests, view: View, window: int) -> None:
        read = self.read
        if view.tail and not window:                        # all rows before the run, and its own rows up to the token
            first = view.n - len(read)
            total = int(np.add.reduce(rows[:first])) if first else 0
            for i, own in enumerate(rows[first:].tolist()):
                total += own
                read[i] += total
            return
        for i, (lo, hi) in enumerate(view.ranges(window)):
            read[i] += int(np.add.reduce(rows[lo:hi]))

    def add(self, sums: Digests) -> None:
        for i, value in enumerate(sums.tolist()):
            self.read[i] += value

    def recur(self, form: Recurrence, state: LayerState | None) -> tuple[Digests, int]:
        unused, after = 4 - form.taps, 0
        if state is None:
            a = b = c = 0                                                   # the inputs before, c is the last
        else:
            a, b, c = [0] * unused + state.conv.tolist()
            after = int(state.hash) if form.matrix else 0
        last, second, third = _FACTORS[form.taps]
        for i, x in enumerate(self.x):
            read = c * last + b * second + a * third
            if form.matrix:
                after = read = after * _STEP + mix_int(x + read) & MASK
            self.read[i] += read
            a = b
            b = c
            c = x
        return frozen(np.array((a, b, c)[unused:], np.uint64)), after

    def leave(self, keys: LayerKeys) -> None:
        _, own, out = keys.ints
        self.x = [mix_int(x * own + out + read) for x, read in zip(self.x, self.read, strict=True)]
        self.read = [0] * len(self.x)


Trail = RunTrail | ShortTrail
