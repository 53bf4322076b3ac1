"""The generator before #1072: whole prompts are prefilled between two decode steps, with one checkpoint for all rows.

l   tokens of a row that are not cached          pc   prompt checkpoint: tokens behind the checkpoint, one for all rows
Fresh rows are padded on the left. Rows of which one holds something are merged and padded on the right, and their last
pc tokens are fed behind that. With pc > 1 the first pc-1 of these go through the model twice, as they do in the engine.
Source: mlx-lm mlx_lm/generate.py BatchGenerator._process_prompts, _next (321e764e to 4d3af3ce).
"""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Sequence

from cachesim.base.tokens import Tokens
from cachesim.engines.mlx_lm.batch import Batch, Row, left_padded, merged, right_padded, to_batch
from cachesim.engines.mlx_lm.events import VALUE_ERROR, Died
from cachesim.engines.mlx_lm.generator import Machine, Ticked


class Asked(NamedTuple):
    """What the server decides for this generator: see the rules of the same names. ``checkpoint`` is told of rows, pc,
    and a way to extract the caches of one row."""

    pc: Callable[[Sequence[int], Sequence[int | None]], int]
    tails: Callable[[Sequence[Tokens], int], list[Tokens] | None]
    checkpoint: Callable[[Sequence[Row], int, Callable[[int], list[Any]]], None]


class Prefilling:
    """One batch and a sorted list."""

    def __init__(self, machine: Machine, asked: Asked) -> None:
        self.machine, self.settings, self.asked = machine, machine.settings, asked
        self.waiting: list[Row] = []
        self.batch = Batch()

    def insert(self, row: Row) -> None:
        """A row waits; the shortest come first, what they hold counted in."""
        self.waiting.append(row)
        self.waiting.sort(key=lambda one: len(one.segments[0]) + max(c.size() for c in one.caches or []))

    def next(self) -> Ticked:
        """One tick: prefill while there is room for a whole group, then one token of every row."""
        ticked, size = Ticked(), self.settings.prefill_batch_size
        room = self.settings.completion_batch_size - len(self.batch.rows)
        while room >= size and self.waiting:
            group, self.waiting = self.waiting[:size], self.waiting[size:]
            self._prefill(group)
            room -= len(group)
        batch = self.batch
        if not batch.rows:
            return ticked
        ticked.told += batch.rows
        ticked.decoded = len(batch.rows)
        pieces = [(row.next,) for row in batch.rows]
        done = [i for i, row in enumerate(batch.rows) if row.give()]
        for row, piece, said in zip(batch.rows, pieces, self.machine.feed(batch.caches, pieces), strict=True):
            row.tokens += piece
            self.machine.speak(row, said)
        ticked.ended = [(batch.rows[i], batch.extract(i)) for i in done]
        if done:
            batch.filter([i for i in range(len(batch.rows)) if i not in done])
        return ticked

    def _prefill(self, group: list[Row]) -> None:
        rests = [row.segments[0] for row in group]
        pc = self.asked.pc([len(rest) for rest in rests], [row.task.position for row in group])
        fresh = all(_empty(row.caches or []) for row in group)
        batch, tails = (self._left if fresh else self._right)(group, rests, pc)
        for cache in batch.caches:
            cache.finalize()
        self.asked.checkpoint(group, pc, batch.extract)
        if pc > 1:
            self.machine.feed(batch.caches, [tail[: pc - 1] for tail in tails])
        said = self.machine.feed(batch.caches, tails)
        for row, rest, one in zip(group, rests, said, strict=True):
            row.tokens += rest
            row.segments, row.caches = [], None
            self.machine.speak(row, one)
        self.batch.extend(batch)

    def _left(self, group: list[Row], rests: Sequence[Tokens], pc: int) -> tuple[Batch, list[Tokens]]:
        """Fresh rows: the last pc columns of all rows are left over."""
        width = max(len(rest) for rest in rests)
        tokens = left_padded(rests, width)
        padding = [width - len(rest) for rest in rests]
        batch = Batch(group, [to_batch(cache, padding) for cache in group[0].caches or []])
        first = max(0, width - pc)
        self._chunks(batch, [row[:first] for row in tokens])
        return batch, [row[first:] for row in tokens]

    def _right(self, group: list[Row], rests: Sequence[Tokens], pc: int) -> tuple[Batch, list[Tokens]]:
        """Rows that hold something: the last pc tokens of each row are left over."""
        tails = self.asked.tails(rests, pc)
        if tails is None:
            raise Died("ValueError: rows of different lengths in one array", VALUE_ERROR)
        if not tails[0]:
            # All of it was found, and no zeros stand for it.
            raise Died("ValueError: a prompt without tokens", VALUE_ERROR)
        width = max(len(rest) for rest in rests)
        batch = Batch(group, merged([row.caches or [] for row in group]))
        for cache in batch.caches:
            cache.prepare(lengths=[len(rest) - pc for rest in rests], right_padding=[width - len(r) for r in rests])
        self._chunks(batch, [row[: max(0, width - pc)] for row in right_padded(rests, width)])
        return batch, tails

    def _chunks(self, batch: Batch, tokens: Sequence[Tokens]) -> None:
        step = self.settings.prefill_step_size
        for at in range(0, len(tokens[0]), step):
            self.machine.feed(batch.caches, [row[at : at + step] for row in tokens])

    def extract(self, row: Row) -> list[Any]:
        """Copies of a row's caches."""
        return self.batch.extract(self.batch.rows.index(row)) if row in self.batch.rows else row.caches or []

    def remove(self, rows: Sequence[Row]) -> None:
        """These rows go."""
        self.waiting = [row for row in self.waiting if row not in rows]
        self.batch.drop(rows)

    def held(self) -> list[list[Any]]:
        """The caches of everything that waits or works."""
        return [*(row.caches or [] for row in self.waiting), self.batch.caches]


def _empty(caches: Sequence[Any]) -> bool:
    """Does the first layer hold nothing? No other is asked."""
    return bool(caches[0].empty())
