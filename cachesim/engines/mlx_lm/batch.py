"""Rows that share their columns: one cache of all rows for each layer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Sequence

from cachesim.base.tokens import Tokens
from cachesim.engines.mlx_lm.batch_row import Row
from cachesim.engines.mlx_lm.caches import (
    ArraysCache,
    BatchKVCache,
    BatchRotatingKVCache,
    CacheList,
    RotatingKVCache,
)
from cachesim.engines.mlx_lm.caches.array_ops import counters
from cachesim.engines.mlx_lm.thread_ended import VALUE_ERROR, Died


def merged(caches: Sequence[Sequence[Any]]) -> list[Any]:
    """One cache of all conversations for each layer. Raises Died where the classes raise ValueError: nobody catches
    it."""
    try:
        return [layer[0].merge(list(layer)) for layer in zip(*caches, strict=True)]
    except ValueError as error:
        raise Died(f"ValueError: {error}", VALUE_ERROR) from error


def to_batch(cache: Any, left_padding: Sequence[int]) -> Any:
    """A fresh cache of one conversation as one of many rows, padded on the left (_make_cache)."""
    if isinstance(cache, ArraysCache):
        cache.left_padding = counters(left_padding)
        return cache
    if isinstance(cache, CacheList):
        return CacheList(*(to_batch(one, left_padding) for one in cache.caches), rules=cache.rules)
    if isinstance(cache, RotatingKVCache):
        return BatchRotatingKVCache(cache.max_size, left_padding, rules=cache.rules)
    return BatchKVCache(left_padding, rules=cache.rules)


def right_padded(rows: Sequence[Tokens], width: int) -> list[Tokens]:
    """Rows of equal length; padding is the token 0."""
    return [(*row, *[0] * (width - len(row))) for row in rows]


def left_padded(rows: Sequence[Tokens], width: int) -> list[Tokens]:
    """Rows of equal length; padding is the token 0."""
    return [(*[0] * (width - len(row)), *row) for row in rows]


@dataclass(slots=True)
class Batch:
    """Rows, in the order of the caches' rows. Empty: no rows and no caches."""

    rows: list[Row] = field(default_factory=list)
    caches: list[Any] = field(default_factory=list)

    def extract(self, index: int) -> list[Any]:
        """The caches of one row, as if it had been alone."""
        return [cache.extract(index) for cache in self.caches]

    def extend(self, other: Batch) -> None:
        """The other batch's rows join behind the own ones. Raises Died where the classes raise: nobody catches it."""
        if not self.caches:
            self.caches = other.caches
        else:
            try:
                for mine, theirs in zip(self.caches, other.caches, strict=True):
                    mine.extend(theirs)
            except (TypeError, ValueError) as error:
                raise Died(f"{type(error).__name__}: {error}", type(error).__name__) from error
        self.rows = self.rows + other.rows

    def filter(self, keep: Sequence[int]) -> None:
        """Only these rows stay. Raises Died where a layer does not have them: what would be read is not defined."""
        self.rows = [self.rows[i] for i in keep]
        if not keep:
            self.caches = []
        try:
            for cache in self.caches:
                cache.filter(list(keep))
        except IndexError as error:
            raise Died("a row is read that a layer's state does not have", "state-without-the-row") from error

    def drop(self, gone: Sequence[Row]) -> None:
        """These rows go."""
        keep = [i for i, row in enumerate(self.rows) if row not in gone]
        if len(keep) < len(self.rows):
            self.filter(keep)
