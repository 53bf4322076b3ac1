"""Contents of the blocks: rows, states, and the step as the model sees them.

A row is in the cell of its position in the block that the worker's table names; a state is in a block of its own.
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

import numpy as np

from cachesim.engines.shared.kv_rows import copy_rows, empty_rows, read_rows, write_rows
from cachesim.engines.vllm.layout import Group
from cachesim.engines.vllm.memory.pool import NULL
from cachesim.engines.vllm.row import Row
from cachesim.engines.vllm.scheduler import Part
from cachesim.model import LayerState, Rows, Spec, TokenRun
from cachesim.model.attention_mask import ByPosition
from cachesim.model.grid import Positions


class Contents:
    """Rows and states of all blocks. ``marks``: rows of the drafter, by group. ``windows``, ``matrices``: of each layer
    and block the windows of the convolution, by draft token, and the state with its matrix."""

    def __init__(self, kind: Spec, groups: Sequence[Group], marked: Sequence[Group]) -> None:
        self.kind, self.groups, self.reach = kind, groups, dict[str, int]()
        self.home = {layer: group for group in groups if group.kind != "mamba" for layer in group.layers}
        self.rows, self.marks = empty_rows(self.home), empty_rows(group.number for group in marked)
        self.states = [group for group in groups if group.kind == "mamba"]
        self.state_home = {layer: group for group in self.states for layer in group.layers}
        self.windows: dict[tuple[int, int], list[LayerState]] = {}
        self.matrices: dict[tuple[int, int], LayerState] = {}
        for layer in kind.layers:
            if layer.part:
                self.reach[layer.part] = max(self.reach.get(layer.part, 0), layer.window)

    def zero(self, blocks: Sequence[int]) -> None:
        """Zero the rows in these blocks."""
        for kept in (self.rows, self.marks):
            for layer in kept if blocks else ():
                cells = self._cells(blocks, layer, kept is self.marks)
                digest, k, v = read_rows(kept[layer], cells)
                k, v = (None if one is None else np.zeros_like(one) for one in (k, v))
                write_rows(kept, layer, cells, Rows(np.zeros_like(digest), k, v))

    def _cells(self, blocks: Sequence[int], layer: int, mark: bool) -> np.ndarray:
        size = (self.groups[layer] if mark else self.home[layer]).block
        return (np.array(blocks, np.int64)[:, None] * size + np.arange(size)).ravel()

    def copy_block(self, source: int, copy: int) -> None:
        """Copy rows and states of a block."""
        for kept in (self.rows, self.marks):
            for layer in kept:
                rows = copy_rows(read_rows(kept[layer], self._cells([source], layer, kept is self.marks)))
                write_rows(kept, layer, self._cells([copy], layer, kept is self.marks), rows)
        for layer in self.state_home:
            self.put(layer, copy, self.windows.get((layer, source)), self.matrices.get((layer, source)))

    def put(self, layer: int, block: int, windows: list[LayerState] | None, matrix: LayerState | None) -> None:
        """Overwrite both parts of a state; None = nothing was ever there."""
        for kept, value in ((self.windows, windows), (self.matrices, matrix)):
            kept.pop((layer, block), None)
            if value is not None:
                kept[layer, block] = value  # type: ignore[assignment]

    def copy_state(self, row: Row, group: Group, source: int, target: int, shift: int) -> None:
        """Copy the state between two columns, see ``state_in``."""
        columns = row.columns[group.number]
        for layer in group.layers:
            found = self.state_in(layer, columns, source, shift)
            windows = None if found is None else [found]
            self.put(layer, columns[target], windows, found)

    def state_in(self, layer: int, columns: Sequence[int], column: int, shift: int) -> LayerState | None:
        """Return the state in a column, its convolution window shifted by so many tokens, its matrix from as many
        columns further. The null block is beyond the last column."""
        first, last = (columns[at] if at < len(columns) else NULL for at in (column, column + shift))
        windows, matrix = self.windows.get((layer, first)), self.matrices.get((layer, last))
        window = windows[shift] if windows and shift < len(windows) else None
        if window is None or matrix is None:
            return window or matrix
        return LayerState(window.conv, matrix.hash, window.conv_x, matrix.h)

    def cells(self, row: Row, group: Group, start: int, stop: int) -> np.ndarray:
        """Return the cells of positions start .. stop - 1 of a request in a group."""
        if stop <= start:
            return np.zeros(0, np.int64)
        first, last = start // group.block, -(-stop // group.block)
        blocks = np.array(row.columns[group.number][first:last], np.int64)
        pos = np.arange(start, stop)
        return blocks[pos // group.block - first] * group.block + pos % group.block


class Span(NamedTuple):
    """Tokens start .. start + len(tokens) - 1 of a part. ``column``: where the state after them goes, for each group
    of states; ``draft``: number of the draft token, 0 = none; ``inside``: the state is kept inside a chunk."""

    part: Part
    start: int
    tokens: Sequence[int]
    draft: int
    inside: bool


class StepStore(ByPosition):
    """Store of a step of the model: a run for each span. The states that a step writes are put into the memory by
    ``finish``, in the order in which the kernels write."""

    def __init__(self, memory: Contents, spans: list[Span]) -> None:
        self.memory, self.spans = memory, spans
        self.made: dict[tuple[int, int], LayerState] = {}       # by layer and run

    def runs(self) -> list[TokenRun]:
        """Return the spans as runs of the model."""
        return [TokenRun(k, span.start, span.tokens) for k, span in enumerate(self.spans)]

    def positions(self, part: str, run: int) -> Positions:
        """Return the positions that the layers of a part can see."""
        return np.arange(*self._seen(part, run))

    def _seen(self, part: str, run: int) -> tuple[int, int]:
        span, size = self.spans[run], self.memory.reach[part]
        first = span.start // size * size if part == "chunk" else max(0, span.start - size + 1) if size else 0
        return first, span.start + len(span.tokens)

    def put_rows(self, layer: int, run: int, rows: Rows) -> None:
        """Write the new rows to their blocks."""
        memory, span = self.memory, self.spans[run]
        cells = memory.cells(span.part.row, memory.home[layer], span.start, span.start + len(span.tokens))
        write_rows(memory.rows, layer, cells, rows)

    def get_rows(self, layer: int, run: int) -> Rows:
        """Return all rows of the request that a layer of its part can see."""
        memory = self.memory
        part = memory.kind.layers[layer].part
        cells = memory.cells(self.spans[run].part.row, memory.home[layer], *self._seen(part, run))
        return read_rows(memory.rows[layer], cells)

    def get_state(self, layer: int, run: int) -> LayerState | None:
        """Return the state before a span: of the span before, or of the column in which the last chunk ended."""
        span = self.spans[run]
        if span.start > span.part.start:
            return self.made[layer, run - 1]
        if not span.start:
            return None
        row, group = span.part.row, self.memory.state_home[layer]
        columns, now = row.columns[group.number], row.running_column[group.number]
        return self.memory.state_in(layer, columns, now, row.accepted - 1)

    def put_state(self, layer: int, run: int, state: LayerState) -> None:
        """Keep the state after a span."""
        self.made[layer, run] = state

    def finish(self, run: int) -> None:
        """Write the states of a span: the convolution at the chunk's end before the state inside the chunk, and that
        before the matrix at the end."""
        memory, span = self.memory, self.spans[run]
        for layer, group in memory.state_home.items():
            columns, now = span.part.row.columns[group.number], span.part.row.running_column[group.number]
            state = self.made[layer, run]
            if span.inside:
                column = (-(-(span.part.start + span.part.n) // group.block) - 2 if group.align
                          else (span.start + len(span.tokens)) // group.block - 1)
                memory.windows[layer, columns[now]] = [self.made[layer, run + 1]]
                memory.put(layer, columns[column], [state], state)
            elif span.draft:
                memory.windows[layer, columns[now]].append(state)
                memory.matrices[layer, columns[now + span.draft]] = state
            else:
                if not (span.start > span.part.start):
                    memory.windows[layer, columns[now]] = [state]
                memory.matrices[layer, columns[now]] = state
