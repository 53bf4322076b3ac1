"""Order of the requests of a log: in which a server launched them, and which follow each other in a slot.

Everything in the reconstruction that depends on earlier or later requests reads it here: the launches of requests
that were active at the same time, assumed lengths, checkpoints from before the log, and user messages at which later
requests of a slot resume.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterator, NamedTuple, Sequence

from cachesim.tools.server_logs.facts.logged_requests import LoggedRequest, overlapping
from cachesim.tools.server_logs.facts.proven_range import ProvenRange

MOST_LOOPS = 24              # server loop iterations between two launches that are tried, at most


class ChainStep(NamedTuple):
    """Request of a chain, seen from an earlier request of its slot.

    ``kept``: tokens at the beginning of the slot that no request before this one evaluated again, from the earlier one
    on; None = all, as far as the log shows.
    """

    logged: LoggedRequest
    kept: int | None

    @property
    def is_resumed_within(self) -> bool:
        """True if the request resumes before the end of what it shares with its slot, which shows a checkpoint."""
        shared, reused = self.logged.range_of("lcp"), self.logged.cache_n
        return shared is not None and reused is not None and 0 < reused < shared.low

    @property
    def is_kept(self) -> bool:
        """True if the requests before it kept all tokens that it reused, so that none of them created its
        checkpoint."""
        return self.kept is None or (self.logged.cache_n is not None and self.logged.cache_n <= self.kept)


@dataclass(frozen=True, slots=True, eq=False)
class ChainedRequest:
    """Request of a log with its neighbours in the chain of its slot. A request whose lines do not name a slot has
    none."""

    logged: LoggedRequest
    before: LoggedRequest | None = None          # the previous request of its slot
    following: ChainedRequest | None = None      # the next request of its slot

    @property
    def held(self) -> ProvenRange | None:
        """Tokens that the previous request left in the slot, None if they are not known."""
        return None if self.before is None else self.before.range_of("end")

    def walk(self) -> Iterator[ChainStep]:
        """Yield this request and the later requests of its slot."""
        kept: int | None = None
        link: ChainedRequest | None = self
        while link is not None:
            yield ChainStep(link.logged, kept)
            reused = link.logged.cache_n
            if reused is not None:
                kept = reused if kept is None else min(kept, reused)
            link = link.following

    def walk_later(self) -> Iterator[ChainStep]:
        """Yield the later requests of its slot, seen from the next one."""
        return iter(()) if self.following is None else self.following.walk()


def chain_requests(requests: Sequence[LoggedRequest]) -> list[ChainedRequest]:
    """Return each request of a log, in their order, with its neighbours in its slot."""
    before: list[LoggedRequest | None] = []
    latest: dict[int, LoggedRequest] = {}
    for request in requests:
        before.append(latest.get(request.slot) if request.is_named else None)
        latest[request.slot] = request
    chain: list[ChainedRequest] = []
    following: dict[int, ChainedRequest] = {}
    for request, previous in zip(reversed(requests), reversed(before), strict=True):
        link = ChainedRequest(request, previous, following.get(request.slot) if request.is_named else None)
        following[request.slot] = link
        chain.append(link)
    return chain[::-1]


def entries_within(request: ChainedRequest) -> list[int]:
    """Return the lengths of stored conversations with which a prompt begins: when a server saves what a slot holds, it
    removes the entries that are a part of it."""
    link = request.following
    while link is not None:
        saved = [] if link.logged.tied is None else link.logged.tied.of_cache("pc_save")
        if saved:
            removed = link.logged.tied.of_cache("pc_obsolete") if link.logged.tied is not None else []
            return [size for line in removed if line.number > saved[0].number and (size := line.number_of("n_tokens"))]
        link = link.following
    return []


def in_launch_order(requests: Sequence[LoggedRequest]) -> list[LoggedRequest]:
    """Return requests in the order of their launch. A request whose beginning is not in the log began before those that
    were active with it."""
    return [request for group in overlapping(requests)
            for request in sorted(group, key=lambda one: (one.is_whole, one.lines[0]))]  # fmt: skip


def loops_between(last: LoggedRequest, following: LoggedRequest) -> int:
    """Return the iterations of the server loop between the arrivals of two requests as their task ids show them, 0
    without ids in this order. A server takes a new id for each request that arrives, and one in each iteration; a
    request that waits for a slot keeps the id of its arrival."""
    if last.task is None or following.task is None:
        return 0
    return max(0, following.task - last.task - 1)


def tried_loops(shown: int, members: Sequence[LoggedRequest]) -> list[int]:
    """Return the numbers of iterations between two arrivals to try, the most likely first. Without a line for each
    batch, nothing that a log prints depends on them."""
    if not any(map(last_batch, members)):
        return [shown]
    least = max(0, shown - MOST_LOOPS // 2)
    return sorted(range(least, least + MOST_LOOPS), key=lambda loops: (abs(loops - shown), loops))


def last_batch(request: LoggedRequest) -> int:
    """Return the number of the last line about a batch of a request, 0 without one."""
    lines = () if request.tied is None else request.tied.of("batch")
    return max((line.number for line in lines if line.number < request.lines[1]), default=0)
