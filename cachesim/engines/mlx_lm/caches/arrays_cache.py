"""Cache of recurrent states. A state has a row per sequence and any shape, and cannot be rolled back."""

from __future__ import annotations

from typing import Any, Callable, ClassVar, Iterable, Sequence

import numpy as np

from cachesim.engines.mlx_lm.caches.array_ops import Array, chosen, counters
from cachesim.engines.mlx_lm.caches.base import Cache
from cachesim.engines.mlx_lm.caches.rule_table import AT_D78BF58E, CacheRules


class Buffer:
    """Memory behind the slots: ``rows`` of a batch; in the first slot ``columns`` for the ``kept`` ones. Views of the
    same memory share this object."""

    def __init__(self, rows: int, columns: int, kept: int) -> None:
        self.rows = rows
        self.columns = columns
        self.kept = kept


class ArraysCache(Cache):
    """``cache`` is a list of slots, each None or an array with the batch rows on axis 0.

    left_padding, lengths: [B] or None. They exclude tokens of the next step: padding on the left, and tokens after the
    length.
    """

    WHOLE: ClassVar[tuple[str, ...]] = ("cache", "left_padding", "lengths")
    buffer: Buffer | None = None        # None: the slots are all of their memory

    def __init__(
        self, size: int, left_padding: Sequence[int] | None = None, *, rules: CacheRules = AT_D78BF58E
    ) -> None:
        self.rules = rules
        self.cache: list[Any] = [None] * size
        self.left_padding: Array | None = counters(left_padding) if left_padding else None
        self.lengths: Array | None = None

    @property
    def batch_size(self) -> int:
        """Number of rows, or 1 if no slot or counter shows it."""
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
        """Set slots alone (a list), or slots, paddings and lengths (a tuple)."""
        slots, *rest = state if isinstance(state, tuple) else (state, None, None)
        self.cache = slots
        self.left_padding, self.lengths = (None if x is None or not x.size else x for x in rest)

    def filter(self, batch_indices: Sequence[int] | Array) -> None:
        """Keep these rows."""
        self.cache = [None if slot is None else chosen(slot, self._present(batch_indices, len(slot)))
                      for slot in self.cache]  # fmt: skip
        self.buffer = None
        for name in self.rules.arrays_filtered:
            held = getattr(self, name)
            setattr(self, name, None if held is None else chosen(held, batch_indices))

    def _present(self, asked: Sequence[int] | Array, rows: int) -> list[int]:
        """Return the rows to read: those asked for, and for a row that the state does not have the rule's."""
        return [int(i) if i < rows else self.rules.arrays_row(int(i), rows) for i in asked]

    def extend(self, addition: ArraysCache) -> None:
        """Append the rows of ``addition``."""
        a, b = self.batch_size, addition.batch_size
        join, join_padding = self.rules.arrays_extend_none, self.rules.arrays_extend_padding
        self.cache = [join(x, y, a, b) for x, y in zip(self.cache, addition.cache, strict=False)]
        self.buffer = None
        self.left_padding = join_padding(self.left_padding, addition.left_padding, a, b)
        self.lengths = join_padding(self.lengths, addition.lengths, a, b)

    def extract(self, idx: int) -> ArraysCache:
        """Return row ``idx`` as a cache of its own, a view of the batch. Raise TypeError if a slot is None."""
        cache = ArraysCache(len(self.cache), rules=self.rules)
        cache.cache = [slot[idx : idx + 1] for slot in self.cache]
        cache.buffer = self.buffer = self.buffer or Buffer(self.batch_size, 1, 1)
        return cache

    def is_trimmable(self) -> bool:
        return self.rules.arrays_trim()

    @property
    def trim(self) -> Callable[[int], int]:
        """Return the method of a proposal that forgets every token. Raise AttributeError where the class has none."""
        if not self.is_trimmable():
            raise AttributeError("trim")
        return self._reset

    def _reset(self, n: int) -> int:
        """Forget every token if n is positive. Return n."""
        if n <= 0:
            return 0
        self.cache, self.buffer = [None] * len(self.cache), None
        return n

    def prepare(self, lengths: Sequence[int] | None = None, **others: Any) -> None:
        """Set the number of tokens that each row has in the next step."""
        if lengths is None:
            raise ValueError("lengths are needed")
        self.lengths = counters(lengths)

    def finalize(self) -> None:
        """Clear lengths and padding after the step."""
        self.lengths = None
        self.left_padding = None

    def advance(self, N: int) -> None:
        """Record that N tokens of the step have been processed."""
        if self.lengths is not None:
            self.lengths = self.lengths - N
        if self.left_padding is not None:
            self.left_padding = self.left_padding - N

    def make_mask(self, N: int) -> Array | None:
        """Return the mask [B, N] of the tokens that enter the states; None = all."""
        mask: Array | None = self.rules.arrays_mask(N, self.left_padding, self.lengths)
        return mask

    @classmethod
    def merge(cls, caches: Sequence[ArraysCache]) -> ArraysCache:
        """Merge caches into a batch; each becomes a row. A row without a state becomes zeros."""
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
    """Stack the slots to [B, ...], with zeros for None. Raise StopIteration if all are None."""
    some: Iterable[Any] = (slot for slot in slots if slot is not None)
    first = next(iter(some))
    out = np.zeros((len(slots), *first.shape[1:]), first.dtype)
    for i, slot in enumerate(slots):
        if slot is not None:
            out[i : i + 1] = slot
    return out
