"""Recorded sessions: requests in the order in which they were sent, with the blocks of their prompts."""

from __future__ import annotations

from typing import NamedTuple

from cachesim.base.errors import BadInput

Blocks = tuple[int, ...]


class RecordedRequest(NamedTuple):
    """A recorded request. Times in seconds, lengths in tokens."""

    start: float                # sent
    end: float                  # answered
    n_prompt: int
    n_answer: int
    blocks: Blocks              # ids of full blocks; equal ids = equal block after equal past. The tail has no id
    first_user: int = 0         # tokens before the first user message, 0 = unknown
    agent: str = ""             # the sub-agent that sent it, "" = the main conversation


class WorkloadSession(NamedTuple):
    """A recording. ``block_size`` in tokens. ``form``: file format."""

    name: str
    form: str
    block_size: int
    requests: tuple[RecordedRequest, ...]

    @property
    def agents(self) -> int:
        """Number of sub-agents."""
        return len({one.agent for one in self.requests} - {""})


def overlapping(requests: tuple[RecordedRequest, ...]) -> list[bool]:
    """Return for each request whether it overlaps the previous request. Requests overlap only if all of them were in
    progress at the same moment: each was sent before any of them was answered. Other requests wait for all earlier
    answers; durations are not simulated."""
    out, first_over = [], float("-inf")
    for one in requests:
        together = one.start < first_over
        first_over = min(first_over, one.end) if together else one.end
        out.append(together)
    return out


def merged(sessions: list[WorkloadSession]) -> WorkloadSession:
    """Merge sessions that use a server at the same time, sorted by time; each session starts at its own time 0. They
    share no blocks: ids are unique to a session."""
    if len(sessions) == 1:
        return sessions[0]
    size = sessions[0].block_size
    first = 0
    every = list[RecordedRequest]()
    for one in sessions:
        top = max((max(request.blocks, default=0) for request in one.requests), default=0) + 1
        for request in one.requests:
            agent = f"{one.name}/{request.agent}" if request.agent else ""
            every.append(request._replace(blocks=tuple(first + block for block in request.blocks), agent=agent))
        first += top
    every.sort(key=lambda request: request.start)
    return WorkloadSession("+".join(one.name for one in sessions), sessions[0].form, size, tuple(every))


def check_pasts(session: WorkloadSession, file: str) -> None:
    """Raise BadInput unless every id always stands for the same block after the same past, which all inference from ids
    relies on."""
    past: dict[int, int | None] = {}
    for number, one in enumerate(session.requests):
        for before, block in zip((None, *one.blocks), one.blocks, strict=False):
            if past.setdefault(block, before) != before:
                cause = f"request {number}: block {block} follows {before} and, in another prompt, {past[block]}"
                raise BadInput(cause, file=file, hint="equal ids mean equal blocks after equal pasts")
