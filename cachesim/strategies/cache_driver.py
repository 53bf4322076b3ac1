"""Interface of a cache that is driven operation by operation. A driver overrides the operations that its cache has."""

from __future__ import annotations

from typing import Any, Hashable, Iterable, Mapping, NamedTuple, Sequence

from cachesim.base.tokens import Tokens


class StoredPrompt(NamedTuple):
    """An inserted prompt: the driver's own handle of the sequence, and the number of tokens that were reused."""

    handle: Any
    cached: int = 0


class CacheDriver:
    """Driver of a cache. Only ``insert`` is required; the machine uses what a driver overrides, and never calls the
    others, which raise NotImplementedError: a cache has no default operation. A handle is whatever ``insert`` returns
    for a sequence. Tokens are tuples of integers."""

    def insert(self, tokens: Tokens) -> StoredPrompt | None:
        """Evaluate a prompt of at least one token, reusing what the cache has, and keep it as a sequence. Return None
        if there is no room."""
        raise NotImplementedError

    def look_up(self, tokens: Tokens) -> int:
        """Return how many leading tokens of a prompt could be reused now, without a change of the cache."""
        raise NotImplementedError

    def evict(self, handle: Any) -> None:
        """Release a sequence. The cache may keep its contents for reuse."""
        raise NotImplementedError

    def fork(self, handle: Any) -> Any:
        """Return the handle of a copy of a sequence, or None if there is no room."""
        raise NotImplementedError

    def trim(self, handle: Any, length: int) -> bool:
        """Keep the first ``length`` tokens of a sequence, at least 1. Return False if the cache refuses and leaves the
        sequence as it is."""
        raise NotImplementedError

    def restore(self, tokens: Tokens) -> Any:
        """Return the handle of an evicted sequence with these tokens that the cache brings back, None if it is gone."""
        raise NotImplementedError

    def read(self, handle: Any) -> Any:
        """Return the contents of a sequence as they are in memory, equal for equal contents wherever they lie: rows, a
        state, a digest. For ``CachedEqualsCold``."""
        raise NotImplementedError

    def blocks(self, handle: Any) -> Sequence[Hashable]:
        """Return the blocks of a sequence in order. For ``ReferenceCounts`` and ``BlocksInOnePlace``."""
        raise NotImplementedError

    def reference_counts(self) -> Mapping[Any, int]:
        """Return the reference count of each block that sequences use. For ``ReferenceCounts``."""
        raise NotImplementedError

    def free_blocks(self) -> Sequence[Hashable]:
        """Return the free blocks. For ``BlocksInOnePlace``."""
        raise NotImplementedError

    def entries(self) -> Iterable[tuple[Tokens, Any]]:
        """Yield the key of each stored entry, all tokens from the first one on, and its contents as ``read`` returns
        them. For ``KeyCoversContent``."""
        raise NotImplementedError

    @classmethod
    def has(cls, operation: str) -> bool:
        """True if the driver overrides an operation."""
        return getattr(cls, operation) is not getattr(CacheDriver, operation)
