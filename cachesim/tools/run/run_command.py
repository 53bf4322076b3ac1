"""``cachesim run FILE...``: what happens in these scenarios, under each profile?"""

from __future__ import annotations

import os.path
from argparse import ArgumentParser, Namespace
from typing import Any

from cachesim.base import exits
from cachesim.base.console import complain, say_json, show
from cachesim.base.errors import BadInput, cut
from cachesim.tools.picture.picture_options import add_pictures, write_pictures
from cachesim.tools.run.arguments import (
    add_jobs,
    add_json,
    add_limits,
    add_profiles,
    add_settings,
    chosen_profiles,
    load_files,
    with_settings,
)
from cachesim.tools.run.run_jobs import JobFailure, RunJob, exit_code, run_jobs
from cachesim.tools.run.suggestions import after_run, say_next


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="+", help="scenario file, a folder of them, or a scenario's id")
    add_profiles(parser)
    parser.add_argument("--complete", action="store_true", help="write missing expectations into the files")
    parser.add_argument("--provenance", action="store_true", help="follow tokens only, without arithmetic (faster)")
    parser.add_argument("--as-expected", action="store_true",
                        help="exit 0 if every run is as its file expects, even where that is wrong")  # fmt: skip
    add_settings(parser, "instead of what the files say: ")
    add_jobs(parser)
    add_limits(parser)
    add_json(parser)
    add_pictures(parser)


def run(args: Namespace) -> int:
    if args.complete:
        _only_paths(args.files)
        if args.settings:
            raise BadInput("--complete writes what the files say, so no server flag can be set", hint="edit [server]")
    scenarios, bad = load_files(args.files)
    jobs: list[RunJob] = []
    for scenario in scenarios:
        try:
            scenario = with_settings(scenario, args.settings)
            profiles = chosen_profiles(scenario, args.profiles)
        except BadInput as wrong:
            bad.append(wrong.at(scenario.file))
            continue
        jobs += [RunJob(scenario, profile, "provenance" if args.provenance else "exact") for profile in profiles]
    for error in bad:
        complain(str(error))
    if not jobs:
        return _nothing(args.files, bad)
    runs, codes, ended = collected(jobs, args.jobs)
    verbose = getattr(args, "verbose", 0)
    if ended is not None:
        return interrupted(ended, [data for _, data in runs], len(jobs), args.json, len(bad) + len(codes), verbose)
    codes += [exits.BAD_INPUT for _ in bad]
    if args.complete:
        codes += _complete(runs)
    found = [data for _, data in runs]
    report(found, args.json, len(bad) + len(jobs) - len(runs), verbose)
    say_next(args, after_run([(job.scenario, data) for job, data in runs], args.files))
    write_pictures(args, [(job.scenario, data) for job, data in runs])
    return exits.worst([*codes, exit_code(found, args.as_expected)])


def _only_paths(files: list[str]) -> None:
    """Raises BadInput for an id: the scenarios of an installed package are not ours to write."""
    for file in files:
        if not os.path.exists(file):
            raise BadInput("--complete writes into files", file=file, hint="name it by its path")


def _nothing(files: list[str], bad: list[BadInput]) -> int:
    if bad:
        return exits.BAD_INPUT
    complain("no scenario found in " + cut(", ".join(files), 200))
    return exits.NOTHING


Runs = list[tuple[RunJob, dict[str, Any]]]


def collected(jobs: list[RunJob], processes: int) -> tuple[Runs, list[int], KeyboardInterrupt | None]:
    """The runs in the order of the jobs, exit codes of those that could not be run and are told, and what ended it
    early."""
    found: dict[int, dict[str, Any] | JobFailure] = {}
    ended = None
    try:
        for number, one in run_jobs(jobs, processes):
            found[number] = one
            if isinstance(one, JobFailure):
                complain(one.why)
    except KeyboardInterrupt as error:
        ended = error
    codes = [one.code for one in found.values() if isinstance(one, JobFailure)]
    return [(jobs[i], one) for i, one in sorted(found.items()) if not isinstance(one, JobFailure)], codes, ended


def interrupted(
    ended: KeyboardInterrupt, runs: list[dict[str, Any]], asked: int, as_json: bool, failed: int, verbose: int
) -> int:
    """Show what was done before an interrupt: the runs that are over, and the requests of the one that was not. The
    exit code."""
    from cachesim.judging.judged_run import RunInterrupted
    from cachesim.judging.run_data import run_data

    told = f"{len(runs) + failed} of {asked} runs are over"
    if isinstance(ended, RunInterrupted):
        runs = [*runs, run_data(ended.run)]
        told += f", and {len(ended.run.requests)} of {ended.asked} requests of the next"
    report(runs, as_json, failed, verbose)
    complain(f"interrupted: {told}")
    return exits.interrupted(ended)


def report(runs: list[dict[str, Any]], as_json: bool, failed: int = 0, verbose: int = 0) -> None:
    """Print runs as JSON, or as tables and a closing line. ``failed``: files and runs of which there is none."""
    if as_json:
        say_json({"runs": runs, "failed": failed})
        return
    from cachesim.tools.run.run_table import closing_line, run_report

    show(*(run_report(data, verbose) for data in runs), closing_line(runs, failed))


def _complete(runs: Runs) -> list[int]:
    """Write what the files do not expect yet; an undecided run is not written down, unless requests were refused and
    nothing else is undecided. Exit codes of what could not be written, which is told."""
    from pathlib import Path

    from cachesim.engines.rule_files import file_header
    from cachesim.scenarios.toml_writer import complete

    codes = []
    for job, data in runs:
        if any(one["equal_cold"] is None and not one["refused"] for one in data["requests"]):
            continue
        names = ("cache_n", "prompt_n", "status", "checkpoints")
        found = {key: [one[key] for one in data["requests"]] for key in names}
        try:
            path = Path(job.scenario.file)
            if complete(path, job.profile, {**found, "broken": data["broken"]}, file_header(job.profile, path.parent)):
                complain(f"{job.scenario.file}: numbers of {job.profile} written, read them and remove `completed`")
        except BadInput as error:
            complain(str(error))
            codes.append(exits.BAD_INPUT)
    return codes
