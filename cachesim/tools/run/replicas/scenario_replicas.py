"""Scenarios on several servers of one kind, for ``run --replicas``."""

from __future__ import annotations

from dataclasses import replace
from typing import Sequence

from cachesim.base.progress_bar import progress
from cachesim.base.tokens import Tokens
from cachesim.engines.registry import engine_of
from cachesim.scenarios.runner import groups
from cachesim.scenarios.schema import Scenario
from cachesim.tools.run.replicas.fleet import FleetJob, FleetResult, RequestTimes, one_server, run_fleet
from cachesim.tools.run.replicas.fleet_report import FleetCase
from cachesim.tools.run.run_jobs import RunJob
from cachesim.tools.run.work_arguments import ReplicaOptions

ONE = "round-robin"             # policy in front of one server, which gets every request
ANSWERED = 0.5                  # seconds until the requests of a group are answered; the next group follows after 1


def scenario_cases(jobs: Sequence[RunJob], options: ReplicaOptions) -> list[FleetCase]:
    """Run each scenario under each policy, and on one server with the memory of all. Raise BadInput."""
    return [case for _, case in progress(
        ((number, scenario_case(job, options)) for number, job in enumerate(jobs)), len(jobs), "running")]


def scenario_case(job: RunJob, options: ReplicaOptions) -> FleetCase:
    """Run a scenario under each policy, and on one server with the memory of all. Raise BadInput."""
    scenario = job.scenario
    times = times_of(scenario)
    given = one_server(job.profile, options.number, scenario.server)

    def result(case: Scenario, number: int, route: str) -> FleetResult:
        """Run the scenario on some servers."""
        return run_fleet(FleetJob(case, job.profile, number, route, times))

    one = result(replace(scenario, server=given), 1, ONE)
    return FleetCase(
        name=scenario.id, profile=job.profile, model=scenario.model, given=scenario.server, number=options.number,
        scale=1, default=engine_of(job.profile).manual.route, speed=0, one=one, one_given=given,
        routes={route: result(scenario, options.number, route) for route in options.routes},
    )  # fmt: skip


def times_of(scenario: Scenario) -> list[RequestTimes]:
    """Return times that leave the order of the steps: requests that are sent together are in flight at the same
    time."""
    sessions = sessions_of([step.request.prompt if step.action is None else () for step in scenario.steps])
    return [RequestTimes(float(first), first + ANSWERED, sessions[number])
            for first, group in groups(scenario.steps) for number in range(first, first + len(group))]  # fmt: skip


def sessions_of(prompts: Sequence[Tokens]) -> list[int]:
    """Return the conversation of each prompt: that of the longest earlier prompt with which it begins, else a new
    one."""
    known: dict[int, dict[Tokens, int]] = {}                # by length
    found = list[int]()
    for number, prompt in enumerate(prompts):
        lengths = sorted((n for n in known if n <= len(prompt)), reverse=True)
        session = next((known[n][prompt[:n]] for n in lengths if prompt[:n] in known[n]), number)
        known.setdefault(len(prompt), {})[prompt] = session
        found.append(session)
    return found

