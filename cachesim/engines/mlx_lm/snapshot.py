"""Read-only inspection of the server: its stored state and its restore points.

An entry should hold its key: exactly the rows of the key's positions, and the states after the key's last token.
"""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any, Sequence

import numpy as np

from cachesim.base.tokens import Tokens
from cachesim.engines.inspection import (
    ExceededLimit,
    Key,
    RestorePoint,
    RowsPart,
    StatePart,
    StoredBytes,
    StoredObject,
    StoredSize,
    TokenPrefix,
)
from cachesim.engines.mlx_lm.element_codec import unpack_rows, unpack_state
from cachesim.engines.mlx_lm.model_layout import alive, declared, rows_of, states_of
from cachesim.engines.mlx_lm.prompt_cache import MODEL, PromptCache
from cachesim.engines.mlx_lm.server_state import Core
from cachesim.engines.server_parts import MemorySizes
from cachesim.engines.shared.restore_point_tracker import RowRange, usable_lengths
from cachesim.engines.shared.server_loop import SlotInspection
from cachesim.model import KVRows, LayerState


def _rows(cache: Any) -> tuple[int, KVRows]:
    """Return the position after the last row, and the rows in order."""
    if cache.keys is None:
        return int(cache.offset), KVRows(np.zeros(0, np.uint64), None, None)
    if hasattr(cache, "temporal"):
        keys, values = (cache.temporal(buffer)[:, :, : cache.offset] for buffer in cache.pair())
    else:
        held = cache.offset - getattr(cache, "start_position", 0)
        keys, values = (buffer[:, :, :held] for buffer in cache.pair())
    return int(cache.offset), unpack_rows(keys[0, 0, :, 0], values[0, 0, :, 0])


def content(core: Core, kind: str, owner: int, tokens: Tokens, caches: Sequence[Any]) -> StoredObject:
    """Return the caches of a conversation as stored contents, with the tokens that they should hold."""
    parts: dict[tuple[int, int], dict[int, KVRows]] = {}
    states: dict[int, LayerState | None] = {}
    exact = core.model is not None and core.model.exact
    ends = [0]
    for index, (layer, cache) in enumerate(zip(core.kind.spec.layers, caches, strict=False)):
        held, state = rows_of(cache), states_of(cache)
        if held is not None:
            n, rows = _rows(held)
            ends.append(n)
            # After n tokens, the next token of a chunk reads the n % size tokens before it.
            parts.setdefault((n % layer.window + 1 if layer.chunked else layer.window, n), {})[index] = rows
        if state is not None:
            states[index] = unpack_state(state.cache, 0, exact)
    n = len(tokens)
    rows_parts = tuple(
        RowsPart(window, np.arange(end - len(next(iter(rows.values())).digest), end), rows)
        for (window, end), rows in parts.items()
    )
    return StoredObject(
        kind,
        owner,
        tokens=tokens,
        resume=max(n, *ends),
        rows=rows_parts,
        state=StatePart(n - 1, states) if states else None,
    )


class CachedCore(Core):
    """State of a server with its prompt cache."""

    @cached_property
    def cache(self) -> PromptCache:
        """Prompt cache of the server, which lives as long as the server."""
        return PromptCache(self, partial(point, self))


def stored(core: CachedCore, key: Key) -> StoredObject:
    """Return the contents of an entry, with the tokens of its key. The key of a slot names a row whose request
    begins or ends."""
    kind, owner, _ = key
    if kind == "slot":
        row = core.slots[owner]
        return content(core, kind, owner, tokens=tuple(row.tokens), caches=row.left)
    tokens = core.cache.texts[key]
    entry = core.cache.lru.entry(MODEL, tokens)
    assert entry is not None
    return content(core, kind, owner, tokens, caches=entry.layers)


