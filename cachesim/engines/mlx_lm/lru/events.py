"""What does the prompt cache tell about itself? Keys are tuples of tokens, sizes are bytes."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from cachesim.base.tokens import Tokens

Reason = Literal["replaced", "prefix", "count", "bytes", "consumed", "moved"]
How = Literal["exact", "shorter", "longer", "miss"]


class Inserted(NamedTuple):
    """A new entry, or a new object under a key that was there (then Removed with "replaced" came first). ``snapshot``:
    a copy under a prefix of the key that was inserted."""

    model: Any
    key: Tokens
    kind: str
    nbytes: int
    snapshot: bool = False


class Requeued(NamedTuple):
    """The key was there: its old object and its old bytes stay, and the object that was offered is dropped."""

    model: Any
    key: Tokens
    kind: str
    nbytes: int


class Removed(NamedTuple):
    """An entry left: "replaced" by a new object under its key, as a "prefix" of a trimmable key, as victim of the limit
    of "count" or "bytes", "consumed" by a fetch, "moved" to a longer key. ``rule`` is the rule that had it go."""

    model: Any
    key: Tokens
    reason: Reason
    nbytes: int
    kind: str
    rule: str = ""


class Fetched(NamedTuple):
    """What a query got: ``kept`` of its tokens need not be processed; ``key`` is that of the entry used or None."""

    model: Any
    query_len: int
    how: How
    kept: int
    rule: str
    key: Tokens | None = None


Told = Inserted | Requeued | Removed | Fetched


def quiet(event: Told) -> None:
    """Nobody listens."""


# What is stored under one key?

class Entry(NamedTuple):
    """The layers of one state, its size in bytes when it came in, its queue. ``owners``: in versions that
    count them. ``snapshot``: a copy made under a prefix."""

    layers: list[Any]
    nbytes: int
    kind: str
    owners: int = 1
    snapshot: bool = False
