"""What did versions decide differently about saved state and recurrent slots? One pure function for each answer."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from cachesim.engines.base import rule
from cachesim.engines.mlx_lm.caches.arrays import Array, counters


class Stateful(Protocol):
    """A cache as the rules of saving see it."""

    def whole_state(self) -> Any: ...
    def set_whole_state(self, state: Any) -> None: ...
    def cut_state(self) -> Any: ...
    def set_cut_state(self, state: Any) -> None: ...
    def meta(self) -> Any: ...


@rule("ML-STATE-01.whole")
def state_whole(cache: Stateful) -> Any:
    """The saved form is the whole buffer and every counter.
    Source: mlx-lm 0.32.2, mlx_lm/models/cache.py, `state`; spec 1.1, 1.10."""
    return cache.whole_state()


@rule("ML-STATE-01.cut")
def state_cut(cache: Stateful) -> Any:
    """The saved form is the buffer cut to what is valid; counters go into `meta_state` as text.
    Source: mlx-lm d78bf58e, mlx_lm/models/cache.py, `state`; spec 1.10."""
    return cache.cut_state()


@rule("ML-STATE-02.whole")
def restore_whole(cache: Stateful, state: Any) -> None:
    """Buffers and counters come back as they were.
    Source: mlx-lm 0.32.2, mlx_lm/models/cache.py, `state.setter`; spec 1.1."""
    cache.set_whole_state(state)


@rule("ML-STATE-02.cut")
def restore_cut(cache: Stateful, state: Any) -> None:
    """Buffers come back cut; a counter that was not saved is the length of the buffer.
    Source: mlx-lm d78bf58e, mlx_lm/models/cache.py, `state.setter`; spec 1.10."""
    cache.set_cut_state(state)


@rule("ML-STATE-03.none")
def meta_none(cache: Stateful) -> Any:
    """There is no `meta_state`.
    Source: mlx-lm 0.32.2, mlx_lm/models/cache.py; spec 1.1."""
    raise AttributeError("meta_state")


@rule("ML-STATE-03.text")
def meta_text(cache: Stateful) -> Any:
    """Counters as a tuple of strings.
    Source: mlx-lm d78bf58e, mlx_lm/models/cache.py, `meta_state`; spec 1.10."""
    return cache.meta()


@rule("ML-STATE-04.truth")
def rotated_if_text(text: str) -> bool:
    """Any text but the empty one counts as true, so a batch ring comes back rotated whatever it was.
    Source: mlx-lm d78bf58e, mlx_lm/models/cache.py, BatchRotatingKVCache.meta_state; spec 1.10, 7.18."""
    return bool(text)


@rule("ML-STATE-05.slots")
def arrays_state_slots(slots: list[Any], left_padding: Array | None, lengths: Array | None) -> Any:
    """Only the slots are saved.
    Source: mlx-lm before #1632, mlx_lm/models/cache.py, ArraysCache.state; spec 1.5."""
    return slots


@rule("ML-STATE-05.padded")
def arrays_state_padded(slots: list[Any], left_padding: Array | None, lengths: Array | None) -> Any:
    """Slots, paddings and lengths; an empty array stands for none.
    Source: mlx-lm #1632, mlx_lm/models/cache.py, ArraysCache.state; spec 1.5."""
    nothing = np.zeros(0, np.float32)
    return slots, nothing if left_padding is None else left_padding, nothing if lengths is None else lengths


@rule("ML-ARRAYS-01.padding")
def mask_padding_only(width: int, left_padding: Array | None, lengths: Array | None) -> Array | None:
    """[B, N]: the left padding decides alone where there is one, else the lengths.
    Source: mlx-lm d78bf58e, mlx_lm/models/cache.py, ArraysCache.make_mask; spec 1.5, 7.2."""
    if left_padding is not None:
        return np.arange(width) >= left_padding[:, None]
    return mask_both(width, None, lengths)


@rule("ML-ARRAYS-01.both")
def mask_both(width: int, left_padding: Array | None, lengths: Array | None) -> Array | None:
    """[B, N]: a token counts if it lies neither in the left padding nor behind the row's length.
    Source: mlx-lm 0.32.2, mlx_lm/models/cache.py, ArraysCache.make_mask; spec 1.5."""
    at = np.arange(width)
    asked = [at >= left_padding[:, None]] if left_padding is not None else []
    asked += [at < lengths[:, None]] if lengths is not None else []
    return np.logical_and.reduce(asked) if asked else None


@rule("ML-ARRAYS-02.none")
def merged_without_padding(rows: int) -> Array | None:
    """A batch of fresh caches has no padding noted.
    Source: mlx-lm before #1169, mlx_lm/models/cache.py, ArraysCache.merge (3f9d179f); spec 1.5, 4.8."""
    return None


@rule("ML-ARRAYS-02.zeros")
def merged_with_zeros(rows: int) -> Array | None:
    """A batch of fresh caches notes a padding of 0 for each row, which tells how many rows there are.
    Source: mlx-lm #1169, mlx_lm/models/cache.py, ArraysCache.merge; spec 1.5."""
    return counters([0] * rows)


@rule("ML-ARRAYS-03.other")
def join_other_side(a: Array | None, b: Array | None, rows_a: int, rows_b: int) -> Array | None:
    """Where one side has nothing the other side is the result, with too few rows.
    Source: mlx-lm before #1169, mlx_lm/models/cache.py, ArraysCache.extend (3f9d179f); spec 1.5, 4.8."""
    return b if a is None else a if b is None else np.concatenate([a, b])


@rule("ML-ARRAYS-03.zeros")
def join_with_zeros(a: Array | None, b: Array | None, rows_a: int, rows_b: int) -> Array | None:
    """A side that has nothing is as many rows of zeros as it has rows.
    Source: mlx-lm #1169, #1177, mlx_lm/models/cache.py, ArraysCache.extend; spec 1.5."""
    # Of two shapes the right side's counts; both sides agree wherever both are there.
    like = a if b is None else b
    if like is None:
        return None
    sides = [np.zeros((n, *like.shape[1:]), like.dtype) if x is None else x for x, n in ((a, rows_a), (b, rows_b))]
    return np.concatenate(sides)


@rule("ML-ARRAYS-03.both")
def join_both(a: Array | None, b: Array | None, rows_a: int, rows_b: int) -> Array | None:
    """Both sides must be there.
    Source: mlx-lm before #1072, mlx_lm/models/cache.py, ArraysCache.extend (73c85504)."""
    if a is None or b is None:
        raise TypeError("a slot is empty on one side")
    return np.concatenate([a, b])


@rule("ML-ARRAYS-04.own")
def padding_own(a: Array | None, b: Array | None, rows_a: int, rows_b: int) -> Array | None:
    """Paddings and lengths of the rows that join are forgotten.
    Source: mlx-lm before #1177, mlx_lm/models/cache.py, ArraysCache.extend (3f9d179f); spec 1.5."""
    return a
