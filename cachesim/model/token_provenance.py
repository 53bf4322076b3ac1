"""The digests of a run of a few tokens, in Python integers: a quick copy of ``RunTrail`` for decoding and short pieces of
prompts.

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
        back = layer.taps - 1
        inputs = [0] * back if state is None else state.conv.tolist()
        after = 0 if state is None else int(state.hash)
        inputs += self.x                                                    # back + t
        conv = np.array(inputs[len(self.x) :], np.uint64)
        conv.flags.writeable = False
        taps = _TAPS[:back]
        for i, x in enumerate(self.x):
            older = 0
            for k, tap in enumerate(taps, start=1):
                older += inputs[back + i - k] * tap
            if layer.kind != "C":
                older = after = after * _STEP + mix_int(x + older) & MASK
            self.read[i] += older
        return conv, 0 if layer.kind == "C" else after

    def leave(self, keys: LayerKeys) -> None:
        _, own, out = keys.ints
        self.x = [mix_int(x * own + out + read) for x, read in zip(self.x, self.read, strict=True)]
        self.read = [0] * len(self.x)
