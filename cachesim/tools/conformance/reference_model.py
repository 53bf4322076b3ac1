"""Our toy model for somebody else's cache: arithmetic that remembers where every token went.

A ``Memory`` is immutable, so keeping one is free and safe; what a cache does with its parts is the cache's affair. The
``digest`` of what was said is equal to a cold run's only if every layer read exactly the tokens that it should.
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

import numpy as np

from cachesim.model import LayerState, Rows, TokenRun, make_model
from cachesim.model.arrays import Positions
from cachesim.model.attention_mask import ByPosition


class Memory(NamedTuple):
    """What a sequence of ``length`` tokens has left: by layer the rows of attention, one for each token, and the state
    of a recurrent layer, which only exists as a whole."""

    length: int = 0
    rows: tuple[Rows | None, ...] = ()
    states: tuple[LayerState | None, ...] = ()


class ModelOutput(NamedTuple):
    """What the model says after the last token: the digest of all that it read, and the token it would go on with."""

    digest: int
    token: int


class Toy:
    """A model in the project's notation: ``A`` attention, ``W8`` with a window of 8, ``G``, ``S``, ``C`` recurrent,
    ``H`` both; ``tokens`` are those that it may say. Raises BadInput for a notation that it cannot read."""

    def __init__(self, layers: str, tokens: Sequence[int] = range(1_000, 30_000)) -> None:
        self.model, self.tokens = make_model(layers, exact=False), tokens
        count = len(self.model.spec.layers)
        self.empty = Memory(0, (None,) * count, (None,) * count)

    def feed(self, memory: Memory, tokens: Sequence[int]) -> tuple[Memory, ModelOutput]:
        """Evaluate at least one token behind a memory; returns the memory behind them."""
        store = _Store(memory, len(tokens))
        (hidden,) = self.model.forward([TokenRun(0, memory.length, tuple(tokens))], store)
        digest = int(hidden.digest[-1])
        after = Memory(memory.length + len(tokens), tuple(store.rows), tuple(store.states))
        return after, ModelOutput(digest, self.tokens[digest % len(self.tokens)])


class _Store(ByPosition):
    """One sequence, positions from 0."""

    def __init__(self, memory: Memory, new: int) -> None:
        self.rows, self.states = list(memory.rows), list(memory.states)
        self.total = memory.length + new

    def positions(self, part: str, run: int) -> Positions:
        return np.arange(self.total)

    def put_rows(self, layer: int, run: int, rows: Rows) -> None:
        held = self.rows[layer]
        self.rows[layer] = rows if held is None else Rows(np.concatenate([held.digest, rows.digest]), None, None)

    def get_rows(self, layer: int, run: int) -> Rows:
        found = self.rows[layer]
        return Rows(np.zeros(0, np.uint64), None, None) if found is None else found

    def get_state(self, layer: int, run: int) -> LayerState | None:
        return self.states[layer]

    def put_state(self, layer: int, run: int, state: LayerState) -> None:
        self.states[layer] = state
