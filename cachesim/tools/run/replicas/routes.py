"""Policies with which a front end chooses the replica of a request. Each request in flight counts, whatever its length,
as in the real front ends."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from typing import Callable, Mapping, NamedTuple, Sequence

from cachesim.base.tokens import Tokens
from cachesim.tools.run.replicas.prefix_tree import PrefixTree

CACHE_THRESHOLD = 0.3           # share of a prompt that must be known
BALANCE_ABS_THRESHOLD = 64      # requests
BALANCE_REL_THRESHOLD = 1.5
WAITING_PENALTY = 6.0           # of a waiting request, times the use of the memory above a half
USE_WITHOUT_PENALTY = 0.5


class Arrival(NamedTuple):
    """A request at the front end. ``session``: number of its conversation."""

    prompt: Tokens
    session: int


class ReplicaStats(NamedTuple):
    """What a replica reports of itself: waiting and running requests, and the used share of its memory."""

    waiting: int
    running: int
    kv_cache_usage: float = 0.0


class Route(ABC):
    """A policy for ``n`` replicas. ``inflight``: requests of each replica without a complete answer."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.inflight = [0] * n

    @abstractmethod
    def choose(self, arrival: Arrival) -> int:
        """Return the replica of a request."""

    def send(self, arrival: Arrival) -> int:
        """Choose the replica of a request and count it as in flight."""
        replica = self.choose(arrival)
        self.inflight[replica] += 1
        return replica

    def finished(self, replica: int) -> None:
        """Note that a replica completed an answer."""
        self.inflight[replica] -= 1

    def report(self, stats: Sequence[ReplicaStats]) -> None:  # noqa: B027  - most policies read no statistics
        """Note what the replicas report of themselves."""


class RoundRobin(Route):
    """One replica after the other. Source: sglang_router 0.3.2 policies/round_robin.rs."""

    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.counter = 0

    def choose(self, arrival: Arrival) -> int:
        """Return the next replica."""
        replica = self.counter % self.n
        self.counter += 1
        return replica


class LeastLoaded(Route):
    """The replica with the lowest score: its requests in flight, or if it is more, those that it reported, with those
    sent since. Waiting requests count more if its memory is used. The search for the lowest score begins one replica
    further with each request. Source: vLLM 0.33.0 vllm/v1/engine/core_client.py
    DPLBAsyncMPClient.get_core_engine_for_request, with one API server."""

    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.start = 0
        self.reported = [ReplicaStats(waiting=0, running=0)] * n

    def choose(self, arrival: Arrival) -> int:
        """Return the replica with the lowest score."""
        order = [(self.start + i) % self.n for i in range(self.n)]
        replica = min(order, key=self._score)
        stats = self.reported[replica]
        self.reported[replica] = stats._replace(waiting=stats.waiting + 1)
        self.start = (self.start + 1) % self.n
        return replica

    def _score(self, replica: int) -> float:
        stats = self.reported[replica]
        score = max(self.inflight[replica], stats.waiting + stats.running)
        pressure = max(0.0, stats.kv_cache_usage - USE_WITHOUT_PENALTY)
        return score + stats.waiting * WAITING_PENALTY * pressure

    def report(self, stats: Sequence[ReplicaStats]) -> None:
        """Replace the statistics."""
        self.reported = list(stats)


class Prefix(Route):
    """The replica to which the longest known prefix of the prompt was sent first, if the prefix is more than a share of
    the prompt; else, or if the loads differ much, the first one with the fewest requests in flight. Source:
    sglang_router 0.3.2 sgl-model-gateway/src/policies/cache_aware.rs select_worker, with characters for tokens."""

    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.tree = PrefixTree()

    def choose(self, arrival: Arrival) -> int:
        """Return the replica of the prefix or the least loaded one, and record the prompt."""
        least = min(range(self.n), key=lambda replica: self.inflight[replica])
        replica = least if self._is_imbalanced() else self._of_prefix(arrival.prompt, least)
        self.tree.insert(arrival.prompt, replica)
        return replica

    def _is_imbalanced(self) -> bool:
        most = max(self.inflight)
        fewest = min(self.inflight)
        return most - fewest > BALANCE_ABS_THRESHOLD and most > fewest * BALANCE_REL_THRESHOLD

    def _of_prefix(self, prompt: Tokens, otherwise: int) -> int:
        found = self.tree.match(prompt)
        is_known = found.tokens / len(prompt) > CACHE_THRESHOLD if prompt else False
        return found.replica if is_known else otherwise


class Session(Route):
    """The replica of the session's first request, which goes to the first one with the fewest sessions. The real policy
    keeps sessions in the same way, and draws the replica of the first request. Source: sglang_router 0.3.2
    policies/manual.rs."""

    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.replica_of: dict[int, int] = {}

    def choose(self, arrival: Arrival) -> int:
        """Return the replica of the session."""
        if arrival.session not in self.replica_of:
            sessions = Counter(self.replica_of.values())
            self.replica_of[arrival.session] = min(range(self.n), key=lambda replica: sessions[replica])
        return self.replica_of[arrival.session]


ROUTES: Mapping[str, Callable[[int], Route]] = {
    "round-robin": RoundRobin, "least-loaded": LeastLoaded, "prefix": Prefix, "session": Session,
}  # fmt: skip
"""Policies by their names."""
