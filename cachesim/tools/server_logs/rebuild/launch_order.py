"""Order in which a server launched requests that were active at the same time, as lines of their batches show it."""

from __future__ import annotations

from typing import Sequence

from cachesim.tools.server_logs.facts.logged_requests import LoggedRequest, overlapping
from cachesim.tools.server_logs.lines.read_lines import ReadLine

MOST_LOOPS = 24              # server loop iterations between two launches that are tried, at most


def in_launch_order(requests: Sequence[LoggedRequest]) -> list[LoggedRequest]:
    """Return requests in the order of their launch. A request whose beginning is not in the log began before those that
    were active with it."""
    return [request for group in overlapping(requests)
            for request in sorted(group, key=lambda one: (one.is_whole, one.lines[0]))]  # fmt: skip


def loops_between(running: Sequence[LoggedRequest], following: LoggedRequest) -> int:
    """Return the iterations of the server loop between the launch of the last of ``running`` and that of the next
    request, as far as lines of batches show them: an iteration prints one for each prompt that it continues."""
    last = running[-1]
    first = last.lines[0] if last.is_whole else 0
    return max(len(_batches(request, first, following.lines[0])) for request in running)


def tried_loops(shown: int, members: Sequence[LoggedRequest]) -> list[int]:
    """Return the numbers of iterations between two launches to try, the most likely first. Without a line for each
    batch, nothing that a log prints depends on them."""
    if not any(_batches(request, 0, request.lines[1]) for request in members):
        return [shown]
    return sorted(range(MOST_LOOPS), key=lambda loops: (abs(loops - shown), loops))


def last_batch(request: LoggedRequest) -> int:
    """Return the number of the last line about a batch of a request, 0 without one."""
    return max((line.number for line in _batches(request, 0, request.lines[1])), default=0)


def _batches(request: LoggedRequest, first: int, end: int) -> list[ReadLine]:
    """Return a request's lines about batches from a line up to another."""
    lines = () if request.tied is None else request.tied.of("batch")
    return [line for line in lines if first <= line.number < end]
