"""The K/V cache of a context: one structure for everything, whatever the layers are.

cells    labels of positions, and in each cell a K/V row per attention layer
states   one recurrent row per sequence id: NOT per cell, and no removal of cells touches it
window   the compacted block of window rows, where the context has one

A removal is refused only by a pure recurrent cache and by a compacted window.
Source: ik_llama.cpp src/llama.cpp llama_kv_cache_seq_rm, llama_data_write (8337e4cd3).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Callable, Mapping

import numpy as np

from cachesim.base.tokens import POS_INF
from cachesim.engines.base import Immutable
from cachesim.engines.ik_llama.memory.cells import Cells
from cachesim.engines.ik_llama.memory.model_layout import ModelKind
from cachesim.engines.ik_llama.memory.nan_states import has_nan
from cachesim.engines.shared.batch import Ubatch
from cachesim.engines.shared.kv_rows import empty_rows, read_rows, write_rows
from cachesim.events import Event, SeqRm
from cachesim.model import LayerState, Model, Rows

# A compacted sliding window: a block of rows that moves on, and cannot move back far.
#
# base    first position whose window rows are still there
# live    rows in the block: positions base .. base + live - 1
# width   what a query sees, itself included
# cap     rows that the block has room for
#
# Source: ik_llama.cpp #2253, #2266, #2310 (8337e4cd3). Derived from the code; no run of a real server was seen.

def capacity(width: int, n_ubatch: int, pad: int = 256) -> int:
    """Rows of the block: the window and a micro-batch of at least 256, in units of ``pad`` (256 with flash
    attention, the default)."""
    size = width + max(256, n_ubatch)
    return -(-size // pad) * pad


@dataclass(slots=True)
class Window:
    """The block of one sequence."""

    width: int
    cap: int
    base: int = 0
    live: int = 0

    @property
    def end(self) -> int:
        """The position that comes next."""
        return self.base + self.live

    def advance(self, n: int) -> None:
        """Room for n tokens: where there is none, only the last ``width`` rows stay. Then they are there."""
        if self.live + n > self.cap:
            self.base += self.live - self.width
            self.live = self.width
        self.live += n

    def cut(self, p0: int, p1: int) -> bool:
        """Give up positions p0 .. p1-1. False = refused, nothing changed."""
        if p0 >= self.end or p1 <= self.base:
            return True
        if p1 < self.end:
            return False
        if p0 == 0:
            self.base = self.live = 0
            return True
        if self.base and p0 < self.base + self.width:
            return False
        self.live = p0 - self.base
        return True


Emit = Callable[[Event], None]
Refuses = Callable[[bool, int, int, int], bool]
"""(pure recurrent, last position, p0, p1) -> may this range not be removed? A rule of the profile."""

States = dict[int, LayerState | None]


@dataclass(frozen=True, slots=True, eq=False)
class Blob(Immutable):
    """A saved sequence: labels of its cells by cell index, and their own positions; ``rows`` None = left out.
    ``states`` are the recurrent rows, which have absorbed everything up to ``state_pos``; ``size`` in bytes."""

    size: int
    pos: np.ndarray
    own: np.ndarray
    rows: Mapping[int, Rows] | None
    states: States
    state_pos: int
    window: Window | None = None


class KvCache:
    """The cache of one context. ``model`` None = labels only; ``recurrent`` None = as the model is."""

    def __init__(self, kind: ModelKind, size: int, n_seq: int, model: Model | None, refuses: Refuses, emit: Emit,
                 window: Window | None = None, recurrent: bool | None = None,
                 claims: Callable[[bool], bool] = bool) -> None:
        self.claims = claims                  # does a saved state get cells, given whether it lacks its rows?
        self.kind, self.refuses, self.emit, self.model, self.window = kind, refuses, emit, model, window
        self.recurrent = kind.recurrent if recurrent is None else recurrent
        self.cells = Cells(size, n_seq)
        self.rows = empty_rows(kind.attention if model else ())
        self.states: list[States] = [{} for _ in range(n_seq)]
        self.state_pos = [-1] * n_seq
        self.tail = [-1] * n_seq              # pure recurrent: last position of the sequence's one cell
        self.spoilt = False                   # was anything ever written that is not a number?

    def pos_max(self, seq: int) -> int:
        """Last position of the sequence; 0, not -1, if it is empty."""
        return max(0, self.cells.pos_max(seq), self.tail[seq])

    def pos_min(self, seq: int) -> int:
        """What the engine takes for the first position: with recurrent layers the last one, else that of the first cell
        by index, -1 if there is none."""
        if self.kind.states or self.recurrent:
            return self.pos_max(seq)
        return self.cells.first(seq)

    def empty(self, seq: int) -> bool:
        """Does the sequence hold nothing?"""
        return self.cells.pos_max(seq) < 0 and self.tail[seq] < 0

    # --- sequence operations ---------------------------------------------------------------------------------

    def seq_rm(self, seq: int, p0: int, p1: int = POS_INF) -> bool:
        """Remove positions p0 .. p1-1 from the cells; recurrent rows stay as they are. False = refused, unchanged."""
        ok = not self.refuses(self.recurrent, self.tail[seq], p0, p1)
        ok = ok and (self.window is None or self.window.cut(p0, p1))
        if ok:
            self.cells.remove(seq, p0, p1)
            if self.recurrent and p0 <= self.tail[seq] < p1:
                self.tail[seq] = -1
        self.emit(SeqRm(seq, p0, p1, ok))
        return ok

    def seq_add(self, seq: int, p0: int, p1: int, delta: int) -> None:
        """Move labels p0 .. p1-1; their K rows are turned on at once. The search for free cells begins anew, unless
        p0 is p1 or nothing is to be added."""
        if p0 == p1 or not delta:
            return
        cells = self.cells.move(seq, p0, p1, delta)
        for layer, rows in self.rows.items():
            if self.model is not None and len(cells):
                new = self.cells.pos[cells]
                write_rows(self.rows, layer, cells, self.model.shift_rows(read_rows(rows, cells), new - delta, new))

    # --- decoding --------------------------------------------------------------------------------------------

    def claim(self, ubatch: Ubatch) -> int | None:
        """Cells for a micro-batch, labelled; returns the first, None = no room. ``advance`` is due afterwards."""
        if self.recurrent:
            for run in ubatch.runs:
                self.tail[run.seq] = run.pos0 + len(run.tokens) - 1
            return 0
        if self.cells.head > self.cells.used + 2 * ubatch.n:
            self.cells.head = 0
        first = self.cells.find(ubatch.n)
        if first is None:
            return None
        at = first
        for run in ubatch.runs:
            pos = np.arange(run.pos0, run.pos0 + len(run.tokens))
            self.cells.place(at, pos, pos, run.seq)
            at += len(pos)
        if self.window is not None:
            self.window.advance(ubatch.n)
        return first

    def advance(self, n: int) -> None:
        """The micro-batch of n tokens is computed."""
        self.cells.head += n
        if self.cells.head >= self.cells.size:
            self.cells.head = 0

    # --- saving and loading ----------------------------------------------------------------------------------

    def size_of(self, seq: int, partial: bool) -> int:
        """Bytes that ``get`` would give."""
        return self.kind.state_bytes(int(self.cells.seqs[seq].sum()), partial)

    def get(self, seq: int, partial: bool) -> Blob:
        """A copy of the sequence. A partial one leaves the K/V rows out, except those of a compacted window."""
        cells, kept = self.cells.of(seq), self.rows
        if partial:
            kept = {i: kept[i] for i in kept if self.window is not None and i in self.kind.windows}
        rows = None if partial and not kept else {layer: read_rows(one, cells) for layer, one in kept.items()}
        states = dict(self.states[seq]) if self.kind.hybrid else {}
        window = None if self.window is None else replace(self.window)
        return Blob(self.size_of(seq, partial), self.cells.pos[cells], self.cells.own[cells], rows, states,
                    self.state_pos[seq], window)  # fmt: skip

    def set(self, seq: int, blob: Blob) -> bool:
        """Put a copy back: the sequence's cells are freed, a stretch of free neighbours gets the saved labels in order.
        Rows that the copy leaves out are whatever lies there. False = no stretch; the sequence is empty then. Where the
        rules say so, a copy without rows leaves the cells up to its last position where they are."""
        if self.kind.hybrid and blob.rows is None and not self.claims(True):
            if self.cells.pos_max(seq) < blob.state_pos:
                return False                             # fewer cells than the recurrent rows have absorbed tokens
            self.cells.remove(seq, blob.state_pos + 1, POS_INF)
            self.states[seq], self.state_pos[seq] = dict(blob.states), blob.state_pos
            return True
        self.cells.remove(seq, 0, POS_INF)
        n = len(blob.pos)
        first = self.cells.find(n)
        if first is None:
            return False
        self.cells.place(first, blob.pos, blob.own, seq)
        for layer, rows in (blob.rows or {}).items():
            write_rows(self.rows, layer, slice(first, first + n), rows)
        if self.kind.hybrid:
            self.states[seq], self.state_pos[seq] = dict(blob.states), blob.state_pos
        if blob.window is not None:
            self.window = replace(blob.window)
        self.spoilt = self.spoilt or has_nan(blob.rows or {}, blob.states)
        return True

    def check(self) -> None:
        """Raise Crash unless the table is consistent."""
        self.cells.check()
