"""The CPU side of offloading: chunks outside the pool, and which of them make room for others.

``python -m tests.peers.vllm_offload`` compares it with the released manager of vLLM. A key is a hash and a group of
layers. Source: vLLM vllm/v1/kv_offload/cpu/manager.py, policies/lru.py, policies/arc.py (0.30.0 to 0.33.0).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import AbstractSet, Callable, Collection, Iterable, Mapping, Sequence

from cachesim.base.errors import Crash
from cachesim.engines.vllm.rules.offload import BY_IDLENESS, BY_REQUEST, BY_STORE, keep_offered

Key = tuple[int, int]
MISS = "miss"
PENDING = "pending"
HIT = "hit"
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

    def mark_evictable(self, key: Key) -> None:
        """Learn that the last transfer of a chunk ended."""

    def mark_non_evictable(self, key: Key) -> None:
        """Learn that a chunk is loaded that no transfer used."""

    def touch(self, keys: Sequence[Key], is_ready: Callable[[Key], bool]) -> None:
        """Count chunks as used. ``is_ready``: tells whether the content of a chunk is there."""

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

    def known(self) -> AbstractSet[Key]:
        """Return the chunks that can leave, now or later."""
        return self.ranks.keys()

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


class StoreOrderLRUCachePolicy(LRUCachePolicy):
    """LRU until 0.32.0: each chunk has a rank of its own from the moment it is stored."""

    def insert(self, key: Key, access: RequestCacheAccess) -> None:
        """Add a chunk."""
        self.ranks[key] = self._next(), 0

    def on_request_access(self, keys: list[Key], access: RequestCacheAccess) -> None:
        """Learn that a running request uses chunks; their ranks stay as they are until it ends."""


class IdleLRUCachePolicy(CachePolicy):
    """LRU of 0.30.0: chunks make room in the order in which the last transfer of each ended, or a request touched
    them. ``idle``: chunks without transfers in this order."""

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self.idle: dict[Key, None] = {}

    def known(self) -> AbstractSet[Key]:
        """Return the chunks that can leave now."""
        return self.idle.keys()

    def insert(self, key: Key, access: RequestCacheAccess) -> None:
        """Add a chunk, which is written."""

    def remove(self, key: Key) -> None:
        """Forget a chunk that was not written."""
        self.idle.pop(key, None)

    def mark_evictable(self, key: Key) -> None:
        self.idle[key] = None

    def mark_non_evictable(self, key: Key) -> None:
        del self.idle[key]

    def touch(self, keys: Sequence[Key], is_ready: Callable[[Key], bool]) -> None:
        for key in reversed(keys):
            if key in self.idle:
                del self.idle[key]
                self.idle[key] = None

    def on_request_finished(self, access: RequestCacheAccess) -> None:
        """Learn that a request ended, which changes no order."""

    def evict(self, n: int, idle: AbstractSet[Key]) -> list[Key]:
        """Remove the ``n`` chunks of these that are idle for the longest time."""
        gone = [key for key in self.idle if key in idle][:n]
        for key in gone:
            del self.idle[key]
        return gone


class ARCCachePolicy(CachePolicy):
    """ARC. ``lists``: chunks used by one request, and by several; ``ghosts``: keys that each lost. A miss of one of
    these moves ``target``, the wanted size of the first list."""

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self.target = 0.0
        self.lists = dict[Key, None](), dict[Key, None]()
        self.ghosts = dict[Key, None](), dict[Key, None]()

    def known(self) -> AbstractSet[Key]:
        """Return the chunks that can leave, now or later."""
        return self.lists[0].keys() | self.lists[1].keys()

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
            if side == 0:
                size -= 1
        for side, key in gone:
            del self.lists[side][key]
            self.ghosts[side][key] = None
        for ghosts in self.ghosts:
            for key in [*ghosts][: max(0, len(ghosts) - self.capacity)]:
                del ghosts[key]
        return [key for _, key in gone]


class TouchedARCCachePolicy(ARCCachePolicy):
    """ARC of 0.30.0: a touch moves a chunk to the second list, or the target."""

    def on_store_miss(self, keys: list[Key]) -> None:
        """Learn that chunks are missing, which changes no target."""

    def on_request_finished(self, access: RequestCacheAccess) -> None:
        """Learn that a request ended, which changes no order."""

    def touch(self, keys: Sequence[Key], is_ready: Callable[[Key], bool]) -> None:
        recent, frequent = self.lists
        for key in reversed(keys):
            if key in recent:
                del recent[key]
                (frequent if is_ready(key) else recent)[key] = None
            elif key in frequent:
                del frequent[key]
                frequent[key] = None
            else:
                super().on_store_miss([key])


LRU, ARC = "lru", "arc"
Policy = LRUCachePolicy | IdleLRUCachePolicy | ARCCachePolicy
POLICIES: Mapping[tuple[str, str], type[LRUCachePolicy] | type[IdleLRUCachePolicy] | type[ARCCachePolicy]] = {
    (LRU, BY_REQUEST): LRUCachePolicy, (LRU, BY_STORE): StoreOrderLRUCachePolicy,
    (LRU, BY_IDLENESS): IdleLRUCachePolicy,
    (ARC, BY_REQUEST): ARCCachePolicy, (ARC, BY_STORE): ARCCachePolicy, (ARC, BY_IDLENESS): TouchedARCCachePolicy,
}  # fmt: skip
"""Policy by its name and the order of a release."""


class CPUOffloadingManager:
    """Chunks in CPU memory: ``places`` and ``users`` by key; the first ``fresh`` places were used. ``threshold``:
    requests that must offer a chunk before it is stored, of at most ``tracked`` keys; ``order``: see
    ``VL-OFF-ORDER``; ``keeps``: see ``VL-OFF-KEPT``."""

    def __init__(self, chunks: int, policy: str = LRU, threshold: int = 1, tracked: int = 64_000,
                 order: str = BY_REQUEST, keeps: Callable[[int, int], bool] = keep_offered) -> None:  # fmt: skip
        self.capacity = chunks
        self.policy_name = policy
        self.order = order
        self.keeps = keeps
        self.threshold = threshold
        self.tracked = tracked
        self.offers: dict[Key, int] = {}
        self.reset_cache()

    def reset_cache(self) -> None:
        """Forget all chunks."""
        self.policy: Policy = POLICIES[self.policy_name, self.order](self.capacity)
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
            if not self.users[key]:
                self.policy.mark_non_evictable(key)
            self.users[key] += 1
        self._record(keys, access)
        access.reused_keys.update(key for key in keys if key not in access.inserted_keys)
        return [self.places[key] for key in keys]

    def complete_load(self, keys: Iterable[Key]) -> None:
        """End a load."""
        for key in keys:
            self.users[key] -= 1
            if not self.users[key]:
                self.policy.mark_evictable(key)

    def touch(self, keys: Sequence[Key]) -> None:
        """Count chunks as used."""
        self.policy.touch(keys, lambda key: self.lookup(key) == HIT)

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
        """Return the number of free places, and the chunks that can leave: unused ones, except the ``kept`` ones
        that the release keeps."""
        idle = {key for key, n in self.users.items() if not n}
        stay = {key for key in kept if self.keeps(self.offers.get(key, 0), self.threshold)}
        return self.capacity - len(self.places), idle - stay

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
                if success:
                    self.policy.mark_evictable(key)
                else:
                    self.policy.remove(key)
                    self._drop(key)

    def check(self) -> None:
        """Raise Crash unless every place belongs to one chunk or is free, and the policy knows the chunks that can
        leave."""
        places = sorted([*self.places.values(), *self.free])
        if places != list(range(self.fresh)) or self.fresh > self.capacity or self.places.keys() != self.users.keys():
            raise Crash(f"places {places} of {self.fresh} hold chunks or are free; {len(self.users)} chunks have users")
        idle = {key for key, n in self.users.items() if not n}
        if not idle <= self.policy.known() <= self.users.keys():
            known = len(self.policy.known())
            raise Crash(f"the policy knows {known} chunks, {len(idle)} of {len(self.users)} are idle")

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
