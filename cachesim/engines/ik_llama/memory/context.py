"""llama_decode: a batch in micro-batches, each computed as soon as it has cells; what the model sees meanwhile.

A recurrent row is zeroed where a text begins, if the rules say so. What was computed before a micro-batch found no room
stays.
Source: ik_llama.cpp src/llama.cpp llama_decode_internal, src/llama-delta-net.cpp (8337e4cd3).
"""

from __future__ import annotations

from typing import Callable

import numpy as np

from cachesim.engines.ik_llama.memory.kv import KvCache, States
from cachesim.engines.shared.batch import Batch, Ubatch, split_simple
from cachesim.engines.shared.batch_outputs import Spoken, joined, spoken
from cachesim.engines.shared.rows import by_position, put, take
from cachesim.model import Hidden, LayerState, Model, Rows, Run
from cachesim.model.attention_mask import ByPosition

OK, NO_ROOM, FAILED = 0, 1, -1


class UbatchStore(ByPosition):
    """The store of one run of a micro-batch, whose tokens lie in the cells from ``first`` on. The model works run after
    run, so a store has one."""

    def __init__(self, kv: KvCache, run: Run, first: int) -> None:
        self.kv, self.seq = kv, run.seq
        self.mine = slice(first, first + len(run.tokens))
        cells = kv.cells.of(run.seq)
        self.pos, self.cells = by_position(cells, kv.cells.pos[cells])
        base = kv.window.base if kv.window is not None else 0
        self.late = int(np.searchsorted(self.pos, base)) if base else 0    # rows that a compacted window has lost

    def positions(self, part: str, run: int) -> np.ndarray:
        """(n,) labels that the run may look at, ascending, its own included."""
        return self.pos[self.late :] if part == "swa" else self.pos

    def put_rows(self, layer: int, run: int, rows: Rows) -> None:
        """Write the run's own rows into their cells."""
        put(self.kv.rows, layer, self.mine, rows)

    def get_rows(self, layer: int, run: int) -> Rows:
        """Every row of the sequence, in the order of ``positions``."""
        rows = take(self.kv.rows[layer], self.cells)
        return take(rows, slice(self.late, None)) if self.late and layer in self.kv.kind.windows else rows

    def get_state(self, layer: int, run: int) -> LayerState | None:
        """The recurrent row before the run, None = zeroed."""
        return self.kv.states[self.seq].get(layer)

    def put_state(self, layer: int, run: int, state: LayerState) -> None:
        """The recurrent row after the run."""
        self.kv.states[self.seq][layer] = state


def alone(runs: int) -> bool:
    """A row is zeroed in a micro-batch of one sequence."""
    return runs == 1


def nothing(n: int) -> str:
    """No rows are kept between the tokens of a micro-batch."""
    return ""


class Context:
    """A cache, a model that fills it, and llama_decode between them. ``model`` None = labels only.

    While ``per_step`` is set, the recurrent rows after each token of a micro-batch are kept in ``steps`` as the rules
    say: by the place in the micro-batch, from the first one on, or by sequence and position. Nothing is emptied; a
    place that was never written holds a zeroed row, and is not in ``steps``. ``zeroes``: is a row zeroed where its text
    begins, in a micro-batch of so many sequences? ``keeps``: how rows of a micro-batch of so many tokens are kept
    ("place", "position" or "").
    Source: ik_llama.cpp src/llama-delta-net.cpp save_per_step_states, src/llama.cpp per_step_alloc (8337e4cd3).
    """

    def __init__(
        self, kv: KvCache, model: Model | None, n_ubatch: int, zeroes: Callable[[int], bool] = alone,
        keeps: Callable[[int], str] = nothing,
    ) -> None:
        self.kv, self.model, self.n_ubatch = kv, model, n_ubatch
        self.zeroes, self.keeps = zeroes, keeps
        self.spoken: dict[int, Spoken] = {}
        self.per_step = False
        self.steps: dict[int | tuple[int, int], States] = {}

    def decode(self, batch: Batch) -> int:
        """Evaluate a batch; returns OK, NO_ROOM, or FAILED if a compacted window does not end where the batch begins.
        ``spoken`` then maps places in the batch to what the model said there."""
        self.spoken = {}
        for ubatch in split_simple(batch, self.n_ubatch):
            window = self.kv.window
            if window is not None and window.end != ubatch.runs[0].pos0:
                return FAILED
            first = self.kv.claim(ubatch)
            if first is None:
                return NO_ROOM
            self._compute(batch, ubatch, first)
            self.kv.advance(ubatch.n)
        return OK

    def _compute(self, batch: Batch, ubatch: Ubatch, first: int) -> None:
        kv = self.kv
        for run in ubatch.runs:
            if run.pos0 == 0 and self.zeroes(len(ubatch.runs)):
                kv.states[run.seq] = {}
        for run in ubatch.runs:
            kv.state_pos[run.seq] = run.pos0 + len(run.tokens) - 1
        if self.model is None:
            return
        hidden, kept = [], self.keeps(ubatch.n) if self.per_step and kv.kind.states else ""
        for run, at in zip(ubatch.runs, ubatch.at, strict=True):
            hidden.append(self._run(self.model, run, first + at - ubatch.at[0], at - ubatch.at[0], kept))
        self.spoken |= spoken(self.model, batch, ubatch, hidden)

    def kept_after(self, seq: int, n_past: int, step: int) -> States:
        """The recurrent rows kept after token ``step`` of a round behind ``n_past`` tokens; zeroed where there are
        none."""
        return dict(self.steps.get((seq, n_past + step), self.steps.get(step, {})))

    def _run(self, model: Model, run: Run, first: int, place: int, kept: str) -> Hidden:
        """One run from a place of its micro-batch on; token by token where the states between are kept."""
        if not kept:
            return model.forward([run], UbatchStore(self.kv, run, first))[0]
        parts = []
        for k, token in enumerate(run.tokens):
            one = Run(run.seq, run.pos0 + k, [token])
            parts += model.forward([one], UbatchStore(self.kv, one, first + k))
            key = place + k if kept == "place" else (run.seq, run.pos0 + k)
            self.steps[key] = dict(self.kv.states[run.seq])
        return joined(parts)
