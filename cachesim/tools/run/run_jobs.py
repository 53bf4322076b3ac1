"""Run jobs of commands: a job per scenario and profile, in this process, in several, or on a cluster.

If a job fails, its error is printed in a line and the other jobs still run.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, NamedTuple, Sequence, TypeVar

from cachesim.base import exits
from cachesim.base.console import complain, note
from cachesim.base.errors import BadInput, quoted
from cachesim.base.pool import CompletedItem, KilledItem, finished_in_order
from cachesim.base.progress_bar import LateBar, progress
from cachesim.judging.verdict_words import exit_code_of

if TYPE_CHECKING:
    from cachesim.scenarios.runner import SilentObserver
    from cachesim.scenarios.schema import Scenario
    from cachesim.tools.picture.picture_recorder import PictureRecorder
    from cachesim.tools.run.kv_event_recorder import EventRecorder


S = TypeVar("S")
R = TypeVar("R")


class RunJob(NamedTuple):
    """A scenario to run under a profile. ``mode``: "exact" or "provenance". ``recorder``: observer of the run for its
    picture, ``event_recorder``: for its KV events; a job with a recorder runs in this process. ``steps``: the data have
    the steps of the scheduler, too."""

    scenario: Scenario
    profile: str
    mode: str
    recorder: PictureRecorder | None = None
    steps: bool = False
    event_recorder: EventRecorder | None = None

    def watcher(self) -> SilentObserver | None:
        """Return the observer that calls the recorders, None without one."""
        if self.event_recorder is None:
            return self.recorder
        from cachesim.scenarios.runner import Observers

        return Observers.of(self.event_recorder, self.recorder)

    def __str__(self) -> str:
        return f"{self.scenario.file or self.scenario.id} under {self.profile}"


class JobFailure(NamedTuple):
    """Result of a job that failed: an exit code and a message of a line."""

    code: int
    why: str


def run_job(job: RunJob) -> dict[str, Any]:
    """Run and judge a job; return the result as plain data. A run that exceeds a limit contains the requests before
    it."""
    from cachesim.judging.judged_run import RunCutOff, run_judged
    from cachesim.judging.run_data import run_data

    if job.steps:
        return _run_with_steps(job)
    try:
        return run_data(run_judged(job.scenario, job.profile, job.mode, watcher=job.watcher()))
    except RunCutOff as cut_off:
        return run_data(cut_off.run)


def _run_with_steps(job: RunJob) -> dict[str, Any]:
    """Run and judge a job; return the result with the steps of the scheduler."""
    from cachesim.judging.judged_run import RunCutOff, run_judged
    from cachesim.judging.run_data import run_data
    from cachesim.judging.schedule_data import ScheduleRecorder, schedule_data
    from cachesim.scenarios.runner import Observers

    recorder = ScheduleRecorder()
    try:
        run = run_judged(job.scenario, job.profile, job.mode, watcher=Observers.of(recorder, job.watcher()))
    except RunCutOff as cut_off:
        run = cut_off.run
    return {**run_data(run), "steps": schedule_data(run.log.events, recorder)}


def result_or_failure(function: Callable[[S], R], share: S, name: str) -> R | JobFailure:
    """Return ``function(share)``, or a JobFailure if it raises. ``name``: the share in the message."""
    try:
        return function(share)
    except BadInput as bad:
        return JobFailure(exits.BAD_INPUT, str(bad.at(name)))
    except Exception as error:
        if (wrong := rule_file_error(error)) is not None:
            return JobFailure(exits.BAD_INPUT, f"{wrong} ({name})")
        return JobFailure(exits.CRASH, f"{name}: {type(error).__name__}: {error} (a fault of cachesim)")


def run_one(job: RunJob) -> dict[str, Any] | JobFailure:
    """Run a job of several: return a JobFailure where ``run_job`` raises."""
    return result_or_failure(run_job, job, str(job))


def run_jobs(jobs: Sequence[RunJob], processes: int) -> Iterator[tuple[int, dict[str, Any] | JobFailure]]:
    """Yield the number of each job and its result, in the order of the jobs. A single job may raise."""
    if len(jobs) == 1:
        with LateBar("running the scenario"):
            result = run_job(jobs[0])
        yield 0, result
        return
    if any(job.recorder is not None for job in jobs):
        processes = 1
    for done in progress(finished_in_order(run_one, jobs, processes), len(jobs), "running scenarios"):
        if isinstance(done.result, KilledItem):
            yield done.number, JobFailure(exits.CRASH, f"{done.share}: {done.result.how}, twice")
        else:
            yield done.number, done.result


def run_each(
    shares: Sequence[S], function: Callable[[S], R], name: Callable[[S], str], label: str = "running"
) -> tuple[list[R], list[int]]:
    """Call ``function`` with each share in this process. Return the results, and the exit codes of failed shares, whose
    errors are printed. A single share may raise. ``name``: a share in messages; ``label``: text of the progress bar,
    "" = no bar."""
    if len(shares) == 1:
        with LateBar(label) if label else nullcontext():
            return [function(shares[0])], []
    found: list[R] = []
    codes: list[int] = []
    for share in progress(shares, len(shares), label) if label else shares:
        result = result_or_failure(function, share, name(share))
        if isinstance(result, JobFailure):
            complain(result.why)
            codes.append(result.code)
        else:
            found.append(result)
    return found, codes


def answers_code(answers: Iterable[tuple[bool | None, bool]]) -> int:
    """Return exit code 1 if an answer is wrong, 3 if an answer is undecided, else 0. ``answers``: pairs of "equal to a
    cold run" (None = undecided) and "the file expects a refusal"."""
    return exits.worst(exit_code_of(True if equal is None and expected else equal) for equal, expected in answers)


def exit_code(runs: Iterable[dict[str, Any]], as_expected: bool) -> int:
    """Return exit code 0 if every run is correct, 1 if a run is wrong or differs from its file, 3 if a run is
    undecided; see ``judging.verdict.outcome``."""
    from cachesim.judging.verdict import outcome

    return exits.worst(exit_code_of(outcome(run, as_expected)) for run in runs)


def rule_file_error(error: BaseException) -> BadInput | None:
    """Return the error to report if a rule from a user's file raised ``error``, else None."""
    if "cachesim.engines.rule_files" not in sys.modules:         # the user gave no such file
        return None
    from cachesim.engines.rule_files import locate_fault

    return locate_fault(error)


# --- The option ``--on dask://HOST:PORT`` --------------------------------------------------------------------

def check_cluster_profiles(address: str | None, profiles: Iterable[str]) -> None:
    """Raise BadInput if a profile comes from a file of rules and the work runs on a cluster, which lacks that file.
    ``address``: None = no cluster."""
    from cachesim.engines.rule_files import rule_file_digest

    if address and any(rule_file_digest(name) for name in profiles if name):
        raise BadInput(f"--on {quoted(address)}: workers cannot use rules from a local file",
                       hint="install them on each worker as a package with entry point cachesim.profiles")  # fmt: skip


def run_on_cluster(
    address: str, function: str, payloads: Iterable[str], left: Callable[[], float | None] = lambda: None
) -> Iterator[CompletedItem[str, str]]:
    """Yield the results of JSON payloads from the workers of a cluster, in order of completion; see ``Cluster.each``.
    Raise BadInput if the cluster cannot be reached."""
    from cachesim.base.cluster import Cluster

    with Cluster(address) as cluster:
        if not cluster.threads():
            note(f"{address} has no workers yet: waiting for one")
        yield from cluster.each(function, payloads, left)
