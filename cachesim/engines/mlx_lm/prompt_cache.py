"""The server's prompt cache: what happens in it is told, and what it raises ends the thread."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Callable, Iterable, Iterator, Sequence

from cachesim.base.tokens import Tokens
from cachesim.engines.inspection import Key, Point
from cachesim.engines.mlx_lm import lru
from cachesim.engines.mlx_lm.batch import Row
from cachesim.engines.mlx_lm.events import Died, Inserted, Removed
from cachesim.engines.mlx_lm.model_layout import declared, model_weights
from cachesim.engines.mlx_lm.server_state import Core
from cachesim.events import Gained, Lost

MODEL = "model"
CAUSES = {"replaced": "overwritten", "prefix": "erased", "moved": "erased", "consumed": "consumed",
          "count": "evicted", "bytes": "evicted"}  # fmt: skip
"""How the field's words for a change follow from the cache's own."""


class PromptCache:
    """One LRUPromptCache of one model."""

    def __init__(self, srv: Core, point: Callable[[Key], Point]) -> None:
        self.srv, self.point = srv, point
        self.weights = model_weights(srv.kind, srv.draft)
        self.lru = lru.LRUPromptCache(
            srv.settings.max_size, rules=srv.rules.lru, nbytes_of=self._weigh, tell=self._tell,
            checkpoint_interval=srv.settings.flags.snapshot_interval,
        )
        self.at: Row | None = None
        self.count = 0
        self.keys: dict[Tokens, Key] = {}               # of entries
        self.texts: dict[Key, Tokens] = {}              # under which they are stored
        self.lent: dict[Tokens, str] = {}               # entries on whose caches rows go on, and the rule behind it

    def _weigh(self, layers: Sequence[Any]) -> int:
        return declared(layers, self.weights)

    def declared(self, held: Iterable[Sequence[Any]]) -> int:
        """Bytes of the caches that are at work."""
        return sum(self._weigh(caches) for caches in held if caches)

    def fetch(self, row: Row, query: Tokens) -> lru.Fetch:
        """What is there for a request. Raises Died."""
        self.at = row
        with _deadly("fetch_nearest_cache", KeyError, IndexError):
            got = self.lru.fetch_nearest_cache(MODEL, query)
        self.srv.decide(got.decision, row)
        entry = None if got.key is None else self.lru.entry(MODEL, got.key)
        if entry is not None and got.key is not None and entry.layers is got.cache:
            self.lent[got.key] = got.decision.rule
        return got

    def insert(
        self, row: Row, key: Tokens, caches: list[Any], cache_type: str, boundaries: Sequence[int] = (),
        old_key: Tokens | None = None,
    ) -> None:
        """Store what a request leaves. Raises Died."""
        self.at = row
        with _deadly("insert_cache", KeyError, IndexError):
            self.lru.insert_cache(MODEL, key, caches, cache_type=cache_type, boundaries=boundaries, old_key=old_key)

    def trim_to(self, n_bytes: int) -> None:
        """Evict until no more than so many bytes are left. Raises Died."""
        self.at = None
        with _deadly("trim_to", IndexError):
            self.lru.trim_to(n_bytes=n_bytes)

    def _tell(self, event: Any) -> None:
        slot, task = (None, None) if self.at is None else (self.at.id, self.at.task.id)
        if isinstance(event, lru.Removed):
            self.lent.pop(event.key, None)
        self.look_at_lent()
        if isinstance(event, lru.Inserted | lru.Requeued):
            if isinstance(event, lru.Inserted):
                self._gained(event.key, "stored", "")
            self.srv.emit(Inserted(slot, task, len(event.key), event.kind, event.nbytes))
        elif isinstance(event, lru.Removed):
            if event.reason != "replaced":              # the new object takes its place
                gone = self.keys.pop(event.key)
                del self.texts[gone]
                self.srv.emit(Lost(None, gone, CAUSES[event.reason], event.rule))
            self.srv.emit(Removed(slot, task, len(event.key), event.reason))

    def _gained(self, tokens: Tokens, cause: str, rule: str) -> None:
        """An entry has come, or its caches are others than they were."""
        if tokens not in self.keys:
            self.count += 1
            self.keys[tokens] = "entry", -1, self.count
            self.texts[self.keys[tokens]] = tokens
        if self.srv.log.heard(Gained):
            self.srv.emit(Gained(None, self.point(self.keys[tokens]), cause, rule))

    def look_at_lent(self) -> None:
        """Entries on whose caches rows go on are others than they were."""
        for tokens, rule in self.lent.items():
            self._gained(tokens, "overwritten", rule)


@contextmanager
def _deadly(where: str, *kinds: type[Exception]) -> Iterator[None]:
    """What the prompt cache raises here ends the thread."""
    try:
        yield
    except kinds as error:
        name = type(error).__name__
        raise Died(f"{name} in {where}", f"{name}-in-{where}") from error
