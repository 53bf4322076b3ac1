"""The server's prompt cache: what happens in it is told, and what it raises ends the thread."""

from __future__ import annotations

from typing import Any, Iterable, Sequence

from cachesim.base.tokens import Tokens
from cachesim.engines.mlx_lm import lru
from cachesim.engines.mlx_lm.batch import Row
from cachesim.engines.mlx_lm.events import Inserted, Removed
from cachesim.engines.mlx_lm.model_layout import declared, model_weights
from cachesim.engines.mlx_lm.server_state import Core
from cachesim.engines.mlx_lm.thread_ended import Died

MODEL = "model"
CAUSES = {"replaced": "overwritten", "prefix": "erased", "moved": "erased", "consumed": "consumed",
          "count": "evicted", "bytes": "evicted"}  # fmt: skip
"""How the field's words for a change follow from the cache's own."""


class PromptCache:
    """One LRUPromptCache of one model."""

    def __init__(self, srv: Core) -> None:
        self.srv = srv
        self.weights = model_weights(srv.kind, srv.draft)
        self.lru = lru.LRUPromptCache(
            srv.settings.max_size, rules=srv.rules.lru, nbytes_of=self._weigh, tell=self._tell,
            checkpoint_interval=srv.settings.interval,
        )
        self.at: Row | None = None

    def _weigh(self, layers: Sequence[Any]) -> int:
        return declared(layers, self.weights)

    def declared(self, held: Iterable[Sequence[Any]]) -> int:
        """Bytes of the caches that are at work."""
        return sum(self._weigh(caches) for caches in held if caches)

    def fetch(self, row: Row, query: Tokens) -> lru.Fetch:
        """What is there for a request. Raises Died."""
        self.at = row
        try:
            got = self.lru.fetch_nearest_cache(MODEL, query)
        except (KeyError, IndexError) as error:
            raise _died(error, "fetch_nearest_cache") from error
        self.srv.decide(got.decision, row)
        return got

    def insert(
        self, row: Row, key: Tokens, caches: list[Any], cache_type: str, boundaries: Sequence[int] = (),
        old_key: Tokens | None = None,
    ) -> None:
        """Store what a request leaves. Raises Died."""
        self.at = row
        try:
            self.lru.insert_cache(
                MODEL, key, caches, cache_type=cache_type, boundaries=boundaries, old_key=old_key
            )
        except (KeyError, IndexError) as error:
            raise _died(error, "insert_cache") from error

    def trim_to(self, n_bytes: int) -> None:
        """Evict until no more than so many bytes are left. Raises Died."""
        self.at = None
        try:
            self.lru.trim_to(n_bytes=n_bytes)
        except IndexError as error:
            raise _died(error, "trim_to") from error

    def _tell(self, event: Any) -> None:
        slot, task = (None, None) if self.at is None else (self.at.id, self.at.task.id)
        if isinstance(event, lru.Inserted | lru.Requeued):
            self.srv.emit(Inserted(slot, task, len(event.key), event.kind, event.nbytes))
            self.srv.changed(None, "stored")
        elif isinstance(event, lru.Removed):
            self.srv.emit(Removed(slot, task, len(event.key), event.reason))
            self.srv.changed(None, CAUSES[event.reason], event.rule)


def _died(error: Exception, where: str) -> Died:
    name = type(error).__name__
    return Died(f"{name} in {where}", f"{name}-in-{where}")
