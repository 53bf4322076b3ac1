"""Sliding-window cache: a ring of columns, and the rules for trimming it.

offset: tokens seen, for positions. _offset: tokens that the ring counts as its own; it differs from ``offset`` only if
the version allows trimming after a wrap. _idx: the next column to be written.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Sequence

import numpy as np

from cachesim.engines.mlx_lm.caches.array_ops import (
    Array,
    Mask,
    blank,
    columns,
    create_causal_mask,
    joined,
    rotated,
    written,
)
from cachesim.engines.mlx_lm.caches.base import Cache, KeysValues
from cachesim.engines.mlx_lm.caches.rule_table import AT_D78BF58E, CacheRules


class Ring(KeysValues):
    """Common base of the single and the batched ring. Both call the number of columns that they count ``_offset``."""

    CUT: ClassVar[str] = "_offset"
    max_size: int
    _idx: int
    _offset: int

    def update_and_fetch(self, keys: Array, values: Array) -> tuple[Array, Array]:
        """Store a step, with the same number of columns for every row. Return the buffer in its current order."""
        return self._in_place(keys, values) if columns(keys) == 1 else self._appended(keys, values)

    @abstractmethod
    def _in_place(self, keys: Array, values: Array) -> tuple[Array, Array]:
        """Store a column."""

    @abstractmethod
    def _appended(self, keys: Array, values: Array) -> tuple[Array, Array]:
        """Store several columns."""

    def _make_room(self, keys: Array, values: Array) -> None:
        """Grow by a block if the buffer is full and smaller than the ring."""
        prev = self._offset
        if self.keys is not None and not (prev >= columns(self.keys) < self.max_size):
            return
        block = min(self.step, self.max_size - prev)
        fresh_keys, fresh_values = blank(keys, block), blank(values, block)
        if self.keys is not None:
            old_keys, old_values = self.pair()
            fresh_keys, fresh_values = joined(old_keys, fresh_keys), joined(old_values, fresh_values)
        self.keys = fresh_keys
        self.values = fresh_values
        self._idx = prev

    def keys_and_values(self) -> tuple[Array, Array]:
        return self.cut(self._offset)

    def size(self) -> int:
        return min(self._offset, self.max_size)

    def is_trimmable(self) -> bool:
        return self.trimmable_after(0)

    def trimmable_after(self, n: int) -> bool:
        return self.rules.ring_trimmable(self._offset + n, self.max_size)

    def to_quantized(self, group_size: int = 64, bits: int = 4) -> None:
        """Raise NotImplementedError, as the original does: with --kv-bits a model with a window fails with this error.
        Source: mlx-lm mlx_lm/models/cache.py to_quantized (d78bf58e)."""
        raise NotImplementedError("a ring cannot be quantized")


class RotatingKVCache(Ring):
    """A ring that writes single tokens in place and appends several tokens in temporal order.

    The first ``keep`` columns are never overwritten. After an update of S tokens a buffer may hold up to max_size - 1 +
    S tokens.
    """

    WHOLE: ClassVar[tuple[str, ...]] = ("keys", "values", "offset", "keep", "max_size", "_idx")

    def __init__(self, max_size: int, keep: int = 0, *, rules: CacheRules = AT_D78BF58E) -> None:
        self.rules = rules
        self.keep = keep
        self.max_size = max_size
        self.offset = 0
        self._idx = 0
        self._gone = 0                  # offset - _offset: tokens that trims removed from the ring

    @property
    def _offset(self) -> int:
        return self.offset - self._gone

    @_offset.setter
    def _offset(self, held: int) -> None:
        self._gone = self.offset - held

    def set_whole_state(self, state: object) -> None:
        self._gone = 0
        super().set_whole_state(state)

    def set_cut_state(self, state: object) -> None:
        self._gone = self.offset = 0
        super().set_cut_state(state)

    def meta(self) -> tuple[str, ...]:
        return tuple(str(getattr(self, name)) for name in self.rules.ring_meta)

    def set_meta(self, meta: Sequence[str]) -> None:
        for name, text in zip(self.rules.ring_meta, meta, strict=True):
            setattr(self, name, int(text))

    def temporal(self, buffer: Array) -> Array:
        """Return the buffer from the oldest to the newest token, without unused columns."""
        if self._idx == columns(buffer):
            return buffer
        if self._idx >= self._offset:
            return buffer[:, :, : self._idx]
        return joined(buffer[:, :, : self.keep], buffer[:, :, self._idx :], buffer[:, :, self.keep : self._idx])

    def _appended(self, keys: Array, values: Array) -> tuple[Array, Array]:
        new = columns(keys)
        if self.keys is not None:
            old_keys, old_values = (self.temporal(buffer) for buffer in self.pair())
            # max_size - 1 old tokens are enough for the first new token; until #487 max_size of them stay
            drop = columns(old_keys) - self.max_size + self.rules.ring_spare
            keys = joined(self._dropped(old_keys, drop), keys)
            values = joined(self._dropped(old_values, drop), values)
        self.keys, self.values = keys, values
        self.offset += new
        self._idx = columns(keys)
        return keys, values

    def _dropped(self, buffer: Array, drop: int) -> Array:
        """Return the buffer without the ``drop`` columns after the kept columns."""
        return joined(buffer[:, :, : self.keep], buffer[:, :, drop + self.keep :]) if drop > 0 else buffer

    def _in_place(self, keys: Array, values: Array) -> tuple[Array, Array]:
        self._make_room(keys, values)
        held_keys, held_values = self.pair()
        drop = columns(held_keys) - self.max_size
        if drop > 0:
            held_keys, held_values = self._dropped(held_keys, drop), self._dropped(held_values, drop)
            self._idx = self.max_size
        if self._idx == self.max_size:
            self._idx = self.keep
        self.keys, self.values = written(held_keys, self._idx, keys), written(held_values, self._idx, values)
        self.offset += 1
        self._idx += 1
        return self.keys_and_values()

    def trim(self, n: int) -> int:
        """Remove the last n tokens by the version's rule. Return how many were removed."""
        cut = self.rules.ring_trim(self._offset, self.max_size, n)
        if cut.keep is None:
            self.offset -= cut.n
            self._idx -= cut.n
            return int(cut.n)
        if cut.keep == 0:
            self.keys = self.values = None
        else:
            self.keys, self.values = (self.temporal(buffer)[:, :, : cut.keep] for buffer in self.pair())
        self.offset -= cut.n
        self._offset = self._idx = cut.keep
        return int(cut.n)

    def make_mask(self, N: int, window_size: int | None = None, return_array: bool = False) -> Mask:
        """Return the mask for N queries. Call it before their update."""
        if N > 1:
            window = window_size or self.max_size
            before = min(self.max_size - self.rules.ring_spare, self._offset)
            wide = before + N > window or return_array
            return create_causal_mask(N, before, window) if wide else "causal"
        if window_size is None or self._offset < window_size or self.max_size <= window_size:
            return None
        at = 0 if self._idx >= self.max_size else self._idx
        width = min(self._offset + 1, self.max_size)
        return rotated(np.arange(width) >= width - window_size, at + 1, axis=0)

    @classmethod
    def merge(cls, caches: Sequence[RotatingKVCache]) -> Cache:
        """Merge rotating caches of one sequence each into a batch cache. It has no ``keep``: first tokens are
        overwritten, too."""
        batch: Cache = cls.BATCH.merge(caches)
        return batch
