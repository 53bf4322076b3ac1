"""What does the server hold right now, and from where could evaluation go on? Looking changes nothing.

An entry is believed to hold its key: its rows must be those of the key's positions, no more and no fewer, and its
states those after the key's last token.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Sequence

import numpy as np

from cachesim.base.tokens import Tokens
from cachesim.engines.contract import StoredBytes
from cachesim.engines.inspection import Excess, Key, Point, RowsPart, StatePart, Stored
from cachesim.engines.mlx_lm.element_codec import unpack_rows, unpack_state
from cachesim.engines.mlx_lm.model_layout import rows_of, states_of
from cachesim.engines.mlx_lm.prompt_cache import MODEL, PromptCache
from cachesim.engines.mlx_lm.server_state import Core
from cachesim.model import LayerState, Rows


def _rows(cache: Any) -> tuple[int, Rows]:
    """The position behind the last row, and the rows in order."""
    if cache.keys is None:
        return int(cache.offset), Rows(np.zeros(0, np.uint64), None, None)
    if hasattr(cache, "temporal"):
        keys, values = (cache.temporal(one) for one in cache.pair())
    else:
        keys, values = (one[:, :, : cache.offset] for one in cache.pair())
    return int(cache.offset), unpack_rows(keys[0, 0, :, 0], values[0, 0, :, 0])


class Inspected(Core):
    """What the contract of a server asks about its rows and its prompt cache."""

    @cached_property
    def cache(self) -> PromptCache:
        """The server's own, which it keeps from request to request."""
        return PromptCache(self, self.point)

    def occupied_slots(self) -> Sequence[int]:
        """The rows in progress: of a finished one nothing is kept but entries."""
        return self.busy()

    def memory_matches(self, slot: int) -> bool:
        """Do the caches end where the row's tokens end?"""
        row = self.slots[slot]
        held = [rows_of(cache) for cache in row.left[: len(self.kind.spec.layers)]]
        return all(one is None or int(one.offset) == len(row.tokens) for one in held)

    def kept(self) -> list[Key]:
        """Every entry."""
        return [self.cache.keys[tokens] for _, tokens in self.cache.lru.entries()]

    def stored(self, key: Key, start: int = 0) -> Stored:
        """What an entry consists of, under the tokens that it is stored under; of a slot, a row whose request ends."""
        kind, owner, _ = key
        if kind == "slot":
            row = self.slots[owner]
            return self.stored_as(kind, owner, tuple(row.tokens), row.left)
        tokens = self.cache.texts[key]
        entry = self.cache.lru.entry(MODEL, tokens)
        assert entry is not None
        return self.stored_as(kind, owner, tokens, entry.layers)

    def point(self, key: Key) -> Point:
        """From where can an entry be gone on from? A state is usable at its own end only; rows at any length of which
        everything seen is there."""
        stored = self.stored(key)
        n = len(stored.tokens)
        lo, hi = 1, n
        for part in stored.rows:
            first = int(part.pos[0]) if len(part.pos) else n
            hi = min(hi, int(part.pos[-1]) + 1 if len(part.pos) else 0)
            lo = max(lo, first + part.window - 1 if first and part.window else 1)
        if stored.state is not None:
            lo = max(lo, n)
        return Point(key, n, stored.tokens, 0, None, lo, hi)

    def checkpoints(self, slot: int) -> list[int]:
        """Lengths of all stored keys, ascending: there are no checkpoints of one slot alone."""
        return sorted(len(key) for _, key in self.cache.lru.entries())

    def stored_bytes(self) -> StoredBytes:
        """What the entries weigh right now; there are no checkpoints besides them."""
        return StoredBytes(0, self.cache.lru.nbytes)

    def stored_as(self, kind: str, owner: int, tokens: Tokens, caches: Sequence[Any]) -> Stored:
        """Caches of one conversation under the tokens that they are believed to hold."""
        parts: dict[tuple[int, int], dict[int, Rows]] = {}
        states: dict[int, LayerState | None] = {}
        exact = self.model is not None and self.model.exact
        ends = [0]
        for index, (layer, cache) in enumerate(zip(self.kind.spec.layers, caches, strict=False)):
            held, state = rows_of(cache), states_of(cache)
            if held is not None:
                n, rows = _rows(held)
                ends.append(n)
                parts.setdefault((layer.window, n), {})[index] = rows
            if state is not None:
                states[index] = unpack_state(state.cache, 0, exact)
        n = len(tokens)
        rows_parts = tuple(
            RowsPart(window, np.arange(end - len(next(iter(rows.values())).digest), end), rows)
            for (window, end), rows in parts.items()
        )
        return Stored(kind, owner, tokens, max(n, *ends), rows_parts, StatePart(n - 1, states) if states else None)

    def exceeded_limits(self) -> list[Excess]:
        """Limits that are exceeded: entries of the prompt cache, rows that ever decoded together. The bytes of the
        prompt cache are looked at when a request is admitted only."""
        entries = Excess("entries", len(self.cache.lru), self.settings.max_size, "the prompt cache holds")
        rows = Excess("rows decoded", self.widest, self.settings.completion_batch_size)
        return [one for one in (entries, rows) if one.held > one.most]
