"""The digests of a run of a few tokens, in Python integers: a quick copy of ``RunTrail``.

One numpy call costs more than the work for one token, and most runs of a long trace have one to four. A property
compares the two. The oracle never comes here.
"""

from __future__ import annotations

import numpy as np

from cachesim.model.arrays import Digests
from cachesim.model.attention_mask import View
from cachesim.model.hash_mixing import MASK, STEP, TAPS, LayerKeys, mix_int
from cachesim.model.spec import Layer
from cachesim.model.store import LayerState

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
