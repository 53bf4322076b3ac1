"""Caches of full attention: plain, quantised, concatenating and chunked.

offset: tokens that the cache claims to hold. Keys and values are [B, H, T, D].
"""

from __future__ import annotations

from typing import Any, ClassVar, Sequence

import numpy as np

from cachesim.engines.mlx_lm.caches.array_ops import (
    Array,
    Mask,
    Packed,
    Ranges,
    columns,
    create_attention_mask,
    joined,
    quantize,
    written,
)
from cachesim.engines.mlx_lm.caches.base import Cache, KeysValues
from cachesim.engines.mlx_lm.caches.rule_table import AT_D78BF58E, CacheRules


class CounterTrimmedCache(Cache):
    """A cache that is trimmed by its counter alone, which frees no memory."""

    def __init__(self, *, rules: CacheRules = AT_D78BF58E) -> None:
        self.rules = rules
        self.offset = 0

    def is_trimmable(self) -> bool:
        return True

    def trim(self, n: int) -> int:
        """Remove the last n tokens. Return how many were removed. After a negative n the cache claims more than it
        holds."""
        n = min(self.offset, n)
        self.offset -= n
        return n

    def make_mask(self, N: int, return_array: bool, window_size: int | None) -> Mask:
        window = window_size if self.rules.masks_window(N, return_array) else None
        return create_attention_mask(N, self.offset, return_array, window)


