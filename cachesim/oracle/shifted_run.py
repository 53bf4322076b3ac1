"""Cold run that shifts its context at given tokens.

A whole-sequence pass cannot forget tokens in the middle, so this oracle uses a minimal store: a single sequence, rows
in a list by position, no code shared with an engine.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Sequence

import numpy as np

from cachesim.model.attention_mask import ByPosition
from cachesim.model.forward import Model
from cachesim.model.grid import Positions
from cachesim.model.store import KVRows, LayerState, TokenRun


class CutAt(NamedTuple):
    """A context shift: with ``held`` tokens evaluated, the tokens at n_keep .. n_keep + n_discard - 1 are removed and
    the later tokens move down."""

    held: int
    n_keep: int
    n_discard: int


class ColdOutput(NamedTuple):
    """Output of the reference model, which uses no cache, after a token: digest of the hidden state, and the logits
    (None for a model without arithmetic)."""

    digest: int
    logits: np.ndarray | None


@dataclass(slots=True)
class ListStore(ByPosition):
    """Rows of a sequence by position, states by layer."""

    n: int = 0
    _rows: dict[int, KVRows] = field(default_factory=dict)
    states: dict[int, LayerState] = field(default_factory=dict)

    def positions(self, part: str, run: int) -> Positions:
        """Return 0 .. n-1."""
        return np.arange(self.n)

    def put_rows(self, layer: int, run: int, rows: KVRows) -> None:
        """Append the rows."""
        old = self._rows.get(layer)
        self._rows[layer] = rows if old is None else _joined(old, rows)

    def get_rows(self, layer: int, run: int) -> KVRows:
        """Return all rows of the layer."""
        return self._rows[layer]

    def get_state(self, layer: int, run: int) -> LayerState | None:
        """Return the layer's state."""
        return self.states.get(layer)

    def put_state(self, layer: int, run: int, state: LayerState) -> None:
        """Replace the layer's state."""
        self.states[layer] = state

    def rows(self, layer: int) -> KVRows:
        """Return the rows of a layer by position, for comparison."""
        return self._rows[layer]

    def state_at(self, layer: int, n: int) -> LayerState | None:
        """Return the final state of a layer, for comparison."""
        return self.states.get(layer)

    def cut(self, model: Model, cut: CutAt) -> None:
        """Apply a context shift. Recurrent states are unchanged."""
        stop = cut.n_keep + cut.n_discard
        old = np.arange(stop, self.n)
        for layer, rows in self._rows.items():
            tail = model.shift_rows(layer, _part(rows, slice(stop, None)), old, old - cut.n_discard)
            self._rows[layer] = _joined(_part(rows, slice(0, cut.n_keep)), tail)
        self.n -= cut.n_discard


def _part(rows: KVRows, place: slice) -> KVRows:
    return KVRows(*(None if x is None else x[place] for x in rows))  # type: ignore[arg-type]


def _joined(a: KVRows, b: KVRows) -> KVRows:
    pairs = zip(a, b, strict=True)
    return KVRows(*(None if x is None or y is None else np.concatenate((x, y)) for x, y in pairs))  # type: ignore[arg-type]


def cold_shifted(
    model: Model, prompt: Sequence[int], generated: Sequence[int], cuts: Sequence[CutAt]
) -> tuple[list[ColdOutput], ListStore]:
    """Evaluate the prompt, then each generated token separately, with the given shifts. Return the outputs after the
    prompt and after each generated token, and the final store."""
    store = ListStore()
    todo = list(cuts)
    said = []
    for piece in (list(prompt), *([token] for token in generated)):
        while todo and todo[0].held == store.n:
            store.cut(model, todo.pop(0))
        start = store.n
        store.n += len(piece)
        (hidden,) = model.forward([TokenRun(0, start, piece)], store)
        logits = None if hidden.x is None else model.readout(hidden.x[-1:])[0]
        said.append(ColdOutput(int(hidden.digest[-1]), logits))
    return said, store
