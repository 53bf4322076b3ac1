"""Batch of sliding-window caches in a shared ring.

left_padding[B], offset[B], _idx: as in batch_kv_cache.py; a negative padding was overwritten. _offset: columns ever
written, including padding. rotated: the ring has wrapped, so its columns are not in temporal order.
"""

from __future__ import annotations

from typing import ClassVar, Self, Sequence

import numpy as np

from cachesim.engines.mlx_lm.caches.array_ops import (
    Array,
    columns,
    counters,
    create_causal_mask,
    joined,
    rotated,
    stored,
    written,
)
from cachesim.engines.mlx_lm.caches.batch_kv_cache import Announced, Batch, Row, stacked
from cachesim.engines.mlx_lm.caches.rotating_kv_cache import Ring, RotatingKVCache
from cachesim.engines.mlx_lm.caches.rule_table import AT_D78BF58E, CacheRules


class BatchRotatingKVCache(Ring, Batch):
    """Batch of sliding-window caches."""

    WHOLE: ClassVar[tuple[str, ...]] = (
        "keys", "values", "offset", "left_padding", "max_size", "_offset", "_idx", "rotated",
    )  # fmt: skip

    def __init__(self, max_size: int, left_padding: Sequence[int], *, rules: CacheRules = AT_D78BF58E) -> None:
        super().__init__(left_padding, rules)
        self.max_size = max_size
        self._offset = 0
        self.rotated = False
        self._lengths: Array | None = None            # not set in a cache that was loaded, as in the original

    def meta(self) -> tuple[str, ...]:
        return tuple(str(x) for x in (self.max_size, self._offset, self._idx, self.rotated))

    def set_meta(self, meta: Sequence[str]) -> None:
        self.max_size, self._offset, self._idx = map(int, meta[:3])
        self.rotated = self.rules.batch_rotating_state(meta[3])

    def _straighten(self) -> None:
        """Put the columns into temporal order."""
        if self.rotated:
            keys, self.values = (rotated(buffer, -self._idx, axis=2) for buffer in self.pair())
            self.keys, self._idx = keys, columns(keys)
            self.rotated = False

    def _appended(self, keys: Array, values: Array) -> tuple[Array, Array]:
        new = columns(keys)
        if self.keys is not None:
            self._straighten()
            self.keys, self.values = self.cut(self._idx)
            if self._lengths is not None:
                # Padding after a row must not push its tokens out of the ring.
                self._shift(np.maximum(0, self.offset - self._lengths))
            drop = max(0, self._idx - self.max_size + 1)
            self.left_padding = self.left_padding - drop
            old_keys, old_values = self.pair()
            keys, values = joined(old_keys[:, :, drop:], keys), joined(old_values[:, :, drop:], values)
        self.keys, self.values = keys, values
        self.offset = self.offset + new
        self._offset += new
        self._idx = columns(keys)
        return keys, values

    def _in_place(self, keys: Array, values: Array) -> tuple[Array, Array]:
        if self._lengths is not None:
            raise RuntimeError("finalize() was not called after a step with padding after the rows")
        self._make_room(keys, values)
        held_keys, held_values = self.pair()
        drop = columns(held_keys) - self.max_size
        if drop > 0:
            held_keys, held_values = held_keys[:, :, drop:], held_values[:, :, drop:]
            self._idx = self.max_size
            self.left_padding = self.left_padding - drop
        if self._idx == self.max_size:
            self.rotated = True
            self._idx = 0
        if self.rotated:
            self.left_padding = self.left_padding - 1
        self.keys, self.values = written(held_keys, self._idx, keys), written(held_values, self._idx, values)
        self._offset += 1
        self.offset = self.offset + 1
        self._idx += 1
        return self.keys_and_values()

    def prepare(
        self, *, left_padding: Announced = None, lengths: Announced = None, right_padding: Announced = None
    ) -> None:
        """Announce padding of the next step. With padding after the rows, ``lengths`` gives the number of real
        tokens."""
        if left_padding is not None:
            self._pad_left(left_padding)
        if right_padding is not None and max(right_padding) > 0:
            if lengths is None:
                raise ValueError("lengths are needed")
            self._lengths = counters(lengths) + self.offset

    def finalize(self) -> None:
        """Turn padding after the rows into padding before them."""
        if self._lengths is not None:
            self._shift(np.maximum(0, self.offset - self._lengths))
            self._lengths = None

    def trim(self, n: int) -> int:
        """Remove the last n columns by the version's rule. Return how many were removed."""
        cut = self.rules.ring_trim(self._offset, self.max_size, n)
        self.offset = self.offset - cut.n
        if cut.keep is None:
            self._offset -= cut.n
            self._idx -= cut.n
            return int(cut.n)
        if cut.keep == 0:
            self.keys = self.values = None
            self.rotated = False
        else:
            self._straighten()
            self.keys, self.values = self.cut(cut.keep)
        self._offset = self._idx = cut.keep
        return int(cut.n)

    def make_mask(self, N: int, window_size: int | None = None, return_array: bool = False) -> Array:
        """Return the mask [B, 1, N, before + N]. It is made before the update, so it ignores that the update may
        straighten the ring."""
        before = min(self.max_size - 1, self._offset)
        turned = N == 1 and (self.rotated or self._idx >= self.max_size)
        held = 0 if self.keys is None else columns(self.keys)
        most = self.max_size - 1 if N > 1 else self.max_size
        drop = max(0, self.rules.ring_mask(self._idx, held, self.rotated, N) - most)
        padding = self.left_padding - drop - turned
        mask = create_causal_mask(N, before, window_size or self.max_size, left_padding=padding)
        if not turned:
            return mask
        return rotated(mask, (0 if self._idx >= self.max_size else self._idx) + 1, axis=-1)

    def extend(self, addition: Self) -> None:
        """Append the rows of ``addition``. If the rings differ, both are put into temporal order."""
        some = self.keys is not None or addition.keys is not None
        if some and (self.rotated != addition.rotated or self._idx != addition._idx):
            self._straighten()
            addition._straighten()
        super().extend(addition)
        if some:
            self._offset = max(self._offset, addition._offset)

    def extract(self, idx: int) -> RotatingKVCache:
        """Return row ``idx`` in temporal order and without padding; ``keep`` is 0."""
        cache = RotatingKVCache(self.max_size, rules=self.rules)
        if not self.rules.ring_extract_empty(self.keys is not None):
            return cache
        start = self.rules.ring_row_start(int(self.left_padding[idx]))
        end = self._idx
        turn = 0
        if self.rotated:
            end, turn = self.max_size, -self._idx
        end = self.rules.ring_extract_end(end, columns(stored(self.keys)), int(self.left_padding[idx]))
        keys, values = (rotated(buffer[idx : idx + 1], turn, axis=2)[:, :, start:end] for buffer in self.pair())
        cache.keys, cache.values = keys.copy(), values.copy()
        cache.offset = int(self.offset[idx])
        cache._idx = columns(keys)
        cache._offset = self.rules.ring_extracted(cache.offset, cache._idx)
        return cache

    @classmethod
    def merge(cls, caches: Sequence[RotatingKVCache]) -> BatchRotatingKVCache:
        """Merge rotating caches of equal max_size into a batch cache; each becomes a row, padded on the left to the
        longest."""
        rules, max_size = caches[0].rules, caches[0].max_size
        if any(cache.max_size != max_size for cache in caches):
            raise ValueError("cannot merge rings of different sizes")
        length = max(cache.size() for cache in caches)
        if length == 0:
            return cls(max_size, [0] * len(caches), rules=rules)
        if not rules.kv_merge_empty([cache.keys is not None for cache in caches]):
            raise TypeError("a cache without a buffer in a batch")
        batch = cls(max_size, [length - cache.size() for cache in caches], rules=rules)
        rows = [_merged(cache, length) for cache in caches]
        batch.keys, batch.values = stacked([k for k, _ in rows], length), stacked([v for _, v in rows], length)
        batch.offset = counters([cache.offset for cache in caches])
        batch._idx = batch._offset = length
        return batch


def _merged(cache: RotatingKVCache, length: int) -> tuple[Row, Row]:
    """Return keys and values of a ring as rows of a batch of ``length`` columns."""
    start = length - cache.size()
    if cache.keys is None:
        return Row(start, 0, None), Row(start, 0, None)
    width, last = cache.rules.rotating_merge(cache.size(), cache._idx)
    keys, values = (cache.temporal(buffer)[:, :, 0 if last is None else -last :] for buffer in cache.pair())
    return Row(start, width, keys), Row(start, width, values)


RotatingKVCache.BATCH = BatchRotatingKVCache
