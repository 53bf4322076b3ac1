"""What would a cold run have computed that shifts its context at the same tokens?

A whole-sequence pass cannot forget its middle, so this oracle keeps rows and states in the simplest store there is: one
sequence, rows in a list by position, nothing shared with any engine.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Sequence

import numpy as np

from cachesim.model.attention_mask import ByPosition
from cachesim.model.forward import Model
from cachesim.model.grid import Positions
from cachesim.model.store import LayerState, Rows, TokenRun


class CutAt(NamedTuple):
    """With ``held`` tokens evaluated, those at n_keep .. n_keep + n_discard - 1 go and the rest moves down."""

    held: int
    n_keep: int
    n_discard: int


class SaidCold(NamedTuple):
    """What the model says after one token."""

    digest: int
    logits: np.ndarray | None


@dataclass(slots=True)
class ListStore(ByPosition):
    """Rows of one sequence by position, states by layer."""

    n: int = 0
    _rows: dict[int, Rows] = field(default_factory=dict)
    states: dict[int, LayerState] = field(default_factory=dict)

    def positions(self, part: str, run: int) -> Positions:
        """0 .. n-1."""
        return np.arange(self.n)

    def put_rows(self, layer: int, run: int, rows: Rows) -> None:
        """Append."""
        old = self._rows.get(layer)
        self._rows[layer] = rows if old is None else _joined(old, rows)

    def get_rows(self, layer: int, run: int) -> Rows:
        """Everything."""
        return self._rows[layer]

    def get_state(self, layer: int, run: int) -> LayerState | None:
        """The last one."""
        return self.states.get(layer)

    def put_state(self, layer: int, run: int, state: LayerState) -> None:
        """Replace."""
        self.states[layer] = state

    def rows(self, layer: int) -> Rows:
        """The rows of a layer by position, for comparison."""
        return self._rows[layer]

    def state_at(self, layer: int, n: int) -> LayerState | None:
        """The state of a layer after everything, for comparison."""
        return self.states.get(layer)

    def cut(self, model: Model, cut: CutAt) -> None:
        """A context shift: states keep what they remember."""
        stop = cut.n_keep + cut.n_discard
        old = np.arange(stop, self.n)
        for layer, rows in self._rows.items():
            tail = model.shift_rows(_part(rows, slice(stop, None)), old, old - cut.n_discard)
            self._rows[layer] = _joined(_part(rows, slice(0, cut.n_keep)), tail)
        self.n -= cut.n_discard


def _part(rows: Rows, place: slice) -> Rows:
    return Rows(*(None if x is None else x[place] for x in rows))  # type: ignore[arg-type]


def _joined(a: Rows, b: Rows) -> Rows:
    pairs = zip(a, b, strict=True)
    return Rows(*(None if x is None or y is None else np.concatenate((x, y)) for x, y in pairs))  # type: ignore[arg-type]


def cold_shifted(
    model: Model, prompt: Sequence[int], generated: Sequence[int], cuts: Sequence[CutAt]
) -> tuple[list[SaidCold], ListStore]:
    """Evaluate the prompt, then token by token what was generated, cutting where told. Returns what was said after the
    prompt and after each generated token, and the store at the end."""
    store, todo, said = ListStore(), list(cuts), []
    for piece in (list(prompt), *([token] for token in generated)):
        while todo and todo[0].held == store.n:
            store.cut(model, todo.pop(0))
        start = store.n
        store.n += len(piece)
        (hidden,) = model.forward([TokenRun(0, start, piece)], store)
        logits = None if hidden.x is None else model.readout(hidden.x[-1:])[0]
        said.append(SaidCold(int(hidden.digest[-1]), logits))
    return said, store
