"""llama_decode: evaluation of a batch in micro-batches, each computed as soon as it has cells.

If a micro-batch finds no room, the micro-batches computed before it stay in the cache. Source: ik_llama.cpp
src/llama.cpp llama_decode_internal, src/llama-delta-net.cpp (8337e4cd3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Sequence

import numpy as np

from cachesim.engines.ik_llama.memory.cells import Cells
from cachesim.engines.ik_llama.memory.kv_cache import KvCache, States
from cachesim.engines.ik_llama.memory.nan_states import is_nan, mark_nan, mark_nan_outputs
from cachesim.engines.ik_llama.rules.micro_batch import ComputeGraph
from cachesim.engines.shared.batch import (
    DecodeBatch,
    TokenOutput,
    Ubatch,
    join_runs,
    micro_batch,
    read_outputs,
    split_by,
)
from cachesim.engines.shared.kv_rows import read_rows, sort_by_position, write_rows
from cachesim.events import Event
from cachesim.model import HiddenOutput, KVRows, LayerState, Model, TokenRun
from cachesim.model.attention_mask import ByPosition

OK = 0
NO_ROOM = 1
FAILED = -1
ABORTED = -3


class UbatchStore(ByPosition):
    """Store of a run of a micro-batch, whose tokens are in the cells from ``first`` on. Cells from ``n_kv`` on are
    not read; window layers also do not read cells below ``low``. ``row``: recurrent row of the run. The model evaluates
    run after run, so a store serves a single run."""

    def __init__(self, kv: KvCache, run: TokenRun, first: int, n_kv: int, low: int, row: int) -> None:
        self.kv, self.row = kv, row
        self.mine = slice(first, first + len(run.tokens))
        self.pos, self.cells = self.window_pos, self.window_cells = _read_cells(kv.cells, run.seq, n_kv)
        base = kv.window.base if kv.window is not None else 0      # a compacted window no longer has earlier rows
        if low or base:
            cells = kv.cells.of(run.seq)
            cells = cells[cells < n_kv]
            cells = cells[(cells >= low) & (kv.cells.pos[cells] >= base)]
            self.window_pos, self.window_cells = sort_by_position(cells, kv.cells.pos[cells])

    def positions(self, part: str, run: int) -> np.ndarray:
        """Return the positions (n,) that the run may attend to, ascending, including its own."""
        return self.window_pos if part == "swa" else self.pos

    def put_rows(self, layer: int, run: int, rows: KVRows) -> None:
        """Write the run's rows into their cells."""
        write_rows(self.kv.rows, layer, self.mine, rows)

    def get_rows(self, layer: int, run: int) -> KVRows:
        """Return the rows of the sequence that this layer reads, in the order of ``positions``."""
        return read_rows(self.kv.rows[layer], self.window_cells if layer in self.kv.kind.windows else self.cells)

    def get_state(self, layer: int, run: int) -> LayerState | None:
        """Return the recurrent row before the run, None = zeroed."""
        return self.kv.states[self.row].get(layer)

    def put_state(self, layer: int, run: int, state: LayerState) -> None:
        """Store the recurrent row after the run."""
        self.kv.states[self.row][layer] = state


def _read_cells(table: Cells, seq: int, n_kv: int) -> tuple[np.ndarray, np.ndarray | slice]:
    """Return the positions of a sequence in its cells below ``n_kv``, ascending, and the cells in that order, as a
    slice if they are contiguous."""
    held = table.held(seq)
    if isinstance(held, slice) and held.stop <= n_kv:
        pos = table.pos[held]
        if (pos[1:] >= pos[:-1]).all():
            return pos, held
    cells = table.of(seq)
    cells = cells[cells < n_kv]
    return sort_by_position(cells, table.pos[cells])


@dataclass(frozen=True)
class DecodeRules:
    """Rules of a version about micro-batches, as plain functions."""

    split: Callable[[Sequence[int]], int]               # sequences of the window -> tokens of the next micro-batch
    seen: Callable[[np.ndarray], int]                   # positions of the cells -> number of cells that attention reads
    # (cells read, tokens of the micro-batch, whether rows are missed from a cell on) -> first cell of window layers
    window_from: Callable[[int, int, Callable[[int], bool]], int]
    blind: Callable[[int], bool]                        # number of tokens without a visible cell -> their rows are NaN
    zeroes: Callable[[int, int], bool]                  # (first position, sequences) -> the recurrent row is zeroed
    # (last graph, graph of the micro-batch, its first cell) -> the last graph is used again
    reuses: Callable[[ComputeGraph | None, ComputeGraph, int], bool]
    keeps: Callable[[int], str]                         # tokens -> index of kept rows: "place", "position" or "" = none


