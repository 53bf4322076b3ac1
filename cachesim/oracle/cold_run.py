"""What would a cold run have computed? One whole-sequence pass, from nothing, over prompt and forced tokens.

The oracle judges engines, so it shares no code with them: no store, no cells, no step form, no micro-batches,
nothing kept from one call to the next. Its answer holds every value that a memory may have kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Sequence

import numpy as np

from cachesim.base.errors import Crash
from cachesim.model.forward import Model
from cachesim.model.grid import Digests, Values
from cachesim.model.hash_mixing import token_digests
from cachesim.model.spec import Spec
from cachesim.model.store import LayerState, Rows
from cachesim.oracle.whole_provenance import WholeDigests, whole_digests
from cachesim.oracle.whole_sequence import WHOLE, WholeNumbers, whole_numbers


@dataclass(frozen=True, slots=True)
class ColdRun:
    """The truth about one sequence of n tokens. Logits and other numbers are there in exact mode only."""

    spec: Spec
    logits: dict[int, Values]             # position -> (64,), for the positions that were asked for
    _digests: WholeDigests
    _numbers: WholeNumbers | None

    @property
    def digests(self) -> Digests:
        """(n,) provenance after the last layer, by position."""
        return self._digests.last

    @property
    def row_digests(self) -> dict[int, Digests]:
        """layer -> (n,) provenance of its K/V rows, by position."""
        return self._digests.rows

    @property
    def hidden(self) -> Values | None:
        """(n, d) numbers after the last layer."""
        return None if self._numbers is None else self._numbers.x

    def rows(self, layer: int) -> Rows:
        """The K/V rows of an attention layer for every position."""
        if self._numbers is None:
            return Rows(self._digests.rows[layer], None, None)
        return Rows(self._digests.rows[layer], self._numbers.k[layer], self._numbers.v[layer])

    def state_at(self, layer: int, n: int) -> LayerState:
        """The state of a recurrent layer after the first ``n`` tokens; its numbers only if ``n`` is a mark."""
        inputs, taps = self._digests.inputs[layer], WHOLE[self.spec.layers[layer].kind].taps
        if not 0 <= n <= len(inputs):
            raise Crash(f"a sequence of {len(inputs)} tokens has no state after {n}")
        conv, last = np.zeros(taps - 1, np.uint64), inputs[max(0, n - taps + 1) : n]      # (taps-1,) oldest first
        conv[taps - 1 - len(last) :] = last
        hashes = self._digests.hashes.get(layer)
        conv_x, h = (None, None) if self._numbers is None else self._numbers.states.get((layer, n), (None, None))
        return LayerState(conv, int(hashes[n - 1]) if hashes is not None and n else 0, conv_x, h)

    def lengths_with(self, layer: int, state: LayerState | None) -> list[int]:
        """After how many tokens does a recurrent layer have this state, by provenance? Ascending; None is that of no
        tokens at all."""
        inputs, hashes = self._digests.inputs[layer], self._digests.hashes.get(layer)
        if state is None or (not state.hash and not state.conv.any()):
            return [0]
        newest = int(state.conv[-1]) if len(state.conv) else 0
        found = inputs == np.uint64(newest) if hashes is None else hashes == np.uint64(state.hash)
        return [n for n in (np.flatnonzero(found) + 1).tolist()
                if np.array_equal(self.state_at(layer, n).conv, state.conv)]  # fmt: skip


def cold(model: Model, tokens: Sequence[int], *, speak: Sequence[int], marks: Sequence[int] = ()) -> ColdRun:
    """Evaluate ``tokens`` from nothing. ``speak``: positions whose logits are wanted; ``marks``: lengths whose
    recurrent states are wanted in numbers. Nothing is remembered between calls."""
    digests = whole_digests(model.spec, model.seed, tokens)
    if model.weights is None:
        return ColdRun(model.spec, {}, digests, None)
    numbers = whole_numbers(model.spec, model.weights, token_digests(tokens, model.seed), marks)
    wanted = list(speak)
    said = model.readout(numbers.x[wanted]) if wanted else ()
    return ColdRun(model.spec, dict(zip(wanted, said, strict=True)), digests, numbers)
