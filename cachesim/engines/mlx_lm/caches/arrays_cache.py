"""How are recurrent states kept? A state is one row per sequence, of any shape; it cannot go back."""

from __future__ import annotations

from typing import Any, ClassVar, Iterable, Sequence

import numpy as np

from cachesim.engines.mlx_lm.caches.array_ops import Array, chosen, counters
from cachesim.engines.mlx_lm.caches.base import Cache
from cachesim.engines.mlx_lm.caches.rule_table import AT_HEAD, CacheRules


class ArraysCache(Cache):
    """``cache`` is a list of slots, each None or an array with the rows of the batch on axis 0.

    left_padding, lengths: [B] or None; tokens of the coming step that do not count, at the left and behind."""

    WHOLE: ClassVar[tuple[str, ...]] = ("cache", "left_padding", "lengths")

    def __init__(self, size: int, left_padding: Sequence[int] | None = None, *, rules: CacheRules = AT_HEAD) -> None:
        self.rules = rules
        self.cache: list[Any] = [None] * size
        self.left_padding: Array | None = counters(left_padding) if left_padding else None
        self.lengths: Array | None = None

    @property
    def batch_size(self) -> int:
        """Rows, as far as anything here tells; else 1."""
        for slot in (*self.cache, self.left_padding, self.lengths):
            if slot is not None:
                return int(slot.shape[0])
        return 1

    def __setitem__(self, slot: int, value: Any) -> None:
        self.cache[slot] = value

    def __getitem__(self, slot: int) -> Any:
        return self.cache[slot]

    def cut_state(self) -> Any:
        return self.rules.arrays_state(self.cache, self.left_padding, self.lengths)

    def set_cut_state(self, state: Any) -> None:
        """Slots alone (a list), or slots, paddings and lengths (a tuple)."""
        slots, *rest = state if isinstance(state, tuple) else (state, None, None)
        self.cache = slots
        self.left_padding, self.lengths = (None if x is None or not x.size else x for x in rest)

    def filter(self, batch_indices: Sequence[int] | Array) -> None:
        """Keep these rows."""
        self.cache = [None if slot is None else chosen(slot, batch_indices) for slot in self.cache]
        for name in self.rules.arrays_filtered:
            held = getattr(self, name)
            setattr(self, name, None if held is None else chosen(held, batch_indices))

    def extend(self, other: ArraysCache) -> None:
        """Add the rows of ``other``."""
        a, b = self.batch_size, other.batch_size
        join, join_padding = self.rules.arrays_extend_none, self.rules.arrays_extend_padding
        self.cache = [join(x, y, a, b) for x, y in zip(self.cache, other.cache, strict=False)]
        self.left_padding = join_padding(self.left_padding, other.left_padding, a, b)
        self.lengths = join_padding(self.lengths, other.lengths, a, b)

    def extract(self, idx: int) -> ArraysCache:
        """Row idx alone. Raises TypeError if a slot holds nothing."""
        cache = ArraysCache(len(self.cache), rules=self.rules)
        cache.cache = [slot[idx : idx + 1] for slot in self.cache]
        return cache

    def prepare(self, lengths: Sequence[int] | None = None, **others: Any) -> None:
        """Note how many tokens of the coming step each row has."""
        if lengths is None:
            raise ValueError("lengths are needed")
        self.lengths = counters(lengths)

    def finalize(self) -> None:
        """Forget lengths and padding after the step."""
        self.lengths = None
        self.left_padding = None

    def advance(self, N: int) -> None:
        """N tokens of the step are done."""
        if self.lengths is not None:
            self.lengths = self.lengths - N
        if self.left_padding is not None:
            self.left_padding = self.left_padding - N

    def make_mask(self, N: int) -> Array | None:
        """[B, N]: which tokens are folded into the states; None = all."""
        mask: Array | None = self.rules.arrays_mask(N, self.left_padding, self.lengths)
        return mask

    @classmethod
    def merge(cls, caches: Sequence[ArraysCache]) -> ArraysCache:
        """One batch of these, one row each; a row without a state is zeros."""
        rules = caches[0].rules
        batch = cls(len(caches[0].cache), rules=rules)
        if all(cache.empty() for cache in caches):
            batch.left_padding = rules.arrays_merge_empty(len(caches))
            return batch
        batch.cache = [_stacked([cache.cache[e] for cache in caches]) for e in range(len(batch.cache))]
        return batch

    def empty(self) -> bool:
        return self.cache[0] is None

    @property
    def nbytes(self) -> int:
        return sum(slot.nbytes for slot in self.cache if slot is not None)


def _stacked(slots: Sequence[Any]) -> Array:
    """[B, ...]: the slots below each other, zeros where there is none. Raises StopIteration if there are only Nones."""
    some: Iterable[Any] = (slot for slot in slots if slot is not None)
    first = next(iter(some))
    out = np.zeros((len(slots), *first.shape[1:]), first.dtype)
    for i, slot in enumerate(slots):
        if slot is not None:
            out[i : i + 1] = slot
    return out
