"""What did versions decide differently about rings, chunks and batches of keys and values?

Rows are rows of a batch; columns are places in a buffer, one token each; counts are tokens.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cachesim.engines.base import rule


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


@rule("ML-RING-01.before_wrap")
def trimmable_before_wrap(held: int, max_size: int) -> bool:
    """A ring can go back only while it has dropped nothing; one that is just full cannot.
    Source: mlx-lm d78bf58e, mlx_lm/models/cache.py, RotatingKVCache.is_trimmable; spec 1.3."""
    return held < max_size


@rule("ML-RING-01.always")
def trimmable_always(held: int, max_size: int) -> bool:
    """A ring can always go back.
    Source: ml-explore/mlx-lm#999 (38e83982), RotatingKVCache.is_trimmable; spec 4.5."""
    return True


@rule("ML-RING-02.counters")
def trim_counters(held: int, max_size: int, n: int) -> RingTrim:
    """Counters move, the buffer stays.
    Source: mlx-lm d78bf58e, mlx_lm/models/cache.py, RotatingKVCache.trim; spec 1.3."""
    return RingTrim(min(held, n), None)


@rule("ML-RING-02.cut")
def trim_cut(held: int, max_size: int, n: int) -> RingTrim:
    """The buffer is cut to its first entries. What the ring has dropped before does not come back.
    Source: ml-explore/mlx-lm#999 (38e83982), RotatingKVCache.trim; spec 4.5, 5.9."""
    here = min(held, max_size)
    return RingTrim(min(here, n), here - min(here, n))


@rule("ML-RING-03.last")
def merge_last(size: int, idx: int) -> MergedRow:
    """The row holds the last ``size`` entries.
    Source: mlx-lm ed1fca4c, mlx_lm/models/cache.py, BatchRotatingKVCache.merge (#1093); spec 1.8."""
    return MergedRow(size, size)


@rule("ML-RING-03.size")
def merge_all_in_size(size: int, idx: int) -> MergedRow:
    """All entries go into ``size`` columns: a buffer longer than the ring does not fit.
    Source: mlx-lm 3f9d179f, mlx_lm/models/cache.py, BatchRotatingKVCache.merge; spec 1.8, 4.8."""
    return MergedRow(size, None)


@rule("ML-RING-03.idx")
def merge_all_in_idx(size: int, idx: int) -> MergedRow:
    """All entries go into as many columns as the write position says.
    Source: mlx-lm before #1072, mlx_lm/models/cache.py, BatchRotatingKVCache.merge (4d3af3ce); spec 1.8."""
    return MergedRow(idx, None)


@rule("ML-RING-04.clamped")
def row_start_clamped(left_padding: int) -> int:
    """A padding that the ring has already overwritten counts as none.
    Source: mlx-lm #1114 (f26fddfd), mlx_lm/models/cache.py, BatchRotatingKVCache.extract; spec 1.8."""
    return max(0, left_padding)


@rule("ML-RING-04.plain")
def row_start_plain(left_padding: int) -> int:
    """A padding below zero counts columns from the end, so that a rotated row loses most of its entries.
    Source: mlx-lm before #1114 (3f9d179f), mlx_lm/models/cache.py, BatchRotatingKVCache.extract."""
    return left_padding


@rule("ML-RING-05.offset")
def extracted_counts_offset(offset: int, length: int) -> int:
    """A ring out of a batch counts every token it ever saw as its own.
    Source: mlx-lm d78bf58e, mlx_lm/models/cache.py, BatchRotatingKVCache.extract; spec 1.8."""
    return offset


@rule("ML-RING-05.length")
def extracted_counts_length(offset: int, length: int) -> int:
    """A ring out of a batch counts the columns it holds.
    Source: ml-explore/mlx-lm#999 (38e83982), BatchRotatingKVCache.extract; spec 4.5."""
    return length


@rule("ML-RING-06.refused")
def extract_needs_buffer(has_buffer: bool) -> bool:
    """A row of a batch without a buffer cannot be taken out. Answers whether there is something to copy.
    Source: mlx-lm d78bf58e, mlx_lm/models/cache.py, BatchRotatingKVCache.extract."""
    if not has_buffer:
        raise TypeError("the batch holds no buffer")
    return True


@rule("ML-RING-06.fresh")
def extract_fresh(has_buffer: bool) -> bool:
    """A row of a batch without a buffer is a fresh ring. Answers whether there is something to copy.
    Source: ml-explore/mlx-lm#999 (38e83982), BatchRotatingKVCache.extract; spec 4.5."""
    return has_buffer


@rule("ML-CHUNK-01.valid")
def front_by_valid(valid: int, allocated: int, chunk_size: int) -> Front | None:
    """Valid tokens beyond one chunk go.
    Source: mlx-lm #1673 (e03e45ed), mlx_lm/models/cache.py, ChunkedKVCache.maybe_trim_front; spec 1.4."""
    return Front(valid - chunk_size, valid) if valid > chunk_size else None


@rule("ML-CHUNK-01.allocated")
def front_by_allocation(valid: int, allocated: int, chunk_size: int) -> Front | None:
    """Columns beyond one chunk go, slack counted, and live tokens with them.
    Source: mlx-lm before #1673, mlx_lm/models/cache.py, ChunkedKVCache.maybe_trim_front; spec 1.4."""
    return Front(allocated - chunk_size, allocated) if allocated >= chunk_size else None


@rule("ML-BATCH-01.own_dtype")
def empty_side_alike(own_rows: int, other_rows: int, dtype: Any) -> tuple[int, Any]:
    """A side without a buffer joins as its own rows of the other side's dtype.
    Source: mlx-lm 0.32.2, mlx_lm/models/cache.py, BatchKVCache.extend; spec 1.7."""
    return own_rows, dtype


@rule("ML-BATCH-01.float32")
def empty_side_float32(own_rows: int, other_rows: int, dtype: Any) -> tuple[int, Any]:
    """A side without a buffer joins as its own rows of float32, and half precision is lost to it.
    Source: mlx-lm #1141, mlx_lm/models/cache.py, BatchKVCache.extend (d78bf58e); spec 1.7, 7.15."""
    return own_rows, _single(dtype)


@rule("ML-BATCH-01.other_rows")
def empty_side_other_rows(own_rows: int, other_rows: int, dtype: Any) -> tuple[int, Any]:
    """A side without a buffer joins as float32 with as many rows as the other side has.
    Source: mlx-lm before #1141, mlx_lm/models/cache.py, BatchKVCache.extend (3f9d179f)."""
    return other_rows, _single(dtype)


def _single(dtype: Any) -> Any:
    """float32 beside numbers; structured rows have nothing that it could promote."""
    return np.float32 if np.dtype(dtype).kind == "f" else dtype
