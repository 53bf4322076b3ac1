"""``cachesim diff FOLDER``: two rule sets over many scenarios. Each is judged under both; what differs is summed up."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any, NamedTuple, Sequence

from cachesim.base import exits
from cachesim.base.console import complain, progress, say_json, show
from cachesim.base.errors import BadInput
from cachesim.base.pool import Unfinished, finished
from cachesim.tools.run.arguments import load_files, modes
from cachesim.tools.run.run_jobs import JobFailure, answers_code, tried

if TYPE_CHECKING:
    from cachesim.scenarios.schema import Scenario


class Pair(NamedTuple):
    """A scenario under two profiles."""

    scenario: Scenario
    a: str
    b: str
    mode: str

    def __str__(self) -> str:
        return self.scenario.file or self.scenario.id


def run_folder(args: Namespace) -> int:
    """Judge every scenario of the profiles' engine in a folder under both, and tell what differs; the exit code.
    Raises BadInput."""
    from cachesim.engines.registry import engine_of
    from cachesim.tools.run.diff_report import diff_table, totals

    if args.model or args.settings:
        raise BadInput("--model and --set go with one case, not with a folder", file=args.case)
    a, b = dict.fromkeys(args.profiles)
    engine = engine_of(a)
    if engine_of(b) is not engine:
        raise BadInput(f"{a} and {b} are of different engines", hint="two rule sets of one engine")
    scenarios, bad = load_files([args.case])
    for error in bad:
        complain(str(error))
    mine = [one for one in scenarios if one.engine == engine.name]
    if not mine and not bad:
        complain(f"no scenario of {engine.name} found in {args.case}")
        return exits.NOTHING
    pairs = [Pair(one, a, b, mode) for one, mode in zip(mine, modes(args, mine), strict=True)]
    files, codes, ended = _files(pairs, args.jobs)
    codes += [exits.BAD_INPUT for _ in bad]
    data = {
        "a": a, "b": b, "folder": args.case, "other_engines": len(scenarios) - len(mine), "failed": len(codes),
        "totals": totals(files), "files": files,
    }  # fmt: skip
    if args.json:
        say_json(data)
    else:
        show(diff_table(data))
    if ended is not None:
        complain(f"interrupted: {len(files)} of {len(mine)} scenarios are compared")
        return exits.interrupted(ended)
    return exits.worst([*codes, answers_code((one["equal"], one["told"]) for one in _answers(files))])


def _answers(files: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [answer for one in files for answer in one["answers"]]


def _files(
    pairs: Sequence[Pair], jobs: int
) -> tuple[list[dict[str, Any]], list[int], KeyboardInterrupt | None]:
    """What differs in each scenario, in order; exit codes of those that could not be run and are told; and what ended
    it early."""
    found: dict[int, dict[str, Any]] = {}
    codes: list[int] = []
    ended = None
    try:
        for one in progress(finished(compare_one, pairs, jobs), len(pairs), "comparing"):
            result = one.result
            if isinstance(result, Unfinished):
                result = JobFailure(exits.CRASH, f"{one.share}: {result.how}, twice")
            if isinstance(result, JobFailure):
                complain(result.why)
                codes.append(result.code)
            else:
                found[one.number] = result
    except KeyboardInterrupt as error:
        ended = error
    return [found[number] for number in sorted(found)], codes, ended


def compare_one(pair: Pair) -> dict[str, Any] | JobFailure:
    """The work of a process."""
    return tried(_compared, pair, str(pair))


def _compared(pair: Pair) -> dict[str, Any]:
    from cachesim.judging.judged_run import run_judged
    from cachesim.judging.run_data import run_data
    from cachesim.tools.run.diff_report import file_data

    a, b = (run_data(run_judged(pair.scenario, name, pair.mode, with_ledger=False)) for name in (pair.a, pair.b))
    return file_data(str(pair), a, b)
