"""Simplest memory that a model can run on: a table of cells for every sequence, an array per layer.

``shuffle`` assigns the cells in a random order. Only tests remove rows and states.
"""

from __future__ import annotations

import random
from typing import Sequence

import numpy as np

from cachesim.model import KVRows, LayerState, Model, TokenRun
from cachesim.model.attention_mask import ByPosition
from cachesim.model.grid import Positions
from cachesim.model.layer_kinds import KINDS, LayerKind
from cachesim.model.spec import Layer
from cachesim.model.store import HiddenOutput

CELLS = 2048


def every_kind(window: int) -> list[str]:
    """Return the notation of a layer of every kind in the table."""
    return [f"{kind.letter}{numbers(kind, window)}" for kind in KINDS.values()]


def keeps_a_state(layer: Layer) -> bool:
    """True if a layer keeps a state: of its recurrence, or the ring of its compressor."""
    return layer.recurrence is not None or layer.ratio > 0


def numbers(kind: LayerKind, window: int) -> str:
    """Return numbers for a layer of this kind: this window, and small counts."""
    small = {"window": window, "count": max(2, window // 3) * kind.unit, "ratio": 4}
    return ".".join(str(small[name]) for name in kind.numbers)


ALL_KINDS = " ".join(every_kind(8))


class PlainStore(ByPosition):
    """Rows and states of any number of sequences. Call ``begin`` before every micro-batch."""

    def __init__(self, shuffle: int | None = None) -> None:
        self.free = list(range(CELLS - 1, -1, -1))
        if shuffle is not None:
            random.Random(shuffle).shuffle(self.free)
        self.cells: dict[int, list[tuple[int, int]]] = {}       # seq -> [(pos, cell)], ascending
        self.rows: dict[int, KVRows] = {}                         # layer -> arrays over all cells
        self.states: dict[tuple[int, int], LayerState] = {}     # (seq, layer) -> state
        self.compressed: dict[tuple[int, int], list[KVRows]] = {}     # (seq, layer) -> rows by number
        self.own: list[list[int]] = []                          # run -> cells of its new rows
        self.seqs: list[int] = []                               # run -> seq

    def begin(self, runs: Sequence[TokenRun]) -> None:
        """Make room for the tokens of a micro-batch."""
        self.seqs = [run.seq for run in runs]
        self.own = [[self.free.pop() for _ in run.tokens] for run in runs]
        for run, own in zip(runs, self.own, strict=True):
            held = self.cells.setdefault(run.seq, [])
            held += [(run.pos0 + i, cell) for i, cell in enumerate(own)]
            held.sort()

    def positions(self, part: str, run: int) -> Positions:
        return np.array([pos for pos, _ in self.cells[self.seqs[run]]], np.int64)

    def put_rows(self, layer: int, run: int, rows: KVRows) -> None:
        if layer not in self.rows:
            self.rows[layer] = KVRows(*(None if x is None else np.zeros((CELLS, *x.shape[1:]), x.dtype) for x in rows))
        for kept, new in zip(self.rows[layer], rows, strict=True):
            if kept is not None and new is not None:
                kept[self.own[run]] = new

    def get_rows(self, layer: int, run: int) -> KVRows:
        return self.rows_of(layer, self.seqs[run])

    def rows_of(self, layer: int, seq: int) -> KVRows:
        """Return every row of a sequence, by position."""
        cells = [cell for _, cell in self.cells[seq]]
        return KVRows(*(None if x is None else x[cells] for x in self.rows[layer]))

    def get_state(self, layer: int, run: int) -> LayerState | None:
        return self.states.get((self.seqs[run], layer))

    def put_state(self, layer: int, run: int, state: LayerState) -> None:
        self.states[self.seqs[run], layer] = state


    def put_compressed(self, layer: int, run: int, first: int, rows: KVRows) -> None:
        kept = self.compressed.setdefault((self.seqs[run], layer), [])
        for number in range(len(rows.digest)):
            row = KVRows(*(None if x is None else x[number : number + 1] for x in rows))
            kept[first + number : first + number + 1] = [row]

    def get_compressed(self, layer: int, run: int, n: int) -> KVRows:
        return self.compressed_of(layer, self.seqs[run], n)

    def compressed_of(self, layer: int, seq: int, n: int) -> KVRows:
        """Return the first compressed rows of a sequence."""
        kept = self.compressed.get((seq, layer), [])[:n]
        if not kept:
            return KVRows(np.zeros(0, np.uint64), None, None)
        return KVRows(*(None if parts[0] is None else np.concatenate(parts) for parts in zip(*kept, strict=True)))


def feed(model: Model, store: PlainStore, runs: Sequence[TokenRun]) -> list[HiddenOutput]:
    """Evaluate a micro-batch."""
    store.begin(runs)
    return model.forward(runs, store)


def prefill(
    model: Model, store: PlainStore, seq: int, tokens: Sequence[int], chunk: int, pos0: int = 0
) -> HiddenOutput:
    """Evaluate tokens of a sequence in micro-batches of ``chunk``. Return the outputs of all of them."""
    return joined(
        [
            feed(model, store, [TokenRun(seq, pos0 + at, tokens[at : at + chunk])])[0]
            for at in range(0, len(tokens), chunk)
        ]
    )


def same_rows(a: KVRows, b: KVRows) -> bool:
    """True if both are bit-identical. Both must lack the same parts."""
    return all((x is None) == (y is None) and (x is None or np.array_equal(x, y)) for x, y in zip(a, b, strict=True))


def joined(said: Sequence[HiddenOutput]) -> HiddenOutput:
    """Concatenate the outputs of several runs."""
    x = None if said[0].x is None else np.concatenate([one.x for one in said if one.x is not None])
    return HiddenOutput(np.concatenate([one.digest for one in said]), x)
