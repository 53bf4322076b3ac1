"""How does a cache hold no more than one chunk (llama4)?

start_position: tokens that were cut from the front; the buffer's first column is the token with that number.
"""

from __future__ import annotations

from typing import ClassVar

from cachesim.engines.mlx_lm.caches.array_ops import Array, columns, with_room, written
from cachesim.engines.mlx_lm.caches.base import KeysValues
from cachesim.engines.mlx_lm.caches.rule_table import AT_HEAD, CacheRules


class ChunkedKVCache(KeysValues):
    """The model calls ``maybe_trim_front`` before each update."""

    WHOLE: ClassVar[tuple[str, ...]] = ("keys", "values", "offset", "chunk_size", "start_position")
    CUT: ClassVar[str] = "offset"           # not what is held: the number of the last token
    LENGTH: ClassVar[str] = "offset"

    def __init__(self, chunk_size: int, *, rules: CacheRules = AT_HEAD) -> None:
        self.rules = rules
        self.keys = None
        self.values = None
        self.offset = 0
        self.chunk_size = chunk_size
        self.start_position = 0

    def maybe_trim_front(self) -> None:
        """Drop what lies before the last chunk."""
        if self.keys is None:
            return
        keys, values = self.pair()
        front = self.rules.chunked_front(self.offset - self.start_position, columns(keys), self.chunk_size)
        if front is not None:
            self.start_position += front.start
            self.keys = keys[:, :, front.start : front.stop]
            self.values = values[:, :, front.start : front.stop]

    def update_and_fetch(self, keys: Array, values: Array) -> tuple[Array, Array]:
        """Append the tokens of one step; the tokens held since ``start_position``."""
        prev = self.offset - self.start_position
        self.keys = written(with_room(self.keys, prev, keys, self.step), prev, keys)
        self.values = written(with_room(self.values, prev, values, self.step), prev, values)
        self.offset += columns(keys)
        return self.keys_and_values()

    def keys_and_values(self) -> tuple[Array, Array]:
        keys, values = self.pair()
        held = self.offset - self.start_position
        return keys[:, :, :held], values[:, :, :held]

    def is_trimmable(self) -> bool:
        return True

    def trim(self, n: int) -> int:
        """Forget the last n tokens, but none that left by the front; how many went."""
        n = min(self.offset - self.start_position, n)
        self.offset -= n
        return n

    def meta(self) -> tuple[str, ...]:
        return str(self.chunk_size), str(self.start_position)

    def set_meta(self, meta: tuple[str, ...]) -> None:
        self.chunk_size, self.start_position = map(int, meta)
