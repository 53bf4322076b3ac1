"""How do the caches of full attention grow and go back?

offset: tokens that the cache claims to hold. Keys and values are [B, H, T, D].
"""

from __future__ import annotations

from typing import Any, ClassVar, Sequence

import numpy as np

from cachesim.engines.mlx_lm.caches.array_ops import (
    Array,
    Mask,
    Packed,
    columns,
    create_attention_mask,
    joined,
    quantize,
    written,
)
from cachesim.engines.mlx_lm.caches.base import Cache, KeysValues
from cachesim.engines.mlx_lm.caches.rule_table import AT_HEAD, CacheRules


class Counted(Cache):
    """A cache that goes back by its counter alone, which frees nothing."""

    def __init__(self, *, rules: CacheRules = AT_HEAD) -> None:
        self.rules = rules
        self.offset = 0

    def is_trimmable(self) -> bool:
        return True

    def trim(self, n: int) -> int:
        """Forget the last n tokens; how many went. A negative n makes the cache claim more than it holds."""
        n = min(self.offset, n)
        self.offset -= n
        return n

    def make_mask(self, N: int, return_array: bool, window_size: int | None) -> Mask:
        return create_attention_mask(N, self.offset, return_array, window_size)


# How does a cache of packed numbers grow and go back?
#
# Keys and values are triples (words, scales, biases), each [B, H, T, something].

class QuantizedKVCache(Counted):
    """Like KVCache, but each token is packed when it comes in. It does not know its ``size()``."""

    WHOLE: ClassVar[tuple[str, ...]] = ("keys", "values", "offset", "group_size", "bits")

    def __init__(self, group_size: int = 64, bits: int = 8, *, rules: CacheRules = AT_HEAD) -> None:
        super().__init__(rules=rules)
        self.keys: Packed | None = None
        self.values: Packed | None = None
        self.group_size = group_size
        self.bits = bits

    def update_and_fetch(self, keys: Array, values: Array) -> tuple[Packed, Packed]:
        """Pack and append the tokens of one step; all tokens held."""
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


class KVCache(Counted, KeysValues):
    """Buffers that grow by blocks of ``step`` columns. Going back moves the counter and frees nothing."""

    WHOLE: ClassVar[tuple[str, ...]] = ("keys", "values", "offset")
    CUT: ClassVar[str] = "offset"
    LENGTH: ClassVar[str] = "offset"

    def update_and_fetch(self, keys: Array, values: Array) -> tuple[Array, Array]:
        """Append the tokens of one step; all tokens held."""
        self.append(self.offset, keys, values)
        self.offset += columns(keys)
        return self.keys_and_values()

    def keys_and_values(self) -> tuple[Array, Array]:
        """The tokens held: columns 0 to offset."""
        return self.cut(self.offset)

    def size(self) -> int:
        return self.offset

    def to_quantized(self, group_size: int = 64, bits: int = 4) -> QuantizedKVCache:
        """The same tokens, slack included, as packed numbers."""
        cache = QuantizedKVCache(group_size, bits, rules=self.rules)
        cache.offset = self.offset
        if self.keys is not None:
            keys, values = self.pair()
            cache.keys, cache.values = quantize(keys, group_size, bits), quantize(values, group_size, bits)
        return cache

    @classmethod
    def merge(cls, caches: Sequence[KVCache]) -> Cache:
        """One batch of these rows."""
        batch: Cache = cls.BATCH.merge(caches)
        return batch


class ConcatenateKVCache(Counted, KeysValues):
    """Buffers without slack. What was trimmed comes back with the next update, for nothing cuts the buffer."""

    WHOLE: ClassVar[tuple[str, ...]] = ("keys", "values")
    LENGTH: ClassVar[str] = "offset"

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


# How does a cache hold no more than one chunk (llama4)?
#
# start_position: tokens that were cut from the front; the buffer's first column is the token with that number.

class ChunkedKVCache(KeysValues):
    """The model calls ``maybe_trim_front`` before each update."""

    WHOLE: ClassVar[tuple[str, ...]] = ("keys", "values", "offset", "chunk_size", "start_position")
    CUT: ClassVar[str] = "offset"           # not what is held: the number of the last token
    LENGTH: ClassVar[str] = "offset"

    def __init__(self, chunk_size: int, *, rules: CacheRules = AT_HEAD) -> None:
        self.rules = rules
        self.offset = 0
        self.chunk_size = chunk_size
        self.start_position = 0

    def maybe_trim_front(self) -> None:
        """Drop what lies before the last chunk."""
        if self.keys is None:
            return
        front = self.rules.chunked_front(self.offset - self.start_position, columns(self.keys), self.chunk_size)
        if front is not None:
            self.start_position += front.start
            self.keys, self.values = self.cut(front.stop, front.start)

    def update_and_fetch(self, keys: Array, values: Array) -> tuple[Array, Array]:
        """Append the tokens of one step; the tokens held since ``start_position``."""
        self.append(self.offset - self.start_position, keys, values)
        self.offset += columns(keys)
        return self.keys_and_values()

    def keys_and_values(self) -> tuple[Array, Array]:
        return self.cut(self.offset - self.start_position)

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
