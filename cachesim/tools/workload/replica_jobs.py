"""Recorded sessions on several servers of one kind, under each policy of a front end."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Sequence

from cachesim.base.console import complain
from cachesim.base.errors import BadInput, Crash
from cachesim.base.pool import KilledItem, finished
from cachesim.base.progress_bar import progress
from cachesim.engines.registry import engine_of
from cachesim.tools.run.replicas.fleet import FleetJob, FleetResult, RequestTimes, one_server, run_fleet
from cachesim.tools.run.replicas.fleet_report import FleetCase
from cachesim.tools.run.work_arguments import ReplicaOptions
from cachesim.tools.workload.block_tokens import follow_ups
from cachesim.tools.workload.cell_jobs import CellJob, model_of, played_within, read_all
from cachesim.tools.workload.recorded_session import RecordedRequest
from cachesim.tools.workload.run_cell import scenario_of
from cachesim.tools.workload.simulated_servers import served

ONE = "round-robin"             # policy in front of one server, which gets every request


class ReplicaJob(NamedTuple):
    """Sessions on ``number`` servers. ``cell``: their job for one server."""

    cell: CellJob
    number: int
    route: str
    speed: int


class ReplicaResult(NamedTuple):
    """What the replicas did. ``is_timed``: the recording has the ends of all answers; ``name``: of the recording."""

    result: FleetResult
    is_timed: bool
    name: str


def replica_result(job: ReplicaJob) -> ReplicaResult | BadInput:
    """Run a job; an error of its files becomes the result."""
    cell = job.cell
    try:
        session = read_all([Path(file) for file in cell.files])
        requests = played_within(session, cell.scale)
        longest = max(one.n_prompt + one.n_answer for one in session.requests)
        server = served(cell.profile, model_of(cell.model), cell.given, longest, cell.scale)
        times = times_of(session.requests)
        result = run_fleet(FleetJob(
            scenario_of(requests, server), server.profile, job.number, job.route, times, speed=job.speed,
            scale=cell.scale, table=server.rules,
        ))  # fmt: skip
        return ReplicaResult(result, all(one.end > one.start for one in times), session.name)
    except BadInput as bad:
        return bad.at(str(Path(cell.files[0])))


def times_of(requests: Sequence[RecordedRequest]) -> list[RequestTimes]:
    """Return the times of each request and its conversation: that of the last request that it continues, else a new
    one."""
    continued: dict[int, int] = {after: at for at, after in enumerate(follow_ups(requests)) if after is not None}
    sessions = list[int]()
    found = []
    for at, one in enumerate(requests):
        sessions.append(sessions[continued[at]] if at in continued else at)
        found.append(RequestTimes(one.start, one.end, sessions[at]))
    return found


class ReplicaCases(NamedTuple):
    """Cases with all results, and why others are missing."""

    cases: Sequence[FleetCase]
    errors: Sequence[BadInput | Crash]


def replica_cases(jobs: Sequence[CellJob], options: ReplicaOptions, processes: int) -> ReplicaCases:
    """Run the sessions of each job under each policy, and on one server with the memory of all."""
    todo = list[ReplicaJob]()
    for job in jobs:
        model = model_of(job.model)
        given = one_server(job.profile, options.number, served(job.profile, model, job.given, room=0).flags)
        todo.append(ReplicaJob(job._replace(given=given), 1, ONE, options.speed))
        todo += [ReplicaJob(job, options.number, route, options.speed) for route in options.routes]
    results: dict[int, ReplicaResult] = {}
    errors = list[BadInput | Crash]()
    runs = finished(replica_result, todo, processes)
    for number, done in progress(((done.number, done) for done in runs), len(todo), "running"):
        if isinstance(done.result, ReplicaResult):
            results[number] = done.result
            continue
        killed = isinstance(done.result, KilledItem)
        error = Crash(f"{done.share.cell.files[0]}: {done.result}") if killed else done.result
        assert isinstance(error, BadInput | Crash)
        if str(error) not in map(str, errors):
            complain(str(error))
            errors.append(error)
    width = 1 + len(options.routes)
    cases = [_case(job, options, [results[number] for number in range(at * width, (at + 1) * width)], todo[at * width])
             for at, job in enumerate(jobs) if all(number in results for number in range(at * width, (at + 1) * width))]
    return ReplicaCases(cases, errors)


def _case(job: CellJob, options: ReplicaOptions, results: Sequence[ReplicaResult], whole: ReplicaJob) -> FleetCase:
    """Return the case of a job. ``results``: those of one server, which ran as ``whole``, and of each policy."""
    return FleetCase(
        name=results[0].name, profile=job.profile, model=job.model, given=job.given, number=options.number,
        scale=job.scale, default=engine_of(job.profile).manual.route,
        speed=0 if results[0].is_timed else options.speed, one=results[0].result, one_given=whole.cell.given,
        routes={route: found.result for route, found in zip(options.routes, results[1:], strict=True)},
    )  # fmt: skip
