"""Tasks, rows and batches of the generators.

A batch has a cache for each layer; its rows share the columns of that cache.
"""

from __future__ import annotations

from contextlib import contextmanager
from copy import copy, deepcopy
from dataclasses import dataclass, field, fields
from typing import Any, Iterator, Sequence

from cachesim.base.tokens import Tokens
from cachesim.engines.base import Answer, FixedTokens, Request
from cachesim.engines.inspection import TokenPrefix
from cachesim.engines.mlx_lm.caches import ArraysCache, BatchKVCache, BatchRotatingKVCache, CacheList, RotatingKVCache
from cachesim.engines.mlx_lm.caches.array_ops import counters
from cachesim.engines.mlx_lm.events import Died
from cachesim.engines.mlx_lm.rules.keys import ConversationKey


@dataclass(slots=True, eq=False)
class Task:
    """A request in progress."""

    id: int
    request: Request
    answer: Answer
    role: str  # role of the last message; "" = a plain text
    key: ConversationKey = field(default_factory=lambda: ConversationKey(()))  # under which the conversation is stored
    old_key: Tokens | None = None   # the entry that its caches came from, in versions that move entries
    position: int | None = None     # of the requested checkpoint; None = none


@dataclass(slots=True, eq=False)
class Row:
    """A row of a batch, or the only row of a request that is served alone.

    Rows are numbered in order of arrival and stay in the server's list after their request has ended.
    """

    id: int
    task: Task
    tokens: list[int] = field(default_factory=list)         # that its caches should hold, as the server counts them
    segments: list[Tokens] = field(default_factory=list)    # left to feed; of the first, tokens from ``fed`` on
    fed: int = 0
    prefilled: FixedTokens = field(default_factory=FixedTokens)     # that its caches should hold before its answer
    types: list[str] = field(default_factory=list)          # of the entries to be stored at the ends of segments
    caches: list[Any] = field(default_factory=list)
    next: int = -1                  # the token that was sampled last and has not been fed
    n_gen: int = 0                  # tokens returned
    busy: bool = True
    stop: bool = False              # the client has disconnected, and the generation loop has noticed it
    left: list[Any] = field(default_factory=list)           # its caches while its start or release is handled
    child: bool = False             # always False: this server has no further completions

    def __deepcopy__(self, memo: dict[int, Any]) -> Row:
        """Copy the row. A finished row never changes again, so a copy of the server shares it."""
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
    def has_hung_up(self) -> bool:
        """True if the client has disconnected.

        ``cancel_at`` counts the tokens that a slot would hold. A slot has not evaluated the last token of an answer; a
        row has, so it holds another token.
        """
        at = self.request.cancel_at
        return at is not None and len(self.tokens) > at

    def take(self, n: int) -> Tokens:
        """Remove and return the first n tokens of the current segment, which are fed now. Removes an empty segment."""
        segment = self.segments[0]
        piece = segment[self.fed : self.fed + n]
        self.fed += len(piece)
        if self.fed == len(segment):
            del self.segments[0]
            self.fed = 0
        return piece

    def lengths_left(self) -> list[int]:
        """Return the number of tokens left to feed of each segment."""
        lengths = [len(segment) for segment in self.segments]
        if lengths:
            lengths[0] -= self.fed
        return lengths

    def prefix(self) -> TokenPrefix:
        """Return the tokens that the caches should hold, until the answer begins as a prefix of the same list."""
        n = len(self.tokens)
        planned = self.prefilled.tokens
        tokens = tuple(planned) if n <= len(planned) else tuple(self.tokens)
        return TokenPrefix(tokens, n)

    def return_sampled(self) -> bool:
        """Return the sampled token to the client; it is fed in the same step. True if it was the last token."""
        self.n_gen += 1
        self.task.answer.tokens.append(self.next)
        self.task.answer.predicted_n = self.n_gen
        return self.n_gen >= max(1, self.request.n_predict)


@contextmanager
def _ending_thread() -> Iterator[None]:
    """Raise Died where the classes raise, because the server does not catch that."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise Died(f"{type(error).__name__}: {error}", type(error).__name__) from error


def merged(caches: Sequence[Sequence[Any]]) -> list[Any]:
    """Merge the caches of all conversations layer by layer. Raise Died."""
    with _ending_thread():
        return [layer[0].merge(list(layer)) for layer in zip(*caches, strict=True)]


def to_batch(cache: Any, left_padding: Sequence[int]) -> Any:
    """Convert the fresh cache of a conversation to a batch, padded on the left (_make_cache)."""
    if isinstance(cache, ArraysCache):
        cache.left_padding = counters(left_padding)
        return cache
    if isinstance(cache, CacheList):
        return CacheList(*(to_batch(one, left_padding) for one in cache.caches), rules=cache.rules)
    if isinstance(cache, RotatingKVCache):
        return BatchRotatingKVCache(cache.max_size, left_padding, rules=cache.rules)
    return BatchKVCache(left_padding, rules=cache.rules)


def right_padded(rows: Sequence[Tokens], width: int) -> list[Tokens]:
    """Return the rows in equal length, padded on the right with token 0."""
    return [(*row, *[0] * (width - len(row))) for row in rows]


def left_padded(rows: Sequence[Tokens], width: int) -> list[Tokens]:
    """Return the rows in equal length, padded on the left with token 0."""
    return [(*[0] * (width - len(row)), *row) for row in rows]


@dataclass(slots=True)
class Batch:
    """Rows, in the order of the rows of its caches. An empty batch has neither rows nor caches."""

    rows: list[Row] = field(default_factory=list)
    caches: list[Any] = field(default_factory=list)

    def extract(self, index: int) -> list[Any]:
        """Return the caches of a row as those of a separate conversation. Raise Died."""
        with _ending_thread():
            return [cache.extract(index) for cache in self.caches]

    def finalize(self) -> None:
        """End a pass with padding in every layer. Raise Died."""
        with _ending_thread():
            for cache in self.caches:
                cache.finalize()

    def extend(self, addition: Batch) -> None:
        """Append the rows of ``addition``. Raise Died."""
        if not self.caches:
            self.caches = addition.caches
        else:
            with _ending_thread():
                for own, added in zip(self.caches, addition.caches, strict=True):
                    own.extend(added)
        self.rows = self.rows + addition.rows

    def filter(self, keep: Sequence[int]) -> None:
        """Keep only these rows. Raise Died where a layer's state lacks any of them: the result of that read is
        undefined."""
        self.rows = [self.rows[i] for i in keep]
        if not keep:
            self.caches = []
        try:
            for cache in self.caches:
                cache.filter(list(keep))
        except IndexError as error:
            raise Died("a row is read that a layer's state does not have", "state-without-the-row") from error

    def drop(self, gone: Sequence[Row]) -> None:
        """Remove these rows."""
        keep = [i for i, row in enumerate(self.rows) if row not in gone]
        if len(keep) < len(self.rows):
            self.filter(keep)