def point(core: CachedCore, key: Key) -> RestorePoint:
    """Return the restore point of an entry. A state is usable only at its own end. Rows are usable at every length
    at which the window of each layer is complete."""
    found = stored(core, key)
    n = len(found.tokens)
    rows = [RowRange(int(part.pos[0]), int(part.pos[-1]), part.window) if len(part.pos)
            else RowRange(n, -1, part.window) for part in found.rows]  # fmt: skip
    lo, hi = usable_lengths(n, rows, None if found.state is None else n)
    return RestorePoint(key, n, tokens=found.tokens, start=0, after=None, lo=lo, hi=hi)


class Inspection(SlotInspection):
    """Contents of the rows and of the prompt cache."""

    def __init__(self, core: CachedCore) -> None:
        super().__init__(core.slots)
        self.core = core

    def occupied_slots(self) -> Sequence[int]:
        """Return the busy rows. A finished row leaves nothing but entries."""
        return [row.id for row in self.slots if row.busy]

    def prefix_of(self, slot: int) -> TokenPrefix:
        """Return the tokens of a row, until its answer begins as a prefix of the same list."""
        return self.core.slots[slot].prefix()

    def memory_matches(self, slot: int) -> bool:
        """True if the caches end where the row's tokens end."""
        row = self.core.slots[slot]
        held = [rows_of(cache) for cache in row.left[: len(self.core.kind.spec.layers)]]
        return all(rows is None or int(rows.offset) == len(row.tokens) for rows in held)

    def kept(self) -> list[Key]:
        """Return the keys of all entries."""
        return [self.core.cache.keys[tokens] for _, tokens in self.core.cache.lru.items()]

    def stored(self, key: Key, start: int = 0) -> StoredObject:
        """Return the contents of an entry, with the tokens of its key; those of a row whose request begins or ends."""
        return stored(self.core, key)

    def checkpoints(self, slot: int) -> list[int]:
        """Return the lengths of all stored keys, ascending: this server has no checkpoints of a single slot."""
        return sorted(len(key) for _, key in self.core.cache.lru.items())

    def exceeded_limits(self) -> list[ExceededLimit]:
        """Return the exceeded limits: entries of the prompt cache, and rows that decoded together. The server checks
        the bytes of the prompt cache only when it admits a request."""
        entries = ExceededLimit(
            "entries", len(self.core.cache.lru), self.core.settings.max_size, "the prompt cache holds"
        )
        rows = ExceededLimit("rows decoded", self.core.widest, self.core.settings.completion_batch_size)
        return [excess for excess in (entries, rows) if excess.held > excess.most]


class Sizes(MemorySizes):
    """Sizes of the entries of the prompt cache."""

    def __init__(self, core: CachedCore) -> None:
        super().__init__()
        self.core = core

    def stored_bytes(self) -> StoredBytes:
        """Return the memory that the entries keep alive; this server stores no other checkpoints. Its own count, on
        which evictions depend, has the sizes of views in place of the memory behind them."""
        entries = [entry.layers for entry in self.core.cache.lru.entries().values()]
        return StoredBytes(0, alive(entries, self.core.cache.weights))

    def uncounted_bytes(self) -> int:
        """Return the memory that views keep alive behind the entries [bytes]."""
        entries = [entry.layers for entry in self.core.cache.lru.entries().values()]
        own = sum(declared(layers, self.core.cache.weights) for layers in entries)
        return max(0, alive(entries, self.core.cache.weights) - own)

    def stored_sizes(self) -> list[StoredSize]:
        """Return the size of every entry, with its type."""
        weights, n = self.core.cache.weights, len(self.core.kind.spec.layers)
        return [
            StoredSize(
                "entry",
                -1,
                tokens=len(key),
                bytes=entry.nbytes,
                draft_bytes=declared(entry.layers[n:], weights[n:]),
                checkpoint_bytes=0,
                entry_type=entry.kind,
            )
            for (_, key), entry in self.core.cache.lru.entries().items()
        ]
