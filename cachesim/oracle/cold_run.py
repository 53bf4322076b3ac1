"""Cold run: a whole-sequence pass over prompt and forced tokens, without any earlier state.

The oracle judges engines, so it shares no code with them: no store, cells, step form or micro-batches, and no state
between calls. Its result holds every value that a memory may have kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Sequence

import numpy as np

from cachesim.base.errors import Crash
from cachesim.model.forward import Model
from cachesim.model.grid import Digests, Values
from cachesim.model.spec import Spec
from cachesim.model.store import KVRows, LayerState
from cachesim.model.weights import embed_tokens
from cachesim.oracle.whole_provenance import WholeDigests, whole_digests
from cachesim.oracle.whole_sequence import WholeNumbers, whole_numbers


@dataclass(frozen=True, slots=True)
class ColdRun:
    """Correct values for a sequence of n tokens. Logits and other numbers exist in exact mode only."""

    spec: Spec
    logits: dict[int, Values]             # position -> (64,), for the requested positions
    _digests: WholeDigests
    _numbers: WholeNumbers | None

    @property
    def digests(self) -> Digests:
        """Provenance after the last layer, by position: (n,)."""
        return self._digests.last

    @property
    def hidden(self) -> Values | None:
        """Numbers after the last layer, (n, d); None in provenance mode."""
        return None if self._numbers is None else self._numbers.x

    def rows(self, layer: int) -> KVRows:
        """Return the K/V rows of an attention layer for every position."""
        if self._numbers is None:
            return KVRows(self._digests.rows[layer], None, None)
        return KVRows(self._digests.rows[layer], self._numbers.k[layer], self._numbers.v[layer])

    def state_at(self, layer: int, n: int) -> LayerState:
        """Return the state of a recurrent layer after the first ``n`` tokens. It has numbers only if ``n`` is a
        mark."""
        n_tokens = len(self._digests.last)
        if not 0 <= n <= n_tokens:
            raise Crash(f"a sequence of {n_tokens} tokens has no state after {n}")
        padded, hashes = self._digests.padded[layer], self._digests.hashes.get(layer)
        conv = padded[n : n + len(padded) - n_tokens]                                     # (taps-1,) oldest first
        conv_x, h = (None, None) if self._numbers is None else self._numbers.states.get((layer, n), (None, None))
        return LayerState(conv, hashes.item(n - 1) if hashes is not None and n else 0, conv_x, h)

    def lengths_with(self, layer: int, state: LayerState | None) -> list[int]:
        """Return the lengths, ascending, after which a recurrent layer has this state, by provenance. None is the state
        before the first token."""
        padded, hashes = self._digests.padded[layer], self._digests.hashes.get(layer)
        inputs = padded[len(padded) - len(self._digests.last) :]
        if state is None or (not state.hash and not state.conv.any()):
            return [0]
        newest = int(state.conv[-1]) if len(state.conv) else 0
        found = inputs == np.uint64(newest) if hashes is None else hashes == np.uint64(state.hash)
        return [n for n in (np.flatnonzero(found) + 1).tolist()
                if np.array_equal(self.state_at(layer, n).conv, state.conv)]  # fmt: skip


def cold(model: Model, tokens: Sequence[int], *, logits_at: Sequence[int], marks: Sequence[int] = ()) -> ColdRun:
    """Evaluate ``tokens`` without earlier state. ``logits_at``: positions whose logits to compute; ``marks``: lengths
    after which to keep the numbers of recurrent states. Nothing is stored between calls."""
    digests = whole_digests(model.spec, model.seed, tokens)
    if model.weights is None:
        return ColdRun(model.spec, {}, digests, None)
    numbers = whole_numbers(model.spec, model.weights, embed_tokens(tokens, model.seed, model.weights), marks)
    wanted = list(logits_at)
    said = model.readout(numbers.x[wanted]) if wanted else ()
    return ColdRun(model.spec, dict(zip(wanted, said, strict=True)), digests, numbers)
