"""Running scenarios for a command: one job per scenario and profile, in this process or in several.

What goes wrong with one of several jobs is told in a line, and the others are done.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, NamedTuple, Sequence, TypeVar

from cachesim.base import exits
from cachesim.base.console import complain, note, progress
from cachesim.base.errors import BadInput, quoted
from cachesim.base.pool import Done, Unfinished, finished

if TYPE_CHECKING:
    from cachesim.scenarios.schema import Scenario


S = TypeVar("S")
R = TypeVar("R")


class RunJob(NamedTuple):
    """A scenario under a profile."""

    scenario: Scenario
    profile: str
    mode: str

    def __str__(self) -> str:
        return f"{self.scenario.file or self.scenario.id} under {self.profile}"


class JobFailure(NamedTuple):
    """Instead of a result: the exit code and one line."""

    code: int
    why: str


def run_job(job: RunJob) -> dict[str, Any]:
    """Run and judge one job; the result as plain data."""
    from cachesim.judging.judged_run import run_judged
    from cachesim.judging.run_data import run_data

    return run_data(run_judged(job.scenario, job.profile, job.mode))


def tried(do: Callable[[S], R], share: S, name: str) -> R | JobFailure:
    """What ``do`` returns, or what it raises as a line."""
    try:
        return do(share)
    except BadInput as bad:
        return JobFailure(exits.BAD_INPUT, str(bad.at(name)))
    except Exception as error:
        if (wrong := theirs(error)) is not None:
            return JobFailure(exits.BAD_INPUT, f"{wrong} ({name})")
        return JobFailure(exits.CRASH, f"{name}: {type(error).__name__}: {error} (a fault of cachesim)")


def run_one(job: RunJob) -> dict[str, Any] | JobFailure:
    """``run_job`` for one of several."""
    return tried(run_job, job, str(job))


def run_jobs(jobs: Sequence[RunJob], processes: int) -> Iterator[tuple[int, dict[str, Any] | JobFailure]]:
    """Pairs of the job's number and its result, as they come. A single job may raise."""
    if len(jobs) == 1:
        yield 0, run_job(jobs[0])
        return
    for one in progress(finished(run_one, jobs, processes), len(jobs), "running scenarios"):
        if isinstance(one.result, Unfinished):
            yield one.number, JobFailure(exits.CRASH, f"{one.share}: {one.result.how}, twice")
        else:
            yield one.number, one.result


def each(
    shares: Sequence[S], do: Callable[[S], R], name: Callable[[S], str], doing: str = "running"
) -> tuple[list[R], list[int]]:
    """The results of several shares, one after the other, and an exit code for each of those that have none, which are
    told. A single share may raise."""
    if len(shares) == 1:
        return [do(shares[0])], []
    found: list[R] = []
    codes: list[int] = []
    for share in progress(shares, len(shares), doing):
        one = tried(do, share, name(share))
        if isinstance(one, JobFailure):
            complain(one.why)
            codes.append(one.code)
        else:
            found.append(one)
    return found, codes


def answers_code(answers: Iterable[tuple[bool | None, bool]]) -> int:
    """1 an answer is wrong, 3 one is undecided, else 0. Pairs: equal to a cold run? (None = undecided), and does the
    file expect it to be refused?"""
    return exits.worst(
        exits.BROKEN if equal is False else exits.UNDECIDED if equal is None and not told else exits.HOLDS
        for equal, told in answers
    )


CODES = {True: exits.HOLDS, False: exits.BROKEN, None: exits.UNDECIDED}


def exit_code(runs: Iterable[dict[str, Any]], as_expected: bool = False) -> int:
    """0 all is good, 1 something is broken or not as its file says, 3 something is undecided; see ``outcome``."""
    from cachesim.judging.verdict import outcome

    return exits.worst(CODES[outcome(run, as_expected)] for run in runs)


def theirs(error: BaseException) -> BadInput | None:
    """What a rule from a file of the user raised; None where none of them was at work."""
    if "cachesim.engines.rule_files" not in sys.modules:         # no such file was asked for
        return None
    from cachesim.engines.rule_files import locate_fault

    return locate_fault(error)


# ``--on dask://HOST:PORT``: work on the machines of a cluster, for every command that has it.

def check_elsewhere(address: str | None, profiles: Iterable[str]) -> None:
    """Raise BadInput where work is to be done on other machines (None = it is not) under a rule set of a file, which
    they do not have."""
    from cachesim.engines.rule_files import rule_file_digest

    if address and any(rule_file_digest(name) for name in profiles if name):
        raise BadInput(f"--on {quoted(address)}: other machines do not have the file of rules",
                       hint="install it as a package with an entry point cachesim.profiles")  # fmt: skip


def played_elsewhere(
    address: str, function: str, payloads: Iterable[str], left: Callable[[], float | None] = lambda: None
) -> Iterator[Done[str, str]]:
    """What the workers of a cluster make of JSON strings, as it comes; see ``Cluster.each``. Raises BadInput where a
    cluster cannot be had."""
    from cachesim.base.cluster import Cluster

    with Cluster(address) as cluster:
        if not cluster.threads():
            note(f"{address} has no workers yet: waiting for one")
        yield from cluster.each(function, payloads, left)
