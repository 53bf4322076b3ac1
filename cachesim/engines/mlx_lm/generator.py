"""What a server may ask of a generator: the older one, which prefills whole prompts, or the newer one of segments."""

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
        """The model has spoken after the last of ``said``: note it, and sample the row's next token."""
        logits = None if self.model is None or said.x is None else self.model.readout(said.x[-1:])[0]
        row.task.answer.outputs.append(Output(len(row.tokens) - 1, int(said.digest[-1]), logits))
        row.next = self.sampler(row.tokens, row.request, row.n_gen)


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


class Generator(ABC):
    """Batches of requests: ``generating``, and others."""

    def __init__(self, machine: Machine, *others: Batch) -> None:
        self.machine, self.settings = machine, machine.settings
        self.waiting: list[Row] = []
        self.generating = Batch()
        self.batches = (self.generating, *others)

    def insert(self, row: Row) -> None:
        """A row waits, with ``caches`` and what is left to feed."""
        self.waiting.append(row)

    @abstractmethod
    def next(self) -> Ticked:
        """One tick. Raises Died."""

    def extract(self, row: Row) -> list[Any]:
        """Copies of a row's caches, whatever it is doing."""
        batch = next((batch for batch in self.batches if row in batch.rows), None)
        return row.caches if batch is None else batch.extract(batch.rows.index(row))

    def remove(self, rows: Sequence[Row]) -> None:
        """These rows go."""
        self.waiting = [row for row in self.waiting if row not in rows]
        for batch in self.batches:
            batch.drop(rows)

    def held(self) -> list[list[Any]]:
        """The caches of everything that waits or works, for their bytes."""
        return [*(row.caches for row in self.waiting), *(batch.caches for batch in self.batches)]

    def decode(self, ticked: Ticked) -> None:
        """One token of every generating row; those whose last it is leave."""
        batch = self.generating
        if not batch.rows:
            return
        pieces = [(row.next,) for row in batch.rows]
        done = [i for i, row in enumerate(batch.rows) if row.give()]
        self.step(batch, pieces)
        ticked.told += batch.rows
        ticked.decoded = len(batch.rows)
        ticked.ended += [(batch.rows[i], batch.extract(i)) for i in done]
        if done:
            batch.filter([i for i in range(len(batch.rows)) if i not in done])

    def step(self, batch: Batch, tokens: Sequence[Tokens]) -> None:
        """Feed one token of each row and note what was said."""
        for row, piece, said in zip(batch.rows, tokens, self.machine.feed(batch.caches, tokens), strict=True):
            row.tokens += piece
            self.machine.speak(row, said)

    def feed(self, batch: Batch, tokens: Sequence[Tokens]) -> None:
        """Feed rows of equal length, so many columns at once as one step may have."""
        size = self.settings.prefill_step_size
        for at in range(0, len(tokens[0]), size):
            self.machine.feed(batch.caches, [row[at : at + size] for row in tokens])


# The generator since #1072: prompts are fed segment by segment, in a batch of their own, beside those that generate.
#
# A tick decodes one token of every generating row, lets waiting rows in, hands rows with one token left over to the
# generating ones, and feeds each other row one piece of its present segment, shorter pieces padded on the right.
# Source: mlx-lm mlx_lm/generate.py BatchGenerator, PromptProcessingBatch, GenerationBatch (3f9d179f to 0.32.2).

class Segmented(Generator):
    """Two batches and a queue."""

    def __init__(self, machine: Machine) -> None:
        self.prompts = Batch()
        super().__init__(machine, self.prompts)

    def next(self) -> Ticked:
        """One tick."""
        ticked = Ticked()
        self.decode(ticked)
        if len(self.generating.rows) < self.settings.completion_batch_size:
            self._admit()
            self._begin_answers(ticked)
            self._feed_prompts(ticked)
        return ticked

    def _admit(self) -> None:
        one = self.settings
        room = min(one.prefill_batch_size - len(self.prompts.rows),
                   one.completion_batch_size - len(self.generating.rows), len(self.waiting))
        if room <= 0:
            return
        rows, self.waiting = self.waiting[:room], self.waiting[room:]
        self.prompts.extend(Batch(rows, merged([row.caches for row in rows])))
        for row in rows:
            row.caches = []

    def _begin_answers(self, ticked: Ticked) -> None:
        """Rows of whose prompt one token is left begin to generate."""
        ready = [i for i, row in enumerate(self.prompts.rows) if [len(one) for one in row.segments] == [1]]
        if not ready:
            return
        batch = Batch(list(self.prompts.rows), deepcopy(self.prompts.caches))
        self.prompts.filter([i for i in range(len(self.prompts.rows)) if i not in ready])
        batch.filter(ready)
        self.step(batch, [row.take(1) for row in batch.rows])
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
        # All pieces go in one pass; those that are shorter than the longest are padded on the right.
        lengths = [len(piece) for piece in pieces]
        width = max(lengths)
        padding = [width - n for n in lengths]
        if any(padding):
            for cache in self.prompts.caches:
                cache.prepare(lengths=lengths, right_padding=padding)
        self.feed(self.prompts, right_padded(pieces, width))
        if any(padding):
            for cache in self.prompts.caches:
                cache.finalize()
