"""Forward pass on a memory (step form), and the MTP head.

``Model.forward`` walks through the layers. In each layer all runs first put their new K/V rows into the store. Then
each run gets all visible rows, gets a recurrent state and puts its successor. Provenance is always computed, numbers
only if the model is exact; the store sees the same calls in the same order either way.
"""

from __future__ import annotations

from typing import NamedTuple, Sequence, cast

import numpy as np

from cachesim.base.errors import Crash
from cachesim.model import compressed_rows as compressed
from cachesim.model.attention_mask import View
from cachesim.model.chosen_rows import attend_chosen, seen_rows, visible_rows
from cachesim.model.compressed_rows import CompressedStore
from cachesim.model.grid import Digests, Positions, Values, add_residual, project
from cachesim.model.hash_mixing import STEP, LayerKeys, layer_keys, mix, token_digests
from cachesim.model.layer_kinds import Recurrence
from cachesim.model.norms import rms_norm
from cachesim.model.provenance import FEW, RunTrail, ShortTrail, Trail, moved
from cachesim.model.rope import rotate, turns
from cachesim.model.spec import Layer, Spec, parse
from cachesim.model.store import HiddenOutput, KVRows, LayerState, Store, TokenRun, index_of, layer_of
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
        self.spec = spec
        self.exact = exact
        self.seed = seed
        self.keys: tuple[LayerKeys, ...] = tuple(layer_keys(seed, index) for index in range(len(spec.layers)))
        self.second: tuple[LayerKeys, ...] = tuple(layer_keys(seed, index_of(i)) for i in range(len(spec.layers)))
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
        """Apply a K-shift: return a layer's rows with K rotated from the old to the new positions. ``layer``: also the
        number of index rows."""
        k, form = rows.k, self.spec.layers[layer_of(layer)].attention
        rotated = form is not None and (form.rotated if layer >= 0 or form.chooser is None else form.chooser.rotated)
        if k is not None and rotated:
            k = rotate(k, turns(np.subtract(new_pos, old_pos)), 1.0)
        return KVRows(moved(rows.digest, old_pos, new_pos), k, rows.v)


class Read(NamedTuple):
    """What a run reads in a layer: rows, their view, and ``beside`` them its index rows or its compressed rows."""

    rows: KVRows
    view: View
    beside: KVRows | None = None


