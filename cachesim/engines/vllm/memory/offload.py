"""The CPU side of offloading: chunks outside the pool, and which of them make room for others.

No server uses it yet: one with a connector is refused. A key is a hash and a group of layers. Source: vLLM
vllm/v1/kv_offload/cpu/manager.py, policies/lru.py, policies/arc.py (0.33.0).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Collection, Iterable, Mapping

Key = tuple[int, int]
MISS, PENDING, HIT = "miss", "pending", "hit"
WRITING = -1                     # users of a chunk whose content is not there yet


@dataclass(slots=True)
class Chunk:
    """A chunk in CPU memory: its place, and the loads that read it now."""

    place: int
    users: int = WRITING


@dataclass(slots=True)
class Access:
    """The chunks of a request. ``positions``: length of the prompt at the end of each, if known; ``seen``: keys in
    the order of their first use; ``missed``: those that a policy learned as missing."""

    positions: Mapping[Key, int] = field(default_factory=dict)
    seen: dict[Key, None] = field(default_factory=dict)
    inserted: set[Key] = field(default_factory=set)
    reused: set[Key] = field(default_factory=set)
    missed: set[Key] = field(default_factory=set)
    rank: int = 0

    def in_order(self) -> list[Key]:
        """Return the keys from the start of the prompt to its end, the groups one after the other if a position is
        unknown."""
        at = self.positions
        groups: dict[int, list[Key]] = {}
        for key in self.seen:
            groups.setdefault(key[1], []).append(key)
        parts = [groups[group] for group in sorted(groups)]
        parts = [sorted(part, key=at.__getitem__) if all(key in at for key in part) else part for part in parts]
        keys = [key for part in parts for key in part]
        return sorted(keys, key=at.__getitem__) if all(key in at for key in keys) else keys


class Oldest:
    """LRU. Chunks of a running request share its rank, the end of the prompt leaving first; at the end of the request
    each gets a rank of its own."""

    def __init__(self, capacity: int) -> None:
        self.chunks, self.ranks, self.last = dict[Key, Chunk](), dict[Key, tuple[int, int]](), 0

    def _next(self) -> int:
        self.last += 1
        return self.last

    def _rank(self, access: Access) -> int:
        access.rank = access.rank or self._next()
        return access.rank

    def get(self, key: Key) -> Chunk | None:
        """Return a chunk."""
        return self.chunks.get(key)

    def insert(self, key: Key, chunk: Chunk, access: Access) -> None:
        """Add a chunk."""
        at = access.positions.get(key)
        self.chunks[key] = chunk
        self.ranks[key] = (self._next(), 0) if at is None else (self._rank(access), -at)

    def remove(self, key: Key) -> None:
        """Forget a chunk that was not written."""
        del self.chunks[key], self.ranks[key]

    def missed(self, keys: list[Key]) -> None:
        """Learn nothing from a missing chunk."""

    def accessed(self, keys: list[Key], access: Access) -> None:
        """Raise the chunks to the rank of the request."""
        rank = self._rank(access)
        for key in keys:
            if key in access.positions and key in self.chunks:
                self.ranks[key] = max(self.ranks[key], (rank, -access.positions[key]))

    def finished(self, access: Access) -> None:
        """Rank the chunks of a request, its end first."""
        self.ranks |= {key: (self._next(), 0) for key in reversed(access.in_order()) if key in self.chunks}

    def evict(self, n: int, kept: Collection[Key]) -> list[tuple[Key, Chunk]] | None:
        """Remove the unused chunks of the lowest rank; None = there are too few."""
        idle = sorted((self.ranks[key], key) for key, chunk in self.chunks.items()
                      if not chunk.users and key not in kept)  # fmt: skip
        if len(idle) < n:
            return None
        gone = [(key, self.chunks[key]) for _, key in idle[:n]]
        for key, _ in gone:
            self.remove(key)
        return gone


class Adaptive:
    """ARC. ``recent`` was used by one request, ``frequent`` by several; ``ghosts`` are keys that each lost, and a miss
    of one moves ``target``, the wanted size of ``recent``."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self.target = capacity, 0.0
        self.lists: tuple[dict[Key, Chunk], dict[Key, Chunk]] = {}, {}
        self.ghosts: tuple[dict[Key, None], dict[Key, None]] = {}, {}

    def get(self, key: Key) -> Chunk | None:
        """Return a chunk."""
        recent, frequent = self.lists
        return recent.get(key) or frequent.get(key)

    def insert(self, key: Key, chunk: Chunk, access: Access) -> None:
        """Add a chunk to the recent ones."""
        self.lists[0][key] = chunk
        for ghosts in self.ghosts:
            ghosts.pop(key, None)

    def remove(self, key: Key) -> None:
        """Forget a chunk that was not written."""
        for chunks in self.lists:
            chunks.pop(key, None)

    def missed(self, keys: list[Key]) -> None:
        """Move the target towards the list that lost a key."""
        for key in reversed(keys):
            for own, other, sign in ((*self.ghosts, 1), (*self.ghosts[::-1], -1)):
                if key in own:
                    self.target += sign * max(1, len(other) / len(own))
                    self.target = min(max(self.target, 0), self.capacity)
                    own[key] = own.pop(key)
                    break

    def accessed(self, keys: list[Key], access: Access) -> None:
        """Wait for the end of the request."""

    def finished(self, access: Access) -> None:
        """Order the chunks of a request, its end first; those that it reused become frequent."""
        recent, frequent = self.lists
        for key in reversed(access.in_order()):
            reused = key in access.reused
            if not reused and key not in access.inserted:
                continue
            if key in recent:
                (frequent if reused else recent)[key] = recent.pop(key)
            elif key in frequent:
                frequent[key] = frequent.pop(key)

    def evict(self, n: int, kept: Collection[Key]) -> list[tuple[Key, Chunk]] | None:
        """Remove unused chunks, the recent ones while they exceed their target; None = there are too few."""
        size, gone = len(self.lists[0]), list[tuple[int, Key]]()
        idle = [[key for key, chunk in reversed(chunks.items()) if not chunk.users and key not in kept]
                for chunks in self.lists]  # fmt: skip
        for _ in range(n):
            first = 0 if size >= int(self.target) else 1
            side = first if idle[first] else 1 - first
            if not idle[side]:
                return None
            gone.append((side, idle[side].pop()))
            size -= side == 0
        found = [(key, self.lists[side].pop(key)) for side, key in gone]
        for side, key in gone:
            self.ghosts[side][key] = None
        for ghosts in self.ghosts:
            for key in [*ghosts][: max(0, len(ghosts) - self.capacity)]:
                del ghosts[key]
        return found


