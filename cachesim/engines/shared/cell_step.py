"""Store of a pass of the model over rows in numbered cells and states in numbered slots."""

from __future__ import annotations

from typing import NamedTuple, Protocol, Sequence

import numpy as np

from cachesim.engines.shared.kv_rows import RowTable, read_rows, write_rows
from cachesim.model import KVRows, LayerState, Spec, TokenRun
from cachesim.model.attention_mask import ByPosition, StretchView, View
from cachesim.model.grid import Positions

States = dict[int, LayerState]
"""States by layer."""


class CellRun(NamedTuple):
    """Consecutive tokens of a request from position ``start`` on, and the states before them."""

    request: int
    start: int
    tokens: Sequence[int]
    states: States

    @property
    def stop(self) -> int:
        """Position after the last token."""
        return self.start + len(self.tokens)


class Cells(Protocol):
    """The memory behind a pass."""

    rows: RowTable
    kind: Spec

    def cells(self, layer: int, request: int, start: int, stop: int) -> np.ndarray | slice:
        """Return the cells of a layer for positions start .. stop-1 of a request; a slice if their numbers are known to
        be consecutive."""

    def first_read(self, part: str, start: int) -> int:
        """Return the first position that a token at ``start`` reads in this part of the memory."""


class CellStep(ByPosition):
    """A pass: run k of the model is run k of ``parts``. ``after``: the states after each run."""

    def __init__(self, memory: Cells, parts: Sequence[CellRun]) -> None:
        self.memory, self.parts = memory, parts
        self.after: list[States] = [{} for _ in parts]

    def runs(self) -> list[TokenRun]:
        """Return the runs of the model."""
        return [TokenRun(k, run.start, run.tokens) for k, run in enumerate(self.parts)]

    def positions(self, part: str, run: int) -> Positions:
        """Return the positions that a run can read."""
        one = self.parts[run]
        return np.arange(self.memory.first_read(part, one.start), one.stop)

    def view(self, part: str, run: int, asked: Positions) -> View:
        """Return the rows that each token of a run sees."""
        one = self.parts[run]
        if self.memory.first_read(part, one.start):
            return super().view(part, run, asked)
        return StretchView(one.stop, len(asked))

    def put_rows(self, layer: int, run: int, rows: KVRows) -> None:
        """Write the new rows to their cells."""
        one = self.parts[run]
        write_rows(self.memory.rows, layer, self.memory.cells(layer, one.request, one.start, one.stop), rows)

    def get_rows(self, layer: int, run: int) -> KVRows:
        """Return all rows that a run can read."""
        one = self.parts[run]
        first = self.memory.first_read(self.memory.kind.layers[layer].part, one.start)
        return read_rows(self.memory.rows[layer], self.memory.cells(layer, one.request, first, one.stop))

    def get_state(self, layer: int, run: int) -> LayerState | None:
        """Return the state before the run."""
        return self.parts[run].states.get(layer)

    def put_state(self, layer: int, run: int, state: LayerState) -> None:
        """Keep the state after the run."""
        self.after[run][layer] = state
