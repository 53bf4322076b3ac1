"""How does a cache of packed numbers grow and go back?

Keys and values are triples (words, scales, biases), each [B, H, T, something].
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from cachesim.engines.mlx_lm.caches.array_ops import Array, columns, joined, written
from cachesim.engines.mlx_lm.caches.base import Cache
from cachesim.engines.mlx_lm.caches.masks import Mask, create_attention_mask
from cachesim.engines.mlx_lm.caches.quantize import Packed, quantize
from cachesim.engines.mlx_lm.caches.rule_table import AT_HEAD, CacheRules


class QuantizedKVCache(Cache):
    """Like KVCache, but each token is packed when it comes in. It does not know its ``size()``."""

    WHOLE: ClassVar[tuple[str, ...]] = ("keys", "values", "offset", "group_size", "bits")

    def __init__(self, group_size: int = 64, bits: int = 8, *, rules: CacheRules = AT_HEAD) -> None:
        self.rules = rules
        self.keys: Packed | None = None
        self.values: Packed | None = None
        self.offset = 0
        self.group_size = group_size
        self.bits = bits

    def update_and_fetch(self, keys: Array, values: Array) -> tuple[Packed, Packed]:
        """Pack and append the tokens of one step; all tokens held."""
        prev = self.offset
        rooms = self._with_room(self.keys, keys), self._with_room(self.values, values)
        self.keys, self.values = rooms
        self.offset = prev + columns(keys)
        new_keys, new_values = (quantize(new, self.group_size, self.bits) for new in (keys, values))
        self.keys = _written(self.keys, prev, new_keys)
        self.values = _written(self.values, prev, new_values)
        return self.keys_and_values()

    def _with_room(self, packed: Packed | None, rows: Array) -> Packed:
        b, h, new, d = rows.shape
        width = -(-new // self.step) * self.step
        if packed is None:
            # Whole codes per word: for 3, 5 and 6 bits this is not the packed width of every D.
            words = np.zeros((b, h, width, d // (32 // self.bits)), np.uint32)
            scales = np.zeros((b, h, width, d // self.group_size), rows.dtype)
            return words, scales, scales
        if self.offset + new <= columns(packed[0]):
            return packed
        kept = _cut(packed, self.offset) if self.offset % self.step else packed
        grown = (joined(x, np.zeros((b, h, width, x.shape[3]), x.dtype)) for x in kept)
        return _triple(*grown)

    def keys_and_values(self) -> tuple[Packed, Packed]:
        if self.keys is None or self.values is None:
            raise TypeError("the cache holds no buffer yet")
        return _cut(self.keys, self.offset), _cut(self.values, self.offset)

    def cut_state(self) -> Any:
        return self.keys_and_values()

    def set_cut_state(self, state: Any) -> None:
        self.keys, self.values = state

    def meta(self) -> tuple[str, ...]:
        return str(self.offset), str(self.group_size), str(self.bits)

    def set_meta(self, meta: tuple[str, ...]) -> None:
        self.offset, self.group_size, self.bits = map(int, meta)

    def is_trimmable(self) -> bool:
        return True

    def trim(self, n: int) -> int:
        n = min(self.offset, n)
        self.offset -= n
        return n

    def make_mask(self, N: int, return_array: bool, window_size: int | None) -> Mask:
        return create_attention_mask(N, self.offset, return_array, window_size)

    def empty(self) -> bool:
        return self.keys is None

    @property
    def nbytes(self) -> int:
        """Words, scales and biases. Raises AttributeError before the first token, as the original does."""
        if self.keys is None or self.values is None:
            raise AttributeError("a cache without buffers has no nbytes")
        return sum(x.nbytes for x in (*self.keys, *self.values))


def _triple(words: Array, scales: Array, biases: Array) -> Packed:
    return words, scales, biases


def _cut(packed: Packed, held: int) -> Packed:
    return _triple(*(x[:, :, :held] for x in packed))


def _written(packed: Packed, start: int, rows: Packed) -> Packed:
    return _triple(*(written(x, start, new) for x, new in zip(packed, rows, strict=True)))
