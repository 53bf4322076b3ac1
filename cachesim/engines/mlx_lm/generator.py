"""Interface of the generators, and the newer generator, which feeds prompts in segments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Sequence

import numpy as np

from cachesim.base.tokens import Tokens
from cachesim.engines.base import Output
from cachesim.engines.mlx_lm.batch import Batch, Row, merged, right_padded
from cachesim.engines.mlx_lm.forward import forward
from cachesim.engines.mlx_lm.model_layout import ModelKind
from cachesim.engines.mlx_lm.server_flags import Settings
from cachesim.engines.shared.evaluation_cost import cost_of
from cachesim.engines.shared.vocab import Sampler
from cachesim.events import Log, MicroBatch
from cachesim.model import HiddenOutput, Model


@dataclass(frozen=True, slots=True)
class Machine:
    """Everything that evaluation needs: model, settings, sampler and log."""

    model: Model | None         # None = nothing is computed
    kind: ModelKind             # the model as the server sees it
    settings: Settings
    sampler: Sampler
    log: Log                    # counts the evaluated tokens

    def feed(self, caches: Sequence[Any], tokens: Sequence[Tokens], batch: Sequence[Row]) -> list[HiddenOutput]:
        """Run a forward pass over rows of equal length. ``batch``: the requests of these rows."""
        rows, n = len(tokens), len(tokens[0])
        first = zip(batch, offsets(caches, rows), strict=True)
        self.log.emit(MicroBatch("target", tuple([(row.id, pos, n) for row, pos in first])))
        held = max((_longest(cache.offset) for cache in caches if hasattr(cache, "offset")), default=0)
        self.log.spend(*cost_of(self.model, rows * n, rows * n, rows * n * (held + n // 2)))
        return forward(self.model, self.kind.spec, caches, tokens)

    def record_output(self, row: Row, hidden: HiddenOutput) -> None:
        """Record the model's output after the last token of ``hidden``, and sample the row's next token."""
        logits = None if self.model is None or hidden.x is None else self.model.readout(hidden.x[-1:])[0]
        row.task.answer.outputs.append(Output(len(row.tokens) - 1, int(hidden.digest[-1]), logits))
        row.next = self.sampler(row.tokens, row.request, row.n_gen)


def offsets(caches: Sequence[Any], rows: int) -> list[int]:
    """Return the position of the next column of each row, 0 without K/V rows."""
    offset = next((cache.offset for cache in caches if hasattr(cache, "offset")), 0)
    return offset.tolist() if isinstance(offset, np.ndarray) else [int(offset)] * rows


def _longest(offset: int | np.ndarray) -> int:
    """Return the number of tokens of the longest row."""
    return max(offset.tolist()) if isinstance(offset, np.ndarray) else int(offset)


@dataclass(slots=True)
class TickResult:
    """Result of a tick."""

    # rows whose prefill reached a halt, and True if the halt is the end of a segment
    pauses: list[tuple[Row, bool]] = field(default_factory=list)
    ended: list[tuple[Row, list[Any]]] = field(default_factory=list)    # rows that returned their last token, caches
    notified: list[Row] = field(default_factory=list)   # whose clients got progress or a token, in generator order
    decoded: int = 0                                    # rows that evaluated a single token


class Generator(ABC):
    """A queue of requests and their batches, at least the batch ``generating``."""

    def __init__(self, machine: Machine, *batches: Batch) -> None:
        self.machine, self.settings = machine, machine.settings
        self.waiting: list[Row] = []
        self.generating = Batch()
        self.batches = (self.generating, *batches)

    def insert(self, row: Row) -> None:
        """Queue a row, with its ``caches`` and the segments left to feed."""
        self.waiting.append(row)

    @abstractmethod
    def next(self) -> TickResult:
        """Run a tick. Raise Died."""

    def extract(self, row: Row) -> list[Any]:
        """Return copies of a row's caches, in any phase of its request."""
        batch = next((batch for batch in self.batches if row in batch.rows), None)
        return row.caches if batch is None else batch.extract(batch.rows.index(row))

    def remove(self, rows: Sequence[Row]) -> None:
        """Remove these rows."""
        self.waiting = [row for row in self.waiting if row not in rows]
        for batch in self.batches:
            batch.drop(rows)

    def held(self) -> list[list[Any]]:
        """Return the caches of all waiting and active rows. The server counts their bytes."""
        return [*(row.caches for row in self.waiting), *(batch.caches for batch in self.batches)]

    def decode(self, ticked: TickResult) -> None:
        """Decode a token of every generating row, and remove rows that returned their last token."""
        batch = self.generating
        if not batch.rows:
            return
        pieces = [(row.next,) for row in batch.rows]
        done = [i for i, row in enumerate(batch.rows) if row.return_sampled()]
        self.step(batch, pieces)
        ticked.notified += batch.rows
        ticked.decoded = len(batch.rows)
        ticked.ended += [(batch.rows[i], batch.extract(i)) for i in done]
        if done:
            batch.filter([i for i in range(len(batch.rows)) if i not in done])

    def step(self, batch: Batch, tokens: Sequence[Tokens]) -> None:
        """Feed a token of each row and record the output."""
        found = self.machine.feed(batch.caches, tokens, batch.rows)
        for row, piece, hidden in zip(batch.rows, tokens, found, strict=True):
            row.tokens += piece
            self.machine.record_output(row, hidden)

    def feed(self, batch: Batch, tokens: Sequence[Tokens]) -> None:
        """Feed rows of equal length, in steps of at most ``prefill_step_size`` columns."""
        size = self.settings.prefill_step_size
        for at in range(0, len(tokens[0]), size):
            self.machine.feed(batch.caches, [row[at : at + size] for row in tokens], batch.rows)


