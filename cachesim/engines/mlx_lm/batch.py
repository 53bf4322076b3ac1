"""Rows that share their columns: one cache of all rows for each layer."""

from __future__ import annotations

from copy import copy, deepcopy
from dataclasses import dataclass, field, fields
from typing import Any, Sequence

from cachesim.base.tokens import Tokens
from cachesim.engines.base import Answer, Request
from cachesim.engines.mlx_lm.caches import ArraysCache, BatchKVCache, BatchRotatingKVCache, CacheList, RotatingKVCache
from cachesim.engines.mlx_lm.caches.array_ops import counters
from cachesim.engines.mlx_lm.events import VALUE_ERROR, Died
from cachesim.engines.mlx_lm.rules.keys import Key

# One request at work: what was asked, what is left to feed, what its caches are believed to hold.

@dataclass(slots=True, eq=False)
class Task:
    """A request. ``key`` is what it is stored under; ``old_key`` the entry that its caches were taken from, where such
    entries move; ``position`` where it wants its checkpoint (None = none)."""

    id: int
    request: Request
    answer: Answer
    role: str                       # of the last message; "" = a text
    key: Key = field(default_factory=lambda: Key(()))
    old_key: Tokens | None = None
    position: int | None = None


@dataclass(slots=True, eq=False)
class Row:
    """A row of a batch, or the one request that is served alone. Rows are numbered as they come and stay in the
    server's list when they are done. ``tokens`` are those its caches are believed to hold; ``segments`` and ``types``
    what is left to feed, and to store; ``left`` what its caches were, for whoever listens at the moment it ends."""

    id: int
    task: Task
    tokens: list[int] = field(default_factory=list)
    segments: list[Tokens] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    caches: list[Any] = field(default_factory=list)
    next: int = -1                  # the token that was sampled last and is not fed yet
    n_gen: int = 0                  # tokens returned
    busy: bool = True
    stop: bool = False              # its client has gone, and whoever serves it alone has noticed
    left: list[Any] = field(default_factory=list)
    child: bool = False             # never: there are no further completions

    def __deepcopy__(self, memo: dict[int, Any]) -> Row:
        """One that is done never changes again: a copy of the server shares it, however many have come and gone."""
        if not (self.busy or self.caches or self.left):
            return self
        twin = memo[id(self)] = copy(self)
        for one in fields(self):
            setattr(twin, one.name, deepcopy(getattr(self, one.name), memo))
        return twin

    @property
    def request(self) -> Request:
        return self.task.request

    @property
    def hung_up(self) -> bool:
        """Has the client gone? ``cancel_at`` counts what a slot would hold, which has not evaluated the last token of
        an answer; a row has, so that it holds one more by then."""
        at = self.request.cancel_at
        return at is not None and len(self.tokens) > at

    def take(self, n: int) -> Tokens:
        """The first n tokens of the present segment, which are fed now; an emptied segment goes."""
        piece, rest = self.segments[0][:n], self.segments[0][n:]
        self.segments[:1] = [rest] if rest else []
        return piece

    def give(self) -> bool:
        """Return the sampled token, which is fed at the same time. Was it the last one?"""
        self.n_gen += 1
        self.task.answer.tokens.append(self.next)
        self.task.answer.predicted_n = self.n_gen
        return self.n_gen >= max(1, self.request.n_predict)


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
