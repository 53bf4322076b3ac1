"""Toy model for testing a foreign cache: its arithmetic depends on where every token was stored.

A ``Memory`` is immutable, so it can be kept and shared; the cache decides how its parts are used. The ``digest`` of an
output equals that of a cold run only if every layer read exactly the right tokens.
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

import numpy as np

from cachesim.model import KVRows, LayerState, TokenRun, make_model
from cachesim.model.attention_mask import ByPosition
from cachesim.model.grid import Positions


class Memory(NamedTuple):
    """Memory after ``length`` tokens: per layer the attention rows (per token) and the recurrent state, which
    cannot be split."""

    length: int = 0
    rows: tuple[KVRows | None, ...] = ()
    states: tuple[LayerState | None, ...] = ()


class ModelOutput(NamedTuple):
    """Output after the last token: the digest of everything that was read, and the predicted next token."""

    digest: int
    token: int


class Toy:
    """A model in the project's notation: ``A`` attention, ``W8`` with a window of 8, ``G``, ``S``, ``C`` recurrent,
    ``H`` both; ``tokens`` are the possible outputs. Raise BadInput for an invalid notation."""

    def __init__(self, layers: str, tokens: Sequence[int] = range(1_000, 30_000)) -> None:
        self.model, self.tokens = make_model(layers, exact=False), tokens
        count = len(self.model.spec.layers)
        self.empty = Memory(0, (None,) * count, (None,) * count)

    def feed(self, memory: Memory, tokens: Sequence[int]) -> tuple[Memory, ModelOutput]:
        """Evaluate at least 1 token after ``memory``; return the new memory and the output."""
        store = _Store(memory, len(tokens))
        (hidden,) = self.model.forward([TokenRun(0, memory.length, tuple(tokens))], store)
        digest = int(hidden.digest[-1])
        after = Memory(memory.length + len(tokens), tuple(store.rows), tuple(store.states))
        return after, ModelOutput(digest, self.tokens[digest % len(self.tokens)])


class _Store(ByPosition):
    """Storage of a sequence, positions from 0."""

    def __init__(self, memory: Memory, new: int) -> None:
        self.rows, self.states = list(memory.rows), list(memory.states)
        self.total = memory.length + new

    def positions(self, part: str, run: int) -> Positions:
        return np.arange(self.total)

    def put_rows(self, layer: int, run: int, rows: KVRows) -> None:
        held = self.rows[layer]
        self.rows[layer] = rows if held is None else KVRows(np.concatenate([held.digest, rows.digest]), None, None)

    def get_rows(self, layer: int, run: int) -> KVRows:
        found = self.rows[layer]
        assert found is not None                      # its own rows were put before
        return found

    def get_state(self, layer: int, run: int) -> LayerState | None:
        return self.states[layer]

    def put_state(self, layer: int, run: int, state: LayerState) -> None:
        self.states[layer] = state


# A stand-in for the device memory of a block manager, which itself holds block numbers and hashes but no data.
#
# A manager decides into which block the keys and values of a token are written. Here every (block, slot) holds a digest
# of its token and of all slots that this token's attention reads through the block table at the time of writing. The
# digest of the last token equals that of a cold run only if every slot that it reads holds what a cold run wrote there.

MASK = (1 << 64) - 1
UNWRITTEN = 0x9E3779B97F4A7C15
PRIME = 0x100000001B3


class PagedMemory:
    """Blocks of ``block_size`` slots. ``window``: number of slots that a token reads, including its own; None = all."""

    def __init__(self, block_size: int, window: int | None = None) -> None:
        self.block_size, self.window = block_size, window
        self.slots: dict[tuple[int, int], int] = {}      # (block, slot) -> digest

    def evaluate(self, table: Sequence[int], start: int, tokens: Sequence[int]) -> int:
        """Evaluate tokens at the positions from ``start`` on and write them through the block table, a block per
        ``block_size`` positions. Return the digest of the last token (without tokens: ``read`` up to ``start``).
        Raise IndexError if the table is too short."""
        digest = seen = self._fold(table, self._first(start), start)
        for position, token in enumerate(tokens, start):
            if self.window is not None:
                seen = self._fold(table, self._first(position), position)
            digest = _mix(seen, token)
            self.slots[self._slot(table, position)] = digest
            seen = _mix(seen, digest)
        return digest

    def read(self, table: Sequence[int], length: int) -> int:
        """Return a digest of the first ``length`` positions as they are in memory."""
        return self._fold(table, 0, length)

    def copy(self, source: int, target: int) -> None:
        """Copy a block, as a manager does before it writes into a shared block."""
        for slot in range(self.block_size):
            self.slots.pop((target, slot), None)
            if (source, slot) in self.slots:
                self.slots[target, slot] = self.slots[source, slot]

    def _first(self, position: int) -> int:
        return 0 if self.window is None else max(0, position + 1 - self.window)

    def _fold(self, table: Sequence[int], first: int, stop: int) -> int:
        seen = 0
        for position in range(first, stop):
            seen = _mix(seen, self.slots.get(self._slot(table, position), UNWRITTEN))
        return seen

    def _slot(self, table: Sequence[int], position: int) -> tuple[int, int]:
        index, slot = divmod(position, self.block_size)
        return table[index], slot


def _mix(seen: int, value: int) -> int:
    mixed = ((seen ^ value) * PRIME + UNWRITTEN) & MASK
    return mixed ^ (mixed >> 29)
