"""Forward pass on a memory (step form), and the MTP head.

``Model.forward`` walks through the layers. In each layer all runs first put their new K/V rows into the store. Then
each run gets all visible rows, gets a recurrent state and puts its successor. Provenance is always computed, numbers
only if the model is exact; the store sees the same calls in the same order either way.
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
from cachesim.model.store import HiddenOutput, KVRows, LayerState, Store, TokenRun
from cachesim.model.weights import LOGITS, D, LayerWeights, WeightDraw, Weights, embed, embed_tokens

# MTP head: an attention layer after the trunk (the target model's layers) that predicts the token after the next.
#
# It reads a token and the trunk's output after the token before it, and keeps K/V rows of its own (the draft context).
# The trunk's last output is carried from batch to batch and belongs to no saved state. After a restore, and at the
# start of a conversation, the first row of the head is therefore computed from another text. That costs accepted
# drafts, never correctness. Source: llama.cpp common/speculative.cpp, draft-mtp (3f545be).

class TrunkOutput(NamedTuple):
    """Output of the trunk after a token: provenance and numbers (None without arithmetic)."""

    digest: int
    x: np.ndarray | None


def mtp_head(trunk: Model) -> Model:
    """Create the MTP head of a trunk. Its weights come from another seed."""
    return make_model("A", trunk.exact, trunk.seed + 1)


def carried(hidden: HiddenOutput, at: int) -> TrunkOutput:
    """Return the output after token ``at`` of a batch."""
    return TrunkOutput(int(hidden.digest[at]), None if hidden.x is None else hidden.x[at])


def before(hidden: HiddenOutput, first: TrunkOutput | None) -> HiddenOutput:
    """Return the trunk's output before each token of a range. ``first``: the output before the first token (None = no
    token yet)."""
    start = 0 if first is None else first.digest
    digest = np.concatenate((np.array([start], np.uint64), hidden.digest[:-1]))
    if hidden.x is None:
        return HiddenOutput(digest, None)
    row = np.zeros_like(hidden.x[:1]) if first is None or first.x is None else first.x[None]
    return HiddenOutput(digest, np.concatenate((row, hidden.x[:-1])))


class Model:
    """A tiny language model, immutable. Create it with ``make_model``. ``exact`` False = no
    arithmetic, only digests that show which tokens each result depends on."""

    def __init__(self, spec: Spec, exact: bool, seed: int) -> None:
        self.spec, self.exact, self.seed = spec, exact, seed
        self.keys: tuple[LayerKeys, ...] = tuple(layer_keys(seed, index) for index in range(len(spec.layers)))
        self.weights: Weights | None = make_weights(spec, seed) if exact else None

    def forward(
        self, runs: Sequence[TokenRun], store: Store, before: Sequence[HiddenOutput] | None = None
    ) -> list[HiddenOutput]:
        """Evaluate a micro-batch and return a Hidden for each run. Changes nothing but the store. ``before``: for
        an MTP head, the trunk's output before each token of each run."""
        said: Sequence[HiddenOutput | None] = before or [None] * len(runs)
        begin = _ExactPass if self.exact else _RunPass
        batch = [begin(self, store, i, run, one) for i, (run, one) in enumerate(zip(runs, said, strict=True))]
        for index, layer in enumerate(self.spec.layers):
            for one in batch:
                one.enter(index, layer)
            for one in batch:
                one.leave(index, layer)
        return [HiddenOutput(one.trail.digest, one.x) for one in batch]

    def readout(self, hidden_x: Values) -> Values:
        """Return the logits (n, 64), in units of the grid, from the hidden values of n tokens."""
        if self.weights is None:
            raise Crash("a model made with exact=False computes no logits, only digests")
        return project(rms_norm(hidden_x, self.weights.norm), self.weights.readout)

    def shift_rows(self, layer: int, rows: KVRows, old_pos: Positions, new_pos: Positions) -> KVRows:
        """Apply a K-shift: return a layer's rows with K rotated from the old to the new positions."""
        k, form = rows.k, self.spec.layers[layer].attention
        if k is not None and form is not None and form.rotated:
            k = rotate(k, turns(np.subtract(new_pos, old_pos)), 1.0)
        return KVRows(moved(rows.digest, old_pos, new_pos), k, rows.v)


