"""Evaluation of a step: rows and states in their slots.

Source: sgl-project/sglang python/sglang/srt/layers/attention/ (0.5.23).
"""

from __future__ import annotations

from typing import Sequence

import numpy as np

from cachesim.engines.shared.evaluation_cost import cost_of
from cachesim.engines.shared.kv_rows import empty_rows, read_rows, write_rows
from cachesim.engines.sglang.memory.nodes import STATE
from cachesim.engines.sglang.memory.pools import Slots
from cachesim.engines.sglang.request_row import Row
from cachesim.engines.sglang.scheduler import Part, Scheduler
from cachesim.model import Hidden, LayerState, Rows, TokenRun
from cachesim.model.attention_mask import ByPosition
from cachesim.model.grid import Positions


class Worker(Scheduler):
    """Model and contents of the slots."""

    def forward(self, parts: list[Part]) -> Sequence[Hidden | None]:
        """Evaluate the parts of a step; a part with a tracked state in its middle is evaluated in two pieces."""
        n = sum(part.stop - part.start for part in parts)
        self.log.spend(*cost_of(self.model, n, n, sum(part.stop * (part.stop - part.start) for part in parts)))
        for part in parts:
            if STATE in self.parts and part.row.copied is not None and part.row.state is not None:
                self.states.content[part.row.state] = self.states.content.get(part.row.copied)
            elif part.row.state is not None and not part.start:
                self.states.content[part.row.state] = None
            part.row.copied = None
        said: list[Hidden | None] = [None] * len(parts)
        first = [part if part.track is None else part._replace(stop=part.track) for part in parts]
        self._pass(list(enumerate(first)), said)
        for part in first:
            if part.track is not None and part.slot is not None and part.row.state is not None:
                self.states.content[part.slot] = self.states.content.get(part.row.state)
        rest = [(k, part._replace(start=part.track)) for k, part in enumerate(parts)
                if part.track is not None and part.track < part.stop]  # fmt: skip
        self._pass(rest, said)
        return said

    def decline_states(self, part: Part) -> None:
        """Log that an evaluated part made no state: at its tokens but the last, and behind the state that it keeps."""
        if STATE in self.parts and part.stop - part.start > 1:
            rule = self.rules.track_prefill if self.buffered else self.rules.give_at_chunk
            for n in {part.start, part.track or part.start}:
                self.decline(part.row, n, rule)

    def _pass(self, parts: list[tuple[int, Part]], said: list[Hidden | None]) -> None:
        if self.model is None or not parts:
            return
        step = Step(self, [part for _, part in parts])
        for (k, _), hidden in zip(parts, self.model.forward(step.runs(), step), strict=True):
            said[k] = hidden


class Step(ByPosition):
    """Store of a pass of the model: run k is part k."""

    def __init__(self, server: Worker, parts: Sequence[Part]) -> None:
        self.server, self.parts = server, parts
        self.before = [self._states(part.row) for part in parts]
        self.after: list[dict[int, LayerState]] = [{} for _ in parts]
        for part, states in zip(parts, self.after, strict=True):
            if part.row.state is not None:
                server.states.content[part.row.state] = states

    def _states(self, row: Row) -> dict[int, LayerState]:
        return (self.server.states.content.get(row.state) or {}) if row.state is not None else {}

    def runs(self) -> list[TokenRun]:
        """Return the parts as runs of the model."""
        return [TokenRun(k, part.start, part.row.all[part.start : part.stop]) for k, part in enumerate(self.parts)]

    def positions(self, part: str, run: int) -> Positions:
        """Return the positions that a run can read: all up to its end, of a window those that its first token sees."""
        first = max(0, self.parts[run].start - self.server.window + 1) if part == "swa" else 0
        return np.arange(first, self.parts[run].stop)

    def _cells(self, layer: int, run: int, first: int) -> Slots:
        row, _, stop, _, _ = self.parts[run]
        slots = row.buffer[first:stop]
        return self.server.kv.peer[slots] if self.server.kind.layers[layer].window else slots

    def put_rows(self, layer: int, run: int, rows: Rows) -> None:
        """Write the new rows to their slots."""
        write_rows(self.server.rows, layer, self._cells(layer, run, self.parts[run].start), rows)

    def get_rows(self, layer: int, run: int) -> Rows:
        """Return all rows that a run can read."""
        part = self.server.kind.layers[layer].part
        first = int(self.positions(part, run)[0])
        return read_rows(self.server.rows[layer], self._cells(layer, run, first))

    def get_state(self, layer: int, run: int) -> LayerState | None:
        """Return the state before the pass."""
        return self.before[run].get(layer)

    def put_state(self, layer: int, run: int, state: LayerState) -> None:
        """Store the state after the pass."""
        self.after[run][layer] = state
