"""The server's prompt cache. It emits an event for every change; its errors end the generation thread."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Callable, Iterable, Iterator, Sequence

from cachesim.base.tokens import Tokens
from cachesim.engines.base import ImmutableItems
from cachesim.engines.inspection import Key, RestorePoint
from cachesim.engines.mlx_lm import lru
from cachesim.engines.mlx_lm.batch import Row
from cachesim.engines.mlx_lm.events import Died, Inserted, Removed
from cachesim.engines.mlx_lm.forward import forward
from cachesim.engines.mlx_lm.model_layout import declared, make_caches, model_weights
from cachesim.engines.mlx_lm.server_state import Core
from cachesim.engines.point_kinds import CONVERSATION
from cachesim.engines.shared.restore_point_tracker import RestorePointTracker
from cachesim.events import Gained

MODEL = "model"
SIZED = 8                      # looks at an entry whose caches are measured after a request
CAUSES = {"replaced": "overwritten", "prefix": "erased", "moved": "erased", "consumed": "consumed",
          "count": "evicted", "bytes": "evicted"}  # fmt: skip
"""Reason in the prompt cache -> cause in Lost events."""


class PromptCache:
    """The LRUPromptCache of the server's only model."""

    def __init__(self, srv: Core, point: Callable[[Key], RestorePoint]) -> None:
        self.srv, self.point = srv, point
        self.weights = model_weights(srv.kind, srv.draft)
        self.lru = lru.LRUPromptCache(
            srv.settings.max_size, rules=srv.lru_rules, nbytes_of=self._weigh, on_event=self._on_event,
            checkpoint_interval=srv.settings.flags.snapshot_interval, evaluate=self._evaluate,
        )
        self.at: Row | None = None
        self.points = RestorePointTracker(srv.log)
        self.keys: ImmutableItems[Tokens, Key] = ImmutableItems()   # tokens of an entry -> its key
        self.texts: ImmutableItems[Key, Tokens] = ImmutableItems()  # key of an entry -> its tokens
        self.lent: dict[Tokens, str] = {}                            # entries that a row continues -> the deciding rule

    def _weigh(self, layers: Sequence[Any]) -> int:
        return declared(layers, self.weights)

    def _evaluate(self, tokens: Tokens) -> list[Any]:
        """Return new caches of the target that hold these tokens."""
        caches = make_caches(self.srv.kind.spec, self.srv.cache_rules)
        forward(self.srv.machine.model, self.srv.kind.spec, caches, [tokens])
        return caches

    def active_bytes(self, held: Iterable[Sequence[Any]]) -> int:
        """Return the size of the caches in use [bytes]."""
        return sum(self._weigh(caches) for caches in held if caches)

    def fetch(self, row: Row, query: Tokens) -> lru.FetchResult:
        """Look up an entry for a request. Raise Died."""
        self.at = row
        with _ending_thread("fetch_nearest_cache", KeyError, IndexError):
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
        """Store the caches of a request. Raise Died."""
        self.at = row
        self.srv.log.look(SIZED * len(self.lru))
        with _ending_thread("insert_cache", KeyError, IndexError):
            self.lru.insert_cache(MODEL, key, caches, cache_type=cache_type, boundaries=boundaries, old_key=old_key)

    def trim_to(self, n_bytes: int) -> None:
        """Evict entries until at most ``n_bytes`` bytes remain. Raise Died."""
        self.at = None
        with _ending_thread("trim_to", IndexError):
            self.lru.trim_to(n_bytes=n_bytes)

    def _on_event(self, event: Any) -> None:
        slot, task = (None, None) if self.at is None else (self.at.id, self.at.task.id)
        if isinstance(event, lru.Removed):
            self.lent.pop(event.key, None)
        self.report_lent()
        if isinstance(event, lru.Inserted | lru.Requeued):
            if isinstance(event, lru.Inserted):
                self._gained(event.key, "stored", "", slot)
            self.srv.emit(Inserted(slot, task, n_tokens=len(event.key), cache_type=event.kind, nbytes=event.nbytes))
        elif isinstance(event, lru.Removed):
            if event.reason != "replaced":              # the new object takes its place
                gone = self.keys.pop(event.key)
                del self.texts[gone]
                self.points.lose(gone, CAUSES[event.reason], event.rule)
            self.srv.emit(Removed(slot, task, len(event.key), event.reason))

    def _gained(self, tokens: Tokens, cause: str, rule: str, slot: int | None = None) -> None:
        """Report that a row, ``slot``, stored an entry, or the caches of an entry have changed."""
        if tokens not in self.keys:
            self.keys[tokens] = self.points.new_key(CONVERSATION)
            self.texts[self.keys[tokens]] = tokens
        if self.srv.log.listens_to(Gained):
            self.points.hold(self.point(self.keys[tokens]), cause, rule, slot, anew=True)

    def report_lent(self) -> None:
        """Report lent entries as overwritten: a row evaluates on their caches."""
        for tokens, rule in self.lent.items():
            self._gained(tokens, "overwritten", rule)


@contextmanager
def _ending_thread(where: str, *kinds: type[Exception]) -> Iterator[None]:
    """Convert these exceptions of the prompt cache to Died, which ends the thread."""
    try:
        yield
    except kinds as error:
        name = type(error).__name__
        raise Died(f"{name} in {where}", f"{name}-in-{where}") from error
