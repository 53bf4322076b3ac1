"""Points of a curve from one run with room for everything, where the policy of the server allows it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Sequence

from cachesim.base.errors import BadInput, Crash
from cachesim.engines.capabilities import RequestSize
from cachesim.engines.registry import engine_of
from cachesim.engines.shared.capacity import StackDistances, StackServer
from cachesim.scenarios.runner import play
from cachesim.tools.workload.block_tokens import SessionRequest
from cachesim.tools.workload.cell_jobs import CellJob, in_recorded_tokens, model_of, played_within, read_all
from cachesim.tools.workload.curve_point import CurveCell
from cachesim.tools.workload.run_cell import CountingObserver, scenario_of
from cachesim.tools.workload.simulated_servers import served

OVERLAPPING = "requests overlap, and running requests hold their blocks"


class StackJob(NamedTuple):
    """Sessions on a server, and the ascending values of an option. ``cell``: the job without this option."""

    cell: CellJob
    values: Sequence[int]


class StackResult(NamedTuple):
    """``cells``: what the server evaluates with each value, None = the value needs a run of its own; ``unlimited``:
    what it evaluates with room for everything; ``obstacle``: why every value needs a run, "" = not all do."""

    cells: Sequence[CurveCell | None]
    unlimited: CurveCell
    obstacle: str


def stack_result(job: StackJob) -> StackResult:
    """Run the sessions with room for everything, and return what the server evaluates with each value. Raise BadInput
    for invalid files or options. Raise Crash if less is evaluated than the lower bound."""
    stack = stack_of(job.cell.profile)
    session = read_all([Path(file) for file in job.cell.files])
    requests = played_within(session, job.cell.scale)
    longest = max(one.n_prompt + one.n_answer for one in session.requests)
    server = served(job.cell.profile, model_of(job.cell.model), job.cell.given, longest, job.cell.scale)
    counter = CountingObserver()
    log = play(scenario_of(requests, server), server.profile, "none", counter, server.rules)
    numbers = in_recorded_tokens(counter.close(), job.cell.scale)
    unlimited = CurveCell.of(numbers)
    asked = StackServer(server.rules, server.model, server.flags, [
        RequestSize(len(one.prompt), len(one.answer)) for one in requests])  # fmt: skip
    obstacle = _obstacle(stack, asked, requests)
    if obstacle:
        return StackResult([None] * len(job.values), unlimited, obstacle)
    least = stack.least(asked)
    larger = [value for value in job.values if value >= least]
    lost = stack.lost_tokens(asked, log.events, larger)
    cells: list[CurveCell | None] = [None] * (len(job.values) - len(larger))
    cells += [unlimited._replace(evaluated=unlimited.evaluated + tokens * job.cell.scale) for tokens in lost]
    if any(cell and cell.evaluated > cell.prompt for cell in cells):
        raise Crash("one run for all sizes evaluates more than all prompts")
    return StackResult(cells, unlimited, "")


def result_or_error(job: StackJob) -> StackResult | BadInput:
    """Return the result of a job; an error of its files becomes the result."""
    try:
        return stack_result(job)
    except BadInput as bad:
        return bad.at(str(Path(job.cell.files[0])))


def stack_of(profile: str) -> StackDistances:
    """Return what one run tells of the server of a rule set, which has such a policy."""
    forms = engine_of(profile).capacity()
    assert forms is not None and forms.stack is not None
    return forms.stack


def _obstacle(stack: StackDistances, server: StackServer, requests: Sequence[SessionRequest]) -> str:
    """Return why every value needs a run of its own, "" = not all do."""
    if any(one.together for one in requests):
        return OVERLAPPING
    return stack.obstacle(server)

