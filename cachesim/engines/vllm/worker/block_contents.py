"""Rows and states in numbered blocks: a block has a cell for the row of each of its tokens, or holds a state."""

from __future__ import annotations

from itertools import chain
from typing import Iterable, Mapping, NamedTuple, Protocol, Sequence

import numpy as np

from cachesim.engines.shared.cell_step import CellRun, CellStep
from cachesim.engines.shared.kv_rows import empty_rows, extend_array, grown_size, read_rows, write_rows, zero_rows
from cachesim.engines.vllm.core.block_pool import NULL
from cachesim.engines.vllm.kv_cache_interface import KVCacheGroupSpec
from cachesim.model import KVRows, LayerState, Spec


class BlockUser(Protocol):
    """A request as a worker knows it: its blocks of each group, and the cell of each position in them; column of the
    running state by group, and tokens accepted in the last step."""

    req_id: int
    block_ids: list[list[int]]
    cells: list[np.ndarray]
    running_column: dict[int, int]
    num_accepted_tokens: int


class Chunk(Protocol):
    """Tokens start .. start + n - 1 of a request, which a step evaluates."""

    start: int
    n: int

    @property
    def state(self) -> BlockUser: ...


class BlockSpan(NamedTuple):
    """Tokens of a chunk from position ``start`` on. ``draft``: number of the draft token, 0 = none; ``inside``: their
    state is kept inside the chunk."""

    chunk: Chunk
    start: int
    tokens: Sequence[int]
    draft: int
    inside: bool


class BlockContents:
    """Contents of all blocks. ``with_rows``, ``states``: groups that keep rows, and states. The rows of the drafter in
    group g are those of layer -1 - g. ``windows``, ``matrices``: of each layer and block the windows of the
    convolution, by draft token, and the state with its matrix. The blocks of a user only grow: a column that a
    scheduler empties or moves keeps the old block here."""

    def __init__(self, kind: Spec, kv_cache_groups: Sequence[KVCacheGroupSpec], drafted: Sequence[KVCacheGroupSpec],
                 users: Mapping[int, BlockUser]) -> None:
        self.kind = kind
        self.with_rows = [group for group in kv_cache_groups if group.kind != "mamba"]
        self.states = [group for group in kv_cache_groups if group.kind == "mamba"]
        self.users = users
        self.home = {layer: group for group in self.with_rows for layer in group.layers}
        self.home |= {-1 - group.group_id: group for group in drafted}
        self.state_home = {layer: group for group in self.states for layer in group.layers}
        self.rows = empty_rows(self.home)
        self.windows: dict[tuple[int, int], list[LayerState]] = {}
        self.matrices: dict[tuple[int, int], LayerState] = {}
        self.reach = {layer.part: layer.window for layer in sorted(kind.layers, key=lambda layer: layer.window)}

    def change(self, zeroed: Sequence[int], copies: Iterable[tuple[int, int]]) -> None:
        """Zero the rows in blocks; copy rows and states of blocks to others."""
        for layer, group in self.home.items() if zeroed else ():
            zero_rows(self.rows[layer], cells_of(zeroed, group.block_size))
        for source, copy in copies:
            for layer, group in self.home.items():
                rows = read_rows(self.rows[layer], cells_of([source], group.block_size))
                write_rows(self.rows, layer, cells_of([copy], group.block_size), rows)
            for layer in self.state_home:
                self.put(layer, copy, self.windows.get((layer, source)), self.matrices.get((layer, source)))

    def put(self, layer: int, block: int, windows: list[LayerState] | None, matrix: LayerState | None) -> None:
        """Overwrite both parts of a state; None = nothing was ever there."""
        for kept, value in ((self.windows, windows), (self.matrices, matrix)):
            kept.pop((layer, block), None)
            if value is not None:
                kept[layer, block] = value  # type: ignore[assignment]

    def copy_state(self, user: BlockUser, group: KVCacheGroupSpec, source: int, target: int, shift: int) -> None:
        """Copy the state between two columns, see ``state_in``."""
        for layer in group.layers:
            found = self.state_in(layer, user.block_ids[group.group_id], source, shift)
            self.put(layer, user.block_ids[group.group_id][target], found and [found], found)

    def state_in(self, layer: int, columns: Sequence[int], column: int, shift: int) -> LayerState | None:
        """Return the state in a column, its convolution window shifted by so many tokens, its matrix from as many
        columns further. The null block is beyond the last column."""
        first, last = (columns[at] if at < len(columns) else NULL for at in (column, column + shift))
        windows = self.windows.get((layer, first))
        matrix = self.matrices.get((layer, last))
        window = windows[shift] if windows and shift < len(windows) else None
        if window is None or matrix is None:
            return window or matrix
        return LayerState(window.conv, matrix.hash, window.conv_x, matrix.h)

    def learn(self, user: BlockUser, added: Sequence[Sequence[int]], whole: bool) -> None:
        """Add blocks of each group to those of a user; ``whole``: it has no others."""
        if whole:
            user.block_ids = [[] for _ in added]
            user.cells = [np.zeros(0, np.int64) for _ in added]
        for group in chain(self.with_rows, self.states):
            user.block_ids[group.group_id] += added[group.group_id]
        for group in self.with_rows:
            if blocks := added[group.group_id]:
                known = user.cells[group.group_id]
                user.cells[group.group_id] = appended(known, cells_of(blocks, group.block_size))

    def cells(self, layer: int, request: int, start: int, stop: int) -> np.ndarray:
        """Return the cells of a layer for positions start .. stop - 1 of a request."""
        return self.users[request].cells[self.home[layer].group_id][start:stop]

    def read(self, layers: Iterable[int], blocks: Sequence[int], pos: np.ndarray,
             first: int = 0) -> dict[int, KVRows]:  # fmt: skip
        """Return the rows of layers at positions of a table of blocks, for reading only. ``first``: blocks before it
        are not in the table."""
        cells: dict[int, np.ndarray] = {}                       # by size of a block [tokens]
        found: dict[int, KVRows] = {}
        for layer in layers:
            size = self.home[layer].block_size
            if size not in cells:
                cells[size] = cells_at(pos, blocks, first, size)
            found[layer] = read_rows(self.rows[layer], cells[size])
        return found

    def first_read(self, part: str, start: int) -> int:
        """Return the first position that a token at ``start`` reads in this part of the memory."""
        size = self.reach[part]
        return start // size * size if part == "chunk" else max(0, start - size + 1) if size else 0


