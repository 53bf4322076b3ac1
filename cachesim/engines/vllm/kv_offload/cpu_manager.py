"""The CPU side of offloading: chunks outside the pool, and which of them make room for others.

``python -m tests.peers.vllm_offload`` compares it with the released manager of vLLM. A key is a hash and a group of
layers. Source: vLLM vllm/v1/kv_offload/cpu/manager.py, policies/lru.py, policies/arc.py (0.33.0).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import AbstractSet, Collection, Iterable, Mapping, Sequence

Key = tuple[int, int]
MISS, PENDING, HIT = "miss", "pending", "hit"
WRITING = -1                     # users of a chunk whose content is not there yet


@dataclass(slots=True)
class RequestCacheAccess:
    """The chunks of a request. ``positions``: length of the prompt at the end of each, if known; ``seen_keys``: keys in
    the order of their first use; ``store_miss_keys``: those that a policy learned as missing; ``rank``: see
    `LRUCachePolicy`."""

    positions: Mapping[Key, int] = field(default_factory=dict)
    seen_keys: dict[Key, None] = field(default_factory=dict)
    inserted_keys: set[Key] = field(default_factory=set)
    reused_keys: set[Key] = field(default_factory=set)
    store_miss_keys: set[Key] = field(default_factory=set)
    rank: int = 0

    def in_order(self) -> list[Key]:
        """Return the keys in the order of the prompt, by groups if a position is unknown."""
        at = self.positions
        unknown = {group for key in self.seen_keys if key not in at for group in key[1:]}
        keys = sorted(self.seen_keys, key=lambda key: (key[1], 0 if key[1] in unknown else at[key]))
        return keys if unknown else sorted(keys, key=at.__getitem__)


class CachePolicy:
    """Order in which chunks make room. Keys are added, seen missing, used by a request, and given up."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity

    def on_store_miss(self, keys: list[Key]) -> None:
        """Learn that chunks are missing."""

    def on_request_access(self, keys: list[Key], access: RequestCacheAccess) -> None:
        """Learn that a running request uses chunks."""


class LRUCachePolicy(CachePolicy):
    """LRU. Chunks of a running request share its rank, the end of the prompt leaving first; at the end of the request
    each gets a rank of its own."""

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self.ranks: dict[Key, tuple[int, int]] = {}
        self.last = 0

    def _next(self) -> int:
        self.last += 1
        return self.last

    def _rank(self, access: RequestCacheAccess) -> int:
        access.rank = access.rank or self._next()
        return access.rank

    def insert(self, key: Key, access: RequestCacheAccess) -> None:
        """Add a chunk."""
        at = access.positions.get(key)
        self.ranks[key] = (self._next(), 0) if at is None else (self._rank(access), -at)

    def remove(self, key: Key) -> None:
        """Forget a chunk that was not written."""
        del self.ranks[key]

    def on_request_access(self, keys: list[Key], access: RequestCacheAccess) -> None:
        rank = self._rank(access)
        self.ranks |= {key: max(self.ranks[key], (rank, -access.positions[key])) for key in keys
                       if key in access.positions and key in self.ranks}  # fmt: skip

    def on_request_finished(self, access: RequestCacheAccess) -> None:
        """Rank the chunks of a request, its end first."""
        self.ranks |= {key: (self._next(), 0) for key in reversed(access.in_order()) if key in self.ranks}

    def evict(self, n: int, idle: AbstractSet[Key]) -> list[Key]:
        """Remove the ``n`` idle chunks of the lowest rank: those used longest ago."""
        gone = sorted(idle, key=lambda key: (self.ranks[key], key))[:n]
        for key in gone:
            del self.ranks[key]
        return gone


class ARCCachePolicy(CachePolicy):
    """ARC. ``lists``: chunks used by one request, and by several; ``ghosts``: keys that each lost. A miss of one of
    these moves ``target``, the wanted size of the first list."""

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self.target = 0.0
        self.lists = dict[Key, None](), dict[Key, None]()
        self.ghosts = dict[Key, None](), dict[Key, None]()

    def insert(self, key: Key, access: RequestCacheAccess) -> None:
        """Add a chunk, as used by one request."""
        self.lists[0][key] = None
        for ghosts in self.ghosts:
            ghosts.pop(key, None)

    def remove(self, key: Key) -> None:
        """Forget a chunk that was not written."""
        for keys in self.lists:
            keys.pop(key, None)

    def on_store_miss(self, keys: list[Key]) -> None:
        for key in reversed(keys):
            for own, other, sign in ((*self.ghosts, 1), (*self.ghosts[::-1], -1)):
                if key in own:
                    self.target += sign * max(1, len(other) / len(own))
                    self.target = min(max(self.target, 0), self.capacity)
                    own[key] = own.pop(key)
                    break

    def on_request_finished(self, access: RequestCacheAccess) -> None:
        """Order the chunks of a request, its end first; those that it reused move to the second list."""
        recent, frequent = self.lists
        for key in reversed(access.in_order()):
            held = recent if key in recent else frequent
            if key in held and key in access.reused_keys | access.inserted_keys:
                del held[key]
                (frequent if key in access.reused_keys else held)[key] = None

    def evict(self, n: int, idle: AbstractSet[Key]) -> list[Key]:
        """Remove idle chunks, of the first list while it exceeds its target."""
        size = len(self.lists[0])
        gone = list[tuple[int, Key]]()
        left = [[key for key in reversed(keys) if key in idle] for keys in self.lists]
        for _ in range(n):
            first = int(size < int(self.target))
            side = first if left[first] else 1 - first
            gone.append((side, left[side].pop()))
            size -= side == 0
        for side, key in gone:
            del self.lists[side][key]
            self.ghosts[side][key] = None
        for ghosts in self.ghosts:
            for key in [*ghosts][: max(0, len(ghosts) - self.capacity)]:
                del ghosts[key]
        return [key for _, key in gone]