POLICIES: Mapping[str, type[Oldest] | type[Adaptive]] = {"lru": Oldest, "arc": Adaptive}


class Offload:
    """Chunks in CPU memory. ``threshold``: requests that must offer a chunk before it is stored, of at most
    ``tracked`` keys."""

    def __init__(self, chunks: int, policy: str = "lru", threshold: int = 1, tracked: int = 64_000) -> None:
        self.capacity, self.policy_name, self.threshold, self.tracked = chunks, policy, threshold, tracked
        self.offers: dict[Key, int] = {}
        self.reset()

    def reset(self) -> None:
        """Forget all chunks."""
        self.policy: Oldest | Adaptive = POLICIES[self.policy_name](self.capacity)
        self.fresh, self.free = 0, list[int]()

    def look_up(self, key: Key) -> str:
        """Return whether a chunk can be loaded: ``MISS``, ``PENDING`` while it is written, or ``HIT``."""
        chunk = self.policy.get(key)
        return MISS if chunk is None else PENDING if chunk.users == WRITING else HIT

    def load(self, keys: Collection[Key], access: Access) -> list[int]:
        """Begin to load chunks that are there; return their places."""
        chunks = [self._chunk(key) for key in keys]
        for chunk in chunks:
            chunk.users += 1
        self._record(keys, access)
        access.reused.update(key for key in keys if key not in access.inserted)
        return [chunk.place for chunk in chunks]

    def loaded(self, keys: Iterable[Key]) -> None:
        """End a load."""
        for key in keys:
            self._chunk(key).users -= 1

    def _chunk(self, key: Key) -> Chunk:
        chunk = self.policy.get(key)
        assert chunk is not None
        return chunk

    def store(self, keys: Collection[Key], access: Access) -> tuple[list[Key], list[int], list[Key]] | None:
        """Begin to store the offered chunks that are missing, all or none; return their keys, their places, and the
        evicted keys, None = no room."""
        if self.threshold > 1:
            self._count(keys)
        missing = [key for key in keys if self.look_up(key) == MISS
                   and (self.threshold < 2 or self.offers.get(key, 0) >= self.threshold)]  # fmt: skip
        ready = [key for key in keys if self.look_up(key) == HIT]
        if learned := [key for key in missing if key not in access.missed]:
            self.policy.missed(learned)
            access.missed.update(learned)
        wanted = {*missing, *ready}
        self._record([key for key in keys if key in wanted], access)
        access.reused.update(key for key in ready if key not in access.inserted)
        gone: list[tuple[Key, Chunk]] | None = []
        if (short := len(missing) - len(self.free) - self.capacity + self.fresh) > 0:
            gone = self.policy.evict(short, set(keys))
        if gone is None:
            return None
        self.free += [chunk.place for _, chunk in gone]
        places = [self._place() for _ in missing]
        for key, place in zip(missing, places, strict=True):
            self.policy.insert(key, Chunk(place), access)
        access.inserted.update(missing)
        return missing, places, [key for key, _ in gone]

    def _place(self) -> int:
        if self.fresh == self.capacity:
            return self.free.pop()
        self.fresh += 1
        return self.fresh - 1

    def stored(self, keys: Iterable[Key], success: bool) -> None:
        """End a store: the chunks can be loaded, or are forgotten."""
        for key in keys:
            chunk = self.policy.get(key)
            if chunk is not None and chunk.users == WRITING:
                if success:
                    chunk.users = 0
                else:
                    self.policy.remove(key)
                    self.free.append(chunk.place)

    def finish(self, access: Access) -> None:
        """End a request."""
        self.policy.finished(access)

    def _record(self, keys: Iterable[Key], access: Access) -> None:
        if new := [key for key in keys if key not in access.seen]:
            access.seen |= dict.fromkeys(new)
            self.policy.accessed(new, access)

    def _count(self, keys: Collection[Key]) -> None:
        """Count an offer; the keys offered longest ago make room, except those of this offer."""
        known = [key for key in keys if key in self.offers]
        for key in known:
            self.offers[key] = self.offers.pop(key) + 1
        others = len(self.offers) - len(set(known))
        for key in keys:
            if key in self.offers:
                continue
            if len(self.offers) >= self.tracked:
                if not others:
                    continue
                del self.offers[next(iter(self.offers))]
                others -= 1
            self.offers[key] = 1
