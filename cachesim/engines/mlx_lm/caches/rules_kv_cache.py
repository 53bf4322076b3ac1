"""Rules that differ between versions for rings, chunks and batches of keys and values.

Rows are batch rows. A column is a place of a token in a buffer. Counts are tokens.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

import numpy as np

from cachesim.engines.mlx_lm.source_files import CACHE, mlx_lm
from cachesim.engines.rule import Role, rule


class RingTrim(NamedTuple):
    """Result of trimming n tokens from the end of a ring: how many are removed, and how many columns of the buffer
    remain in temporal order (None: the buffer is unchanged and only the counters move)."""

    n: int
    keep: int | None


class MergedRow(NamedTuple):
    """Placement of a ring in a batch: the columns that it takes, and how many of its last entries are copied (None:
    all)."""

    width: int
    last: int | None


class RemainingColumns(NamedTuple):
    """Columns [start, stop) of a chunked buffer that remain when its front is cut."""

    start: int
    stop: int


@rule("ML-RING-TRIMMABLE.before_wrap", Role.MEMORY, mlx_lm(CACHE, "RotatingKVCache.is_trimmable", "d78bf58e"))
def trimmable_before_wrap(held: int, max_size: int) -> bool:
    """True if a RotatingKVCache is trimmable: only while it has not dropped any token. A ring that is exactly
    full is not trimmable."""
    return held < max_size


@rule("ML-RING-TRIMMABLE.always", Role.MEMORY, mlx_lm("", "RotatingKVCache.is_trimmable", "38e83982", pull=999))
def trimmable_always(held: int, max_size: int) -> bool:
    """Return True: a RotatingKVCache is always trimmable."""
    return True


@rule("ML-RING-TRIM.counters", Role.MEMORY, mlx_lm(CACHE, "RotatingKVCache.trim", "d78bf58e"))
def trim_counters(held: int, max_size: int, n: int) -> RingTrim:
    """Trim a RotatingKVCache by moving its counters; the buffer stays."""
    return RingTrim(min(held, n), None)


@rule("ML-RING-TRIM.cut", Role.MEMORY, mlx_lm("", "RotatingKVCache.trim", "38e83982", pull=999))
def trim_cut(held: int, max_size: int, n: int) -> RingTrim:
    """Trim a RotatingKVCache by cutting its buffer to the first entries. Tokens that the ring dropped before stay
    lost."""
    here = min(held, max_size)
    return RingTrim(min(here, n), here - min(here, n))


@rule("ML-RING-MERGE.last", Role.MEMORY, mlx_lm(CACHE, "BatchRotatingKVCache.merge", "ed1fca4c"), since="#1093")
def merge_last(size: int, idx: int) -> MergedRow:
    """Put the last ``size`` entries of a ring into a batch."""
    return MergedRow(size, size)


@rule("ML-RING-MERGE.size", Role.MEMORY, mlx_lm(CACHE, "BatchRotatingKVCache.merge", "3f9d179f"))
def merge_all_in_size(size: int, idx: int) -> MergedRow:
    """Put all entries of a ring into ``size`` columns of a batch: a buffer longer than the ring does not fit."""
    return MergedRow(size, None)


@rule("ML-RING-MERGE.idx", Role.MEMORY, mlx_lm(CACHE, "BatchRotatingKVCache.merge", "4d3af3ce"), until="#1072")
def merge_all_in_idx(size: int, idx: int) -> MergedRow:
    """Put all entries of a ring into ``_idx`` columns of a batch, its write position."""
    return MergedRow(idx, None)


@rule("ML-RING-MERGE.offset", Role.MEMORY, mlx_lm(CACHE, "BatchRotatingKVCache.merge", "0.30.2"), until="#738")
def merge_all_in_offset(size: int, idx: int) -> MergedRow:
    """Put all entries of a ring into as many columns of a batch as it has tokens, at most its size."""
    return MergedRow(size, None)


@rule("ML-RING-EXTRACT-START.clamped", Role.MEMORY,
      mlx_lm(CACHE, "BatchRotatingKVCache.extract", "f26fddfd"), since="#1114")
def row_start_clamped(left_padding: int) -> int:
    """Return the first column of a row extracted from a batch: its left padding, or 0 if the ring has overwritten the
    padding."""
    return max(0, left_padding)


@rule("ML-RING-EXTRACT-START.plain", Role.MEMORY,
      mlx_lm(CACHE, "BatchRotatingKVCache.extract", "3f9d179f"), until="#1114")
def row_start_plain(left_padding: int) -> int:
    """Return the first column of a row extracted from a batch: its left padding. A negative padding counts from the
    end, so a rotated row loses most of its entries."""
    return left_padding


@rule("ML-RING-EXTRACT-START.padded", Role.MEMORY,
      mlx_lm(CACHE, "BatchRotatingKVCache.extract", "0.30.2"), until="#738")
def row_start_if_padded(left_padding: int) -> int:
    """Return the first column of a row extracted from a batch: its left padding if it has some; a row whose padding the
    ring has overwritten is not cut."""
    return max(0, left_padding)


@rule("ML-RING-EXTRACT-OFFSET.offset", Role.MEMORY, mlx_lm(CACHE, "BatchRotatingKVCache.extract", "d78bf58e"))
def extracted_counts_offset(offset: int, length: int) -> int:
    """Return the offset of a ring extracted from a batch: every token that it ever saw."""
    return offset


@rule("ML-RING-EXTRACT-OFFSET.length", Role.MEMORY, mlx_lm("", "BatchRotatingKVCache.extract", "38e83982", pull=999))
def extracted_counts_length(offset: int, length: int) -> int:
    """Return the offset of a ring extracted from a batch: the number of its columns."""
    return length


@rule("ML-RING-EXTRACT-EMPTY.refused", Role.MEMORY, mlx_lm(CACHE, "BatchRotatingKVCache.extract", "d78bf58e"))
def extract_needs_buffer(has_buffer: bool) -> bool:
    """Raise TypeError for a row extracted from a still empty batch, which has no buffer of keys; else returns True."""
    if not has_buffer:
        raise TypeError("the batch holds no buffer")
    return True


@rule("ML-RING-EXTRACT-EMPTY.fresh", Role.MEMORY, mlx_lm("", "BatchRotatingKVCache.extract", "38e83982", pull=999))
def extract_fresh(has_buffer: bool) -> bool:
    """Return False for a still empty batch, which has no buffer of keys: the extracted row becomes a new ring."""
    return has_buffer


@rule("ML-RING-MASK.written", Role.MEMORY, mlx_lm(CACHE, "BatchRotatingKVCache.make_mask", "d78bf58e"))
def mask_written(idx: int, columns: int, rotated: bool, new: int) -> int:
    """Return the write position that a batch's mask is made from: the current position. A wrapped ring is straightened
    before several tokens are stored, so this mask hides the oldest live token of a padded row."""
    return idx


@rule("ML-KV-MASK", Role.MEMORY, mlx_lm(CACHE, "create_attention_mask", "d78bf58e"), since="#843")
def window_always(new: int, as_array: bool) -> bool:
    """True if a cache without a ring masks what lies before a window, for ``new`` queries."""
    return True


@rule("ML-KV-MASK.array", Role.MEMORY, mlx_lm(CACHE, "create_attention_mask", "94497d52"), until="#843")
def window_as_array(new: int, as_array: bool) -> bool:
    """True if a cache without a ring masks what lies before a window, for ``new`` queries: only for several, and if an
    array is asked for. Otherwise they read all earlier tokens."""
    return new > 1 and as_array


@rule("ML-CHUNK-TRIM-FRONT.valid", Role.MEMORY,
      mlx_lm(CACHE, "ChunkedKVCache.maybe_trim_front", "e03e45ed"), since="#1673")
def front_by_valid(valid: int, allocated: int, chunk_size: int) -> RemainingColumns | None:
    """Trim the front of a ChunkedKVCache to a chunk of valid tokens."""
    return RemainingColumns(valid - chunk_size, valid) if valid > chunk_size else None


@rule("ML-CHUNK-TRIM-FRONT.allocated", Role.MEMORY, mlx_lm(CACHE, "ChunkedKVCache.maybe_trim_front"), until="#1673")
def front_by_allocation(valid: int, allocated: int, chunk_size: int) -> RemainingColumns | None:
    """Trim the front of a ChunkedKVCache to a chunk of allocated columns. Unused columns count, so live tokens are
    cut, too."""
    return RemainingColumns(allocated - chunk_size, allocated) if allocated >= chunk_size else None


@rule("ML-KV-EXTEND.own_dtype", Role.MEMORY, mlx_lm(CACHE, "BatchKVCache.extend", "0.32.2"))
def empty_side_alike(own_rows: int, other_rows: int, dtype: Any) -> tuple[int, Any]:
    """Return number of rows and dtype of a still empty batch that is merged with another: its own number of rows, and
    the dtype of the other batch."""
    return own_rows, dtype


@rule("ML-KV-EXTEND.float32", Role.MEMORY, mlx_lm(CACHE, "BatchKVCache.extend", "d78bf58e"), since="#1141")
def empty_side_float32(own_rows: int, other_rows: int, dtype: Any) -> tuple[int, Any]:
    """Return number of rows and dtype of a still empty batch that is merged with another: its own number of rows, and
    float32, even if the other batch is float16 or bfloat16."""
    return own_rows, _single(dtype)


@rule("ML-KV-EXTEND.other_rows", Role.MEMORY, mlx_lm(CACHE, "BatchKVCache.extend", "3f9d179f"), until="#1141")
def empty_side_other_rows(own_rows: int, other_rows: int, dtype: Any) -> tuple[int, Any]:
    """Return number of rows and dtype of a still empty batch that is merged with another: the number of rows of the
    other batch, and float32."""
    return other_rows, _single(dtype)


def _single(dtype: Any) -> Any:
    """Return float32 for a floating-point dtype, else the dtype itself: structured rows cannot be promoted."""
    return np.float32 if np.dtype(dtype).kind == "f" else dtype


@rule("ML-KV-MERGE.skips_empty", Role.MEMORY, mlx_lm(CACHE, "BatchKVCache.merge", "63c98736"), since="#755")
def merge_skips_empty(full: Sequence[bool]) -> bool:
    """Return True: a cache without tokens joins a batch as a row of padding. ``full``: which caches hold a buffer."""
    return True


@rule("ML-KV-MERGE.needs_buffers", Role.MEMORY, mlx_lm(CACHE, "BatchKVCache.merge", "0.30.2"), until="#755")
def merge_needs_buffers(full: Sequence[bool]) -> bool:
    """True if caches can be merged into a batch: only if each holds a buffer; else TypeError."""
    return all(full)


@rule("ML-RING-EXTRACT-END.cut", Role.MEMORY, mlx_lm(CACHE, "BatchRotatingKVCache.extract", "509f5aef"), since="#738")
def extract_cut(end: int, columns: int, left_padding: int) -> int:
    """Return the end of the columns of a row extracted from a batch: the write position."""
    return end


@rule("ML-RING-EXTRACT-END.padded", Role.MEMORY, mlx_lm(CACHE, "BatchRotatingKVCache.extract", "0.30.2"), until="#738")
def extract_cut_if_padded(end: int, columns: int, left_padding: int) -> int:
    """Return the end of the columns of a row extracted from a batch: the write position if the row has padding; else
    the end of the buffer, so that unused columns count as tokens."""
    return end if left_padding > 0 else columns
