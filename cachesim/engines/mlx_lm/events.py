"""What mlx-lm's server does to its prompt cache. It logs none of this: all are silent."""

from __future__ import annotations

from cachesim.base.errors import ProcessAborted
from cachesim.events.base import SlotEvent, frozen

# What ends the server's generation thread.

INDEX_ERROR, VALUE_ERROR = "IndexError", "ValueError"     # kinds of the ends that are one


class Died(ProcessAborted):
    """An error that nothing in the server catches: the thread ends, and nobody is answered any more. ``kind`` is the
    exception, and where it comes from in the prompt cache."""


@frozen
class Fetched(SlotEvent, ev="fetched", logged=False):
    """The prompt cache was asked: ``how`` is exact, shorter, longer or miss; ``n_cached`` of ``n_tokens`` are
    served."""

    n_tokens: int
    n_cached: int
    how: str


@frozen
class Inserted(SlotEvent, ev="inserted", logged=False):
    """A conversation of ``n_tokens`` was stored, of the type assistant, user or system; ``nbytes`` as declared."""

    n_tokens: int
    cache_type: str
    nbytes: int


@frozen
class Removed(SlotEvent, ev="removed", logged=False):
    """A stored conversation went: replaced, prefix, count, bytes, consumed or moved."""

    n_tokens: int
    reason: str
