"""The cached path: what a model computes for a micro-batch, upon what the memory holds, in step form.

``Model.forward`` walks through the layers; in each all runs put their new K/V rows into the store before any of them
reads; then, run after run, all visible ones come back, a recurrent state comes and its successor goes back. Provenance
is always computed, numbers only if the model is exact; the store sees the same calls in the same order either way.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, Sequence

import numpy as np

from cachesim.base.errors import Crash
from cachesim.model.attention_mask import View
from cachesim.model.grid import Positions, Values, add_residual, project
from cachesim.model.hash_mixing import STEP, LayerKeys, layer_keys, mix, token_digests
from cachesim.model.layer_kinds import Attention, Recurrence
from cachesim.model.norms import rms_norm
from cachesim.model.provenance import FEW, RunTrail, ShortTrail, Trail, moved
from cachesim.model.rope import rotate, turns
from cachesim.model.spec import Layer, Spec, parse
from cachesim.model.store import Hidden, LayerState, Rows, Store, TokenRun
from cachesim.model.weights import LOGITS, D, LayerWeights, WeightDraw, Weights, embed

# The MTP head: one attention layer behind the trunk that guesses the token after the next.
#
# It reads a token together with what the trunk said after the token before it, and keeps K/V rows of its own (the draft
# context). What the trunk said last is carried from batch to batch and lies in no saved state: after a restore, and
# when a new conversation begins, the first row of the head is computed from another text. That costs guesses, never
# answers. Source: llama.cpp common/speculative.cpp, draft-mtp (3f545be).

class Carried(NamedTuple):
    """What the trunk said after one token: provenance and numbers (None without arithmetic)."""

    digest: int
    x: np.ndarray | None


def mtp_head(trunk: Model) -> Model:
    """The head of a trunk; its weights come from another seed."""
    return make_model("A", trunk.exact, trunk.seed + 1)


def carried(hidden: Hidden, at: int) -> Carried:
    """What was said after token ``at`` of a batch."""
    return Carried(int(hidden.digest[at]), None if hidden.x is None else hidden.x[at])


def before(hidden: Hidden, first: Carried | None) -> Hidden:
    """What the trunk said before each token of a stretch: ``first`` before the first one (None = nothing yet)."""
    start = 0 if first is None else first.digest
    digest = np.concatenate((np.array([start], np.uint64), hidden.digest[:-1]))
    if hidden.x is None:
        return Hidden(digest, None)
    row = np.zeros_like(hidden.x[:1]) if first is None or first.x is None else first.x[None]
    return Hidden(digest, np.concatenate((row, hidden.x[:-1])))


class Model:
    """A tiny language model. Immutable; build it with ``make_model``. ``exact`` False = provenance only."""

    def __init__(self, spec: Spec, exact: bool, seed: int) -> None:
        self.spec, self.exact, self.seed = spec, exact, seed
        self.keys: tuple[LayerKeys, ...] = tuple(layer_keys(seed, index) for index in range(len(spec.layers)))
        self.weights: Weights | None = make_weights(spec, seed) if exact else None

    def forward(self, runs: Sequence[TokenRun], store: Store, before: Sequence[Hidden] | None = None) -> list[Hidden]:
        """Evaluate one micro-batch; the answer has one Hidden for each run. Changes nothing but the store. ``before``:
        for a head that reads it (see mtp.py), what the trunk said before each token of each run."""
        said: Sequence[Hidden | None] = before or [None] * len(runs)
        begin = _ExactPass if self.exact else _RunPass
        batch = [begin(self, store, i, run, one) for i, (run, one) in enumerate(zip(runs, said, strict=True))]
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
    """One run on its way through the layers: digests only."""

    def __init__(self, model: Model, store: Store, index: int, run: TokenRun, before: Hidden | None) -> None:
        self.model, self.store, self.run = model, store, index
        self.asked = np.arange(run.pos0, run.pos0 + len(run.tokens))                # (t,)
        self.views: dict[str, View] = {}
        self.first = first = token_digests(run.tokens, model.seed)                  # (t,)
        if before is not None:
            first = mix(first + before.digest * STEP)
        self.trail: Trail = ShortTrail(first, run.pos0) if len(first) < FEW else RunTrail(first, run.pos0)
        self.x: Values | None = None                                                # (t, d)

    def enter(self, index: int, layer: Layer) -> None:
        """Put the run's own K/V rows into the store."""
        if layer.attention:
            self.store.put_rows(index, self.run, Rows(self.trail.rows(self.model.keys[index]), None, None))

    def leave(self, index: int, layer: Layer) -> None:
        """Read what the layer holds: attention, recurrence, or both on the same input."""
        if layer.attention:
            self.attend(index, layer.attention, layer.window)
        if layer.recurrence:
            self.recur(index, layer.recurrence)
        self.trail.leave(self.model.keys[index])

    def attend(self, index: int, form: Attention, window: int) -> tuple[Rows, View]:
        """Read the rows that the run sees; returns them."""
        view = self.views.get(form.part)
        if view is None:
            view = self.views[form.part] = self.store.view(form.part, self.run, self.asked)
        rows = self.store.get_rows(index, self.run)
        if len(rows.digest) != view.n:
            raise Crash(f"layer {index}: the store has {view.n} positions and {len(rows.digest)} rows")
        self.trail.attend(rows.digest, view, window)
        return rows, view

    def recur(self, index: int, form: Recurrence) -> None:
        """Read the recurrent state, and put its successor in its place."""
        conv, final = self.trail.recur(form, self.store.get_state(index, self.run))
        self.store.put_state(index, self.run, LayerState(conv, final, None, None))


