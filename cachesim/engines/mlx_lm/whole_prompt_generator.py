"""The generator before #1072: whole prompts are prefilled between two decode steps, with one checkpoint for all rows.

l   tokens of a row that are not cached          pc   prompt checkpoint: tokens behind the checkpoint, one for all rows
Fresh rows are padded on the left. Rows of which one holds something are merged and padded on the right, and their last
pc tokens are fed behind that. With pc > 1 the first pc-1 of these go through the model twice, as they do in the engine.
Source: mlx-lm mlx_lm/generate.py BatchGenerator._process_prompts, _next (321e764e to 4d3af3ce).
"""

from __future__ import annotations

from typing import Any, Callable, Sequence

from cachesim.base.tokens import Tokens
from cachesim.engines.mlx_lm.batch import Batch, Row, left_padded, merged, right_padded, to_batch
from cachesim.engines.mlx_lm.events import VALUE_ERROR, Died
from cachesim.engines.mlx_lm.generator import Generator, Machine, Ticked


class Prefilling(Generator):
    """One batch and a sorted list. The server decides: see the rules called like the arguments. ``checkpoint`` is told
    of rows, pc, and a way to extract the caches of one row."""

    def __init__(
        self, machine: Machine, pc: Callable[[Sequence[int], Sequence[int | None]], int],
        tails: Callable[[Sequence[Tokens], int], list[Tokens] | None],
        checkpoint: Callable[[Sequence[Row], int, Callable[[int], list[Any]]], None],
    ) -> None:
        super().__init__(machine)
        self.pc, self.tails, self.checkpoint = pc, tails, checkpoint

    def insert(self, row: Row) -> None:
        """A row waits; the shortest come first, what they hold counted in."""
        super().insert(row)
        self.waiting.sort(key=lambda one: len(one.segments[0]) + max(c.size() for c in one.caches))

    def next(self) -> Ticked:
        """One tick: prefill while there is room for a whole group, then one token of every row."""
        ticked, size = Ticked(), self.settings.prefill_batch_size
        room = self.settings.completion_batch_size - len(self.generating.rows)
        while room >= size and self.waiting:
            group, self.waiting = self.waiting[:size], self.waiting[size:]
            self._prefill(group)
            room -= len(group)
        self.decode(ticked)
        return ticked

    def _prefill(self, group: list[Row]) -> None:
        rests = [row.segments[0] for row in group]
        pc = self.pc([len(rest) for rest in rests], [row.task.position for row in group])
        fresh = all(row.caches[0].empty() for row in group)             # no other layer is asked
        batch, tails = (self._left if fresh else self._right)(group, rests, pc)
        for cache in batch.caches:
            cache.finalize()
        self.checkpoint(group, pc, batch.extract)
        if pc > 1:
            self.machine.feed(batch.caches, [tail[: pc - 1] for tail in tails])
        said = self.machine.feed(batch.caches, tails)
        for row, rest, one in zip(group, rests, said, strict=True):
            row.tokens += rest
            row.segments, row.caches = [], []
            self.machine.speak(row, one)
        self.generating.extend(batch)

    def _left(self, group: list[Row], rests: Sequence[Tokens], pc: int) -> tuple[Batch, list[Tokens]]:
        """Fresh rows: the last pc columns of all rows are left over."""
        width = max(len(rest) for rest in rests)
        tokens = left_padded(rests, width)
        padding = [width - len(rest) for rest in rests]
        batch = Batch(group, [to_batch(cache, padding) for cache in group[0].caches])
        first = max(0, width - pc)
        self.feed(batch, [row[:first] for row in tokens])
        return batch, [row[first:] for row in tokens]

    def _right(self, group: list[Row], rests: Sequence[Tokens], pc: int) -> tuple[Batch, list[Tokens]]:
        """Rows that hold something: the last pc tokens of each row are left over."""
        tails = self.tails(rests, pc)
        if tails is None:
            raise Died("ValueError: rows of different lengths in one array", VALUE_ERROR)
        if not tails[0]:
            # All of it was found, and no zeros stand for it.
            raise Died("ValueError: a prompt without tokens", VALUE_ERROR)
        width = max(len(rest) for rest in rests)
        batch = Batch(group, merged([row.caches for row in group]))
        for cache in batch.caches:
            cache.prepare(lengths=[len(rest) - pc for rest in rests], right_padding=[width - len(r) for r in rests])
        self.feed(batch, [row[: max(0, width - pc)] for row in right_padded(rests, width)])
        return batch, tails
