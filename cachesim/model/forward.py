"""What does a model compute for a micro-batch, upon what the memory holds? The cached path, in step form.

``Model.forward`` walks through the layers; in each it works run after run: new K/V rows go into the store and
all visible ones come back, a recurrent state comes from the store and its successor goes back. Provenance is
always computed, numbers only if the model is exact; the store sees the same calls in the same order either way.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Sequence

import numpy as np

from cachesim.errors import Crash
from cachesim.model.attention import attend, heads
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
                one.layer(index, layer)
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

    def layer(self, index: int, layer: Layer) -> None:
        """Go through one layer: attention, recurrence, or both on the same input."""
        weights = None if self.model.weights is None else self.model.weights.layers[index]
        u = None if self.x is None or weights is None else rms_norm(self.x, weights.norm)       # (t, d)
        if layer.part:
            self._attend(index, layer, weights, u)
        if layer.taps:
            self._recur(index, layer, weights, u)
        self.trail.leave(self.model.keys[index])

    def view(self, part: str) -> View:
        """Which rows of a part the run sees; asked of the store once per micro-batch."""
        if part not in self.views:
            self.views[part] = View(self.store.positions(part, self.run), self.asked)
        return self.views[part]

    def _attend(self, index: int, layer: Layer, weights: LayerWeights | None, u: Values | None) -> None:
        view = self.view(layer.part)
        new, asks = Rows(self.trail.rows(self.model.keys[index]), None, None), None
        if u is not None and self.turn and weights and weights.attention:
            asks = heads(u, weights.attention, self.turn)
            new = Rows(new.digest, asks.k, asks.v)
        self.store.put_rows(index, self.run, new)
        rows = self.store.get_rows(index, self.run)
        if len(rows.digest) != view.n:
            raise Crash(f"layer {index}: the store has {view.n} positions and {len(rows.digest)} rows")
        self.trail.attend(rows.digest, view, layer.window)
        if asks is not None and weights and weights.attention:
            self._add(attend(asks.q, rows, view.visible(layer.window)), weights.attention.out)

    def _recur(self, index: int, layer: Layer, weights: LayerWeights | None, u: Values | None) -> None:
        state = self.store.get_state(index, self.run)
        conv, final = self.trail.recur(layer, state)
        conv_x = h = None
        if u is not None and weights is not None:
            step, out = recur(u, weights, state)
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
