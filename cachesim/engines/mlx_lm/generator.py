"""What a server may ask of a generator: the older one, which prefills whole prompts, or the newer one of segments."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol, Sequence

import numpy as np

from cachesim.base.tokens import Tokens
from cachesim.engines.mlx_lm.batch_row import Row
from cachesim.engines.mlx_lm.forward import forward
from cachesim.engines.mlx_lm.model_layout import ModelKind
from cachesim.engines.mlx_lm.server_flags import Settings
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
