"""What would a cold run have computed? One whole-sequence pass, from nothing, over prompt and forced tokens.

The oracle judges engines, so it shares no code with them: no store, no cells, no step form, no micro-batches,
nothing kept from one call to the next. Its answer holds every value that a memory may have kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Sequence

import numpy as np

from cachesim.model.forward import Model
from cachesim.model.spec import Spec
from cachesim.model.store import Digests, LayerState, Rows, Values
from cachesim.model.whole_digests import WholeDigests, whole_digests


@dataclass(frozen=True, slots=True)
class ColdRun:
    """The truth about one sequence of n tokens.

    ``logits`` has the positions that were asked for, in exact mode only; the numbers of recurrent states are
    there for the lengths in ``marks`` only, their provenance for every length.
    """

    spec: Spec
    whole: WholeDigests
    logits: dict[int, Values]

    @property
    def digests(self) -> Digests:
        """(n,) provenance after the last layer, by position."""
        return self.whole.last

    @property
    def row_digests(self) -> dict[int, Digests]:
        """layer -> (n,) provenance of its K/V rows, by position."""
        return self.whole.rows

    def rows(self, layer: int) -> Rows:
        """The K/V rows of an attention layer for every position."""
        return Rows(self.whole.rows[layer], None, None)

    def state_at(self, layer: int, n: int) -> LayerState:
        """The state of a recurrent layer after the first ``n`` tokens."""
        inputs, taps = self.whole.inputs[layer], self.spec.layers[layer].taps
        conv = np.zeros(taps - 1, np.uint64)                        # (taps-1,) oldest first
        kept = inputs[max(0, n - taps + 1) : n]
        conv[taps - 1 - len(kept) :] = kept
        hashes = self.whole.hashes.get(layer)
        return LayerState(conv, int(hashes[n - 1]) if hashes is not None and n else 0, None, None)


def cold(model: Model, tokens: Sequence[int], *, speak: Sequence[int], marks: Sequence[int] = ()) -> ColdRun:
    """Evaluate ``tokens`` from nothing. ``speak``: positions whose logits are wanted; ``marks``: lengths whose
    recurrent states are wanted in numbers. Nothing is remembered between calls."""
    return ColdRun(model.spec, whole_digests(model.spec, model.seed, tokens), {})
