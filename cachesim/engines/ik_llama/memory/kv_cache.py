"""K/V cache of a context: a single structure for all kinds of layers.

cells    positions (labels), and in each cell a K/V row per attention layer
states   a recurrent row per sequence id: NOT per cell, and unaffected by removals of cells
window   the compacted block of window rows, if the context has it

Only a purely recurrent cache and a compacted window refuse removals. The compacted window (#2253, #2266, #2310) is a
block of rows that moves forward and cannot move back far; it was derived from the code and never observed on a real
server. Source: ik_llama.cpp src/llama.cpp llama_kv_cache_seq_rm, llama_data_write (8337e4cd3).
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
from cachesim.model import KVRows, LayerState, Model


def capacity(width: int, n_ubatch: int) -> int:
    """Return the rows of a window block: the window plus a micro-batch of at least 256, rounded up to 256, as with
    flash attention, the default."""
    size = width + max(256, n_ubatch)
    return -(-size // 256) * 256


@dataclass(slots=True)
class Window:
    """Compacted sliding window of a sequence."""

    width: int     # positions that a query attends to, including its own
    cap: int       # rows that fit into the block
    base: int = 0  # first position whose window rows are present
    live: int = 0  # rows in the block: positions base .. base + live - 1

    @property
    def end(self) -> int:
        """The next position."""
        return self.base + self.live

    def advance(self, n: int) -> None:
        """Add ``n`` rows; if they do not fit, only the last ``width`` rows before them stay."""
        if self.live + n > self.cap:
            self.base += self.live - self.width
            self.live = self.width
        self.live += n

    def cut(self, p0: int, p1: int) -> bool:
        """Remove positions p0 .. p1-1. False = refused, nothing changed."""
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
    """A saved sequence: positions of its cells by cell index, those at which attention is masked and their own;
    ``rows`` None = left out. ``states`` are the recurrent rows, which have absorbed everything up to ``state_pos``;
    ``size`` in bytes."""

    size: int
    pos: np.ndarray
    own: np.ndarray
    rows: Mapping[int, KVRows] | None
    states: States
    state_pos: int
    window: Window | None = None


class KvCache:
    """The cache of a context. ``model`` None = positions only; ``recurrent`` None = as for the model."""

    def __init__(self, kind: ModelKind, size: int, n_seq: int, model: Model | None, refuses: Refuses, emit: Emit,
                 window: Window | None = None, recurrent: bool | None = None,
                 claims: Callable[[bool], bool] = bool) -> None:
        self.claims = claims                  # whether a saved state gets cells, given that it lacks its rows
        self.kind = kind
        self.refuses = refuses
        self.emit = emit
        self.model = model
        self.window = window
        self.recurrent = kind.recurrent if recurrent is None else recurrent
        self.cells = Cells(size, n_seq)
        self.rows = empty_rows(kind.attention if model else ())
        self.states: list[States] = [{} for _ in range(n_seq)]
        self.state_pos = [-1] * n_seq
        self.tail = [-1] * n_seq              # purely recurrent: last position of the sequence's only cell
        self.has_nan = False                   # a NaN was ever written

    def pos_max(self, seq: int) -> int:
        """Return the last position of the sequence; 0, not -1, if it is empty."""
        return max(0, self.cells.pos_max(seq), self.tail[seq])

    def pos_min(self, seq: int) -> int:
        """Return the engine's first position: with recurrent layers the last position, otherwise (also with states of
        the model's own) that of the first cell by index, -1 without cells."""
        if (self.kind.states and not self.kind.private) or self.recurrent:
            return self.pos_max(seq)
        return self.cells.first(seq)

    def empty(self, seq: int) -> bool:
        """True if the sequence holds nothing."""
        return self.cells.pos_max(seq) < 0 and self.tail[seq] < 0

    def seq_rm(self, seq: int, p0: int, p1: int = POS_INF) -> bool:
        """Remove positions p0 .. p1-1 from the cells; recurrent rows are unchanged. False = refused, nothing
        changed."""
        ok = not self.refuses(self.recurrent, self.tail[seq], p0, p1)
        ok = ok and (self.window is None or self.window.cut(p0, p1))
        if ok:
            self.cells.remove(seq, p0, p1)
            if self.recurrent and p0 <= self.tail[seq] < p1:
                self.tail[seq] = -1
        self.emit(SeqRm(seq, p0, p1, ok))
        return ok

    def clear(self) -> None:
        """Remove all sequences and zero all rows."""
        n_seq = self.cells.n_seq
        for seq in range(n_seq):
            self.seq_rm(seq, 0, POS_INF)
        self.cells.head = 0
        self.rows = empty_rows(self.kind.attention if self.model else ())
        self.states = [{} for _ in range(n_seq)]
        self.state_pos = [-1] * n_seq
        self.has_nan = False

    def seq_add(self, seq: int, p0: int, p1: int, delta: int) -> None:
        """Add ``delta`` to positions p0 .. p1-1 and rotate their K rows. The next search for free cells starts at 0,
        unless p0 is p1 or ``delta`` is 0."""
        if p0 == p1 or not delta:
            return
        cells = self.cells.move(seq, p0, p1, delta)
        for layer, rows in self.rows.items():
            if self.model is not None and len(cells):
                new = self.cells.pos[cells]
                turned = self.model.shift_rows(layer, read_rows(rows, cells), new - delta, new)
                write_rows(self.rows, layer, cells, turned)

    def claim(self, ubatch: Ubatch) -> int | None:
        """Give cells to the positions of a micro-batch; return the first, None = no room. Call ``advance``
        afterwards."""
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
        """Move the search start after a computed micro-batch of ``n`` tokens."""
        self.cells.head += n
        if self.cells.head >= self.cells.size:
            self.cells.head = 0

    def size_of(self, seq: int, partial: bool) -> int:
        """Return the bytes of the result of ``get``."""
        return self.kind.state_bytes(int(np.count_nonzero(self.cells.seqs[seq])), partial)

    def get(self, seq: int, partial: bool) -> Blob:
        """Return a copy of the sequence. A partial copy omits the K/V rows, except those of a compacted window."""
        held, kept = self.cells.held(seq), self.rows
        if partial:
            kept = {i: kept[i] for i in kept if self.window is not None and i in self.kind.windows}
        rows = None if partial and not kept else self._copied_rows(seq, kept)
        states = dict(self.states[seq]) if self.kind.hybrid else {}
        window = None if self.window is None else replace(self.window)
        return Blob(
            self.size_of(seq, partial),
            self.cells.pos[held].copy(),
            own=self.cells.own[held].copy(),
            rows=rows,
            states=states,
            state_pos=self.state_pos[seq],
            window=window,
        )  # fmt: skip

    def _copied_rows(self, seq: int, tables: Mapping[int, KVRows]) -> dict[int, KVRows]:
        """Return copies of the rows of a sequence, by layer."""
        cells = self.cells.of(seq)
        return {layer: read_rows(table, cells) for layer, table in tables.items()}

    def set(self, seq: int, blob: Blob) -> bool:
        """Restore a copy: free the sequence's cells and give the saved positions contiguous free cells in order. Rows
        that the copy omits are whatever the cells contain. False = no contiguous cells; the sequence is empty then. If
        the rules say so, a copy without rows leaves the cells up to its last position in place."""
        if self.kind.hybrid and blob.rows is None and not self.claims(True):
            if self.cells.pos_max(seq) < blob.state_pos:
                return False                             # fewer cells than tokens absorbed by the recurrent rows
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
        self.has_nan = self.has_nan or has_nan(blob.rows or {}, blob.states)
        return True

    def check(self) -> None:
        """Raise Crash unless the table is consistent."""
        self.cells.check()