class BlockStep(CellStep):
    """Store of a step of the model: a run for each span. The states that a step writes are put into the memory by
    ``finish``, in the order in which the kernels write. ``aligned``: the one inside a chunk goes to the column before
    the last, else to that of its length."""

    def __init__(self, contents: BlockContents, spans: Sequence[BlockSpan], aligned: bool) -> None:
        super().__init__(contents, [CellRun(span.chunk.state.req_id, span.start, span.tokens, {}) for span in spans])
        self.contents = contents
        self.spans = spans
        self.aligned = aligned

    def get_state(self, layer: int, run: int) -> LayerState | None:
        """Return the state before a span: of the span before, or of the column in which the last chunk ended."""
        span = self.spans[run]
        group = self.contents.state_home[layer].group_id
        if span.start > span.chunk.start:
            return self.after[run - 1][layer]
        if not span.start:
            return None
        user = span.chunk.state
        column = user.running_column[group]
        shift = user.num_accepted_tokens - 1
        return self.contents.state_in(layer, user.block_ids[group], column, shift)

    def finish(self, run: int) -> None:
        """Write the states of a span: first the convolution at the end of the chunk, last the matrix there."""
        memory = self.contents
        span = self.spans[run]
        for layer, group in memory.state_home.items():
            user = span.chunk.state
            state = self.after[run][layer]
            columns = user.block_ids[group.group_id]
            now = user.running_column[group.group_id]
            if span.inside:
                column = (-(-(span.chunk.start + span.chunk.n) // group.block_size) - 2 if self.aligned
                          else (span.start + len(span.tokens)) // group.block_size - 1)
                memory.windows[layer, columns[now]] = [self.after[run + 1][layer]]
                memory.put(layer, columns[column], [state], state)
            elif span.draft:
                memory.windows[layer, columns[now]].append(state)
                memory.matrices[layer, columns[now + span.draft]] = state
            else:
                if span.start == span.chunk.start:
                    memory.windows[layer, columns[now]] = [state]
                memory.matrices[layer, columns[now]] = state


def appended(table: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Return a table with more cells at its end. It is a view of an array that doubles when it is full."""
    buffer = table if table.base is None else table.base
    stop = len(table) + len(cells)
    if stop > len(buffer):
        buffer = extend_array(table, grown_size(len(buffer), stop))
    buffer[len(table) : stop] = cells
    return buffer[:stop]


def cells_at(pos: np.ndarray, blocks: Sequence[int], first: int, size: int) -> np.ndarray:
    """Return the cells of positions in a table of blocks of this size, the first of which is block ``first`` of all."""
    if len(blocks) == 1:
        return pos + (blocks[0] - first) * size                 # most prefixes end in a single block of their own
    table = np.array(blocks, np.int64)
    cells: np.ndarray = table[pos // size - first] * size + pos % size
    return cells


def cells_of(blocks: Sequence[int], size: int) -> np.ndarray:
    """Return the cells of blocks of this size."""
    return (np.array(blocks, np.int64)[:, None] * size + np.arange(size)).ravel()
