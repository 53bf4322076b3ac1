"""mlx-lm's LRUPromptCache: lookup of the state that a new prompt starts from, storage of states for later prompts.

``fetch_nearest_cache`` and ``insert_cache`` take the steps of the original in its order. Every decision is a rule of
the table, and every change is an event. Keys are tokens, sizes are bytes.
"""

from __future__ import annotations

import copy
from collections import deque
from typing import Any, Callable, Mapping, NamedTuple, Sequence

from cachesim.base.tokens import Tokens
from cachesim.engines.mlx_lm.caches.cache_list import trim_prompt_cache
from cachesim.engines.mlx_lm.lru.events import (
    CacheEvent,
    Entry,
    Fetched,
    How,
    Inserted,
    Reason,
    Removed,
    Requeued,
    ignore,
)
from cachesim.engines.mlx_lm.lru.prompt_trie import PromptTrie, SearchResult
from cachesim.engines.mlx_lm.lru.rule_table import LRU_HEAD, LruRules
from cachesim.engines.mlx_lm.lru.rules_insert import EvaluatedLength
from cachesim.engines.rule import Decision, rule_id

Item = tuple[Any, Tokens]
"""(model, key)"""


class Queues(dict[str, deque[Item]]):
    """Eviction order: a queue of keys per kind, oldest first. A fetch does not change the order."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Queues:
        """Copy the queues; keys are immutable and shared."""
        return Queues((kind, deque(queue)) for kind, queue in self.items())

    def remove(self, item: Item) -> None:
        """Remove a key from the first queue that holds it."""
        queue = next((queue for queue in self.values() if item in queue), None)
        if queue is not None:
            queue.remove(item)


UNLIMITED = 1 << 63
CHECKPOINT_INTERVAL = 8192           # tokens; only versions with snapshots use it


class FetchResult(NamedTuple):
    """Result of a query: the layers or None, the tokens left to evaluate, and how the entry was found. ``key``: of the
    entry used. ``old_key``: the key to be moved when the finished request is stored."""

    cache: list[Any] | None
    rest: Tokens
    how: How
    decision: Decision
    key: Tokens | None = None
    old_key: Tokens | None = None

    @property
    def kept(self) -> int:
        """Reused tokens, which need no evaluation."""
        return int(self.decision.value)


def total_nbytes(layers: Sequence[Any]) -> int:
    """Return the bytes that the layers allocate."""
    return sum(layer.nbytes for layer in layers)


class LRUPromptCache:
    """Entries by (model, key). ``nbytes_of`` returns the size of an entry, once at insertion; ``on_event`` receives
    every change; ``evaluate`` returns caches that hold a prefix."""

    def __init__(
        self, max_size: int = 10, max_bytes: int = UNLIMITED, *, rules: LruRules = LRU_HEAD,
        nbytes_of: Callable[[Sequence[Any]], int] = total_nbytes, on_event: Callable[[CacheEvent], None] = ignore,
        checkpoint_interval: int = CHECKPOINT_INTERVAL, evaluate: Callable[[Tokens], list[Any]] = list,
    ) -> None:
        self.max_size, self.max_bytes = max_size, max_bytes
        self.rules = rules
        self.checkpoint_interval, self._evaluate = checkpoint_interval, evaluate
        self._nbytes_of = nbytes_of
        self._on_event = on_event
        self._trie: PromptTrie[Entry] = PromptTrie()
        self._queues = Queues((kind, deque()) for kind in rules.kinds)
        self._n_bytes = dict.fromkeys(rules.kinds, 0)

    def __len__(self) -> int:
        return sum(len(queue) for queue in self._queues.values())

    @property
    def nbytes(self) -> int:
        """Bytes of all entries, as counted at insertion."""
        return sum(self._n_bytes.values())

    def items(self) -> list[Item]:
        """Return (model, key) of all entries, by queue and age."""
        return [item for queue in self._queues.values() for item in queue]

    def entries(self) -> dict[Item, Entry]:
        """Return all entries, by queue and age."""
        return {item: self._trie.get(*item) for item in self.items()}

    def entry(self, model: Any, key: Tokens) -> Entry | None:
        """Return the entry under a key, or None."""
        return self._trie.get(model, key) if self._trie.has(model, key) else None

    def queues(self) -> dict[str, tuple[Item, ...]]:
        """Return (model, key) by kind, oldest first."""
        return {kind: tuple(queue) for kind, queue in self._queues.items()}

    def stats_by_type(self) -> dict[str, dict[str, int]]:
        """Return the number of entries and their bytes by kind."""
        return {kind: {"n_sequences": len(queue), "n_bytes": self._n_bytes[kind]}
                for kind, queue in self._queues.items()}

    def fetch_nearest_cache(self, model: Any, tokens: Sequence[int]) -> FetchResult:
        """Return the entry nearest to the query, by the version's rules. Raise KeyError where the original does."""
        query, rules = tuple(tokens), self.rules
        asked = query[: rules.asked(len(query))]
        found = self._trie.search(model, asked)
        if rules.exact(found, len(asked)):
            return self._handed(model, query, key=asked, how="exact", found=found, decider=rules.exact)
        shorter: int = rules.shorter(found)
        refused = rules.shorter if found.at > shorter else rules.longer
        if rules.longer(found, shorter) and found.longer is not None:
            fetch, refused = self._trimmed(model, query, found, found.longer)
            if fetch is not None:
                return fetch
        if shorter:
            return self._handed(model, query, key=query[:shorter], how="shorter", found=found, decider=rules.shorter)
        return self._report(model, FetchResult(None, query, "miss", _decision(refused, 0, found, query)))

    def _handed(
        self, model: Any, query: Tokens, key: Tokens, how: How, found: SearchResult, decider: Callable[..., Any]
    ) -> FetchResult:
        """Hand out the entry under a key that is a prefix of the query."""
        entry = self._trie.get(model, key)
        hand = self.rules.hand_out(how, entry.owners, entry.snapshot)
        layers = copy.deepcopy(entry.layers) if hand.how == "copy" else entry.layers
        if hand.count_down:
            self._trie.add(model, key, entry._replace(owners=entry.owners - 1))
        decision = _decision(decider, len(key), found, query)
        fetch = FetchResult(
            layers, query[len(key) :], how=how, decision=decision, key=key, old_key=key if hand.old_key else None
        )
        self._report(model, fetch)
        if hand.how == "give":
            self._remove((model, key), "consumed", self.rules.hand_out)
        return fetch

    def _trimmed(
        self, model: Any, query: Tokens, found: SearchResult, key: Tokens
    ) -> tuple[FetchResult | None, Callable[..., Any]]:
        """Return a copy of a longer entry, trimmed, and the deciding rule; or None and the rule that refused it."""
        entry, rules = self._trie.get(model, key), self.rules
        if not rules.usable(entry.layers):
            return self._untrimmed(model, query, found, key), rules.usable
        kept: int = rules.keep(found.common, len(query))
        own = rules.trim_in()
        layers = entry.layers if own else copy.deepcopy(entry.layers)
        if not rules.trimmed(trim_prompt_cache(layers, len(key) - kept), len(key) - kept):
            return None, rules.trimmed
        if own and kept < len(key):
            self._remove((model, key), "moved", rules.trim_in)
            key = key[:kept]
            self._put((model, key), layers, entry.kind)
        fetch = FetchResult(
            layers,
            query[kept:],
            how="longer",
            decision=_decision(rules.longer, kept, found, query),
            key=key,
            old_key=key if own else None,
        )
        return self._report(model, fetch), rules.longer

    def _untrimmed(self, model: Any, query: Tokens, found: SearchResult, key: Tokens) -> FetchResult | None:
        """Return a copy of a longer entry that cannot be trimmed, if the version uses it nevertheless."""
        kept: int = self.rules.untrimmable(found.common)
        if not kept:
            return None
        layers, decision = self._trie.get(model, key).layers, _decision(self.rules.untrimmable, kept, found, query)
        return self._report(model, FetchResult(
            copy.deepcopy(layers), query[kept:], how="longer", decision=decision, key=key
        ))

    def _report(self, model: Any, fetch: FetchResult) -> FetchResult:
        query = fetch.kept + len(fetch.rest)
        self._on_event(Fetched(model, query, fetch.how, fetch.kept, fetch.decision.rule, fetch.key))
        return fetch

    def insert_cache(
        self, model: Any, tokens: Sequence[int], prompt_cache: list[Any], *, cache_type: str | None = None,
        boundaries: Sequence[int] = (), old_key: Sequence[int] | None = None,
    ) -> None:
        """Store the layers themselves (no copy) under a key. ``boundaries`` and ``old_key`` are used only by versions
        with snapshots and moves. Raise KeyError or IndexError where the original does."""
        key, rules = tuple(tokens), self.rules
        old = None if old_key is None else tuple(old_key)
        if rules.move(old, key) and old is not None:
            self._remove((model, old), "moved", rules.move)
        self._put((model, key), prompt_cache, rules.kinds[0] if cache_type is None else cache_type)
        for length in rules.prune(prompt_cache, len(key), self._trie.prefixes(model, key)):
            self._remove((model, key[:length]), "prefix", rules.prune)
        for length in rules.snapshots(len(key), boundaries, self.checkpoint_interval):
            self._snapshot((model, key), length, prompt_cache)
        for _ in range(rules.over_count(len(self), self.max_size)):
            self._evict("count")
        while rules.over_bytes(self.nbytes, self.max_bytes, len(self)):
            self._evict("bytes")

    def _put(self, item: Item, layers: list[Any], kind: str) -> None:
        before = self.entry(*item)
        present = self.rules.present()
        if before is None:
            entry = Entry(layers, self._nbytes_of(layers), kind)
        elif present.take_new:
            entry = Entry(layers, self._nbytes_of(layers), kind, before.owners + present.owners)
            self._on_event(Removed(*item, "replaced", before.nbytes, before.kind, rule_id(self.rules.present)))
        else:
            entry = before._replace(kind=kind, owners=before.owners + present.owners)
        if before is not None:
            # The node keeps its place, because the order of siblings decides ties of a search.
            self._queues.remove(item)
            self._n_bytes[before.kind] -= before.nbytes
        self._enqueue(item, entry)
        event = Requeued if before is not None and not present.take_new else Inserted
        self._on_event(event(*item, kind, entry.nbytes))

    def _snapshot(self, item: Item, length: int, layers: list[Any]) -> None:
        """Store a copy under a prefix, trimmed by the version's rule, unless the prefix already has an entry."""
        model, key = item
        if self._trie.has(model, key[:length]):
            return
        twin = (
            self._evaluate(key[:length])
            if isinstance(length, EvaluatedLength)
            else self._copy(len(key), length, layers)
        )
        entry = Entry(twin, self._nbytes_of(twin), self.rules.kinds[0], snapshot=True)
        self._enqueue((model, key[:length]), entry)
        self._on_event(Inserted(model, key[:length], entry.kind, entry.nbytes, snapshot=True))

    def _copy(self, key: int, length: int, layers: list[Any]) -> list[Any]:
        """Return the layers, or a copy of them in which the rule has trimmed some."""
        extra: int | None = self.rules.snapshot_copy(key, length, max((layer.size() for layer in layers), default=0))
        if extra is None:
            return layers
        twin = copy.deepcopy(layers)
        wanted = self.rules.snapshot_trim([layer.is_trimmable() for layer in twin])
        for layer, cut in zip(twin, wanted, strict=True):
            if cut:
                layer.trim(extra)
        return twin

    def _enqueue(self, item: Item, entry: Entry) -> None:
        """Store an entry at the end of its queue. Raise KeyError for a kind that the version does not have."""
        self._queues[entry.kind].append(item)
        self._trie.add(*item, entry)
        self._n_bytes[entry.kind] += entry.nbytes

    def trim_to(self, *, n_sequences: int | None = None, n_bytes: int | None = None) -> None:
        """Evict entries until these limits are met. None = no limit; negative = 0."""
        while n_sequences is not None and len(self) > max(0, n_sequences):
            self._evict("count")
        while n_bytes is not None and self.nbytes > max(0, n_bytes):
            self._evict("bytes")

    def _evict(self, reason: Reason) -> None:
        """Evict the oldest entry of the queue that the rule picks. Raise IndexError if that queue is empty."""
        queues = list(self._queues.values())
        victim = queues[self.rules.victim([len(queue) for queue in queues])].popleft()
        self._gone(victim, reason, self.rules.victim)

    def _remove(self, item: Item, reason: Reason, decider: Callable[..., Any]) -> None:
        self._queues.remove(item)               # first, so that a listener finds trie and queues consistent
        self._gone(item, reason, decider)

    def _gone(self, item: Item, reason: Reason, decider: Callable[..., Any]) -> None:
        entry = self._trie.pop(*item)
        self._n_bytes[entry.kind] -= entry.nbytes
        self._on_event(Removed(*item, reason, entry.nbytes, entry.kind, rule_id(decider)))


def _decision(decider: Callable[..., Any], kept: int, found: SearchResult, query: Tokens) -> Decision:
    because: Mapping[str, Any] = {
        "query": len(query), "common": found.common, "shorter": found.at,
        "longer": None if found.longer is None else len(found.longer),
    }  # fmt: skip
    return Decision(kept, because, rule_id(decider))