LRU, ARC = "lru", "arc"
POLICIES: Mapping[str, type[LRUCachePolicy] | type[ARCCachePolicy]] = {LRU: LRUCachePolicy, ARC: ARCCachePolicy}


class CPUOffloadingManager:
    """Chunks in CPU memory: ``places`` and ``users`` by key; the first ``fresh`` places were used. ``threshold``:
    requests that must offer a chunk before it is stored, of at most ``tracked`` keys."""

    def __init__(self, chunks: int, policy: str = LRU, threshold: int = 1, tracked: int = 64_000) -> None:
        self.capacity = chunks
        self.policy_name = policy
        self.threshold = threshold
        self.tracked = tracked
        self.offers: dict[Key, int] = {}
        self.reset_cache()

    def reset_cache(self) -> None:
        """Forget all chunks."""
        self.policy = POLICIES[self.policy_name](self.capacity)
        self.places: dict[Key, int] = {}
        self.users: dict[Key, int] = {}
        self.free: list[int] = []
        self.fresh = 0

    def lookup(self, key: Key) -> str:
        """True if a chunk can be loaded: ``MISS``, ``PENDING`` while it is written, or ``HIT``."""
        return MISS if key not in self.users else PENDING if self.users[key] == WRITING else HIT

    def prepare_load(self, keys: Collection[Key], access: RequestCacheAccess) -> list[int]:
        """Begin to load chunks that are there; return their places."""
        for key in keys:
            self.users[key] += 1
        self._record(keys, access)
        access.reused_keys.update(key for key in keys if key not in access.inserted_keys)
        return [self.places[key] for key in keys]

    def complete_load(self, keys: Iterable[Key]) -> None:
        """End a load."""
        for key in keys:
            self.users[key] -= 1

    def offer(self, keys: Collection[Key], access: RequestCacheAccess) -> list[Key]:
        """Learn that a request uses chunks; return those that are missing, and were offered often enough."""
        if self.threshold > 1:
            self._count(keys)
        ready = [key for key in keys if self.lookup(key) == HIT]
        missing = [key for key in keys if key not in self.users
                   and (self.threshold < 2 or self.offers.get(key, 0) >= self.threshold)]  # fmt: skip
        if learned := [key for key in missing if key not in access.store_miss_keys]:
            self.policy.on_store_miss(learned)
            access.store_miss_keys.update(learned)
        wanted = {*missing, *ready}
        self._record([key for key in keys if key in wanted], access)
        access.reused_keys.update(key for key in ready if key not in access.inserted_keys)
        return missing

    def get_room(self, kept: Collection[Key]) -> tuple[int, set[Key]]:
        """Return the number of free places, and the chunks that can leave: unused ones, except ``kept``."""
        return self.capacity - len(self.places), {key for key, n in self.users.items() if not n} - set(kept)

    def prepare_store(self, missing: Sequence[Key], idle: AbstractSet[Key], access: RequestCacheAccess) -> list[Key]:
        """Begin to store missing chunks, for which there is room; return those of the idle ones that were evicted."""
        gone = self.policy.evict(max(0, len(missing) + len(self.places) - self.capacity), idle)
        for key in gone:
            self._drop(key)
        for key in missing:
            self.places[key] = self._place()
            self.users[key] = WRITING
            self.policy.insert(key, access)
        access.inserted_keys.update(missing)
        return gone

    def _place(self) -> int:
        """Return a place: one that was never used, else the one that was given back last."""
        if self.fresh == self.capacity:
            return self.free.pop()
        self.fresh += 1
        return self.fresh - 1

    def _drop(self, key: Key) -> None:
        del self.users[key]
        self.free.append(self.places.pop(key))

    def complete_store(self, keys: Iterable[Key], success: bool) -> None:
        """End a store: the chunks can be loaded, or are forgotten."""
        for key in keys:
            if self.users.get(key) == WRITING:
                self.users[key] = 0
                if not success:
                    self.policy.remove(key)
                    self._drop(key)

    def on_request_finished(self, access: RequestCacheAccess) -> None:
        """End a request."""
        self.policy.on_request_finished(access)

    def _record(self, keys: Iterable[Key], access: RequestCacheAccess) -> None:
        if new := [key for key in keys if key not in access.seen_keys]:
            access.seen_keys |= dict.fromkeys(new)
            self.policy.on_request_access(new, access)

    def _count(self, keys: Collection[Key]) -> None:
        """Count an offer; the keys offered longest ago make room, except those of this offer."""
        known = [key for key in keys if key in self.offers]
        self.offers |= {key: self.offers.pop(key) + 1 for key in known}
        for key in keys:
            if key not in self.offers and len(self.offers) >= self.tracked:
                if (oldest := next(iter(self.offers))) in keys:
                    break
                del self.offers[oldest]
            self.offers.setdefault(key, 1)
