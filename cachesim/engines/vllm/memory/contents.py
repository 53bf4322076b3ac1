"""Contents of the blocks: rows, states, and the step as the model sees them.

A row is in the cell of its position in the block that the worker's table names; a state is in a block of its own.
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

import numpy as np

from cachesim.engines.shared.block_pool import NULL
from cachesim.engines.shared.cell_step import CellRun, CellStep
from cachesim.engines.shared.kv_rows import empty_rows, read_rows, write_rows
from cachesim.engines.vllm.layout import Group
from cachesim.engines.vllm.row import Row
from cachesim.engines.vllm.scheduler import Part
from cachesim.model import LayerState, Spec


class Contents:
    """Rows and states of all blocks. The rows of the drafter in group g are those of layer -1 - g. ``windows``,
    ``matrices``: of each layer and block the windows of the convolution, by draft token, and the state with its
    matrix."""

    def __init__(self, kind: Spec, groups: Sequence[Group], drafted: Sequence[Group], slots: Sequence[Row]) -> None:
        self.kind, self.groups, self.slots, self.reach = kind, groups, slots, dict[str, int]()
        self.home = {layer: group for group in groups if group.kind != "mamba" for layer in group.layers}
        self.home |= {-1 - group.number: group for group in drafted}
        self.rows = empty_rows(self.home)
        self.states = [group for group in groups if group.kind == "mamba"]
        self.state_home = {layer: group for group in self.states for layer in group.layers}
        self.windows: dict[tuple[int, int], list[LayerState]] = {}
        self.matrices: dict[tuple[int, int], LayerState] = {}
        for layer in kind.layers:
            if layer.part:
                self.reach[layer.part] = max(self.reach.get(layer.part, 0), layer.window)

    def zero(self, blocks: Sequence[int]) -> None:
        """Zero the rows in these blocks."""
        for layer, group in self.home.items() if blocks else ():
            cells = cells_of(blocks, group)
            for array in self.rows[layer]:
                if array is not None:
                    array[cells[cells < len(array)]] = 0

    def copy_block(self, source: int, copy: int) -> None:
        """Copy rows and states of a block."""
        for layer, group in self.home.items():
            rows = read_rows(self.rows[layer], cells_of([source], group))
            write_rows(self.rows, layer, cells_of([copy], group), rows)
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

    def learn(self, row: Row, added: list[list[int]], whole: bool) -> None:
        """Add blocks of each group to the worker's tables of a request; ``whole``: it has no others."""
        if whole:
            row.columns, row.cells = [[] for _ in added], [np.zeros(0, np.int64) for _ in added]
        for group, blocks in zip(self.groups, added, strict=True):
            if blocks:
                row.columns[group.number] += blocks
            if blocks and group.kind != "mamba":
                row.cells[group.number] = np.concatenate((row.cells[group.number], cells_of(blocks, group)))

    def cells(self, layer: int, request: int, start: int, stop: int) -> np.ndarray:
        """Return the cells of a layer for positions start .. stop - 1 of a request."""
        return self.slots[request].cells[self.home[layer].number][start:stop]

    def first_read(self, part: str, start: int) -> int:
        """Return the first position that a token at ``start`` reads in this part of the memory."""
        size = self.reach[part]
        return start // size * size if part == "chunk" else max(0, start - size + 1) if size else 0


def cells_of(blocks: Sequence[int], group: Group) -> np.ndarray:
    """Return the cells of blocks of a group."""
    return (np.array(blocks, np.int64)[:, None] * group.block + np.arange(group.block)).ravel()


class Span(NamedTuple):
    """Tokens of a part from position ``start`` on. ``draft``: number of the draft token, 0 = none; ``inside``: the
    state after them is kept inside a chunk."""

    part: Part
    start: int
    tokens: Sequence[int]
    draft: int
    inside: bool


class StepStore(CellStep):
    """Store of a step of the model: a run for each span. The states that a step writes are put into the memory by
    ``finish``, in the order in which the kernels write."""

    def __init__(self, contents: Contents, spans: list[Span]) -> None:
        super().__init__(contents, [CellRun(span.part.row.id, span.start, span.tokens, {}) for span in spans])
        self.contents, self.spans = contents, spans

    def get_state(self, layer: int, run: int) -> LayerState | None:
        """Return the state before a span: of the span before, or of the column in which the last chunk ended."""
        span, group = self.spans[run], self.contents.state_home[layer].number
        if span.start > span.part.start:
            return self.after[run - 1][layer]
        if not span.start:
            return None
        row = span.part.row
        return self.contents.state_in(layer, row.columns[group], row.running_column[group], row.accepted - 1)

    def finish(self, run: int) -> None:
        """Write the states of a span: the convolution at the chunk's end before the state inside the chunk, and that
        before the matrix at the end."""
        memory, span = self.contents, self.spans[run]
        for layer, group in memory.state_home.items():
            columns, now = span.part.row.columns[group.number], span.part.row.running_column[group.number]
            state = self.after[run][layer]
            if span.inside:
                column = (-(-(span.part.start + span.part.n) // group.block) - 2 if group.align
                          else (span.start + len(span.tokens)) // group.block - 1)
                memory.windows[layer, columns[now]] = [self.after[run + 1][layer]]
                memory.put(layer, columns[column], [state], state)
            elif span.draft:
                memory.windows[layer, columns[now]].append(state)
                memory.matrices[layer, columns[now + span.draft]] = state
            else:
                if span.start == span.part.start:
                    memory.windows[layer, columns[now]] = [state]
                memory.matrices[layer, columns[now]] = state
