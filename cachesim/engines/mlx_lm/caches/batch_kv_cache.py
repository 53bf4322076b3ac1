"""Batch of full-attention caches in a shared buffer.

left_padding[B]: columns before a row's first token. offset[B]: tokens of the row. _idx: the next column, shared by all
rows. The tokens of row b are in the columns left_padding[b] to _idx.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Self, Sequence

import numpy as np

from cachesim.engines.mlx_lm.caches.array_ops import (
    Array,
    Ranges,
    blank,
    causal_ranges,
    chosen,
    columns,
    counters,
    joined,
    rolled,
)
from cachesim.engines.mlx_lm.caches.base import KeysValues
from cachesim.engines.mlx_lm.caches.kv_cache import KVCache
from cachesim.engines.mlx_lm.caches.rule_table import AT_D78BF58E, CacheRules

Announced = Sequence[int] | None
"""Padding or lengths of the rows in the next step; None = not given."""

# Placement of rows in a shared buffer: all rows end in the same column, and the columns before the first token are
# zeros.

def _joined(a: Batch, b: Batch, part: int) -> Array:
    """Concatenate keys (part 0) or values (part 1) of the rows of ``a`` and ``b``. At most one of ``a`` and ``b`` may
    be empty, without a buffer."""
    end = max(a._idx, b._idx)
    width = max(columns(side.keys) for side in (a, b) if side.keys is not None)
    sides = []
    for side, peer in ((a, b), (b, a)):
        buffer = (side.keys, side.values)[part]
        if buffer is None:
            likes = peer.pair()
            # The keys decide the dtype of both.
            rows, dtype = a.rules.extend_empty_side(len(side.offset), len(likes[part]), likes[0].dtype)
            buffer = blank(likes[part], 0, rows=rows, dtype=dtype)
        sides.append(_placed(buffer, end - side._idx, width))
    return np.concatenate(sides)


def _placed(buffer: Array, left: int, width: int) -> Array:
    """Return the buffer shifted right by ``left`` columns, in ``width`` columns."""
    right = width - columns(buffer) - left
    if right < 0:
        buffer, right = buffer[:, :, :right], 0
    return joined(blank(buffer, left), buffer, blank(buffer, right)) if left or right else buffer


class Row(NamedTuple):
    """Contribution of a cache to a batch: first column, number of columns, and the content to copy there (None =
    zeros)."""

    start: int
    width: int
    rows: Array | None


def stacked(rows: Sequence[Row], length: int) -> Array:
    """Build [B, H, length, D] from a Row for each batch row. A row without content becomes zeros."""
    some = [row.rows for row in rows if row.rows is not None]
    heads, depth = max(x.shape[1] for x in some), max(x.shape[3] for x in some)
    out = np.zeros((len(rows), heads, length, depth), some[0].dtype)
    for i, row in enumerate(rows):
        if row.rows is not None:
            out[i : i + 1, :, row.start : row.start + row.width] = row.rows
    return out


class Batch(KeysValues):
    """Common base of both batched caches of keys and values."""

    EXTRA: ClassVar[tuple[str, ...]] = ("offset", "left_padding")
    left_padding: Array
    offset: Array
    _idx: int

    def __init__(self, left_padding: Sequence[int], rules: CacheRules) -> None:
        self.rules = rules
        self.left_padding = counters(left_padding)
        self.offset = -self.left_padding
        self._idx = 0

    def _pad_left(self, left_padding: Sequence[int]) -> None:
        """Add padding before the first token. Raise ValueError once a token is stored."""
        if self.keys is not None:
            raise ValueError("padding at the left belongs before the first token")
        self.left_padding = self.left_padding + counters(left_padding)
        self.offset = self.offset - counters(left_padding)

    def _shift(self, by: Array) -> None:
        """Rotate each row to the right by its number of columns, which become padding. by: [B]."""
        self.keys, self.values = (rolled(buffer, by) for buffer in self.pair())
        self.left_padding = self.left_padding + by
        self.offset = self.offset - by

    def filter(self, batch_indices: Sequence[int] | Array) -> None:
        """Keep these rows."""
        if self.keys is not None:
            self.keys, self.values = (chosen(buffer, batch_indices) for buffer in self.pair())
        self.offset = chosen(self.offset, batch_indices)
        self.left_padding = chosen(self.left_padding, batch_indices)

    def extend(self, addition: Self) -> None:
        """Append the rows of ``addition``, so that all rows end in the same column."""
        own, added = self.left_padding, addition.left_padding
        if self.keys is not None or addition.keys is not None:
            end = max(self._idx, addition._idx)
            own, added = own + (end - self._idx), added + (end - addition._idx)
            self.keys, self.values = _joined(self, addition, 0), _joined(self, addition, 1)
            self._idx = end
        self.left_padding = counters([*own, *added])
        self.offset = counters([*self.offset, *addition.offset])


class BatchKVCache(Batch):
    """Batch of full-attention caches."""

    WHOLE: ClassVar[tuple[str, ...]] = ("keys", "values", "offset", "left_padding", "_idx")
    CUT: ClassVar[str] = "_idx"
    LENGTH: ClassVar[str] = "_idx"

    def __init__(self, left_padding: Sequence[int], *, rules: CacheRules = AT_D78BF58E) -> None:
        super().__init__(left_padding, rules)
        self._right_padding: Array | None = None      # not set in a cache that was loaded, as in the original

    def update_and_fetch(self, keys: Array, values: Array) -> tuple[Array, Array]:
        """Append a step, with the same number of columns for every row. Return all columns in use."""
        self.append(self._idx, keys, values)
        self.offset = self.offset + columns(keys)
        self._idx += columns(keys)
        return self.keys_and_values()

    def keys_and_values(self) -> tuple[Array, Array]:
        return self.cut(self._idx)

    def prepare(
        self, *, left_padding: Announced = None, lengths: Announced = None, right_padding: Announced = None
    ) -> None:
        """Announce padding of the next step: on the left before the first token, or on the right after the rows."""
        if left_padding is not None:
            self._pad_left(left_padding)
        if right_padding is not None and max(right_padding) > 0:
            self._right_padding = counters(right_padding)

    def finalize(self) -> None:
        """Turn padding after the rows into padding before them. Unused columns rotate with it."""
        if self._right_padding is not None:
            self._shift(self._right_padding)
            self._right_padding = None

    def is_trimmable(self) -> bool:
        return True

    def trim(self, n: int) -> int:
        """Remove the last n columns of every row. Return how many were removed."""
        n = min(self._idx, n)
        self._idx -= n
        self.offset = self.offset - n
        return n

    def make_mask(self, N: int, return_array: bool = False, **window: Any) -> Ranges:
        """Return the mask [B, 1, N, _idx + N]; it is always an array in the engine."""
        return causal_ranges(N, self._idx, left_padding=self.left_padding, **window)

    def filter(self, batch_indices: Sequence[int] | Array) -> None:
        """Keep these rows, and drop columns that are padding in all of them. Without a buffer only the counters
        change."""
        super().filter(batch_indices)
        spare = min(self.left_padding.tolist())
        if spare <= 0:
            return
        if self.keys is not None:
            self.keys, self.values = (buffer[:, :, spare:] for buffer in self.pair())
        self._idx -= spare
        self.left_padding = self.left_padding - spare

    def extract(self, idx: int) -> KVCache:
        """Return row ``idx`` as a KVCache without padding and unused columns."""
        start = int(self.left_padding[idx])
        cache = KVCache(rules=self.rules)
        cache.keys, cache.values = (side[idx : idx + 1].copy() for side in self.cut(self._idx, start))
        cache.offset = columns(cache.keys)
        return cache

    @classmethod
    def merge(cls, caches: Sequence[KVCache]) -> BatchKVCache:
        """Merge caches into a batch; each becomes a row, padded on the left to the longest."""
        rules, sizes = caches[0].rules, [cache.size() for cache in caches]
        length = max(sizes)
        if length == 0:
            return cls([0] * len(caches), rules=rules)
        if not rules.kv_merge_empty([cache.keys is not None for cache in caches]):
            raise TypeError("'NoneType' object is not subscriptable")
        batch = cls([length - size for size in sizes], rules=rules)
        held = [cache.keys_and_values() if cache.keys is not None else (None, None) for cache in caches]
        batch.keys, batch.values = (
            stacked([Row(length - c.size(), c.offset, kv[part]) for c, kv in zip(caches, held, strict=True)], length)
            for part in (0, 1)
        )
        batch.offset = batch.offset + length
        batch._idx = length
        return batch

    def size(self) -> int:
        return self._idx


KVCache.BATCH = BatchKVCache
