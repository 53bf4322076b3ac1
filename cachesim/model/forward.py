"""What does a model compute for a micro-batch, upon what the memory holds? The cached path, in step form.

``Model.forward`` walks through the layers; in each all runs put their new K/V rows into the store before any of them
reads; then, run after run, all visible ones come back, a recurrent state comes and its successor goes back. Provenance
is always computed, numbers only if the model is exact; the store sees the same calls in the same order either way.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Sequence

import numpy as np

from cachesim.errors import Crash
from cachesim.model.attention import Heads, attend, heads
from cachesim.model.digests import RunTrail, Trail, moved
from cachesim.model.grid import add_residual, project
from cachesim.model.mixing import STEP, LayerKeys, layer_keys, mix, token_digests
from cachesim.model.norms import rms_norm
from cachesim.model.recurrent import recur
from cachesim.model.rope import rotate, turns
from cachesim.model.single import SingleTrail
from cachesim.model.spec import Layer, Spec, parse
from cachesim.model.store import Hidden, LayerState, Positions, Rows, Run, Store, Values
from cachesim.model.view import View
from cachesim.model.weights import LayerWeights, Weights, embed, make_weights


class Model:
    """A tiny language model. Immutable; build it with ``make_model``. ``exact`` False = provenance only."""

    def __init__(self, spec: Spec, exact: bool, seed: int) -> None:
        self.spec, self.exact, self.seed = spec, exact, seed
        self.keys: tuple[LayerKeys, ...] = tuple(layer_keys(seed, index) for index in range(len(spec.layers)))
        self.weights: Weights | None = make_weights(spec, seed) if exact else None

    def forward(
        self, runs: Sequence[Run], store: Store, before: Sequence[Hidden] | None = None
    ) -> list[Hidden]:
        """Evaluate one micro-batch; the answer has one Hidden for each run. Changes nothing but the store. ``before``:
        for a head that reads it (see mtp.py), what the trunk said before each token of each run."""
        said: Sequence[Hidden | None] = before or [None] * len(runs)
        batch = [_RunPass(self, store, i, run, one) for i, (run, one) in enumerate(zip(runs, said, strict=True))]
        for index, layer in enumerate(self.spec.layers):
            for one in batch:
                one.enter(index, layer)
            for one in batch:
                one.leave(index, layer)
        return [Hidden(one.trail.digest, one.x) for one in batch]

    def readout(self, hidden_x: Values) -> Values:
        """(n, 64) logits in units of the grid, from the hidden values of n tokens."""
        if self.weights is None:
            raise Crash("a model of provenance only has no logits")
        return project(rms_norm(hidden_x, self.weights.norm), self.weights.readout)

    def shift_rows(self, rows: Rows, old_pos: Positions, new_pos: Positions) -> Rows:
        """K-shift: the same rows with K rotated on from the old to the new positions."""
        k = None if rows.k is None else rotate(rows.k, turns(np.subtract(new_pos, old_pos)), 1.0)
        return Rows(moved(rows.digest, old_pos, new_pos), k, rows.v)


class _RunPass:
    """One run on its way through the layers."""

    def __init__(self, model: Model, store: Store, index: int, run: Run, before: Hidden | None) -> None:
        self.model, self.store, self.run = model, store, index
        self.asked = np.arange(run.pos0, run.pos0 + len(run.tokens))                # (t,)
        self.views: dict[str, View] = {}
        first = token_digests(run.tokens, model.seed)                               # (t,)
        self.x: Values | None = None if model.weights is None else embed(first, model.weights)          # (t, d)
        if before is not None:
            first = mix(first + before.digest * STEP)
            if self.x is not None and before.x is not None:
                self.x = add_residual(self.x, before.x)
        self.trail: Trail = SingleTrail(first, run.pos0) if len(first) == 1 else RunTrail(first, self.asked)
        self.turn = None if model.weights is None else turns(self.asked)
        self.weights: LayerWeights | None = None            # of the layer at work
        self.u: Values | None = None                        # (t, d) its normed input
        self.asks: Heads | None = None

    def enter(self, index: int, layer: Layer) -> None:
        """Norm the input of a layer and put the run's own K/V rows into the store."""
        self.weights = None if self.model.weights is None else self.model.weights.layers[index]
        self.u = None if self.x is None or self.weights is None else rms_norm(self.x, self.weights.norm)    # (t, d)
        if not layer.part:
            return
        new = Rows(self.trail.rows(self.model.keys[index]), None, None)
        if self.u is not None and self.turn and self.weights and self.weights.attention:
            self.asks = heads(self.u, self.weights.attention, self.turn)
            new = Rows(new.digest, self.asks.k, self.asks.v)
        self.store.put_rows(index, self.run, new)

    def leave(self, index: int, layer: Layer) -> None:
        """Read what the layer holds: attention, recurrence, or both on the same input."""
        if layer.part:
            self._attend(index, layer)
        if layer.taps:
            self._recur(index, layer)
        self.trail.leave(self.model.keys[index])

    def _attend(self, index: int, layer: Layer) -> None:
        if layer.part not in self.views:
            self.views[layer.part] = self.store.view(layer.part, self.run, self.asked)
        view = self.views[layer.part]
        rows = self.store.get_rows(index, self.run)
        if len(rows.digest) != view.n:
            raise Crash(f"layer {index}: the store has {view.n} positions and {len(rows.digest)} rows")
        self.trail.attend(rows.digest, view, layer.window)
        if self.asks is not None and self.weights and self.weights.attention:
            self._add(attend(self.asks.q, rows, view.visible(layer.window)), self.weights.attention.out)

    def _recur(self, index: int, layer: Layer) -> None:
        state = self.store.get_state(index, self.run)
        conv, final = self.trail.recur(layer, state)
        conv_x = h = None
        if self.u is not None and self.weights is not None:
            step, out = recur(self.u, self.weights, state)
            self._add(step.y, out)
            conv_x, h = step.conv_x, step.h
        self.store.put_state(index, self.run, LayerState(conv, final, conv_x, h))

    def _add(self, y: Values, out: Values) -> None:
        if self.x is not None:
            self.x = add_residual(self.x, project(y, out))


def make_model(spec: Spec | str, exact: bool, seed: int = 0) -> Model:
    """The model of a spec or its notation. Built once per process."""
    return _make_model(parse(spec) if isinstance(spec, str) else spec, exact, seed)


@lru_cache(maxsize=64)
def _make_model(spec: Spec, exact: bool, seed: int) -> Model:
    return Model(spec, exact, seed)
