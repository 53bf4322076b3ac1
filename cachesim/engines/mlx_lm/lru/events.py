"""Entries of the prompt cache, and notifications about their changes. Keys are tuples of tokens, sizes are bytes."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from cachesim.base.tokens import Tokens

Reason = Literal["replaced", "prefix", "count", "bytes", "consumed", "moved"]
How = Literal["exact", "shorter", "longer", "miss"]


class Inserted(NamedTuple):
    """A new entry, or a new object under an existing key (after a Removed with "replaced"). ``snapshot``: a copy stored
    under a prefix of the inserted key."""

    model: Any
    key: Tokens
    kind: str
    nbytes: int
    snapshot: bool = False


class Requeued(NamedTuple):
    """An insert under an existing key: the stored object and its size stay, and the new object is dropped."""

    model: Any
    key: Tokens
    kind: str
    nbytes: int


class Removed(NamedTuple):
    """An entry was removed. ``rule``: the rule that decided it."""

    model: Any
    key: Tokens
    # "replaced" by a new object under its key, as a "prefix" of a trimmable key, evicted by the limit of "count" or
    # "bytes", "consumed" by a fetch, "moved" to a longer key
    reason: Reason
    nbytes: int
    kind: str
    rule: str = ""


class Fetched(NamedTuple):
    """Result of a query: ``kept`` of its tokens are reused. ``key``: of the entry used, or None."""

    model: Any
    query_len: int
    how: How
    kept: int
    rule: str
    key: Tokens | None = None


CacheEvent = Inserted | Requeued | Removed | Fetched


def ignore(event: CacheEvent) -> None:
    """Discard the event; the default listener."""


class Entry(NamedTuple):
    """Layers of a stored state, their size in bytes at insertion, and their queue. ``owners``: only in versions that
    count owners. ``snapshot``: a copy stored under a prefix."""

    layers: list[Any]
    nbytes: int
    kind: str
    owners: int = 1
    snapshot: bool = False