class Context:
    """A cache, a model that fills it, and llama_decode. ``model`` None = positions only; ``name``: "target" or "draft".

    While ``per_step`` is set, the recurrent rows after each token of a micro-batch are kept in ``steps``, indexed as
    the rules say: by the place in the micro-batch, or by sequence and position. With places, ``matrices`` (the matrix
    part of a row) omits the last token of a micro-batch. Entries are never cleared; a place that was never written is
    absent from both and reads as zeros. Source: ik_llama.cpp src/llama-delta-net.cpp save_per_step_states,
    src/llama.cpp per_step_alloc, ggml/src/ggml.c ggml_compute_forward_ssm_conv_f32, ggml/src/iqk/iqk_mul_mat.cpp
    iqk_fused_delta_net (8337e4cd3).
    """

    def __init__(
        self, kv: KvCache, model: Model | None, n_ubatch: int, rules: DecodeRules, emit: Callable[[Event], None],
        name: str = "target",
    ) -> None:
        self.emit, self.name = emit, name
        self.kv = kv
        self.model = model
        self.n_ubatch = n_ubatch
        self.rules = rules
        self.outputs: dict[int, TokenOutput] = {}
        self.per_step = False
        self.steps: dict[int | tuple[int, int], States] = {}
        self.matrices: dict[int | tuple[int, int], States] = {}
        self.graph: ComputeGraph | None = None  # graph of the last micro-batch
        self.evaluated = 0              # evaluated tokens of the last batch
        self.image = False              # the batch is a piece of an image
        self.mixed = False              # a micro-batch was cut because it mixed sequences

    def decode(self, batch: DecodeBatch, stopped: Callable[[], bool] | None = None, image: bool = False) -> int:
        """Evaluate a batch, or a piece of an image, whose graphs are never used again. Return OK, NO_ROOM, FAILED if a
        compacted window does not end where the batch begins, or ABORTED if ``stopped`` returns True after a
        micro-batch. Afterwards ``outputs`` maps indices in the batch to model outputs."""
        self.outputs = {}
        self.evaluated = 0
        self.mixed = False
        self.image = image
        for ubatch, cut in split_by(batch, self.n_ubatch, self.rules.split):
            self.mixed |= cut
            window = self.kv.window
            if window is not None and window.end != ubatch.runs[0].pos0:
                return FAILED
            first = self.kv.claim(ubatch)
            if first is None:
                return NO_ROOM
            self.emit(micro_batch(self.name, ubatch))
            self._compute(batch, ubatch, first)
            self.kv.advance(ubatch.n)
            self.evaluated += ubatch.n
            if stopped is not None and stopped():
                return ABORTED
        return OK

    def _compute(self, batch: DecodeBatch, ubatch: Ubatch, first: int) -> None:
        kv = self.kv
        n_kv = kv.cells.size if kv.recurrent else self.rules.seen(kv.cells.pos)
        rows = self._prepare_states(batch, ubatch, first, n_kv)
        low = self.rules.window_from(n_kv, ubatch.n, lambda low: self._misses(ubatch, low))
        blind = self._blind(ubatch, first, n_kv, low) if kv.has_nan or not low <= first <= n_kv - ubatch.n else None
        if self.model is None:
            return
        before = [frozenset(i for i, state in kv.states[row].items() if is_nan(state)) for row in rows]
        hidden, kept = [], self.rules.keeps(ubatch.n) if self.per_step and kv.kind.states else ""
        for run, at, row in zip(ubatch.runs, ubatch.at, rows, strict=True):
            place = at - ubatch.at[0]
            hidden.append(self._run(
                self.model, run, first=first + place, place=place, kept=kept, n_kv=n_kv, low=low, row=row
            ))
        found = read_outputs(self.model, batch, ubatch, hidden)
        if blind is not None and kv.has_nan:
            lost = mark_nan(kv.kind.spec, kv.rows, kv.states, before, ubatch, first, n_kv, blind)
            found = mark_nan_outputs(found, ubatch, lost)
        self.outputs |= found

    def _prepare_states(self, batch: DecodeBatch, ubatch: Ubatch, first: int, n_kv: int) -> tuple[int, ...]:
        """Zero the recurrent rows that the graph zeroes; return the recurrent row of each run. A graph that is used
        again has the rows of the micro-batch that it was built for."""
        kv, start = self.kv, ubatch.at[0]
        zeroed = tuple(self.rules.zeroes(run.pos0, len(ubatch.runs)) for run in ubatch.runs)
        own = tuple(run.seq for run in ubatch.runs)
        if kv.kind.states and not kv.kind.private:
            graph = ComputeGraph(
                n_kv,
                ubatch.n,
                outputs=sum(batch.out[start : start + ubatch.n]),
                rows=own,
                zeroed=zeroed,
                per_step=self.per_step,
            )
            if self.graph is not None and not self.image and self.rules.reuses(self.graph, graph, first):
                graph = self.graph
            # The graph of a micro-batch in cell 0, or of an image, is discarded.
            self.graph = graph if first and not self.image else None
            own, zeroed = graph.rows, graph.zeroed
        for run, row, zero in zip(ubatch.runs, own, zeroed, strict=True):
            if zero:
                kv.states[row] = {}
            kv.state_pos[row] = run.pos0 + len(run.tokens) - 1
        return own

    def _misses(self, ubatch: Ubatch, low: int) -> bool:
        """True if rows of a window are in cells below ``low``."""
        cells = self.kv.cells
        return any((cells.pos[mine[mine < low]] > run.pos0 - self.kv.kind.n_swa).any()
                   for run in ubatch.runs for mine in (cells.of(run.seq),))  # fmt: skip

    def _blind(self, ubatch: Ubatch, first: int, n_kv: int, low: int) -> list[dict[str, np.ndarray]]:
        """Return for each run and kind of attention layer: (t,) True for tokens without a visible cell."""
        kv, blind = self.kv, []
        for run, at in zip(ubatch.runs, ubatch.at, strict=True):
            store = UbatchStore(kv, run, first=first + at - ubatch.at[0], n_kv=n_kv, low=low, row=run.seq)
            pos = run.pos0 + np.arange(len(run.tokens))
            seen = {layer.notation: store.view(layer.part, 0, pos).visible(layer.window)
                    for layer in kv.kind.spec.layers if layer.part}  # fmt: skip
            blind.append({name: cells.lo >= cells.hi for name, cells in seen.items()})
        n_blind = sum(int(tokens.sum()) for views in blind for tokens in views.values())
        kv.has_nan = (n_blind > 0 and self.rules.blind(n_blind)) or kv.has_nan
        return blind

    def kept_after(self, seq: int, n_past: int, step: int) -> States:
        """Return the recurrent rows kept after token ``step`` of a round that began after ``n_past`` tokens; missing
        rows are zeros."""
        key = (seq, n_past + step) if (seq, n_past + step) in self.steps else step
        matrices = self.matrices.get(key, {})
        return {layer: with_matrix(state, matrices.get(layer)) for layer, state in self.steps.get(key, {}).items()}

    def _run(self, model: Model, run: TokenRun, first: int, place: int, kept: str, n_kv: int, low: int,
             row: int) -> HiddenOutput:  # fmt: skip
        """Evaluate a run from a place of its micro-batch on; token by token if the intermediate states are kept."""
        if not kept:
            return model.forward([run], UbatchStore(self.kv, run, first, n_kv, low, row))[0]
        parts = []
        for k, token in enumerate(run.tokens):
            step = TokenRun(run.seq, run.pos0 + k, [token])
            parts += model.forward([step], UbatchStore(self.kv, step, first=first + k, n_kv=n_kv, low=low, row=row))
            key = place + k if kept == "place" else (run.seq, run.pos0 + k)
            self.steps[key] = dict(self.kv.states[row])
            if kept != "place" or k + 1 < len(run.tokens):
                self.matrices[key] = self.steps[key]
        return join_runs(parts)


def with_matrix(conv: LayerState | None, matrix: LayerState | None) -> LayerState | None:
    """Return a recurrent row with the convolution of ``conv`` and the matrix of ``matrix``; None = zeros."""
    if conv is None or conv is matrix:
        return conv
    if matrix is None:
        return conv._replace(hash=0, h=None if conv.h is None else np.zeros_like(conv.h))
    return conv._replace(hash=matrix.hash, h=matrix.h)
