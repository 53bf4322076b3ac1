"""How does a batch of rows share one buffer?

left_padding[B]: columns before a row's first token. offset[B]: tokens of the row. _idx: the next column, one for all.
Row b's tokens lie in the columns left_padding[b] to _idx.
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
from cachesim.engines.mlx_lm.caches.rule_table import AT_HEAD, CacheRules

Announced = Sequence[int] | None
"""Padding or lengths of the rows in the coming step, None where there is nothing to say."""

# How do rows come into one buffer? All rows end in the same column; what lies before the first token is zeros.

def _joined(a: Batch, b: Batch, part: int) -> Array:
    """Keys (part 0) or values (part 1) of the rows of ``a`` followed by those of ``b``; at least one side has some."""
    end = max(a._idx, b._idx)
    width = max(columns(side.keys) for side in (a, b) if side.keys is not None)
    sides = []
    for side, other in ((a, b), (b, a)):
        buffer = (side.keys, side.values)[part]
        if buffer is None:
            likes = other.pair()
            # Keys decide the dtype of both.
            rows, dtype = a.rules.extend_empty_side(len(side.offset), len(likes[part]), likes[0].dtype)
            buffer = blank(likes[part], 0, rows=rows, dtype=dtype)
        sides.append(_placed(buffer, end - side._idx, width))
    return np.concatenate(sides)


def _placed(buffer: Array, left: int, width: int) -> Array:
    """The buffer in ``width`` columns, ``left`` columns further right than it was."""
    right = width - columns(buffer) - left
    if right < 0:
        buffer, right = buffer[:, :, :right], 0
    return joined(blank(buffer, left), buffer, blank(buffer, right)) if left or right else buffer


class Row(NamedTuple):
    """What one cache brings into a batch: the column where it begins, how many it takes, what is copied there."""

    start: int
    width: int
    rows: Array | None


def stacked(rows: Sequence[Row], length: int) -> Array:
    """[B, H, length, D] from one Row per row of the batch; a row without content is zeros."""
    some = [row.rows for row in rows if row.rows is not None]
    heads, depth = max(x.shape[1] for x in some), max(x.shape[3] for x in some)
    out = np.zeros((len(rows), heads, length, depth), some[0].dtype)
    for i, row in enumerate(rows):
        if row.rows is not None:
            out[i : i + 1, :, row.start : row.start + row.width] = row.rows
    return out


class Batch(KeysValues):
    """What both batched caches of keys and values do alike."""

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
        """More padding before the first token. Raises ValueError once there is a token."""
        if self.keys is not None:
            raise ValueError("padding at the left belongs before the first token")
        self.left_padding = self.left_padding + counters(left_padding)
        self.offset = self.offset - counters(left_padding)

    def _shift(self, by: Array) -> None:
        """Turn each row right by its number of columns, which become padding. by: [B]."""
        self.keys, self.values = (rolled(buffer, by) for buffer in self.pair())
        self.left_padding = self.left_padding + by
        self.offset = self.offset - by

    def filter(self, batch_indices: Sequence[int] | Array) -> None:
        """Keep these rows."""
        if self.keys is not None:
            self.keys, self.values = (chosen(buffer, batch_indices) for buffer in self.pair())
        self.offset = chosen(self.offset, batch_indices)
        self.left_padding = chosen(self.left_padding, batch_indices)

    def extend(self, other: Self) -> None:
        """Add the rows of ``other``, so that all end in the same column."""
        mine, theirs = self.left_padding, other.left_padding
        if self.keys is not None or other.keys is not None:
            end = max(self._idx, other._idx)
            mine, theirs = mine + (end - self._idx), theirs + (end - other._idx)
            self.keys, self.values = _joined(self, other, 0), _joined(self, other, 1)
            self._idx = end
        self.left_padding = counters([*mine, *theirs])
        self.offset = counters([*self.offset, *other.offset])


class BatchKVCache(Batch):
    """Rows of full attention."""

    WHOLE: ClassVar[tuple[str, ...]] = ("keys", "values", "offset", "left_padding", "_idx")
    CUT: ClassVar[str] = "_idx"
    LENGTH: ClassVar[str] = "_idx"

    def __init__(self, left_padding: Sequence[int], *, rules: CacheRules = AT_HEAD) -> None:
        super().__init__(left_padding, rules)
        self._right_padding: Array | None = None      # missing in a cache that was loaded, as in the original

    def update_and_fetch(self, keys: Array, values: Array) -> tuple[Array, Array]:
        """Append one step, the same number of columns for every row; all columns in use."""
        self.append(self._idx, keys, values)
        self.offset = self.offset + columns(keys)
        self._idx += columns(keys)
        return self.keys_and_values()

    def keys_and_values(self) -> tuple[Array, Array]:
        return self.cut(self._idx)

    def prepare(
        self, *, left_padding: Announced = None, lengths: Announced = None, right_padding: Announced = None
    ) -> None:
        """Announce padding of the coming step: at the left before the first token, or behind the rows."""
        if left_padding is not None:
            self._pad_left(left_padding)
        if right_padding is not None and max(right_padding) > 0:
            self._right_padding = counters(right_padding)

    def finalize(self) -> None:
        """Turn padding behind the rows into padding before them; slack turns with it."""
        if self._right_padding is not None:
            self._shift(self._right_padding)
            self._right_padding = None

    def is_trimmable(self) -> bool:
        return True

    def trim(self, n: int) -> int:
        """Forget the last n columns of every row; how many went."""
        n = min(self._idx, n)
        self._idx -= n
        self.offset = self.offset - n
        return n

    def make_mask(self, N: int, return_array: bool = False, **window: Any) -> Ranges:
        """[B, 1, N, _idx + N], always an array in the engine."""
        return causal_ranges(N, self._idx, left_padding=self.left_padding, **window)

    def filter(self, batch_indices: Sequence[int] | Array) -> None:
        """Keep these rows, and drop columns that are padding for all of them, if only on the counters."""
        super().filter(batch_indices)
        spare = min(self.left_padding.tolist())
        if spare <= 0:
            return
        if self.keys is not None:
            self.keys, self.values = (buffer[:, :, spare:] for buffer in self.pair())
        self._idx -= spare
        self.left_padding = self.left_padding - spare

    def extract(self, idx: int) -> KVCache:
        """Row idx alone, without padding and slack."""
        start = int(self.left_padding[idx])
        cache = KVCache(rules=self.rules)
        cache.keys, cache.values = (side[idx : idx + 1].copy() for side in self.cut(self._idx, start))
        cache.offset = columns(cache.keys)
        return cache

    @classmethod
    def merge(cls, caches: Sequence[KVCache]) -> BatchKVCache:
        """One batch of these, one row each, padded at the left to the longest."""
        rules, sizes = caches[0].rules, [cache.size() for cache in caches]
        length = max(sizes)
        if length == 0:
            return cls([0] * len(caches), rules=rules)
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
