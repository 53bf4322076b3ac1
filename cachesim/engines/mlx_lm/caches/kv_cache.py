"""How do the caches of full attention grow and go back?

offset: tokens that the cache claims to hold. Keys and values are [B, H, T, D].
"""

from __future__ import annotations

from typing import ClassVar, Sequence

from cachesim.engines.mlx_lm.caches.array_ops import Array, columns, joined, with_room, written
from cachesim.engines.mlx_lm.caches.base import Cache, KeysValues
from cachesim.engines.mlx_lm.caches.masks import Mask, create_attention_mask
from cachesim.engines.mlx_lm.caches.quantize import quantize
from cachesim.engines.mlx_lm.caches.quantized_kv_cache import QuantizedKVCache
from cachesim.engines.mlx_lm.caches.rule_table import AT_HEAD, CacheRules


class KVCache(KeysValues):
    """Buffers that grow by blocks of ``step`` columns. Going back moves the counter and frees nothing."""

    WHOLE: ClassVar[tuple[str, ...]] = ("keys", "values", "offset")
    CUT: ClassVar[str] = "offset"
    LENGTH: ClassVar[str] = "offset"

    def __init__(self, *, rules: CacheRules = AT_HEAD) -> None:
        self.rules = rules
        self.keys = None
        self.values = None
        self.offset = 0

    def update_and_fetch(self, keys: Array, values: Array) -> tuple[Array, Array]:
        """Append the tokens of one step; all tokens held."""
        prev = self.offset
        self.keys = written(with_room(self.keys, prev, keys, self.step), prev, keys)
        self.values = written(with_room(self.values, prev, values, self.step), prev, values)
        self.offset = prev + columns(keys)
        return self.keys_and_values()

    def keys_and_values(self) -> tuple[Array, Array]:
        """The tokens held: columns 0 to offset."""
        keys, values = self.pair()
        return keys[:, :, : self.offset], values[:, :, : self.offset]

    def size(self) -> int:
        return self.offset

    def is_trimmable(self) -> bool:
        return True

    def trim(self, n: int) -> int:
        """Forget the last n tokens; how many went. A negative n makes the cache claim more than it holds."""
        n = min(self.offset, n)
        self.offset -= n
        return n

    def to_quantized(self, group_size: int = 64, bits: int = 4) -> QuantizedKVCache:
        """The same tokens, slack included, as packed numbers."""
        cache = QuantizedKVCache(group_size, bits, rules=self.rules)
        cache.offset = self.offset
        if self.keys is not None:
            keys, values = self.pair()
            cache.keys, cache.values = quantize(keys, group_size, bits), quantize(values, group_size, bits)
        return cache

    def make_mask(self, N: int, return_array: bool, window_size: int | None) -> Mask:
        return create_attention_mask(N, self.offset, return_array, window_size)

    @classmethod
    def merge(cls, caches: Sequence[KVCache]) -> Cache:
        """One batch of these rows."""
        batch: Cache = cls.BATCH.merge(caches)
        return batch


class ConcatenateKVCache(KeysValues):
    """Buffers without slack. What was trimmed comes back with the next update, for nothing cuts the buffer."""

    WHOLE: ClassVar[tuple[str, ...]] = ("keys", "values")
    LENGTH: ClassVar[str] = "offset"

    def __init__(self, *, rules: CacheRules = AT_HEAD) -> None:
        self.rules = rules
        self.keys = None
        self.values = None
        self.offset = 0

    def cut_state(self) -> tuple[Array | None, Array | None]:
        return self.keys, self.values

    def set_whole_state(self, state: object) -> None:
        self.set_cut_state(state)

    def update_and_fetch(self, keys: Array, values: Array) -> tuple[Array, Array]:
        """Append the tokens of one step; the whole buffer."""
        if self.keys is not None:
            held_keys, held_values = self.pair()
            keys, values = joined(held_keys, keys), joined(held_values, values)
        self.keys, self.values = keys, values
        self.offset = columns(keys)
        return keys, values

    def keys_and_values(self) -> tuple[Array | None, Array | None]:
        return self.keys, self.values

    def is_trimmable(self) -> bool:
        return True

    def trim(self, n: int) -> int:
        n = min(self.offset, n)
        self.offset -= n
        return n

    def make_mask(self, N: int, return_array: bool, window_size: int | None) -> Mask:
        return create_attention_mask(N, self.offset, return_array, window_size)
