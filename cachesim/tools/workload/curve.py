"""Curves of a workload: what a server evaluates with several values of an option, or with several sessions at a time.

A value has a run of its own, here or on a cluster, unless one run with room for everything tells its numbers
(``stack_jobs``).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping, NamedTuple, Sequence

from cachesim.base.console import complain
from cachesim.base.errors import BadInput, Crash
from cachesim.base.pool import KilledItem, finished
from cachesim.base.progress_bar import progress
from cachesim.engines.capabilities import Option, ServerLoad
from cachesim.engines.registry import engine_of
from cachesim.tools.workload.cell_jobs import CellJob, read_all
from cachesim.tools.workload.curve_axis import (
    SESSIONS,
    CurveAxis,
    CurveRequest,
    largest_load,
    load_of,
    option_axis,
    sessions_axis,
)
from cachesim.tools.workload.curve_memory import ServerMemory, server_memory
from cachesim.tools.workload.curve_point import Curve, CurveCell, CurvePoint
from cachesim.tools.workload.result_store import id_of
from cachesim.tools.workload.stack_jobs import StackJob, StackResult, result_or_error
from cachesim.tools.workload.workload_jobs import Workload, WorkloadTask

Groups = Sequence[tuple[str, ...]]
"""Files of sessions that use a server at the same time, for each server."""


class CurveSetup(NamedTuple):
    """How curves are computed. ``is_direct``: every value has a run of its own; ``on``: address of a cluster, "" = this
    machine."""

    request: CurveRequest
    files: Sequence[str]
    is_direct: bool
    jobs: int
    on: str


class CurvePlan(NamedTuple):
    """A curve before its runs. ``cells``: jobs of the servers of each value; ``stacks``: jobs that tell all values, one
    for each server, () = each value needs its own run, because of ``obstacle``."""

    base: CellJob
    axis: CurveAxis
    memory: ServerMemory
    cells: Sequence[Sequence[CellJob]]
    stacks: Sequence[StackJob]
    obstacle: str


class CurveResults(NamedTuple):
    """Curves, and why some of their points are missing."""

    curves: Sequence[Curve]
    errors: Sequence[BadInput | Crash]


def plan(setup: CurveSetup, jobs: Sequence[CellJob]) -> list[CurvePlan]:
    """Return a plan for each rule set. ``jobs``: those of a workload without a curve. Raise BadInput."""
    profiles = dict.fromkeys(job.profile for job in jobs)
    if setup.request.name == SESSIONS:
        axis = sessions_axis(setup.request, len(setup.files))
        first = [next(job for job in jobs if job.profile == profile) for profile in profiles]
        return [_sessions_plan(job, axis, setup.files) for job in first]
    groups = dict.fromkeys(job.files for job in jobs)
    read = progress((read_all([Path(file) for file in group]) for group in groups), len(groups), "reading sessions")
    load = largest_load([load_of(session) for session in read])
    return [_option_plan(setup, [job for job in jobs if job.profile == profile], load) for profile in profiles]


def _sessions_plan(base: CellJob, axis: CurveAxis, files: Sequence[str]) -> CurvePlan:
    """Return the plan of a curve over the number of sessions at a time."""
    cells = []
    for value in axis.values:
        n = int(value)
        groups = [tuple(files[first : first + n]) for first in range(0, len(files), n)]
        cells.append([base._replace(files=group, bounds=False) for group in groups])
    memory = server_memory(base.profile, base.model, base.given, longest=0)
    return CurvePlan(base, axis, memory, cells, (), obstacle="sessions share a server in a run of their own")


def _option_plan(setup: CurveSetup, jobs: Sequence[CellJob], load: ServerLoad) -> CurvePlan:
    """Return the plan of a curve over values of an option of a rule set."""
    base = jobs[0]
    memory = server_memory(base.profile, base.model, base.given, load.longest)
    axis = option_axis(setup.request, base.profile, base.given, load, memory)
    others = {name: value for name, value in base.given.items() if name != axis.option}
    cells = [[job._replace(given={**others, axis.option: value}, bounds=value == axis.values[-1]) for job in jobs]
             for value in axis.values]  # fmt: skip
    obstacle = _obstacle(setup, base.profile, axis.option)
    numbers = [value for value in axis.values if isinstance(value, int)]
    stacks = [] if obstacle else [StackJob(job._replace(given=others), numbers) for job in jobs]
    return CurvePlan(base, axis, memory, cells, stacks, obstacle)


def _obstacle(setup: CurveSetup, profile: str, option: str) -> str:
    """Return why every value needs a run of its own, as far as it follows from the engine; "" = not all may need
    one."""
    forms = engine_of(profile).capacity()
    if setup.on:
        return "the workers of a cluster run each value"
    if forms is not None and forms.stack is not None and forms.stack.option == option:
        return "--direct" if setup.is_direct else ""
    if forms is not None and any(size.option == option for size in forms.sizes):
        return forms.direct
    return "one run does not tell other values of this option"


def curves(setup: CurveSetup, plans: Sequence[CurvePlan]) -> CurveResults:
    """Run the plans and return their curves; an error is printed at once, and its point is missing."""
    errors = list[BadInput | Crash]()
    told = [_run_stacks(one, setup.jobs, errors) for one in plans]
    left = [(number, at) for number, one in enumerate(plans) for at in range(len(one.axis.values))
            if told[number].cells[at] is None]  # fmt: skip
    jobs = [job for number, at in left for job in plans[number].cells[at]]
    tasks = [WorkloadTask(job, id_of(job) if setup.on else "") for job in jobs]
    workload = Workload(tasks, None, setup.jobs, setup.on)
    workload.play(resume=False)
    lines = iter(range(len(tasks)))
    found: dict[tuple[int, int], list[Mapping[str, Any] | None]] = {}
    for number, at in left:
        found[number, at] = [workload.lines.get(next(lines)) for _ in plans[number].cells[at]]
    made = [_curve(one, told[number], {at: rows for (of, at), rows in found.items() if of == number})
            for number, one in enumerate(plans)]  # fmt: skip
    return CurveResults([one for one in made if one.points], [*errors, *workload.errors])


class ToldPoints(NamedTuple):
    """Points that one run told, None = the value needs its own run; the tokens that are evaluated with room for
    everything, None = unknown; why every value needs a run, "" = not all do."""

    cells: Sequence[CurveCell | None]
    unlimited: int | None
    obstacle: str


def _run_stacks(prepared: CurvePlan, jobs: int, errors: list[BadInput | Crash]) -> ToldPoints:
    """Run the jobs of a plan that tell all values, and sum them over the servers."""
    nothing: list[CurveCell | None] = [None] * len(prepared.axis.values)
    if not prepared.stacks:
        return ToldPoints(nothing, None, prepared.obstacle)
    results: dict[int, StackResult] = {}
    runs = finished(result_or_error, prepared.stacks, jobs)
    numbered = ((done.number, done) for done in runs)
    for _, done in progress(numbered, len(prepared.stacks), "running"):
        if isinstance(done.result, StackResult):
            results[done.number] = done.result
            continue
        error: BadInput | Crash = (Crash(f"{done.share.cell.files[0]}: {done.result.how}, twice (a fault of cachesim)")
                                   if isinstance(done.result, KilledItem) else done.result)  # fmt: skip
        complain(str(error))
        errors.append(error)
    if len(results) < len(prepared.stacks):
        return ToldPoints(nothing, None, "a session could not be run")
    ordered = [results[number] for number in sorted(results)]
    unlimited = sum(result.unlimited.evaluated for result in ordered)
    obstacle = next((result.obstacle for result in ordered if result.obstacle), "")
    columns = zip(*(result.cells for result in ordered), strict=True)
    cells = [None if None in column else CurveCell.summed([cell for cell in column if cell]) for column in columns]
    return ToldPoints(cells, unlimited, obstacle)


def _curve(prepared: CurvePlan, told: ToldPoints, found: Mapping[int, Sequence[Mapping[str, Any] | None]]) -> Curve:
    """Return the curve of a plan. ``found``: lines of the values that had runs of their own, by place; a value with a
    missing line has no point."""
    points = []
    unlimited = told.unlimited
    for at, value in enumerate(prepared.axis.values):
        cell = told.cells[at]
        rows = found.get(at, ())
        if cell is None and None not in rows:
            whole = [row for row in rows if row is not None]
            cell = CurveCell.summed([CurveCell.of(row) for row in whole])
            if unlimited is None and all(row["unlimited"] is not None for row in whole):
                unlimited = sum(row["unlimited"] for row in whole)
        if cell is not None:
            option = prepared.axis.option
            bytes_of = prepared.memory.total(option, value) if option else None
            points.append(CurvePoint(value, cell, bytes_of, from_one_run=told.cells[at] is not None))
    jobs = prepared.cells[0]
    return Curve(
        profile=prepared.base.profile,
        model=prepared.base.model,
        option=prepared.axis.option,
        unit=prepared.axis.unit,
        filled=prepared.axis.filled,
        present=prepared.axis.present,
        given=_others(prepared.base.given, prepared.axis.option),
        scale=prepared.base.scale,
        sessions=sum(len(job.files) for job in jobs),
        servers=len(jobs),
        points=points,
        unlimited=unlimited,
        obstacle=told.obstacle,
    )


def _others(given: Mapping[str, Option], option: str) -> dict[str, Option]:
    """Return the options except the one of the axis."""
    return {name: value for name, value in given.items() if name != option}

