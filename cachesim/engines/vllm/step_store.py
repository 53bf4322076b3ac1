"""A step as the model sees it: rows and states behind the block tables of the worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Sequence

import numpy as np

from cachesim.engines.shared.kv_rows import read_rows, write_rows
from cachesim.engines.vllm.scheduler import Part
from cachesim.model import LayerState, Rows, TokenRun
from cachesim.model.attention_mask import ByPosition
from cachesim.model.grid import Positions

if TYPE_CHECKING:
    from cachesim.engines.vllm.worker import Worker


class Span(NamedTuple):
    """Tokens start .. start + len(tokens) - 1 of a part. ``draft``: number of the draft token, 0 = none; ``inside``:
    the state after them is kept inside a chunk."""

    part: Part
    start: int
    tokens: Sequence[int]
    draft: int
    inside: bool


class StepStore(ByPosition):
    """Store of a step of the model: a run for each span. The states that a step writes are put into the memory by
    ``finish``, in the order in which the kernels write."""

    def __init__(self, worker: Worker, spans: list[Span]) -> None:
        self.worker, self.spans = worker, spans
        self.made: dict[tuple[int, int], LayerState] = {}       # by layer and run

    def runs(self) -> list[TokenRun]:
        """Return the spans as runs of the model."""
        return [TokenRun(k, span.start, span.tokens) for k, span in enumerate(self.spans)]

    def positions(self, part: str, run: int) -> Positions:
        """Return the positions that the layers of a part can see."""
        return np.arange(*self._seen(part, run))

    def _seen(self, part: str, run: int) -> tuple[int, int]:
        span, size = self.spans[run], self.worker.reach[part]
        first = span.start // size * size if part == "chunk" else max(0, span.start - size + 1) if size else 0
        return first, span.start + len(span.tokens)

    def put_rows(self, layer: int, run: int, rows: Rows) -> None:
        """Write the new rows to their blocks."""
        worker, span = self.worker, self.spans[run]
        cells = worker.cells(span.part.row, worker.home[layer], span.start, span.start + len(span.tokens))
        write_rows(worker.rows, layer, cells, rows)

    def get_rows(self, layer: int, run: int) -> Rows:
        """Return all rows of the request that a layer of its part can see."""
        worker = self.worker
        part = worker.kind.layers[layer].part
        cells = worker.cells(self.spans[run].part.row, worker.home[layer], *self._seen(part, run))
        return read_rows(worker.rows[layer], cells)

    def get_state(self, layer: int, run: int) -> LayerState | None:
        """Return the state before a span: of the span before, or of the column in which the last chunk ended."""
        span = self.spans[run]
        if span.start > span.part.start:
            return self.made[layer, run - 1]
        if not span.start:
            return None
        row, group = span.part.row, self.worker.state_home[layer]
        columns, now = row.columns[group.number], row.running_column[group.number]
        return self.worker.state_in(layer, columns, now, row.accepted - 1)

    def put_state(self, layer: int, run: int, state: LayerState) -> None:
        """Keep the state after a span."""
        self.made[layer, run] = state

    def finish(self, run: int) -> None:
        """Write the states of a span: the convolution at the chunk's end before the state inside the chunk, and that
        before the matrix at the end."""
        worker, span = self.worker, self.spans[run]
        for layer, group in worker.state_home.items():
            columns, now = span.part.row.columns[group.number], span.part.row.running_column[group.number]
            state = self.made[layer, run]
            if span.inside:
                column = (-(-(span.part.start + span.part.n) // group.block) - 2 if group.align
                          else (span.start + len(span.tokens)) // group.block - 1)
                worker.windows[layer, columns[now]] = [self.made[layer, run + 1]]
                worker._put(layer, columns[column], [state], state)
            elif span.draft:
                worker.windows[layer, columns[now]].append(state)
                worker.matrices[layer, columns[now + span.draft]] = state
            else:
                if not (span.start > span.part.start):
                    worker.windows[layer, columns[now]] = [state]
                worker.matrices[layer, columns[now]] = state
