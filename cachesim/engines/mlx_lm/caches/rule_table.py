"""Rules of the cache classes by version, newest first. Each table is derived from its neighbour."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Callable, Sequence

from cachesim.engines.base import Immutable
from cachesim.engines.mlx_lm.caches import rules_arrays as arrays
from cachesim.engines.mlx_lm.caches import rules_kv_cache as kv
from cachesim.engines.mlx_lm.caches import rules_saved_state as r

if TYPE_CHECKING:
    from cachesim.engines.mlx_lm.caches.array_ops import Array



@dataclass(frozen=True)
class CacheRules(Immutable):
    """Rules of a version of the cache classes. The defaults are those of commit d78bf58e."""

    state: Callable[[r.Stateful], Any] = r.state_cut
    restore: Callable[[r.Stateful, Any], None] = r.restore_cut
    meta_state: Callable[[r.Stateful], Any] = r.meta_text
    batch_rotating_state: Callable[[str], bool] = r.rotated_if_text
    arrays_state: Callable[[list[Any], Array | None, Array | None], Any] = r.arrays_state_padded
    ring_meta: tuple[str, ...] = ("keep", "max_size", "offset", "_idx")     # counters that a ring saves as text
    ring_spare: int = 1                     # columns of a full ring that go before several tokens are appended
    arrays_mask: Callable[[int, Array | None, Array | None], Array | None] = r.mask_padding_only
    arrays_merge_empty: Callable[[int], Array | None] = r.merged_with_zeros
    arrays_extend_none: Callable[[Array | None, Array | None, int, int], Array | None] = r.join_with_zeros
    arrays_extend_padding: Callable[[Array | None, Array | None, int, int], Array | None] = r.join_with_zeros
    arrays_filtered: tuple[str, ...] = ("left_padding", "lengths")          # filtered by row beside the slots
    arrays_trim: Callable[[], bool] = arrays.trim_refused
    arrays_advance: Callable[[], bool] = arrays.advance_by_step
    arrays_keep: Callable[[bool], bool] = arrays.keep_copied
    arrays_row: Callable[[int, int], int] = arrays.row_asked
    kv_merge_empty: Callable[[Sequence[bool]], bool] = kv.merge_skips_empty
    ring_trimmable: Callable[[int, int], bool] = kv.trimmable_before_wrap
    ring_trim: Callable[[int, int, int], kv.RingTrim] = kv.trim_counters
    rotating_merge: Callable[[int, int], kv.MergedRow] = kv.merge_last
    ring_row_start: Callable[[int], int] = kv.row_start_clamped
    ring_extracted: Callable[[int, int], int] = kv.extracted_counts_offset
    ring_extract_empty: Callable[[bool], bool] = kv.extract_needs_buffer
    ring_extract_end: Callable[[int, int, int], int] = kv.extract_cut
    ring_mask: Callable[[int, int, bool, int], int] = kv.mask_written
    masks_window: Callable[[int, bool], bool] = kv.window_always
    chunked_front: Callable[[int, int, int], kv.RemainingColumns | None] = kv.front_by_valid
    extend_empty_side: Callable[[int, int, Any], tuple[int, Any]] = kv.empty_side_float32


AT_D78BF58E = CacheRules()

# The wheel: a common layout of saved state for all classes, masks from padding and lengths together, preserved dtypes.
AT_0_32_2 = replace(
    AT_D78BF58E,
    state=r.state_whole,
    restore=r.restore_whole,
    meta_state=r.meta_none,
    arrays_mask=r.mask_both,
    extend_empty_side=kv.empty_side_alike,
)

AT_V0_31_3 = replace(AT_D78BF58E, arrays_state=r.arrays_state_slots, chunked_front=kv.front_by_allocation)

AT_M1072 = replace(
    AT_V0_31_3,
    arrays_merge_empty=r.merged_without_padding,
    arrays_extend_none=r.join_other_side,
    arrays_extend_padding=r.padding_own,
    arrays_filtered=("lengths",),
    rotating_merge=kv.merge_all_in_size,
    ring_row_start=kv.row_start_plain,
    extend_empty_side=kv.empty_side_other_rows,
)

AT_M1072_METAL = replace(AT_M1072, arrays_row=arrays.row_wrapped)

AT_M1019 = replace(
    AT_M1072,
    arrays_extend_none=r.join_both,
    arrays_filtered=(),
    arrays_keep=arrays.keep_view,
    rotating_merge=kv.merge_all_in_idx,
)
"""Also the rules of base923, base1006 and all versions between, as far as their servers reach them."""

AT_0_31_1_QWEN35 = replace(AT_M1019, arrays_advance=arrays.advance_never)
"""With the model file qwen3_5.py, which advances no counters until #1024."""

AT_0_30_2 = replace(
    AT_M1019,
    kv_merge_empty=kv.merge_needs_buffers,
    ring_row_start=kv.row_start_if_padded,
    ring_extract_end=kv.extract_cut_if_padded,
    rotating_merge=kv.merge_all_in_offset,
    masks_window=kv.window_as_array,
)

AT_0_25_1 = replace(AT_0_30_2, ring_meta=("keep", "max_size", "step", "offset", "_idx"), ring_spare=0)

AT_PR1253 = replace(AT_V0_31_3, arrays_trim=arrays.trim_resets)

AT_PR999 = replace(
    AT_M1019,
    ring_trimmable=kv.trimmable_always,
    ring_trim=kv.trim_cut,
    ring_meta=("keep", "max_size", "offset", "_offset", "_idx"),
    ring_extracted=kv.extracted_counts_length,
    ring_extract_empty=kv.extract_fresh,
)