class _ExactPass(_RunPass):
    """One run with digests and numbers. All numbers are in units of the grid."""

    def __init__(self, model: Model, store: Store, index: int, run: TokenRun, before: Hidden | None) -> None:
        super().__init__(model, store, index, run, before)
        weights = model.weights
        assert weights is not None
        self.layers, self.turn = weights.layers, turns(self.asked)
        self.x: Values = embed(self.first, weights)                                 # (t, d)
        if before is not None and before.x is not None:
            self.x = add_residual(self.x, before.x)

    def enter(self, index: int, layer: Layer) -> None:
        """Norm the input of a layer and put the run's own K/V rows into the store."""
        weights = self.layers[index]
        self.u = rms_norm(self.x, weights.norm)                                     # (t, d)
        if layer.attention:
            self.asks = layer.attention.heads(self.u, weights.attention, self.turn)
            digest = self.trail.rows(self.model.keys[index])
            self.store.put_rows(index, self.run, Rows(digest, self.asks.k, self.asks.v))

    def attend(self, index: int, form: Attention, window: int) -> tuple[Rows, View]:
        """Add what the heads make of the rows."""
        rows, view = super().attend(index, form, window)
        self._add(form.attend(self.asks.q, rows, view.visible(window)), self.layers[index].attention.out)
        return rows, view

    def recur(self, index: int, form: Recurrence) -> None:
        """Read the recurrent state and its numbers, and put their successors in their place."""
        state, weights = self.store.get_state(index, self.run), self.layers[index].recurrence
        conv, final = self.trail.recur(form, state)
        step = form.run(self.u, weights, state)
        self._add(step.y, weights.out)
        self.store.put_state(index, self.run, LayerState(conv, final, step.conv_x, step.h))

    def _add(self, y: Values, out: Values) -> None:
        self.x = add_residual(self.x, project(y, out))


def make_weights(spec: Spec, seed: int) -> Weights:
    """Draw the weights of a model and check that its arithmetic is exact."""
    layers = []
    for index, layer in enumerate(spec.layers):
        draw = WeightDraw(seed, index)
        norm = draw.norm(D)
        attention, recurrence = (form and form.draw(draw) for form in (layer.attention, layer.recurrence))
        layers.append(LayerWeights(norm, attention, recurrence))
    draw = WeightDraw(seed, -1)
    return Weights(tuple(layers), draw.bits(D), draw.norm(D), draw.matrix(D, LOGITS))


def make_model(spec: Spec | str, exact: bool, seed: int = 0) -> Model:
    """The model of a spec or its notation. Built once per process."""
    return _make_model(parse(spec) if isinstance(spec, str) else spec, exact, seed)


@lru_cache(maxsize=64)
def _make_model(spec: Spec, exact: bool, seed: int) -> Model:
    return Model(spec, exact, seed)
