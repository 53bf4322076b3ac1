"""``cachesim run FILE...``: what happens in these scenarios, under each profile?"""

from __future__ import annotations

import os.path
from argparse import ArgumentParser, Namespace
from typing import Any

from cachesim.commands.common import add_json, add_limits, add_profiles, chosen_profiles, count, load_files
from cachesim.commands.exits import INTERRUPTED, NOTHING
from cachesim.commands.running import Job, exit_code, run_jobs
from cachesim.errors import BadInput
from cachesim.reports.console import complain, progress, say_json, show


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="+", help="scenario file, a folder of them, or a scenario's id")
    add_profiles(parser)
    parser.add_argument("--complete", action="store_true", help="write missing expectations into the files")
    parser.add_argument("--provenance", action="store_true", help="follow tokens only, without arithmetic (faster)")
    parser.add_argument("--as-expected", action="store_true",
                        help="exit 0 if every run is as its file says, even where that is broken")  # fmt: skip
    parser.add_argument("-j", "--jobs", metavar="N", type=count, default=1, help="processes to use (default 1)")
    add_limits(parser)
    add_json(parser)


def run(args: Namespace) -> int:
    if args.jobs < 1:
        raise BadInput("-j must be at least 1")
    if args.complete:
        _only_paths(args.files)
    scenarios = load_files(args.files)
    if not scenarios:
        complain("no scenario found in " + ", ".join(args.files))
        return NOTHING
    mode = "provenance" if args.provenance else "exact"
    jobs = [Job(s, profile, mode) for s in scenarios for profile in chosen_profiles(s, args.profiles)]
    runs: list[dict[str, Any]] = []
    try:
        for one in progress(run_jobs(jobs, args.jobs), len(jobs), "running scenarios"):
            runs.append(one)
    except KeyboardInterrupt:
        report(runs, args.json)
        complain(f"interrupted: {len(runs)} of {len(jobs)} runs are over")
        return INTERRUPTED
    if args.complete:
        _complete(jobs, runs)
    report(runs, args.json)
    return exit_code(runs, args.as_expected)


def _only_paths(files: list[str]) -> None:
    """Raises BadInput for an id: the scenarios of an installed package are not ours to write."""
    for file in files:
        if not os.path.exists(file):
            raise BadInput("--complete writes into files", file=file, hint="name it by its path")


def report(runs: list[dict[str, Any]], as_json: bool) -> None:
    """Print runs as JSON, or as tables and a closing line."""
    if as_json:
        say_json({"runs": runs})
        return
    from cachesim.reports.run_table import closing_line, run_report

    show(*(run_report(data) for data in runs), closing_line(runs))


def _complete(jobs: list[Job], runs: list[dict[str, Any]]) -> None:
    """Write what the files do not expect yet; an undecided run is not written down, unless requests were refused and
    nothing else is undecided."""
    from pathlib import Path

    from cachesim.scenarios.complete import complete

    for job, data in zip(jobs, runs, strict=True):
        if any(one["equal_cold"] is None and not one["refused"] for one in data["requests"]):
            continue
        names = ("cache_n", "prompt_n", "status", "checkpoints")
        found = {key: [one[key] for one in data["requests"]] for key in names}
        if complete(Path(job.scenario.file), job.profile, {**found, "broken": data["broken"]}):
            complain(f"{job.scenario.file}: numbers of {job.profile} written, read them and remove `completed`")
