"""The digests of a run of one token, in Python integers: a quick copy of ``RunTrail`` for decoding.

One numpy call costs more than the work for one token, and decoding is most of a long trace. A property
compares the two. The oracle never comes here.
"""

from __future__ import annotations

import numpy as np

from cachesim.model.arrays import Digests
from cachesim.model.attention_mask import View
from cachesim.model.hash_mixing import MASK, STEP, TAPS, LayerKeys, mix_int
from cachesim.model.spec import Layer
from cachesim.model.store import LayerState

_STEP = int(STEP)
_TAPS = tuple(int(tap) for tap in TAPS)


class SingleTrail:
    """One token at one position."""

    def __init__(self, digest: Digests, pos: int) -> None:
        self.x, self.placed, self.read = int(digest[0]), 2 * pos + 1, 0

    @property
    def digest(self) -> Digests:
        """(1,) between two layers."""
        return np.array([self.x], np.uint64)

    def rows(self, keys: LayerKeys) -> Digests:
        return np.array([mix_int(self.x ^ int(keys.row)) * self.placed & MASK], np.uint64)

    def attend(self, rows: Digests, view: View, window: int) -> None:
        if not (view.tail and not window):                  # else every row is seen
            seen = view.visible(window)
            rows = rows[seen.lo[0] : seen.hi[0]]
        self.read += int(np.add.reduce(rows))

    def recur(self, layer: Layer, state: LayerState | None) -> tuple[Digests, int]:
        past = [0] * (layer.taps - 1) if state is None else state.conv.tolist()
        older = sum(x * tap for x, tap in zip(reversed(past), _TAPS, strict=False))
        conv = np.array([*past[1:], self.x], np.uint64)                     # (k-1,)
        conv.flags.writeable = False
        if layer.kind == "C":
            self.read += older
            return conv, 0
        before = 0 if state is None else int(state.hash)
        after = (before * _STEP + mix_int(self.x + older)) & MASK
        self.read += after
        return conv, after

    def leave(self, keys: LayerKeys) -> None:
        self.x = mix_int(self.x * int(keys.own) + int(keys.out) + self.read)
        self.read = 0
