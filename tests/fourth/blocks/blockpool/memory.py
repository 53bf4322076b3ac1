"""What is in the blocks: rows in cells, B of them a block, and states."""

from __future__ import annotations

from typing import NamedTuple, Sequence

import numpy as np

from blockpool.pool import Block
from blockpool.row import Row
from cachesim.engines.inspection import RowsPart, StatePart
from cachesim.engines.shared.kv_rows import empty_rows, read_rows, write_rows
from cachesim.model import LayerState, Rows, Spec, TokenRun
from cachesim.model.attention_mask import ByPosition
from cachesim.model.grid import Positions


class Chunk(NamedTuple):
    """Tokens start .. stop-1 of a request are evaluated."""

    row: Row
    start: int
    stop: int


class Memory:
    """The cells of all blocks, and the state that each holds, by layer."""

    def __init__(self, spec: Spec, block: int) -> None:
        self.spec, self.block = spec, block
        self.rows = empty_rows(i for i, layer in enumerate(spec.layers) if layer.part)
        self.states: dict[int, dict[int, LayerState]] = {}
        self.recurrent = [i for i, layer in enumerate(spec.layers) if layer.recurrence]

    def cells(self, blocks: Sequence[Block], start: int, stop: int) -> np.ndarray:
        """The cells of positions start .. stop-1 of a table of blocks."""
        pos = np.arange(start, stop)
        ids = np.array([one.id for one in blocks], np.int64)
        return ids[pos // self.block] * self.block + pos % self.block

    def part(self, blocks: Sequence[Block], stop: int, start: int = 0) -> tuple[RowsPart, ...]:
        """The rows of a stretch that these blocks hold, the first one from ``start`` on; () without attention."""
        if not self.rows:
            return ()
        cells = self.cells(blocks, 0, stop - start)
        rows = {layer: read_rows(kept, cells) for layer, kept in self.rows.items()}
        return (RowsPart(0, np.arange(start, stop), rows),)

    def state(self, block: Block | None, stop: int) -> StatePart | None:
        """The state after ``stop`` tokens, None for a model without states."""
        if not self.recurrent:
            return None
        held = {} if block is None else self.states.get(block.id, {})
        return StatePart(stop - 1, {layer: held.get(layer) for layer in self.recurrent})


class Step(ByPosition):
    """What one step of the model sees: run k is chunk k."""

    def __init__(self, memory: Memory, chunks: Sequence[Chunk]) -> None:
        self.memory, self.chunks = memory, chunks
        self.before = [self._state(one.row, one.start) for one in chunks]

    def runs(self) -> list[TokenRun]:
        """The chunks as the model wants them."""
        return [TokenRun(k, one.start, one.row.all[one.start : one.stop]) for k, one in enumerate(self.chunks)]

    def positions(self, part: str, run: int) -> Positions:
        """All positions up to the end of the chunk."""
        return np.arange(self.chunks[run].stop)

    def put_rows(self, layer: int, run: int, rows: Rows) -> None:
        """Write the new rows to their blocks."""
        one = self.chunks[run]
        write_rows(self.memory.rows, layer, self.memory.cells(one.row.rows, one.start, one.stop), rows)

    def get_rows(self, layer: int, run: int) -> Rows:
        """All rows of the request."""
        one = self.chunks[run]
        return read_rows(self.memory.rows[layer], self.memory.cells(one.row.rows, 0, one.stop))

    def get_state(self, layer: int, run: int) -> LayerState | None:
        """The state that was there before the step: no run reads what another writes in the same one."""
        return self.before[run].get(layer)

    def put_state(self, layer: int, run: int, state: LayerState) -> None:
        """Keep the state in the column in which the chunk ends."""
        row, _, stop = self.chunks[run]
        block = row.states[self._column(stop)]
        assert block is not None
        self.memory.states.setdefault(block.id, {})[layer] = state

    def _state(self, row: Row, end: int) -> dict[int, LayerState]:
        """A copy of what the column holds in which the last chunk ended."""
        block = row.states[self._column(end)] if end and row.states else None
        return {} if block is None else dict(self.memory.states.get(block.id, {}))

    def _column(self, end: int) -> int:
        return -(-end // self.memory.block) - 1
