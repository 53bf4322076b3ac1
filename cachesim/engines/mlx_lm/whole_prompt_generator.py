"""Batch generator of mlx-lm before #1072: it prefills whole prompts between two decode steps.

pc   number of tokens in a prompt after its checkpoint; the same number for all rows of a group

Rows without cached tokens are padded on the left. If a row of the group has cached tokens, all rows are merged and
padded on the right. The last pc tokens of each row are fed after the checkpoint is stored. With pc > 1 the first pc-1
of these tokens are fed twice, a fault of mlx-lm.
Source: mlx-lm mlx_lm/generate.py BatchGenerator._process_prompts, _next (321e764e to 4d3af3ce).
"""

from __future__ import annotations

from typing import Any, Callable, Sequence

from cachesim.base.tokens import Tokens
from cachesim.engines.mlx_lm.batch import Batch, Row, left_padded, merged, right_padded, to_batch
from cachesim.engines.mlx_lm.events import VALUE_ERROR, Died
from cachesim.engines.mlx_lm.generator import Generator, Machine, TickResult


class WholePromptGenerator(Generator):
    """A batch and a sorted queue. The server decides by the rules named as the arguments. ``checkpoint`` gets the rows,
    pc, and a function that extracts the caches of a row."""

    def __init__(
        self, machine: Machine, pc: Callable[[Sequence[int], Sequence[int | None]], int],
        tails: Callable[[Sequence[Tokens], int], list[Tokens] | None],
        checkpoint: Callable[[Sequence[Row], int, Callable[[int], list[Any]]], None],
        fresh: Callable[[Sequence[bool], Sequence[int]], bool], right_lengths: Callable[[int, int], int],
    ) -> None:
        super().__init__(machine)
        self.pc = pc
        self.tails = tails
        self.checkpoint = checkpoint
        self.fresh, self.right_lengths = fresh, right_lengths

    def insert(self, row: Row) -> None:
        """Queue a row. Rows are sorted by tokens to feed plus tokens held, shortest first."""
        super().insert(row)
        self.waiting.sort(key=lambda queued: len(queued.segments[0]) + max(cache.size() for cache in queued.caches))

    def next(self) -> TickResult:
        """Run a tick: prefill while there is room for a whole group, then decode a token of every row."""
        ticked, size = TickResult(), self.settings.prefill_batch_size
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
        sizes = [max(cache.size() for cache in row.caches) for row in group]
        fresh = self.fresh([row.caches[0].empty() for row in group], sizes)
        batch, tails = (self._left if fresh else self._right)(group, rests, pc)
        batch.finalize()
        self.checkpoint(group, pc, batch.extract)
        if pc > 1:
            self.machine.feed(batch.caches, [tail[: pc - 1] for tail in tails], group)
        outputs = self.machine.feed(batch.caches, tails, group)
        for row, rest, hidden in zip(group, rests, outputs, strict=True):
            row.tokens += rest
            row.segments, row.caches = [], []
            self.machine.record_output(row, hidden)
        self.generating.extend(batch)

    def _left(self, group: list[Row], rests: Sequence[Tokens], pc: int) -> tuple[Batch, list[Tokens]]:
        """Feed fresh rows except the last pc columns. Return the batch and those columns."""
        width = max(len(rest) for rest in rests)
        tokens = left_padded(rests, width)
        padding = [width - len(rest) for rest in rests]
        batch = Batch(group, [to_batch(cache, padding) for cache in group[0].caches])
        first = max(0, width - pc)
        self.feed(batch, [row[:first] for row in tokens])
        return batch, [row[first:] for row in tokens]

    def _right(self, group: list[Row], rests: Sequence[Tokens], pc: int) -> tuple[Batch, list[Tokens]]:
        """Feed rows that hold tokens, except the last pc tokens of each row. Return the batch and those tokens."""
        tails = self.tails(rests, pc)
        if tails is None:
            raise Died("ValueError: rows of different lengths in one array", VALUE_ERROR)
        if not tails[0]:
            # Everything was found in the cache, and this version does not pad with zeros.
            raise Died("ValueError: a prompt without tokens", VALUE_ERROR)
        width = max(len(rest) for rest in rests)
        batch = Batch(group, merged([row.caches for row in group]))
        for cache in batch.caches:
            lengths = [self.right_lengths(len(rest), pc) for rest in rests]
            cache.prepare(lengths=lengths, right_padding=[width - len(rest) for rest in rests])
        self.feed(batch, [row[: max(0, width - pc)] for row in right_padded(rests, width)])
        return batch, tails
