"""Events of mlx-lm's prompt cache, and the error that ends its generation thread. The server logs none of these
events."""

from __future__ import annotations

from cachesim.base.errors import ProcessAborted
from cachesim.events.base import SlotEvent, frozen

INDEX_ERROR, VALUE_ERROR, ATTRIBUTE_ERROR = "IndexError", "ValueError", "AttributeError"
"""Kinds of Died that are plain exceptions."""


class Died(ProcessAborted):
    """An error that the server does not catch: its generation thread ends, and later requests get no answer. ``kind``
    names the exception, and the function if it comes from the prompt cache."""


@frozen
class Fetched(SlotEvent, ev="fetched", logged=False):
    """Lookup in the prompt cache. ``how`` is exact, shorter, longer or miss; ``n_cached`` of ``n_tokens`` are
    reused."""

    n_tokens: int
    n_cached: int
    how: str


@frozen
class Inserted(SlotEvent, ev="inserted", logged=False):
    """A conversation of ``n_tokens`` was stored. Its type is assistant, user or system; ``nbytes`` is its declared
    size."""

    n_tokens: int
    cache_type: str
    nbytes: int


@frozen
class Removed(SlotEvent, ev="removed", logged=False):
    """A stored conversation was removed. Reason: replaced, prefix, count, bytes, consumed or moved."""

    n_tokens: int
    reason: str