class _RunPass:
    """Pass of a run through the layers: digests only."""

    def __init__(self, model: Model, store: Store, index: int, run: TokenRun, before: HiddenOutput | None) -> None:
        self.model = model
        self.store = store
        self.run = index
        self.asked = np.arange(run.pos0, run.pos0 + len(run.tokens))                # (t,)
        self.views: dict[str, View] = {}
        self.first = first = token_digests(run.tokens, model.seed)                  # (t,)
        if before is not None:
            first = mix(first + before.digest * STEP)
        self.trail: Trail = ShortTrail(first, run.pos0) if len(first) < FEW else RunTrail(first, run.pos0)
        self.x: Values | None = None                                                # (t, d)

    def enter(self, index: int, layer: Layer) -> None:
        """Put the run's own K/V rows and index rows into the store."""
        if layer.attention:
            self.put(index, self.trail.rows(self.model.keys[index]))
            if layer.attention.chooser:
                self.put(index_of(index), self.trail.rows(self.model.second[index]))

    def put(self, layer: int, digest: Digests) -> None:
        """Put rows into the store. ``layer``: also the number of index rows."""
        self.store.put_rows(layer, self.run, KVRows(digest, None, None))

    def leave(self, index: int, layer: Layer) -> None:
        """Read the layer's memory: attention, recurrence, or both on the same input."""
        if layer.attention:
            self.attend(index, layer)
        if layer.recurrence:
            self.recur(index, layer.recurrence)
        self.trail.leave(self.model.keys[index])

    def attend(self, index: int, layer: Layer) -> None:
        """Read the rows that the run sees."""
        self.read(index, layer)

    def read(self, index: int, layer: Layer) -> Read:
        """Read the rows that the run sees, and return them with the index rows or compressed rows beside them."""
        form = layer.attention
        assert form is not None
        view = self.view(form.part)
        rows = self.rows(index, view)
        self.trail.attend(rows.digest, view, layer.reach)
        if form.chooser:
            index_rows = self.rows(index_of(index), self.view(form.chooser.part))
            seen = seen_rows(view, self.asked, layer.reach)
            self.trail.add(form.chooser.sums(index_rows.digest, seen, layer.count))
            return Read(rows, view, index_rows)
        if form.compresses:
            made = self.compress(index, layer.ratio)
            self.trail.add(compressed.compressed_sums(made.digest, compressed.visible_blocks(self.asked, layer.ratio)))
            return Read(rows, view, made)
        return Read(rows, view)

    def view(self, part: str) -> View:
        """Return the run's view of a part of the memory."""
        view = self.views.get(part)
        if view is None:
            view = self.views[part] = self.store.view(part, self.run, self.asked)
        return view

    def rows(self, layer: int, view: View) -> KVRows:
        """Return the rows of a layer, or its index rows."""
        rows = self.store.get_rows(layer, self.run)
        if len(rows.digest) != view.n:
            raise Crash(f"layer {layer}: the store has {view.n} positions and {len(rows.digest)} rows")
        return rows

    def compress(self, index: int, ratio: int) -> KVRows:
        """Make the compressed rows of the blocks that the run completes, keep the last inputs, and return all rows that
        its last token sees."""
        store, state = cast(CompressedStore, self.store), self.store.get_state(index, self.run)
        blocks = compressed.new_blocks(int(self.asked[0]), len(self.asked), ratio)
        inputs = compressed.inputs_after(state, self.trail.digest, ratio)
        numbers = self.compressor_inputs(index, state, ratio)
        if len(blocks.starts):
            k, v = (None, None) if numbers is None else compressed.block_rows(numbers, blocks, ratio)
            digest = compressed.block_digests(inputs, blocks, self.model.second[index], ratio)
            store.put_compressed(index_of(index), self.run, blocks.first, KVRows(digest, k, v))
        self.store.put_state(index, self.run, compressed.ring_after(inputs, numbers, ratio))
        return store.get_compressed(index_of(index), self.run, int(self.asked[-1] + 1) // ratio)

    def compressor_inputs(self, index: int, state: LayerState | None, ratio: int) -> Values | None:
        """Return the numbers of a compressor's kept and new inputs, None without arithmetic."""
        return None

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
            self.numbers = {index: (self.asks.k, self.asks.v)}
            if layer.attention.chooser:
                self.index = layer.attention.chooser.heads(self.u, weights.attention, self.turn)
                self.numbers[index_of(index)] = self.index.k, self.index.k[:, :, :0]
        super().enter(index, layer)

    def put(self, layer: int, digest: Digests) -> None:
        """Put rows into the store with their numbers."""
        self.store.put_rows(layer, self.run, KVRows(digest, *self.numbers[layer]))

    def attend(self, index: int, layer: Layer) -> None:
        """Add the attention output over the visible rows, or over those of them that the run chooses."""
        read = self.read(index, layer)
        form = layer.attention
        weights = self.layers[index].attention
        assert form is not None
        if read.beside is None:
            y = form.attend(self.asks.q, read.rows, read.view.visible(layer.reach))
        elif form.chooser:
            seen = seen_rows(read.view, self.asked, layer.reach)
            assert read.beside.k is not None
            chosen = form.chooser.choose(self.index.q, read.beside.k, seen, layer.count)
            y = attend_chosen(self.asks.q, read.rows, chosen)
        else:
            y = self.attend_both(read, layer, weights)
        self._add(y, weights.out)

    def attend_both(self, read: Read, layer: Layer, weights: compressed.CompressingWeights) -> Values:
        """Return the attention output over the rows of the window and the compressed rows."""
        rows, made = read.rows, read.beside
        assert made is not None and rows.k is not None and rows.v is not None
        window = visible_rows(seen_rows(read.view, self.asked, layer.reach))
        if made.k is None or made.v is None:
            return attend_chosen(self.asks.q, rows, window)
        visible = compressed.visible_blocks(self.asked, layer.ratio)
        queries = compressed.index_queries(self.u, weights, self.turn)
        chosen = compressed.best_compressed(queries, made.k, visible, layer.ratio, layer.count)
        keys = np.concatenate((made.k[:, : rows.k.shape[1]], rows.k))
        both = KVRows(rows.digest, keys, np.concatenate((made.v, rows.v)))
        return attend_chosen(self.asks.q, both, np.concatenate((chosen, window), axis=1))

    def compressor_inputs(self, index: int, state: LayerState | None, ratio: int) -> Values | None:
        """Return the numbers of a compressor's kept and new inputs."""
        x = project(self.u, self.layers[index].attention.compress)
        return compressed.numbers_after(state, x, ratio)

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
    """Return the model of a spec or its notation. A model is built once per process, as long as the latest models have
    few layers."""
    key = parse(spec) if isinstance(spec, str) else spec, exact, seed
    model = _models.pop(key, None)
    if model is None:
        model = Model(*key)
        while len(_models) >= MOST_MODELS or len(model.spec.layers) + _kept_layers() > MOST_LAYERS:
            del _models[next(iter(_models))]        # the model that was used least recently
    _models[key] = model
    return model


MOST_MODELS = 64             # models that are kept, at most
MOST_LAYERS = 384            # their layers with weights, at most; a layer takes half a MiB
_models: dict[tuple[Spec, bool, int], Model] = {}


def _kept_layers() -> int:
    """Return the number of layers with weights of the models that are kept."""
    return sum(len(spec.layers) for spec, exact, _ in _models if exact)
