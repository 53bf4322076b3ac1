"""What did versions decide differently about rings, chunks and batches of keys and values?

Rows are rows of a batch; columns are places in a buffer, one token each; counts are tokens.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cachesim.engines.mlx_lm.source_files import CACHE, mlx_lm
from cachesim.engines.rule import Role, rule


class RingTrim(NamedTuple):
    """Answer to "take n tokens off the end of a ring": how many go, and how many columns of the buffer, in temporal
    order, stay (None: the buffer is left alone and only counters move)."""

    n: int
    keep: int | None


class MergedRow(NamedTuple):
    """How a ring enters a batch: the columns it takes, and how many of its last entries are copied (None: all)."""

    width: int
    last: int | None


class Front(NamedTuple):
    """Columns [start, stop) of a chunked buffer that survive a cut of the front."""

    start: int
    stop: int


@rule("ML-RING-TRIMMABLE.before_wrap", Role.MEMORY, mlx_lm(CACHE, "RotatingKVCache.is_trimmable", "d78bf58e"))
def trimmable_before_wrap(held: int, max_size: int) -> bool:
    """A ring can go back only while it has dropped nothing; one that is just full cannot."""
    return held < max_size


@rule("ML-RING-TRIMMABLE.always", Role.MEMORY, mlx_lm("", "RotatingKVCache.is_trimmable", "38e83982", pull=999))
def trimmable_always(held: int, max_size: int) -> bool:
    """A ring can always go back."""
    return True


@rule("ML-RING-TRIM.counters", Role.MEMORY, mlx_lm(CACHE, "RotatingKVCache.trim", "d78bf58e"))
def trim_counters(held: int, max_size: int, n: int) -> RingTrim:
    """Counters move, the buffer stays."""
    return RingTrim(min(held, n), None)


@rule("ML-RING-TRIM.cut", Role.MEMORY, mlx_lm("", "RotatingKVCache.trim", "38e83982", pull=999))
def trim_cut(held: int, max_size: int, n: int) -> RingTrim:
    """The buffer is cut to its first entries. What the ring has dropped before does not come back."""
    here = min(held, max_size)
    return RingTrim(min(here, n), here - min(here, n))


@rule("ML-RING-MERGE.last", Role.MEMORY, mlx_lm(CACHE, "BatchRotatingKVCache.merge", "ed1fca4c"), since="#1093")
def merge_last(size: int, idx: int) -> MergedRow:
    """The row holds the last ``size`` entries."""
    return MergedRow(size, size)


@rule("ML-RING-MERGE.size", Role.MEMORY, mlx_lm(CACHE, "BatchRotatingKVCache.merge", "3f9d179f"))
def merge_all_in_size(size: int, idx: int) -> MergedRow:
    """All entries go into ``size`` columns: a buffer longer than the ring does not fit."""
    return MergedRow(size, None)


@rule("ML-RING-MERGE.idx", Role.MEMORY, mlx_lm(CACHE, "BatchRotatingKVCache.merge", "4d3af3ce"), until="#1072")
def merge_all_in_idx(size: int, idx: int) -> MergedRow:
    """All entries go into as many columns as the write position says."""
    return MergedRow(idx, None)


@rule("ML-RING-EXTRACT-START.clamped", Role.MEMORY,
      mlx_lm(CACHE, "BatchRotatingKVCache.extract", "f26fddfd"), since="#1114")
def row_start_clamped(left_padding: int) -> int:
    """A padding that the ring has already overwritten counts as none."""
    return max(0, left_padding)


@rule("ML-RING-EXTRACT-START.plain", Role.MEMORY,
      mlx_lm(CACHE, "BatchRotatingKVCache.extract", "3f9d179f"), until="#1114")
def row_start_plain(left_padding: int) -> int:
    """A padding below zero counts columns from the end, so that a rotated row loses most of its entries."""
    return left_padding


@rule("ML-RING-EXTRACT-OFFSET.offset", Role.MEMORY, mlx_lm(CACHE, "BatchRotatingKVCache.extract", "d78bf58e"))
def extracted_counts_offset(offset: int, length: int) -> int:
    """A ring out of a batch counts every token it ever saw as its own."""
    return offset


@rule("ML-RING-EXTRACT-OFFSET.length", Role.MEMORY, mlx_lm("", "BatchRotatingKVCache.extract", "38e83982", pull=999))
def extracted_counts_length(offset: int, length: int) -> int:
    """A ring out of a batch counts the columns it holds."""
    return length


@rule("ML-RING-EXTRACT-EMPTY.refused", Role.MEMORY, mlx_lm(CACHE, "BatchRotatingKVCache.extract", "d78bf58e"))
def extract_needs_buffer(has_buffer: bool) -> bool:
    """A row of a batch without a buffer cannot be taken out. Answers whether there is something to copy."""
    if not has_buffer:
        raise TypeError("the batch holds no buffer")
    return True


@rule("ML-RING-EXTRACT-EMPTY.fresh", Role.MEMORY, mlx_lm("", "BatchRotatingKVCache.extract", "38e83982", pull=999))
def extract_fresh(has_buffer: bool) -> bool:
    """A row of a batch without a buffer is a fresh ring. Answers whether there is something to copy."""
    return has_buffer


@rule("ML-RING-MASK.written", Role.MEMORY, mlx_lm(CACHE, "BatchRotatingKVCache.make_mask", "d78bf58e"))
def mask_written(idx: int, columns: int, rotated: bool, new: int) -> int:
    """The mask of a batch is made from the write position as it is, though a ring that has wrapped is put in order
    before several tokens are stored: the oldest live token of a padded row is hidden then."""
    return idx


@rule("ML-CHUNK-TRIM-FRONT.valid", Role.MEMORY,
      mlx_lm(CACHE, "ChunkedKVCache.maybe_trim_front", "e03e45ed"), since="#1673")
def front_by_valid(valid: int, allocated: int, chunk_size: int) -> Front | None:
    """Valid tokens beyond one chunk go."""
    return Front(valid - chunk_size, valid) if valid > chunk_size else None


@rule("ML-CHUNK-TRIM-FRONT.allocated", Role.MEMORY, mlx_lm(CACHE, "ChunkedKVCache.maybe_trim_front"), until="#1673")
def front_by_allocation(valid: int, allocated: int, chunk_size: int) -> Front | None:
    """Columns beyond one chunk go, slack counted, and live tokens with them."""
    return Front(allocated - chunk_size, allocated) if allocated >= chunk_size else None


@rule("ML-KV-EXTEND.own_dtype", Role.MEMORY, mlx_lm(CACHE, "BatchKVCache.extend", "0.32.2"))
def empty_side_alike(own_rows: int, other_rows: int, dtype: Any) -> tuple[int, Any]:
    """A side without a buffer joins as its own rows of the other side's dtype."""
    return own_rows, dtype


@rule("ML-KV-EXTEND.float32", Role.MEMORY, mlx_lm(CACHE, "BatchKVCache.extend", "d78bf58e"), since="#1141")
def empty_side_float32(own_rows: int, other_rows: int, dtype: Any) -> tuple[int, Any]:
    """A side without a buffer joins as its own rows of float32, and half precision is lost to it."""
    return own_rows, _single(dtype)


@rule("ML-KV-EXTEND.other_rows", Role.MEMORY, mlx_lm(CACHE, "BatchKVCache.extend", "3f9d179f"), until="#1141")
def empty_side_other_rows(own_rows: int, other_rows: int, dtype: Any) -> tuple[int, Any]:
    """A side without a buffer joins as float32 with as many rows as the other side has."""
    return other_rows, _single(dtype)


def _single(dtype: Any) -> Any:
    """float32 beside numbers; structured rows have nothing that it could promote."""
    return np.float32 if np.dtype(dtype).kind == "f" else dtype
