"""The simplest memory that a model can run on: a dictionary of rows by position, for every sequence and layer.

``shuffle`` keeps the rows in cells of a random order and sorts them when they are handed out, as a real cell
table does. ``PlainStore.batch`` is what a micro-batch sees; the memory outlives it.
"""

from __future__ import annotations

import random
from typing import Sequence

import numpy as np

from cachesim.model import LayerState, Model, Rows, Run
from cachesim.model.store import Hidden, Positions


class PlainStore:
    """Rows and states of any number of sequences. Everything a run writes stays until it is dropped."""

    def __init__(self, shuffle: int | None = None) -> None:
        self.cells: dict[tuple[int, int], list[tuple[int, Rows]]] = {}      # (seq, layer) -> [(pos, one row)]
        self.states: dict[tuple[int, int], LayerState] = {}                 # (seq, layer) -> state
        self.held: dict[int, list[int]] = {}                                # seq -> positions, ascending
        self.random = None if shuffle is None else random.Random(shuffle)
        self.runs: Sequence[Run] = ()

    def begin(self, runs: Sequence[Run]) -> None:
        """Make room for the tokens of a micro-batch."""
        self.runs = runs
        for run in runs:
            self.held.setdefault(run.seq, []).extend(range(run.pos0, run.pos0 + len(run.tokens)))
            self.held[run.seq].sort()

    def positions(self, part: str, run: int) -> Positions:
        return np.array(self.held[self.runs[run].seq], np.int64)

    def put_rows(self, layer: int, run: int, rows: Rows) -> None:
        seq, pos0, tokens = self.runs[run]
        cells = self.cells.setdefault((seq, layer), [])
        cells.extend((pos0 + i, _row(rows, i)) for i in range(len(tokens)))
        if self.random:
            self.random.shuffle(cells)

    def get_rows(self, layer: int, run: int) -> Rows:
        ordered = [row for _, row in sorted(self.cells[self.runs[run].seq, layer], key=lambda cell: cell[0])]
        digest = np.array([row.digest for row in ordered], np.uint64)
        if ordered[0].k is None:
            return Rows(digest, None, None)
        return Rows(digest, np.stack([row.k for row in ordered]), np.stack([row.v for row in ordered]))  # type: ignore[arg-type]

    def get_state(self, layer: int, run: int) -> LayerState | None:
        return self.states.get((self.runs[run].seq, layer))

    def put_state(self, layer: int, run: int, state: LayerState) -> None:
        self.states[self.runs[run].seq, layer] = state


def _row(rows: Rows, i: int) -> Rows:
    if rows.k is None or rows.v is None:
        return Rows(rows.digest[i], None, None)
    return Rows(rows.digest[i], rows.k[i].copy(), rows.v[i].copy())


def feed(model: Model, store: PlainStore, runs: Sequence[Run]) -> list[Hidden]:
    """One micro-batch."""
    store.begin(runs)
    return model.forward(runs, store)


def prefill(model: Model, store: PlainStore, seq: int, tokens: Sequence[int], chunk: int, pos0: int = 0) -> Hidden:
    """Evaluate tokens of one sequence in micro-batches of ``chunk``; returns what was said about all of them."""
    said = [
        feed(model, store, [Run(seq, pos0 + at, tokens[at : at + chunk])])[0] for at in range(0, len(tokens), chunk)
    ]
    x = None if said[0].x is None else np.concatenate([one.x for one in said])      # type: ignore[misc]
    return Hidden(np.concatenate([one.digest for one in said]), x)
