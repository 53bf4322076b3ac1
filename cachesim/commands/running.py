"""Running scenarios for a command: one job per scenario and profile, in this process or in several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterable, Iterator, NamedTuple

from cachesim.commands import exits

if TYPE_CHECKING:
    from cachesim.scenarios.schema import Scenario


class Job(NamedTuple):
    """A scenario under a profile."""

    scenario: Scenario
    profile: str
    mode: str


def run_job(job: Job) -> dict[str, Any]:
    """Run and judge one job; the result as plain data."""
    from cachesim.judge.run import run_judged
    from cachesim.reports.run_data import run_data

    return run_data(run_judged(job.scenario, job.profile, job.mode))


def run_jobs(jobs: list[Job], processes: int) -> Iterator[dict[str, Any]]:
    """The results in the order of the jobs."""
    if processes < 2 or len(jobs) < 2:
        yield from map(run_job, jobs)
        return
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(run_job, jobs, chunksize=1)


def answers_code(answers: Iterable[tuple[bool | None, bool]]) -> int:
    """1 an answer is wrong, 3 one is undecided, else 0. Pairs: equal to a cold run? (None = undecided), and does the
    file expect it to be refused?"""
    found = list(answers)
    if any(equal is False for equal, _ in found):
        return exits.BROKEN
    return exits.UNDECIDED if any(equal is None and not told for equal, told in found) else exits.HOLDS


def exit_code(runs: Iterable[dict[str, Any]], as_expected: bool = False) -> int:
    """0 all is good, 1 something is broken or not as its file says, 3 something is undecided; see ``outcome``."""
    from cachesim.judge.outcome import outcome

    code = exits.HOLDS
    for run in runs:
        good = outcome(run, as_expected)
        if good is False:
            return exits.BROKEN
        if good is None:
            code = exits.UNDECIDED
    return code
