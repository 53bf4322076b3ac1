"""Command ``cachesim run CASE...``: run scenario files, ids and lines under each of their profiles, and report."""

from __future__ import annotations

import os.path
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any, Sequence

from cachesim.base import exits
from cachesim.base.console import complain, say_json, show
from cachesim.base.errors import BadInput, cut
from cachesim.tools.picture.picture_options import (
    PictureOptions,
    add_pictures,
    check_one_scenario,
    picture_files,
    recorder,
    write_pictures,
)
from cachesim.tools.run.arguments import (
    CASE,
    LONG,
    LONG_FILE,
    add_arithmetic,
    add_json,
    add_model,
    add_profiles,
    add_server,
    add_settings,
    case_options,
    complain_of,
    modes,
    profiles_of,
    read_cases,
    requested_mode,
)
from cachesim.tools.run.real_option import (
    RealRuns,
    add_real,
    compare_real,
    real_code,
    real_options,
    real_part,
    real_runs,
)
from cachesim.tools.run.run_jobs import JobFailure, RunJob, exit_code, run_jobs
from cachesim.tools.run.suggestions import after_run, say_next, unchanged
from cachesim.tools.run.work_arguments import (
    ReplicaOptions,
    add_jobs_by_number,
    add_limits,
    add_replicas,
    processes_for,
    replica_options,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

    from cachesim.tools.run.kv_event_file import EventFile


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE|ID|LINE", nargs="+", help=f"folder of scenarios, {CASE}")
    add_profiles(parser)
    add_model(parser)
    parser.add_argument("--complete", action="store_true", help="write missing expectations into the files")
    add_arithmetic(parser, exact=f"exact arithmetic for any length (default up to {LONG:,} tokens "
                   f"in a line, {LONG_FILE:,} in a file)")  # fmt: skip
    parser.add_argument("--as-expected", action="store_true",
                        help="exit code 0 if every run matches its file, even where that is wrong")  # fmt: skip
    parser.add_argument("--steps", action="store_true", help="steps of the scheduler: tokens of each request, what "
                        "limits them, who waits for whom (engines that schedule steps)")  # fmt: skip
    add_settings(parser, "overrides the files: ")
    add_server(parser)
    add_real(parser)
    add_replicas(parser)
    add_jobs_by_number(parser)
    add_limits(parser)
    add_json(parser)
    add_pictures(parser)
    _add_kv_events(parser)


def _add_kv_events(parser: ArgumentParser) -> None:
    """Add ``--kv-events`` and the options of its hashes."""
    parser.add_argument("--kv-events", metavar="FILE", default="",
                        help="file to write: KV events that the server publishes, as JSON lines, or as msgpack if the "
                        "name ends with .msgpack")  # fmt: skip
    parser.add_argument("--kv-hash", metavar="NAME", default="",
                        help="hash function of the block hashes, as the server's flag names it")  # fmt: skip
    parser.add_argument("--kv-hash-seed", metavar="TEXT", default=None,
                        help="PYTHONHASHSEED of the server, for the block hashes (default: not set)")  # fmt: skip


def run(args: Namespace) -> int:
    if args.complete:
        _only_paths(args.files)
        if args.settings or args.model:
            raise BadInput("--complete does not go with server flags and --model", hint="edit the file")
        if args.steps:
            raise BadInput("--complete does not go with --steps", hint="run the file again with --steps")
    replicas = replica_options(args)
    if replicas is not None:
        _check_replicas(args)
    options = case_options(args)
    scenarios, bad = read_cases(args.files, options)
    jobs: list[RunJob] = []
    real = real_runs(real_options(args))
    pictures = picture_files(args)
    publication = _publication(args)
    requested = requested_mode(exact=args.exact, provenance=args.provenance)
    for scenario, mode in zip(scenarios, modes(scenarios, requested, LONG_FILE), strict=True):
        try:
            jobs += [RunJob(scenario, profile, mode, recorder(pictures, profile), steps=args.steps)
                     for profile in profiles_of(scenario, args.profiles)]  # fmt: skip
        except BadInput as wrong:
            bad.append(wrong.at(scenario.file))
    if pictures.are_wanted():
        check_one_scenario(job.scenario.id for job in jobs)
    complain_of(bad, nothing_left=not jobs, what=f"no scenario found in {cut(', '.join(args.files), 200)}")
    if replicas is not None:
        return _run_replicas(jobs, replicas, [exits.BAD_INPUT for _ in bad], as_json=args.json)
    if publication is not None:
        jobs = publication.recorded(jobs)
    runs, codes, interrupt = run_all(jobs, processes_for(args.jobs, len(jobs)))
    verbose = args.verbose
    if interrupt is not None:
        finished = [data for _, data in runs]
        return report_interrupted(interrupt, finished, len(jobs), args.json, len(bad) + len(codes), verbose)
    codes += [exits.BAD_INPUT for _ in bad]
    if args.complete:
        codes += _complete(runs)
    found = [data for _, data in runs]
    failed = len(bad) + len(jobs) - len(runs)
    compared = _report_all(runs, failed, real, as_json=args.json, verbose=verbose)
    suggested = after_run([(job.scenario, data) for job, data in runs], unchanged(args.files, options))
    say_next(suggested, is_quiet=args.json or args.quiet)
    if pictures.are_wanted():
        from cachesim.tools.picture.picture_recorder import PicturedRun
        from cachesim.tools.run.run_table import failures_report

        pictured = [PicturedRun(job.scenario, data, job.recorder) for job, data in runs if job.recorder is not None]
        schedules = found if args.steps else []
        write_pictures(pictures, pictured, PictureOptions(report=failures_report(found), schedules=schedules))
    if publication is not None and runs:
        publication.write(runs[0][0])
    return exits.worst([*codes, exit_code(found, args.as_expected), real_code(compared)])


def _check_replicas(args: Namespace) -> None:
    """Raise BadInput for options that do not go with several servers."""
    given = {"--complete": args.complete, "--as-expected": args.as_expected, "--exact": args.exact,
             "--provenance": args.provenance, "--steps": args.steps, "--real": args.real,
             "--kv-events": args.kv_events, "--speed": args.speed}  # fmt: skip
    for name, value in given.items():
        if value:
            raise BadInput(f"--replicas does not go with {name}")
    if picture_files(args).are_wanted():
        raise BadInput("--replicas does not go with pictures")


def _run_replicas(jobs: Sequence[RunJob], options: ReplicaOptions, codes: Sequence[int], *, as_json: bool) -> int:
    """Run scenarios on several servers and print what they evaluate. ``codes``: exit codes of unreadable scenarios.
    Return the exit code."""
    from cachesim.tools.run.replicas.fleet_report import fleet_data, fleet_report
    from cachesim.tools.run.replicas.scenario_replicas import scenario_cases

    data = fleet_data(scenario_cases(jobs, options))
    if as_json:
        say_json(data)
    else:
        show(*fleet_report(data, shows_requests=True))
    return exits.worst([*codes, exits.HOLDS])


def _publication(args: Namespace) -> EventFile | None:
    """Return the file of KV events that the options name, None without one. Raise BadInput."""
    if not args.kv_events:
        if args.kv_hash or args.kv_hash_seed is not None:
            raise BadInput("--kv-hash and --kv-hash-seed choose the hashes of --kv-events", hint="--kv-events FILE")
        return None
    from cachesim.tools.run.kv_event_file import event_file

    return event_file(args.kv_events, args.kv_hash, args.kv_hash_seed)


def _only_paths(files: list[str]) -> None:
    """Raise BadInput for a scenario id, because cachesim does not change the scenarios of an installed package."""
    for file in files:
        if not os.path.exists(file):
            raise BadInput("--complete writes into files", file=file, hint="give the path of the file")


def _report_all(
    runs: Runs, failed: int, real: RealRuns | None, *, as_json: bool, verbose: int
) -> list[dict[str, Any]]:
    """Print the runs, and return their comparisons with real servers. ``failed``: as in ``report``."""
    scenarios, found = [job.scenario for job, _ in runs], [data for _, data in runs]
    if as_json:
        compared = compare_real(real, scenarios, as_json=True)
        report(found, True, failed, real=compared)
        return compared
    _compare_engines(runs)
    report(found, False, failed, verbose, legend=True)
    return compare_real(real, scenarios, as_json=False, runs=found)


Runs = list[tuple[RunJob, dict[str, Any]]]


def run_all(jobs: list[RunJob], processes: int) -> tuple[Runs, list[int], KeyboardInterrupt | None]:
    """Run all jobs. Return the runs in the order of the jobs, the exit codes of failed jobs (whose errors are printed),
    and the interrupt that ended the loop early, if any."""
    found: dict[int, dict[str, Any] | JobFailure] = {}
    interrupt = None
    try:
        for number, result in run_jobs(jobs, processes):
            found[number] = result
            if isinstance(result, JobFailure):
                complain(result.why)
    except KeyboardInterrupt as error:
        interrupt = error
    codes = [result.code for result in found.values() if isinstance(result, JobFailure)]
    runs = [(jobs[i], result) for i, result in sorted(found.items()) if not isinstance(result, JobFailure)]
    return runs, codes, interrupt


def _compare_engines(runs: Runs) -> None:
    """Print a table for each conversation that ran under several engines."""
    if len({job.scenario.engine for job, _ in runs}) < 2:
        return
    from cachesim.tools.run.engines_table import engines_report

    cases: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for job, data in runs:
        cases.setdefault((job.scenario.id, repr(job.scenario)), []).append(data)
    compared = engines_report(list(cases.values()))
    if compared is not None:
        show(compared)


def report_interrupted(
    interrupt: KeyboardInterrupt, runs: list[dict[str, Any]], total: int, as_json: bool, failed: int, verbose: int
) -> int:
    """Print the finished runs and the answered requests of the run that was interrupted. Return the exit code."""
    from cachesim.judging.judged_run import RunInterrupted
    from cachesim.judging.run_data import run_data

    text = f"{len(runs) + failed} of {total} runs finished"
    if isinstance(interrupt, RunInterrupted):
        runs = [*runs, run_data(interrupt.run)]
        text += f", and {len(interrupt.run.requests)} of {interrupt.asked} requests of the next"
    report(runs, as_json, failed, verbose)
    complain(f"interrupted: {text}")
    return exits.interrupted(interrupt)


def report(
    runs: list[dict[str, Any]], as_json: bool, failed: int = 0, verbose: int = 0, legend: bool = False,
    real: Sequence[dict[str, Any]] = (),
) -> None:  # fmt: skip
    """Print runs as JSON, or as tables and a closing line. ``failed``: number of files and runs without a result;
    ``legend``: explain the columns below the first table; ``real``: comparisons with real servers, for JSON."""
    if as_json:
        from cachesim.judging.run_data import SCHEMA

        say_json({"schema": SCHEMA, "runs": runs, "failed": failed, **real_part(real)})
        return
    from itertools import groupby

    from cachesim.tools.run.run_table import closing_line, run_report

    # engines that do not count bytes have the model without its sizes
    cases = (list(group) for _, group in groupby(
        runs, lambda run: (run["scenario"], run["title"], run["model"].partition("@")[0])))  # fmt: skip
    parts: list[RenderableType] = []
    for number, case in enumerate(cases):
        parts.append(run_report(*case, verbose=verbose, legend=legend and not number))
        if "steps" in case[0]:
            from cachesim.tools.run.steps_report import steps_report

            parts.append(steps_report(case, verbose))
    show(*parts, closing_line(runs, failed))


def _complete(runs: Runs) -> list[int]:
    """Write missing expectations into the files. Skips runs with undecided requests, except refused requests. Return
    the exit codes of files that could not be written; prints their errors."""
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
                complain(f"{job.scenario.file}: wrote numbers of {job.profile}; check them and remove `completed`")
        except BadInput as error:
            complain(str(error))
            codes.append(exits.BAD_INPUT)
    return codes
