"""``cachesim workload FILE... -p PROFILE``: what does a recorded workload cost under the rules of a server?"""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Sequence

from cachesim.commands import exits
from cachesim.commands.common import add_jobs, add_json, add_limits, add_profiles, add_settings, count, known_profiles
from cachesim.errors import BadInput
from cachesim.limits import JSON_VALUES, TRACE_BYTES, WORKLOAD_TOKENS
from cachesim.pool import Lost, spread
from cachesim.reports.console import complain, progress, say_json, show

if TYPE_CHECKING:
    from cachesim.workloads.run import Job

DETAIL = {"counts": "counted", "answers": "judged", "causes": "billed"}


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="+", help="recorded sessions (kv-cache-tester, Mooncake, JSON "
                        "lines of block ids), or folders of them")  # fmt: skip
    add_profiles(parser)
    add_settings(parser)
    parser.add_argument("--model", metavar="MODEL", default="qwen3-next",
                        help="real model by name, its config.json or GGUF, or layers (default qwen3-next)")  # fmt: skip
    parser.add_argument("--scale", metavar="N", type=_at_least_one, default=1, help="N tokens become one; flags that "
                        "count tokens are scaled with them (default 1)")  # fmt: skip
    parser.add_argument("--sessions", metavar="N", type=_at_least_one, default=1,
                        help="files that use one server at the same time (default 1)")  # fmt: skip
    parser.add_argument("--detail", choices=DETAIL, default="causes", help="count tokens only, judge answers too, or "
                        "find the cause of every lost token (default)")  # fmt: skip
    add_jobs(parser)
    add_limits(parser, TRACE_BYTES, JSON_VALUES, WORKLOAD_TOKENS)
    add_json(parser)


def _at_least_one(text: str) -> int:
    found = count(text)
    if not found:
        raise ArgumentTypeError("must be at least 1")
    return found


def run(args: Namespace) -> int:
    from cachesim.reports.workload_report import workload_data, workload_report
    from cachesim.workloads.run import totals_of

    todo = jobs(args)
    lines, failed = _played(todo, args.jobs)
    if not lines:
        return exits.worst(failed)
    data = workload_data(lines, totals_of(lines))
    if args.json:
        say_json(data)
    else:
        show(*workload_report(data))
    return exits.worst([*failed, *(_code(one) for one in data["totals"])])


def jobs(args: Namespace) -> list[Job]:
    """One job for each server and rule set. Raises BadInput, also where there is no file."""
    from cachesim.scenarios.option_checks import check_profile, parse_settings
    from cachesim.scenarios.schema import DEFAULT_PROFILE
    from cachesim.workloads.read import find_files
    from cachesim.workloads.run import Job, model_of

    files = find_files(args.files)
    if not files:
        raise BadInput("no workload in these folders", hint="files end in .json or .jsonl")
    groups = [files[i : i + args.sessions] for i in range(0, len(files), args.sessions)]
    model_of(args.model)
    out = []
    for profile in dict.fromkeys(args.profiles or [DEFAULT_PROFILE]):
        engine = profile.partition("@")[0]
        check_profile(profile, engine, known_profiles())
        given = parse_settings(args.settings, engine)
        out += [
            Job(tuple(map(str, group)), profile, args.model, given, args.scale, DETAIL[args.detail], True)
            for group in groups
        ]
    return out


def _played(todo: Sequence[Job], processes: int) -> tuple[list[dict[str, Any]], list[int]]:
    """The lines of all jobs, and the exit codes of those that could not be played: each is told in a line."""
    lines, failed = [], []
    results = spread(_one, todo, processes)
    for job, found in zip(todo, progress(results, len(todo), "playing"), strict=True):
        if isinstance(found, dict):
            lines.append(found)
        elif isinstance(found, Lost):
            complain(f"{job.files[0]}: {found.how}, twice (a fault of cachesim)")
            failed.append(exits.CRASH)
        else:
            complain(str(found))
            failed.append(exits.BAD_INPUT)
    return lines, failed


def _one(job: Job) -> dict[str, Any] | BadInput:
    """The line of a job; what is wrong with its files becomes the result."""
    from cachesim.workloads.run import line_of

    try:
        return line_of(job)
    except BadInput as bad:
        return bad.at(str(Path(job.files[0])))


def _code(total: dict[str, Any]) -> int:
    if total["wrong"] or total["died"]:
        return exits.BROKEN
    return exits.UNDECIDED if total["undecided"] else exits.HOLDS
