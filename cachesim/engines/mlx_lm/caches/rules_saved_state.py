"""Rules that differ between versions for saved state and recurrent slots. Each rule is a pure function."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from cachesim.engines.mlx_lm.caches.array_ops import Array, counters
from cachesim.engines.mlx_lm.source_files import CACHE, mlx_lm
from cachesim.engines.rule import Role, rule


class Stateful(Protocol):
    """Interface of a cache that the rules of saving use."""

    def whole_state(self) -> Any: ...
    def set_whole_state(self, state: Any) -> None: ...
    def cut_state(self) -> Any: ...
    def set_cut_state(self, state: Any) -> None: ...
    def meta(self) -> Any: ...


@rule("ML-STATE-SAVE.whole", Role.MEMORY, mlx_lm(CACHE, "`state`", "0.32.2"))
def state_whole(cache: Stateful) -> Any:
    """Return `state`: the whole buffer and every counter."""
    return cache.whole_state()


@rule("ML-STATE-SAVE.cut", Role.MEMORY, mlx_lm(CACHE, "`state`", "d78bf58e"))
def state_cut(cache: Stateful) -> Any:
    """Return `state`: the buffer cut to its valid columns; counters are saved as text in `meta_state`."""
    return cache.cut_state()


@rule("ML-STATE-RESTORE.whole", Role.MEMORY, mlx_lm(CACHE, "`state.setter`", "0.32.2"))
def restore_whole(cache: Stateful, state: Any) -> None:
    """Set buffer and counters to their saved values."""
    cache.set_whole_state(state)


@rule("ML-STATE-RESTORE.cut", Role.MEMORY, mlx_lm(CACHE, "`state.setter`", "d78bf58e"))
def restore_cut(cache: Stateful, state: Any) -> None:
    """Set a buffer that was saved cut. A counter that was not saved becomes the length of the buffer."""
    cache.set_cut_state(state)


@rule("ML-STATE-META.none", Role.MEMORY, mlx_lm(CACHE, "", "0.32.2"))
def meta_none(cache: Stateful) -> Any:
    """Raise AttributeError: there is no `meta_state`."""
    raise AttributeError("meta_state")


@rule("ML-STATE-META.text", Role.MEMORY, mlx_lm(CACHE, "`meta_state`", "d78bf58e"))
def meta_text(cache: Stateful) -> Any:
    """Return `meta_state`: the counters as a tuple of strings."""
    return cache.meta()


@rule("ML-STATE-ROTATED.truth", Role.MEMORY, mlx_lm(CACHE, "BatchRotatingKVCache.meta_state", "d78bf58e"))
def rotated_if_text(text: str) -> bool:
    """Return True for any text but the empty text, so a restored batch ring always counts as rotated."""
    return bool(text)


@rule("ML-STATE-ARRAYS.slots", Role.MEMORY, mlx_lm(CACHE, "ArraysCache.state"), until="#1632")
def arrays_state_slots(slots: list[Any], left_padding: Array | None, lengths: Array | None) -> Any:
    """Return `state` of an ArraysCache: only its arrays."""
    return slots


@rule("ML-STATE-ARRAYS.padded", Role.MEMORY, mlx_lm(CACHE, "ArraysCache.state"), since="#1632")
def arrays_state_padded(slots: list[Any], left_padding: Array | None, lengths: Array | None) -> Any:
    """Return `state` of an ArraysCache: arrays, left_padding and lengths; an empty array stands for None."""
    nothing = np.zeros(0, np.float32)
    return slots, nothing if left_padding is None else left_padding, nothing if lengths is None else lengths


@rule("ML-ARRAYS-MASK.padding", Role.MEMORY, mlx_lm(CACHE, "ArraysCache.make_mask", "d78bf58e"))
def mask_padding_only(width: int, left_padding: Array | None, lengths: Array | None) -> Array | None:
    """Return the mask [B, N] of a recurrent layer: left_padding alone if it is set, else lengths."""
    if left_padding is not None:
        return np.arange(width) >= left_padding[:, None]
    return mask_both(width, None, lengths)


@rule("ML-ARRAYS-MASK.both", Role.MEMORY, mlx_lm(CACHE, "ArraysCache.make_mask", "0.32.2"))
def mask_both(width: int, left_padding: Array | None, lengths: Array | None) -> Array | None:
    """Return the mask [B, N] of a recurrent layer: tokens outside the left padding and within the row's length."""
    at = np.arange(width)
    asked = [at >= left_padding[:, None]] if left_padding is not None else []
    asked += [at < lengths[:, None]] if lengths is not None else []
    return asked[0] & asked[1] if len(asked) == 2 else asked[0] if asked else None


@rule("ML-ARRAYS-MERGE.none", Role.MEMORY, mlx_lm(CACHE, "ArraysCache.merge", "3f9d179f"), until="#1169")
def merged_without_padding(rows: int) -> Array | None:
    """Return None: a batch of new caches has no left_padding."""
    return None


@rule("ML-ARRAYS-MERGE.zeros", Role.MEMORY, mlx_lm(CACHE, "ArraysCache.merge"), since="#1169")
def merged_with_zeros(rows: int) -> Array | None:
    """Return the left_padding of a batch of new caches: 0 for each row. It records the number of rows."""
    return counters([0] * rows)


@rule("ML-ARRAYS-EXTEND.other", Role.MEMORY, mlx_lm(CACHE, "ArraysCache.extend", "3f9d179f"), until="#1169")
def join_other_side(a: Array | None, b: Array | None, rows_a: int, rows_b: int) -> Array | None:
    """Join two batches of states. If a side has no states, the result is the other side, with too few rows."""
    return b if a is None else a if b is None else np.concatenate([a, b])


@rule("ML-ARRAYS-EXTEND.zeros", Role.MEMORY, mlx_lm(CACHE, "ArraysCache.extend"), since="#1169, #1177")
def join_with_zeros(a: Array | None, b: Array | None, rows_a: int, rows_b: int) -> Array | None:
    """Join two batches of states. A side without states becomes rows of zeros."""
    # If the shapes differed, the right side would decide. They are equal wherever both sides have states.
    like = a if b is None else b
    if like is None:
        return None
    sides = [np.zeros((n, *like.shape[1:]), like.dtype) if x is None else x for x, n in ((a, rows_a), (b, rows_b))]
    return np.concatenate(sides)


@rule("ML-ARRAYS-EXTEND.both", Role.MEMORY, mlx_lm(CACHE, "ArraysCache.extend", "73c85504"), until="#1072")
def join_both(a: Array | None, b: Array | None, rows_a: int, rows_b: int) -> Array | None:
    """Join two batches of states; raise TypeError if a side has none."""
    if a is None or b is None:
        raise TypeError("a slot is empty on one side")
    return np.concatenate([a, b])


@rule("ML-ARRAYS-PAD.own", Role.MEMORY, mlx_lm(CACHE, "ArraysCache.extend", "3f9d179f"), until="#1177")
def padding_own(a: Array | None, b: Array | None, rows_a: int, rows_b: int) -> Array | None:
    """Return left_padding or lengths of the first batch; those of the joining rows are dropped."""
    return a
