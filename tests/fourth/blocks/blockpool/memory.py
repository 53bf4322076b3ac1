"""Contents of the blocks: rows in cells, B of them per block, and states."""

from __future__ import annotations

from typing import NamedTuple, Sequence

import numpy as np

from blockpool.row import Row
from cachesim.engines.inspection import RowsPart, StatePart
from cachesim.engines.shared.kv_rows import empty_rows, read_rows, write_rows
from cachesim.model import KVRows, LayerState, Spec, TokenRun
from cachesim.model.attention_mask import ByPosition
from cachesim.model.grid import Positions


class Chunk(NamedTuple):
    """Tokens start .. stop-1 of a request that are evaluated in a step."""

    row: Row
    start: int
    stop: int


class Memory:
    """The cells of all blocks, and the state of each block by layer."""

    def __init__(self, spec: Spec, block: int) -> None:
        self.spec, self.block = spec, block
        self.rows = empty_rows(i for i, layer in enumerate(spec.layers) if layer.part)
        self.states: dict[int, dict[int, LayerState]] = {}
        self.recurrent = [i for i, layer in enumerate(spec.layers) if layer.recurrence]

    def cells(self, blocks: Sequence[int], start: int, stop: int) -> np.ndarray:
        """Return the cells of positions start .. stop-1 of a table of blocks."""
        pos = np.arange(start, stop)
        ids = np.array(blocks, np.int64)
        return ids[pos // self.block] * self.block + pos % self.block

    def part(self, blocks: Sequence[int], stop: int, start: int = 0) -> tuple[RowsPart, ...]:
        """Return the rows of the positions in these blocks, the first block beginning at ``start``; () without
        attention."""
        if not self.rows:
            return ()
        cells = self.cells(blocks, 0, stop - start)
        rows = {layer: read_rows(kept, cells) for layer, kept in self.rows.items()}
        return (RowsPart(0, np.arange(start, stop), rows),)

    def state(self, block: int | None, stop: int) -> StatePart | None:
        """Return the state after ``stop`` tokens, None for a model without states."""
        if not self.recurrent:
            return None
        held = {} if block is None else self.states.get(block, {})
        return StatePart(stop - 1, {layer: held.get(layer) for layer in self.recurrent})


class Step(ByPosition):
    """Store of a step of the model: run k is chunk k."""

    def __init__(self, memory: Memory, chunks: Sequence[Chunk]) -> None:
        self.memory, self.chunks = memory, chunks
        self.before = [self._state(chunk.row, chunk.start) for chunk in chunks]

    def runs(self) -> list[TokenRun]:
        """Return the chunks as runs of the model."""
        return [TokenRun(k, part.start, part.row.all[part.start : part.stop]) for k, part in enumerate(self.chunks)]

    def positions(self, part: str, run: int) -> Positions:
        """Return all positions up to the end of the chunk."""
        return np.arange(self.chunks[run].stop)

    def put_rows(self, layer: int, run: int, rows: KVRows) -> None:
        """Write the new rows to their blocks."""
        chunk = self.chunks[run]
        write_rows(self.memory.rows, layer, self.memory.cells(chunk.row.rows, chunk.start, chunk.stop), rows)

    def get_rows(self, layer: int, run: int) -> KVRows:
        """Return all rows of the request."""
        chunk = self.chunks[run]
        return read_rows(self.memory.rows[layer], self.memory.cells(chunk.row.rows, 0, chunk.stop))

    def get_state(self, layer: int, run: int) -> LayerState | None:
        """Return the state before the step: a run never reads states written in this step."""
        return self.before[run].get(layer)

    def put_state(self, layer: int, run: int, state: LayerState) -> None:
        """Store the state in the column in which the chunk ends."""
        row, _, stop = self.chunks[run]
        block = row.states[self._column(stop)]
        assert block is not None
        self.memory.states.setdefault(block, {})[layer] = state

    def _state(self, row: Row, end: int) -> dict[int, LayerState]:
        """Return a copy of the column in which the last chunk ended."""
        block = row.states[self._column(end)] if end and row.states else None
        return {} if block is None else dict(self.memory.states.get(block, {}))

    def _column(self, end: int) -> int:
        return -(-end // self.memory.block) - 1
