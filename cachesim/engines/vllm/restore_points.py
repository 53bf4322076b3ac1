"""Inspection of the server: contents of its blocks, and where evaluation could resume."""

from __future__ import annotations

from typing import Sequence

import numpy as np

from cachesim.base.tokens import Tokens
from cachesim.engines.inspection import BlockCell, Excess, Key, RowsPart, StatePart, Stored
from cachesim.engines.shared.kv_rows import read_rows
from cachesim.engines.shared.prefix_points import ALL, CHUNK, STATE, WINDOW, GroupPieces, PrefixPoints
from cachesim.engines.vllm.events import Asked, Got
from cachesim.engines.vllm.layout import Group
from cachesim.engines.vllm.row import Row
from cachesim.engines.vllm.worker import Worker
from cachesim.model import LayerState

PIECES = {"full": ALL, "rswa": ALL, "swa": WINDOW, "chunked": CHUNK, "mamba": STATE}


class Inspected(Worker):
    """Restore points, and the inspection part of the server contract."""

    def start_points(self) -> None:
        """Begin without restore points."""
        pieces = [GroupPieces(PIECES[group.kind], group.block, group.size) for group in self.groups]
        self.points = PrefixPoints(self.log, pieces, self.layout.align)
        self.found = set[int]()         # keys of computed blocks, each with its block in one number

    def report_computed(self) -> None:
        """Report the blocks published in this step as computed."""
        unit, pool = self.layout.unit, self.pool
        for key, block, row, end in self.named:
            if key * pool.n + block not in self.found and pool.named.has(block, key):
                self.found.add(key * pool.n + block)
                self.points.gained(key % pool.groups, row.hashes, end // unit, unit, row.full_text(), row)
        self.named.clear()

    def lost_keys(self, block: int, keys: Sequence[int], cause: str, rule: str) -> None:
        """Report that a block can no longer be found under these keys."""
        for key in keys:
            if key * self.pool.n + block in self.found:
                self.found.remove(key * self.pool.n + block)
                self.points.lost(key % self.pool.groups, key // self.pool.groups, cause, rule)

    def moved_keys(self, block: int, copy: int) -> None:
        """Note that keys of a block now belong to its copy, whose content is the same."""
        self.named = [(key, copy if at == block else at, row, end) for key, at, row, end in self.named]
        for key in self.pool.keys(copy):
            if key * self.pool.n + block in self.found:
                self.found.remove(key * self.pool.n + block)
                self.found.add(key * self.pool.n + copy)

    # The contract.

    def tokens_of(self, slot: int) -> Tokens:
        """Return the computed tokens of a request, with the key that they were computed under."""
        row = self.slots[slot]
        return row.full_text()[: row.computed - row.in_flight]

    def stored(self, key: Key, start: int = 0) -> Stored:
        """Return the content of a prefix that can be found; for a slot, the content of a request's blocks."""
        kind, owner, _ = key
        if kind == "slot":
            row = self.slots[owner]
            return self._content(kind, owner, row, (), min(row.computed - row.in_flight, len(row.text)), row.columns, 0)
        node = self.points.points[key]
        assert isinstance(node.text, Row)
        row = node.text
        columns = [self._columns(group, row, node.end) for group in self.groups]
        tokens = row.full_text() if node.start else row.full_text()[: node.end]
        return self._content(kind, owner, row, tokens, node.end, columns, max(start, node.start))

    def _columns(self, group: Group, row: Row, end: int) -> list[int]:
        """Return the blocks of a group that hold a prefix, 0 where none is needed."""
        unit, pool = self.layout.unit, self.pool
        ends = [*range(group.block, end + 1, group.block), *([end] if end % group.block else ())]
        if group.kind == "mamba":
            ends = [end]
        found = [pool.find(row.hashes[one // unit - 1], (group.number,)) for one in ends]
        if end % group.block and not found[-1]:
            found[-1] = next((hit for one in range(end, (end // group.block + 1) * group.block + 1, unit)
                              if one // unit <= len(row.hashes)
                              and (hit := pool.find(row.hashes[one // unit - 1], (group.number,)))), None)
        return [one[0] if one else 0 for one in found]

    def _content(self, kind: str, owner: int, row: Row, tokens: Tokens, n: int, columns: list[list[int]],
                 start: int) -> Stored:
        parts, states = [], dict[int, LayerState | None]()
        for group in self.groups if n else ():
            blocks = columns[group.number]
            if group.kind == "mamba":
                column = 0 if kind == "block" else row.running_column.get(group.number, 0)
                ahead = self.opts.async_scheduling or self.scratch      # then a slot's state is ahead of its tokens
                for layer in group.layers if kind == "block" or not ahead else ():
                    states[layer] = self.memory.state_in(layer, blocks, column, 0)
                continue
            first = start
            if group.kind in ("swa", "chunked"):
                first = n // group.size * group.size if group.kind == "chunked" else max(0, n - group.size + 1)
            pos = np.arange(first, n)
            ids = np.array(blocks, np.int64)
            cells = ids[pos // group.block] * group.block + pos % group.block
            window = n - first + 1 if group.size else 0         # of the next token, also in a chunk
            rows = {layer: read_rows(self.memory.rows[layer], cells) for layer in group.layers}
            parts.append(RowsPart(window, pos, rows))
        state = StatePart(n - 1, states) if states else None
        return Stored(kind, owner, tokens, n, tuple(parts), state, start)

    def kept(self) -> list[Key]:
        """Return every prefix that can be found."""
        return list(self.points.points)

    def checkpoints(self, slot: int) -> list[int]:
        """Return the lengths of all prefixes that can be found, ascending: all requests share them."""
        return sorted(node.end for node in self.points.points.values())

    def busy(self) -> list[int]:
        """Return the requests in progress."""
        return [row.id for row in self.running]

    def exceeded_limits(self) -> list[Excess]:
        """Return an excess if more requests run than allowed."""
        n, most = len(self.running), self.opts.max_num_seqs
        return [Excess("requests at work", n, most)] if n > most else []

    def blocks(self) -> list[BlockCell]:
        """Return the blocks of the pool without the null block, for pictures."""
        owner, asking = dict[int, int](), -1
        for event in self.log.events:
            if isinstance(event, Asked):
                asking = self.slots[event.request].task.answer.request
            elif isinstance(event, Got):
                owner.update((block, asking) for blocks in event.blocks for block in blocks)
        return self.pool.cells(owner)

    def check(self) -> None:
        """Raise Crash unless pool and tables agree."""
        self.pool.check(block for row in self.slots for table in row.tables for block in table.blocks)
