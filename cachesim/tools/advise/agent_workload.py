"""Workload for advice to agents: recorded sessions, or the request bodies of a user, on simulated servers."""

from __future__ import annotations

from math import gcd
from pathlib import Path
from typing import TYPE_CHECKING, Callable, NamedTuple, Sequence

from cachesim.base.errors import BadInput, counted
from cachesim.base.progress_bar import progress
from cachesim.base.untrusted_files import kind, path_of
from cachesim.scenarios.load import neighbour
from cachesim.scenarios.schema import Scenario
from cachesim.tools.workload.block_tokens import TEXTLESS, SessionRequest
from cachesim.tools.workload.cell_jobs import played_within
from cachesim.tools.workload.recorded_session import WorkloadSession, merged
from cachesim.tools.workload.shipped_sessions import shipped_sessions
from cachesim.tools.workload.workload_files import find_files, read_session

if TYPE_CHECKING:
    from cachesim.tools.advise.saved_tokens import RepairCase

SCALE = 64                  # most tokens that run as one
UNSHARED = 1 << 40          # answers that a body does not have begin here

Requests = Sequence[SessionRequest]


class AgentWorkload(NamedTuple):
    """Requests of several servers. ``block_size``: tokens that can run as one, 1 = bodies, which are not scaled;
    ``longest``: longest prompt with its answer [tokens]; ``left_out``: sessions that are too long for the model."""

    source: str
    sessions: int
    left_out: int
    longest: int
    block_size: int
    servers: Sequence[WorkloadSession | Requests]           # those with the longest requests come first

    @property
    def name(self) -> tuple[object, ...]:
        """Name of the workload in a process."""
        return self.source, tuple(one.name if isinstance(one, WorkloadSession) else id(one) for one in self.servers)

    def alone(self, server: int) -> AgentWorkload:
        """Return the workload with this server only."""
        return self._replace(servers=[self.servers[server]])

    def requests(self, server: int, scale: int) -> Requests:
        """Return the requests of a server in tokens. Raise BadInput for more tokens than allowed."""
        found = self.servers[server]
        return played_within(found, scale) if isinstance(found, WorkloadSession) else found

    def scale(self, *units: int) -> int:
        """Return how many tokens run as one, a divisor of these units (0 = none)."""
        return gcd(SCALE, self.block_size, *units)


def longest_request(session: WorkloadSession) -> int:
    """Return the tokens of the longest prompt with its answer."""
    return max(one.n_prompt + one.n_answer for one in session.requests)


def recorded_workload(sessions: Sequence[WorkloadSession], source: str, clients: int, most: int) -> AgentWorkload:
    """Return sessions as a workload, ``clients`` on a server. ``most``: longest request [tokens], 0 = any; sessions
    with longer requests are left out. Raise BadInput if none is left."""
    fitting = [one for one in sessions if not most or longest_request(one) <= most]
    if not fitting:
        raise BadInput(f"every session has requests longer than {most:,} tokens", hint="--tokens N allows longer ones")
    if len({one.block_size for one in fitting}) > 1:
        raise BadInput("the sessions have different block sizes")
    servers = [merged(fitting[i : i + clients]) for i in range(0, len(fitting), clients)]
    servers.sort(key=longest_request, reverse=True)
    return AgentWorkload(source, len(fitting), len(sessions) - len(fitting), longest_request(servers[0]),
                         fitting[0].block_size, servers)  # fmt: skip


def bodies_workload(scenario: Scenario, source: str) -> AgentWorkload:
    """Return the requests of a scenario as a workload of one server, in the order in which they were sent."""
    requests, fresh = list[SessionRequest](), UNSHARED
    for step in scenario.steps:
        asked = step.request
        answer = asked.forced or tuple(range(fresh, fresh := fresh + max(1, asked.n_predict)))
        prompt = tuple(token + TEXTLESS for token in asked.prompt)
        requests.append(SessionRequest(prompt, tuple(token + TEXTLESS for token in answer), asked.user_starts,
                                       step.together))  # fmt: skip
    longest = max(len(one.prompt) + len(one.answer) for one in requests)
    return AgentWorkload(source, 1, 0, longest, 1, [requests])


def agent_workload(
    cases: Sequence[str], clients: int, most: int, imported_case: Callable[[str], RepairCase | None]
) -> AgentWorkload:
    """Return the workload that a command line names: the sessions that come with cachesim (no ``cases``), recorded
    sessions of the user, or request bodies. ``clients``: clients of a server; ``most``: tokens of the longest request,
    0 = any; ``imported_case``: reads request bodies, None = the file has none. Raise BadInput."""
    if not cases:
        return recorded_workload(shipped_sessions(), "recorded sessions", clients, most)
    try:
        files = find_files(cases)
        sessions = [*progress(map(read_session, files), len(files), "reading sessions")]
    except BadInput:
        sessions = []
    if sessions:
        return recorded_workload(sessions, f"sessions of {cases[0]}", clients, most)
    if len(cases) > 1:
        raise BadInput("several files of request bodies", hint="name a folder that holds them")
    case = cases[0]
    imported = imported_case(case)
    if imported is None and not kind(case):
        raise BadInput("no such file or directory", file=case, hint=neighbour(path_of(case)))
    if imported is None:
        raise BadInput(f"neither request bodies nor recorded sessions: {Path(case).name}")
    found = bodies_workload(imported.scenario, f"request bodies of {case}")
    if most and found.longest > most:
        raise BadInput(f"a request of {counted(found.longest, 'token')} exceeds {most:,}", hint="--tokens N allows it")
    return found
