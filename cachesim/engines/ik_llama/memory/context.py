"""llama_decode: a batch in micro-batches, each computed as soon as it has cells; what the model sees meanwhile.

What was computed before a micro-batch found no room stays.
Source: ik_llama.cpp src/llama.cpp llama_decode_internal, src/llama-delta-net.cpp (8337e4cd3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Sequence

import numpy as np

from cachesim.engines.ik_llama.memory.kv_cache import KvCache, States
from cachesim.engines.ik_llama.memory.nan_states import is_nan, silenced, spoil
from cachesim.engines.shared.batch import DecodeBatch, TokenOutput, Ubatch, join_runs, read_outputs, split_by
from cachesim.engines.shared.kv_rows import read_rows, sort_by_position, write_rows
from cachesim.model import Hidden, LayerState, Model, Rows, TokenRun
from cachesim.model.attention_mask import ByPosition

OK, NO_ROOM, FAILED = 0, 1, -1


class UbatchStore(ByPosition):
    """The store of one run of a micro-batch, whose tokens lie in the cells from ``first`` on. Cells from ``n_kv`` on
    are not read, and window layers do not read those below ``low`` either. The model works run after run, so a store
    has one."""

    def __init__(self, kv: KvCache, run: TokenRun, first: int, n_kv: int, low: int) -> None:
        self.kv, self.seq = kv, run.seq
        self.mine = slice(first, first + len(run.tokens))
        cells = kv.cells.of(run.seq)
        if len(cells) and cells[-1] >= n_kv:
            cells = cells[cells < n_kv]
        self.pos, self.cells = self.window_pos, self.window_cells = sort_by_position(cells, kv.cells.pos[cells])
        base = kv.window.base if kv.window is not None else 0              # a compacted window has lost those before
        if low or base:
            cells = cells[(cells >= low) & (kv.cells.pos[cells] >= base)]
            self.window_pos, self.window_cells = sort_by_position(cells, kv.cells.pos[cells])

    def positions(self, part: str, run: int) -> np.ndarray:
        """(n,) labels that the run may look at, ascending, its own included."""
        return self.window_pos if part == "swa" else self.pos

    def put_rows(self, layer: int, run: int, rows: Rows) -> None:
        """Write the run's own rows into their cells."""
        write_rows(self.kv.rows, layer, self.mine, rows)

    def get_rows(self, layer: int, run: int) -> Rows:
        """The rows of the sequence that this layer reads, in the order of ``positions``."""
        return read_rows(self.kv.rows[layer], self.window_cells if layer in self.kv.kind.windows else self.cells)

    def get_state(self, layer: int, run: int) -> LayerState | None:
        """The recurrent row before the run, None = zeroed."""
        return self.kv.states[self.seq].get(layer)

    def put_state(self, layer: int, run: int, state: LayerState) -> None:
        """The recurrent row after the run."""
        self.kv.states[self.seq][layer] = state


@dataclass(frozen=True)
class DecodeRules:
    """What the rules of a version say about micro-batches, as plain functions.

    ``split``: tokens of the next micro-batch, given the sequences of the window; ``seen``: cells that attention reads,
    given the labels of the cells; ``window_from``: the first of them that window layers read, given their number, the
    tokens of the micro-batch, and whether rows are missed if it is such a cell; ``blind``: does a token that sees no
    cell leave rows that are not a number, given the number of such cases; ``zeroes``: is a row zeroed, given its first
    position and the number of sequences; ``keeps``: how recurrent rows of a micro-batch of so many tokens are kept
    ("place", "position" or "")."""

    split: Callable[[Sequence[int]], int]
    seen: Callable[[np.ndarray], int]
    window_from: Callable[[int, int, Callable[[int], bool]], int]
    blind: Callable[[int], bool]
    zeroes: Callable[[int, int], bool]
    keeps: Callable[[int], str]