class SegmentGenerator(Generator):
    """The generator since #1072: prompts are fed segment by segment, in a batch of their own beside the generating
    rows.

    A tick decodes a token of every generating row, admits waiting rows, and moves rows with a single token left to the
    generating batch. Then it feeds each other row a piece of its current segment; shorter pieces are padded on the
    right.
    Source: mlx-lm mlx_lm/generate.py BatchGenerator, PromptProcessingBatch, GenerationBatch (3f9d179f to 0.32.2).
    """

    def __init__(self, machine: Machine) -> None:
        self.prompts = Batch()
        super().__init__(machine, self.prompts)

    def next(self) -> TickResult:
        """Run a tick."""
        ticked = TickResult()
        self.decode(ticked)
        if len(self.generating.rows) < self.settings.completion_batch_size:
            self._admit()
            self._begin_answers(ticked)
            self._feed_prompts(ticked)
        return ticked

    def _admit(self) -> None:
        limits = self.settings
        room = min(limits.prefill_batch_size - len(self.prompts.rows),
                   limits.completion_batch_size - len(self.generating.rows), len(self.waiting))
        if room <= 0:
            return
        rows, self.waiting = self.waiting[:room], self.waiting[room:]
        self.prompts.extend(Batch(rows, merged([row.caches for row in rows])))
        for row in rows:
            row.caches = []

    def _begin_answers(self, ticked: TickResult) -> None:
        """Start generation for rows with a single prompt token left."""
        ready = [i for i, row in enumerate(self.prompts.rows) if row.lengths_left() == [1]]
        if not ready:
            return
        batch = Batch(list(self.prompts.rows), deepcopy(self.prompts.caches))
        self.prompts.filter([i for i in range(len(self.prompts.rows)) if i not in ready])
        batch.filter(ready)
        self.step(batch, [row.take(1) for row in batch.rows])
        ticked.notified += batch.rows
        self.generating.extend(batch)

    def _feed_prompts(self, ticked: TickResult) -> None:
        rows = self.prompts.rows
        if not rows:
            return
        ticked.notified += rows
        step, pieces = self.settings.prefill_step_size, []
        for row in rows:
            before = len(row.segments)
            pieces.append(row.take(step))
            ticked.pauses.append((row, len(row.segments) < before))
        for row, piece in zip(rows, pieces, strict=True):
            row.tokens += piece
        # A single pass feeds all pieces. Pieces shorter than the longest are padded on the right.
        lengths = [len(piece) for piece in pieces]
        width = max(lengths)
        padding = [width - n for n in lengths]
        if any(padding):
            for cache in self.prompts.caches:
                cache.prepare(lengths=lengths, right_padding=padding)
        self.feed(self.prompts, right_padded(pieces, width))
        if any(padding):
            self.prompts.finalize()