class QuantizedKVCache(CounterTrimmedCache):
    """Like KVCache, but quantises each token on arrival. Keys and values are triples (words, scales, biases), each [B,
    H, T, n]. ``size()`` is not implemented."""

    WHOLE: ClassVar[tuple[str, ...]] = ("keys", "values", "offset", "group_size", "bits")

    def __init__(self, group_size: int = 64, bits: int = 8, *, rules: CacheRules = AT_D78BF58E) -> None:
        super().__init__(rules=rules)
        self.keys: Packed | None = None
        self.values: Packed | None = None
        self.group_size = group_size
        self.bits = bits

    def update_and_fetch(self, keys: Array, values: Array) -> tuple[Packed, Packed]:
        """Quantise and append the tokens of a step. Return all tokens held."""
        prev = self.offset
        rooms = self._with_room(self.keys, keys), self._with_room(self.values, values)
        self.keys, self.values = rooms
        self.offset = prev + columns(keys)
        new_keys, new_values = (quantize(new, self.group_size, self.bits) for new in (keys, values))
        self.keys, self.values = _written(rooms[0], prev, new_keys), _written(rooms[1], prev, new_values)
        return self.keys_and_values()

    def _with_room(self, packed: Packed | None, rows: Array) -> Packed:
        b, h, new, d = rows.shape
        width = -(-new // self.step) * self.step
        if packed is None:
            # Words hold whole codes here. For 3, 5 and 6 bits this is not the packed width of every D.
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

    def empty(self) -> bool:
        return self.keys is None

    @property
    def nbytes(self) -> int:
        """Bytes of words, scales and biases. Raise AttributeError before the first token, as the original does."""
        if self.keys is None or self.values is None:
            raise AttributeError("nbytes: the cache holds no buffer yet")
        return sum(x.nbytes for x in (*self.keys, *self.values))


def _triple(words: Array, scales: Array, biases: Array) -> Packed:
    return words, scales, biases


def _cut(packed: Packed, held: int) -> Packed:
    return _triple(*(x[:, :, :held] for x in packed))


def _written(packed: Packed, start: int, rows: Packed) -> Packed:
    return _triple(*(written(x, start, new) for x, new in zip(packed, rows, strict=True)))


class KVCache(CounterTrimmedCache, KeysValues):
    """Buffers that grow by blocks of ``step`` columns. A trim moves the counter and frees no memory."""

    WHOLE: ClassVar[tuple[str, ...]] = ("keys", "values", "offset")
    CUT: ClassVar[str] = "offset"
    LENGTH: ClassVar[str] = "offset"

    def update_and_fetch(self, keys: Array, values: Array) -> tuple[Array, Array]:
        """Append the tokens of a step. Return all tokens held."""
        self.append(self.offset, keys, values)
        self.offset += columns(keys)
        return self.keys_and_values()

    def keys_and_values(self) -> tuple[Array, Array]:
        """Return the tokens held: columns 0 to offset."""
        return self.cut(self.offset)

    def size(self) -> int:
        return self.offset

    def to_quantized(self, group_size: int = 64, bits: int = 4) -> QuantizedKVCache:
        """Return these tokens, including unused columns, as packed numbers."""
        cache = QuantizedKVCache(group_size, bits, rules=self.rules)
        cache.offset = self.offset
        if self.keys is not None:
            keys, values = self.pair()
            cache.keys, cache.values = quantize(keys, group_size, bits), quantize(values, group_size, bits)
        return cache

    @classmethod
    def merge(cls, caches: Sequence[KVCache]) -> Cache:
        """Merge caches of one sequence each into a batch cache."""
        batch: Cache = cls.BATCH.merge(caches)
        return batch


class ConcatenateKVCache(CounterTrimmedCache, KeysValues):
    """Buffers without unused columns. The next update brings trimmed tokens back, because a trim does not cut the
    buffer."""

    WHOLE: ClassVar[tuple[str, ...]] = ("keys", "values")
    LENGTH: ClassVar[str] = "offset"

    def cut_state(self) -> tuple[Array | None, Array | None]:
        return self.keys, self.values

    def set_whole_state(self, state: object) -> None:
        self.set_cut_state(state)

    def update_and_fetch(self, keys: Array, values: Array) -> tuple[Array, Array]:
        """Append the tokens of a step. Return the whole buffer."""
        if self.keys is not None:
            held_keys, held_values = self.pair()
            keys, values = joined(held_keys, keys), joined(held_values, values)
        self.keys, self.values = keys, values
        self.offset = columns(keys)
        return keys, values

    def keys_and_values(self) -> tuple[Array | None, Array | None]:
        return self.keys, self.values


class ChunkedKVCache(KeysValues):
    """A cache of at most one chunk (llama4). The model calls ``maybe_trim_front`` before each update. start_position:
    tokens cut from the front, that is the number of the token in the first column."""

    WHOLE: ClassVar[tuple[str, ...]] = ("keys", "values", "offset", "chunk_size", "start_position")
    CUT: ClassVar[str] = "offset"           # number of the last token, not of the tokens held
    LENGTH: ClassVar[str] = "offset"

    def __init__(self, chunk_size: int, *, rules: CacheRules = AT_D78BF58E) -> None:
        self.rules = rules
        self.offset = 0
        self.chunk_size = chunk_size
        self.start_position = 0

    def maybe_trim_front(self) -> None:
        """Drop the tokens before the last chunk."""
        if self.keys is None:
            return
        front = self.rules.chunked_front(self.offset - self.start_position, columns(self.keys), self.chunk_size)
        if front is not None:
            self.start_position += front.start
            self.keys, self.values = self.cut(front.stop, front.start)

    def update_and_fetch(self, keys: Array, values: Array) -> tuple[Array, Array]:
        """Append the tokens of a step. Return the tokens held since ``start_position``."""
        self.append(self.offset - self.start_position, keys, values)
        self.offset += columns(keys)
        return self.keys_and_values()

    def keys_and_values(self) -> tuple[Array, Array]:
        return self.cut(self.offset - self.start_position)

    def chunk_mask(self, N: int) -> Mask:
        """Return the mask that the model's own code makes (llama4): each token sees its own chunk."""
        asked = np.arange(self.offset, self.offset + N)[None]
        lo = np.maximum(asked // self.chunk_size * self.chunk_size - self.start_position, 0)
        return Ranges(lo, asked + 1 - self.start_position, max(0, self.offset + N - self.start_position), False)

    def is_trimmable(self) -> bool:
        return True

    def trim(self, n: int) -> int:
        """Remove the last n tokens, but none that was cut from the front. Return how many were removed."""
        n = min(self.offset - self.start_position, n)
        self.offset -= n
        return n

    def meta(self) -> tuple[str, ...]:
        return str(self.chunk_size), str(self.start_position)

    def set_meta(self, meta: tuple[str, ...]) -> None:
        self.chunk_size, self.start_position = map(int, meta)