class Context:
    """A cache, a model that fills it, and llama_decode between them. ``model`` None = labels only.

    While ``per_step`` is set, the recurrent rows after each token of a micro-batch are kept in ``steps`` as the rules
    say: by the place in the micro-batch, from the first one on, or by sequence and position. By place the matrix of a
    row, kept in ``matrices``, is left out after a micro-batch's last token. Nothing is emptied; a place that was never
    written holds zeros, and is in neither.
    Source: ik_llama.cpp src/llama-delta-net.cpp save_per_step_states, src/llama.cpp per_step_alloc, ggml/src/ggml.c
    ggml_compute_forward_ssm_conv_f32, ggml/src/iqk/iqk_mul_mat.cpp iqk_fused_delta_net (8337e4cd3).
    """

    def __init__(self, kv: KvCache, model: Model | None, n_ubatch: int, rules: DecodeRules) -> None:
        self.kv, self.model, self.n_ubatch, self.rules = kv, model, n_ubatch, rules
        self.spoken: dict[int, TokenOutput] = {}
        self.per_step = False
        self.steps: dict[int | tuple[int, int], States] = {}
        self.matrices: dict[int | tuple[int, int], States] = {}
        self.evaluated = 0              # tokens of the last batch that were evaluated
        self.mixed = False              # was a micro-batch of it cut because it mixed sequences?

    def decode(self, batch: DecodeBatch) -> int:
        """Evaluate a batch; returns OK, NO_ROOM, or FAILED if a compacted window does not end where the batch begins.
        ``spoken`` then maps places in the batch to what the model said there."""
        self.spoken, self.evaluated, self.mixed = {}, 0, False
        for ubatch, cut in split_by(batch, self.n_ubatch, self.rules.split):
            self.mixed |= cut
            window = self.kv.window
            if window is not None and window.end != ubatch.runs[0].pos0:
                return FAILED
            first = self.kv.claim(ubatch)
            if first is None:
                return NO_ROOM
            self._compute(batch, ubatch, first)
            self.kv.advance(ubatch.n)
            self.evaluated += ubatch.n
        return OK

    def _compute(self, batch: DecodeBatch, ubatch: Ubatch, first: int) -> None:
        kv = self.kv
        for run in ubatch.runs:
            if self.rules.zeroes(run.pos0, len(ubatch.runs)):
                kv.states[run.seq] = {}
            kv.state_pos[run.seq] = run.pos0 + len(run.tokens) - 1
        n_kv = kv.cells.size if kv.recurrent else self.rules.seen(kv.cells.pos)
        low = self.rules.window_from(n_kv, ubatch.n, lambda low: self._misses(ubatch, low))
        blind = self._blind(ubatch, first, n_kv, low) if kv.spoilt or not low <= first <= n_kv - ubatch.n else None
        if self.model is None:
            return
        before = [frozenset(i for i, state in kv.states[run.seq].items() if is_nan(state)) for run in ubatch.runs]
        hidden, kept = [], self.rules.keeps(ubatch.n) if self.per_step and kv.kind.states else ""
        for run, at in zip(ubatch.runs, ubatch.at, strict=True):
            hidden.append(self._run(self.model, run, first + at - ubatch.at[0], at - ubatch.at[0], kept, n_kv, low))
        said = read_outputs(self.model, batch, ubatch, hidden)
        if blind is not None and kv.spoilt:
            said = silenced(said, ubatch, spoil(kv.kind.spec, kv.rows, kv.states, before, ubatch, first, n_kv, blind))
        self.spoken |= said

    def _misses(self, ubatch: Ubatch, low: int) -> bool:
        """True if rows of a window lie in cells below ``low``."""
        cells = self.kv.cells
        return any((cells.pos[mine[mine < low]] > run.pos0 - self.kv.kind.n_swa).any()
                   for run in ubatch.runs for mine in (cells.of(run.seq),))  # fmt: skip

    def _blind(self, ubatch: Ubatch, first: int, n_kv: int, low: int) -> list[dict[str, np.ndarray]]:
        """For each run and kind of attention layer: (t,) True for the tokens that see no cell."""
        kv, blind = self.kv, []
        for run, at in zip(ubatch.runs, ubatch.at, strict=True):
            store = UbatchStore(kv, run, first + at - ubatch.at[0], n_kv, low)
            asked = run.pos0 + np.arange(len(run.tokens))
            seen = {layer.notation: store.view(layer.part, 0, asked).visible(layer.window)
                    for layer in kv.kind.spec.layers if layer.part}  # fmt: skip
            blind.append({name: one.lo >= one.hi for name, one in seen.items()})
        n_blind = sum(int(one.sum()) for views in blind for one in views.values())
        kv.spoilt = (n_blind > 0 and self.rules.blind(n_blind)) or kv.spoilt
        return blind

    def kept_after(self, seq: int, n_past: int, step: int) -> States:
        """The recurrent rows kept after token ``step`` of a round behind ``n_past`` tokens; zeroed where there are
        none."""
        key = (seq, n_past + step) if (seq, n_past + step) in self.steps else step
        matrices = self.matrices.get(key, {})
        return {layer: with_matrix(state, matrices.get(layer)) for layer, state in self.steps.get(key, {}).items()}

    def _run(self, model: Model, run: TokenRun, first: int, place: int, kept: str, n_kv: int, low: int) -> Hidden:
        """One run from a place of its micro-batch on; token by token where the states between are kept."""
        if not kept:
            return model.forward([run], UbatchStore(self.kv, run, first, n_kv, low))[0]
        parts = []
        for k, token in enumerate(run.tokens):
            one = TokenRun(run.seq, run.pos0 + k, [token])
            parts += model.forward([one], UbatchStore(self.kv, one, first + k, n_kv, low))
            key = place + k if kept == "place" else (run.seq, run.pos0 + k)
            self.steps[key] = dict(self.kv.states[run.seq])
            if kept != "place" or k + 1 < len(run.tokens):
                self.matrices[key] = self.steps[key]
        return join_runs(parts)


def with_matrix(conv: LayerState | None, matrix: LayerState | None) -> LayerState | None:
    """The recurrent row whose convolution is that of one and whose matrix that of another; None = zeros."""
    if conv is None or conv is matrix:
        return conv
    if matrix is None:
        return conv._replace(hash=0, h=None if conv.h is None else np.zeros_like(conv.h))
    return conv._replace(hash=matrix.hash, h=matrix.h)