class _RunPass:
    """Pass of a run through the layers: digests only."""

    def __init__(self, model: Model, store: Store, index: int, run: TokenRun, before: HiddenOutput | None) -> None:
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
            self.store.put_rows(index, self.run, KVRows(self.trail.rows(self.model.keys[index]), None, None))

    def leave(self, index: int, layer: Layer) -> None:
        """Read the layer's memory: attention, recurrence, or both on the same input."""
        if layer.attention:
            self.attend(index, layer.attention, layer.reach)
        if layer.recurrence:
            self.recur(index, layer.recurrence)
        self.trail.leave(self.model.keys[index])

    def attend(self, index: int, form: Attention, window: int) -> tuple[KVRows, View]:
        """Read the rows that the run sees, and return them."""
        view = self.views.get(form.part)
        if view is None:
            view = self.views[form.part] = self.store.view(form.part, self.run, self.asked)
        rows = self.store.get_rows(index, self.run)
        if len(rows.digest) != view.n:
            raise Crash(f"layer {index}: the store has {view.n} positions and {len(rows.digest)} rows")
        self.trail.attend(rows.digest, view, window)
        return rows, view

    def recur(self, index: int, form: Recurrence) -> None:
        """Read the recurrent state and put its successor."""
        conv, final = self.trail.recur(form, self.store.get_state(index, self.run))
        self.store.put_state(index, self.run, LayerState(conv, final, None, None))


class _ExactPass(_RunPass):
    """Pass of a run with digests and numbers. All numbers are in units of the grid."""

    def __init__(self, model: Model, store: Store, index: int, run: TokenRun, before: HiddenOutput | None) -> None:
        super().__init__(model, store, index, run, before)
        weights = model.weights
        assert weights is not None
        self.layers, self.turn = weights.layers, turns(self.asked)
        if before is None:
            self.x: Values = embed_tokens(run.tokens, model.seed, weights)          # (t, d)
        else:
            self.x = embed(self.first, weights)
            if before.x is not None:
                self.x = add_residual(self.x, before.x)

    def enter(self, index: int, layer: Layer) -> None:
        """Normalise the input of a layer and put the run's own K/V rows into the store."""
        weights = self.layers[index]
        self.u = rms_norm(self.x, weights.norm)                                     # (t, d)
        if layer.attention:
            self.asks = layer.attention.heads(self.u, weights.attention, self.turn)
            digest = self.trail.rows(self.model.keys[index])
            self.store.put_rows(index, self.run, KVRows(digest, self.asks.k, self.asks.v))

    def attend(self, index: int, form: Attention, window: int) -> tuple[KVRows, View]:
        """Add the attention output over the visible rows."""
        rows, view = super().attend(index, form, window)
        self._add(form.attend(self.asks.q, rows, view.visible(window)), self.layers[index].attention.out)
        return rows, view

    def recur(self, index: int, form: Recurrence) -> None:
        """Read the recurrent state with its numbers, and put the successors."""
        state, weights = self.store.get_state(index, self.run), self.layers[index].recurrence
        conv, final = self.trail.recur(form, state)
        step = form.run(self.u, weights, state)
        self._add(step.y, weights.out)
        self.store.put_state(index, self.run, LayerState(conv, final, step.conv_x, step.h))

    def _add(self, y: Values, out: Values) -> None:
        self.x = add_residual(self.x, project(y, out))


def make_weights(spec: Spec, seed: int) -> Weights:
    """Draw the weights of a model. Raise Crash unless its arithmetic is exact."""
    layers = []
    for index, layer in enumerate(spec.layers):
        draw = WeightDraw(seed, index)
        norm = draw.norm(D)
        attention, recurrence = (form and form.draw(draw) for form in (layer.attention, layer.recurrence))
        layers.append(LayerWeights(norm, attention, recurrence))
    draw = WeightDraw(seed, -1)
    return Weights(tuple(layers), draw.bits(D), draw.norm(D), draw.matrix(D, LOGITS))


def make_model(spec: Spec | str, exact: bool, seed: int = 0) -> Model:
    """Return the model of a spec or its notation. Each model is built once per process."""
    return _make_model(parse(spec) if isinstance(spec, str) else spec, exact, seed)


@lru_cache(maxsize=64)
def _make_model(spec: Spec, exact: bool, seed: int) -> Model:
    return Model(spec, exact, seed)
