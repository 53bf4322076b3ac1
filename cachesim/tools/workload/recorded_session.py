"""What is a recorded session? Requests in the order in which they were sent, with the blocks of their prompts."""

from __future__ import annotations

from typing import NamedTuple

from cachesim.base.errors import BadInput

Blocks = tuple[int, ...]


class RecordedRequest(NamedTuple):
    """One request: sent at ``start``, answered at ``end`` (seconds), a prompt of ``n_prompt`` tokens and an answer of
    ``n_answer``. ``blocks``: an id for each block of the prompt, equal ids = equal block after equal past; what is
    left of the prompt behind them has none. ``first_user``: tokens before the first message of the user, 0 = not
    known. ``agent``: whose request it is, "" = the main conversation's."""

    start: float
    end: float
    n_prompt: int
    n_answer: int
    blocks: Blocks
    first_user: int = 0
    agent: str = ""


class WorkloadSession(NamedTuple):
    """One recording. ``block_size`` in tokens; ``form``: how the file was written."""

    name: str
    form: str
    block_size: int
    requests: tuple[RecordedRequest, ...]

    @property
    def agents(self) -> int:
        """How many sub-agents there are."""
        return len({one.agent for one in self.requests} - {""})


def overlapping(requests: tuple[RecordedRequest, ...]) -> list[bool]:
    """Of each request: is it at work together with the one before it? It is, if it was sent before any of those that
    are at work together was answered; all of them were at work at that moment. Everyone else waits until all are
    answered: no durations are simulated, so that more than this cannot be said."""
    out, first_over = [], float("-inf")
    for one in requests:
        together = one.start < first_over
        first_over = min(first_over, one.end) if together else one.end
        out.append(together)
    return out


def merged(sessions: list[WorkloadSession]) -> WorkloadSession:
    """Several sessions that use one server at the same time, in the order of their times, each from its own 0. They
    share no block: ids are a session's own."""
    if len(sessions) == 1:
        return sessions[0]
    size, first, every = sessions[0].block_size, 0, list[RecordedRequest]()
    for one in sessions:
        top = max((max(request.blocks, default=0) for request in one.requests), default=0) + 1
        for request in one.requests:
            agent = f"{one.name}/{request.agent}" if request.agent else ""
            every.append(request._replace(blocks=tuple(first + block for block in request.blocks), agent=agent))
        first += top
    every.sort(key=lambda request: request.start)
    return WorkloadSession("+".join(one.name for one in sessions), sessions[0].form, size, tuple(every))


def check_pasts(session: WorkloadSession, file: str) -> None:
    """Raise BadInput unless every id stands for one block after one past: all that is read from ids rests on that."""
    past: dict[int, int | None] = {}
    for number, one in enumerate(session.requests):
        for before, block in zip((None, *one.blocks), one.blocks, strict=False):
            if past.setdefault(block, before) != before:
                cause = f"request {number}: block {block} stands behind {before} and, in another prompt, {past[block]}"
                raise BadInput(cause, file=file, hint="equal ids mean equal blocks after equal pasts")
