"""What a server may ask of a generator: the older one, which prefills whole prompts, or the newer one of segments."""

from __future__ import annotations

from collections import deque
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Callable, NamedTuple, Protocol, Sequence

import numpy as np

from cachesim.base.tokens import Tokens
from cachesim.engines.mlx_lm.batch import Batch, Row, left_padded, merged, right_padded, to_batch
from cachesim.engines.mlx_lm.forward import forward
from cachesim.engines.mlx_lm.model_layout import ModelKind
from cachesim.engines.mlx_lm.server_flags import Settings
from cachesim.engines.mlx_lm.thread_ended import VALUE_ERROR, Died
from cachesim.engines.shared.evaluation_cost import cost_of
from cachesim.engines.shared.sampler import Sampler
from cachesim.events import Log
from cachesim.model import Hidden, Model


@dataclass(frozen=True, slots=True)
class Machine:
    """What all work is done with: the model as numbers (None = nothing is computed) and as the server sees it; the
    log counts the tokens that are evaluated."""

    model: Model | None
    kind: ModelKind
    settings: Settings
    sampler: Sampler
    log: Log

    def feed(self, caches: Sequence[Any], tokens: Sequence[Tokens]) -> list[Hidden]:
        """One forward pass over rows of equal length."""
        rows, n = len(tokens), len(tokens[0])
        held = max((_longest(one.offset) for one in caches if hasattr(one, "offset")), default=0)
        self.log.spend(*cost_of(self.model, rows * n, rows * n, rows * n * (held + n // 2)))
        return forward(self.model, self.kind.spec, caches, tokens)

    def speak(self, row: Row, said: Hidden) -> None:
        """The row's next token."""
        row.speak(said, self.model, self.sampler)


def _longest(offset: int | np.ndarray) -> int:
    """Tokens of the row that has most."""
    return max(offset.tolist()) if isinstance(offset, np.ndarray) else int(offset)


@dataclass(slots=True)
class Ticked:
    """What one tick has done. ``pauses``: rows whose prefill came to a halt, and whether that is the end of a segment;
    ``ended``: rows that returned their last token, with their caches; ``told``: rows whose clients were told something,
    progress or a token, in the generator's order; ``decoded``: rows that went through the model one token each."""

    pauses: list[tuple[Row, bool]] = field(default_factory=list)
    ended: list[tuple[Row, list[Any]]] = field(default_factory=list)
    told: list[Row] = field(default_factory=list)
    decoded: int = 0


class Generator(Protocol):
    """Batches of requests."""

    def insert(self, row: Row) -> None:
        """A row waits, with ``caches`` and what is left to feed."""
        ...

    def next(self) -> Ticked:
        """One tick. Raises Died."""
        ...

    def extract(self, row: Row) -> list[Any]:
        """Copies of a row's caches, whatever it is doing."""
        ...

    def remove(self, rows: Sequence[Row]) -> None:
        """These rows go."""
        ...

    def held(self) -> list[list[Any]]:
        """The caches of everything that waits or works, for their bytes."""
        ...


# The generator since #1072: prompts are fed segment by segment, in a batch of their own, beside those that generate.
#
# A tick decodes one token of every generating row, lets waiting rows in, hands rows with one token left over to the
# generating ones, and feeds each other row one piece of its present segment, shorter pieces padded on the right.
# Source: mlx-lm mlx_lm/generate.py BatchGenerator, PromptProcessingBatch, GenerationBatch (3f9d179f to 0.32.2).

class Segmented:
    """Two batches and a queue."""

    def __init__(self, machine: Machine) -> None:
        self.machine, self.settings = machine, machine.settings
        self.waiting: deque[Row] = deque()
        self.prompts, self.generating = Batch(), Batch()

    def insert(self, row: Row) -> None:
        """A row waits."""
        self.waiting.append(row)

    def next(self) -> Ticked:
        """One tick."""
        ticked = Ticked()
        self._decode(ticked)
        if len(self.generating.rows) >= self.settings.completion_batch_size:
            return ticked
        self._admit()
        self._begin_answers(ticked)
        self._feed_prompts(ticked)
        return ticked

    def _decode(self, ticked: Ticked) -> None:
        batch = self.generating
        if not batch.rows:
            return
        pieces = [(row.next,) for row in batch.rows]
        done = [i for i, row in enumerate(batch.rows) if row.give()]
        self._step(batch, pieces)
        ticked.told += batch.rows
        ticked.decoded = len(batch.rows)
        ticked.ended += [(batch.rows[i], batch.extract(i)) for i in done]
        if done:
            batch.filter([i for i in range(len(batch.rows)) if i not in done])

    def _step(self, batch: Batch, tokens: Sequence[Tokens]) -> None:
        """Feed one token of each row and note what was said."""
        for row, piece, said in zip(batch.rows, tokens, self.machine.feed(batch.caches, tokens), strict=True):
            row.tokens += piece
            self.machine.speak(row, said)

    def _admit(self) -> None:
        one = self.settings
        room = min(one.prefill_batch_size - len(self.prompts.rows),
                   one.completion_batch_size - len(self.generating.rows), len(self.waiting))
        if room <= 0:
            return
        rows = [self.waiting.popleft() for _ in range(room)]
        self.prompts.extend(Batch(rows, merged([row.caches or [] for row in rows])))
        for row in rows:
            row.caches = None

    def _begin_answers(self, ticked: Ticked) -> None:
        """Rows of whose prompt one token is left begin to generate."""
        ready = [i for i, row in enumerate(self.prompts.rows) if [len(one) for one in row.segments] == [1]]
        if not ready:
            return
        batch = Batch(list(self.prompts.rows), deepcopy(self.prompts.caches))
        self.prompts.filter([i for i in range(len(self.prompts.rows)) if i not in ready])
        batch.filter(ready)
        self._step(batch, [row.take(1) for row in batch.rows])
        ticked.told += batch.rows
        self.generating.extend(batch)

    def _feed_prompts(self, ticked: Ticked) -> None:
        rows = self.prompts.rows
        if not rows:
            return
        ticked.told += rows
        step, pieces = self.settings.prefill_step_size, []
        for row in rows:
            before = len(row.segments)
            pieces.append(row.take(min(len(row.segments[0]), step)))
            ticked.pauses.append((row, len(row.segments) < before))
        for row, piece in zip(rows, pieces, strict=True):
            row.tokens += piece
        self._feed(pieces)

    def _feed(self, pieces: Sequence[Tokens]) -> None:
        """All pieces in one pass; those that are shorter than the longest are padded on the right."""
        lengths = [len(piece) for piece in pieces]
        width = max(lengths)
        padding = [width - n for n in lengths]
        if any(padding):
            for cache in self.prompts.caches:
                cache.prepare(lengths=lengths, right_padding=padding)
        tokens, step = right_padded(pieces, width), self.settings.prefill_step_size
        for at in range(0, width, step):
            self.machine.feed(self.prompts.caches, [row[at : at + step] for row in tokens])
        if any(padding):
            for cache in self.prompts.caches:
                cache.finalize()

    def extract(self, row: Row) -> list[Any]:
        """Copies of a row's caches."""
        for batch in (self.generating, self.prompts):
            if row in batch.rows:
                return batch.extract(batch.rows.index(row))
        return row.caches or []

    def remove(self, rows: Sequence[Row]) -> None:
        """These rows go."""
        self.waiting = deque(row for row in self.waiting if row not in rows)
        self.prompts.drop(rows)
        self.generating.drop(rows)

    def held(self) -> list[list[Any]]:
        """The caches of everything that waits or works."""
        return [*(row.caches or [] for row in self.waiting), self.prompts.caches, self.generating.caches]


# The generator before #1072: whole prompts are prefilled between two decode steps, with one checkpoint for all rows.
#
# l   tokens of a row that are not cached          pc   prompt checkpoint: tokens behind the checkpoint, one for all
# rows Fresh rows are padded on the left. Rows of which one holds something are merged and padded on the right, and
# their last pc tokens are fed behind that. With pc > 1 the first pc-1 of these go through the model twice, as they do
# in the engine.
# Source: mlx-lm mlx_lm/generate.py BatchGenerator._process_prompts, _next (321e764e to 4d3af3ce).

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
