"""Command ``cachesim diff FILE|LINE -p A -p B``: compare the decisions and results of two profiles, or the results of
two engines.

For a folder, it prints the totals of all its scenarios. Without profiles, a scenario that shows a reported bug is
compared under the rule sets with and without it.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any, NamedTuple, Sequence

from cachesim.base import exits
from cachesim.base.console import say_json, show
from cachesim.base.errors import BadInput
from cachesim.base.untrusted_files import FOLDER, kind
from cachesim.tools.picture.picture_options import (
    PictureOptions,
    add_pictures,
    picture_files,
    recorder,
    write_pictures,
)
from cachesim.tools.picture.plot_file import add_plot, plot_file
from cachesim.tools.run.arguments import (
    CaseOptions,
    add_arithmetic,
    add_case,
    add_json,
    add_log,
    add_profiles,
    case_options,
    modes,
    profiles_of,
    read_under_engines,
    requested_mode,
)
from cachesim.tools.run.real_option import add_real, compare_real, real_code, real_options, real_part, real_runs
from cachesim.tools.run.run_jobs import answers_code
from cachesim.tools.run.suggestions import after_diff, say_next
from cachesim.tools.run.work_arguments import add_jobs_by_number, add_limits

if TYPE_CHECKING:
    from cachesim.scenarios.schema import Scenario


def add_arguments(parser: ArgumentParser) -> None:
    add_case(parser)
    add_profiles(parser)
    add_arithmetic(parser)
    add_log(parser)
    add_real(parser)
    add_jobs_by_number(parser)
    add_limits(parser)
    add_json(parser)
    add_pictures(parser)
    add_plot(parser, "of a folder, the evaluated tokens of each changed scenario before and after")


def run(args: Namespace) -> int:
    pictures = picture_files(args)
    file = plot_file(args)
    requested = requested_mode(exact=args.exact, provenance=args.provenance)
    of_folder = kind(args.case) == FOLDER
    if file and not of_folder:
        raise BadInput("--plot needs a folder", hint="--html or --svg draw one case")
    if args.profiles or of_folder:
        _only_two(args.profiles)
    if of_folder:
        from cachesim.tools.run.diff_folder import compare_folder

        if pictures.are_wanted():
            raise BadInput("a picture shows one scenario, found a folder", file=args.case)
        if args.real:
            raise BadInput("diff --real takes one scenario, found a folder", file=args.case,
                           hint="cachesim run FOLDER --real BUILD")  # fmt: skip
        if args.model or args.settings:
            raise BadInput("--model and --set go with one case, not with a folder", file=args.case)
        profile_a, profile_b = dict.fromkeys(args.profiles)
        return compare_folder(
            args.case, profile_a, profile_b, mode=requested, log=args.log, processes=args.jobs, as_json=args.json,
            plot=file,
        )
    a, b = _compared_cases(args.case, case_options(args), requested, with_log=args.log)
    real = real_runs(real_options(args))
    from cachesim.judging.judged_run import run_judged
    from cachesim.tools.run.diff_report import diff_data, diff_report

    recorder_a = recorder(pictures, a.profile)
    recorder_b = recorder(pictures, b.profile)
    run_a = run_judged(a.scenario, a.profile, a.mode, watcher=recorder_a)
    run_b = run_judged(b.scenario, b.profile, b.mode, watcher=recorder_b)
    data = diff_data(run_a, run_b, args.log)
    if args.json:
        from cachesim.judging.run_data import SCHEMA

        compared = compare_real(real, [a.scenario, b.scenario], as_json=True)
        say_json({"schema": SCHEMA, **data, **real_part(compared)})
    else:
        show(diff_report(data, args.verbose))
        compared = compare_real(real, [a.scenario, b.scenario], as_json=False)
    if pictures.are_wanted():
        from cachesim.tools.picture.picture_recorder import PicturedRun

        pictured = [
            PicturedRun(run.scenario, data[name], observer)
            for name, run, observer in (("a", run_a, recorder_a), ("b", run_b, recorder_b)) if observer is not None
        ]
        write_pictures(pictures, pictured, _shown(data))
    say_next(after_diff(data), is_quiet=args.json or args.quiet)
    code = answers_code(
        (request["equal_cold"], request["i"] in run["told"])
        for run in (data["a"], data["b"]) for request in run["requests"]
    )
    return exits.worst([code, real_code(compared)])


class ComparedCase(NamedTuple):
    """A scenario, one of the two rule sets, and the mode of the run: "exact" or "provenance"."""

    scenario: Scenario
    profile: str
    mode: str


def _compared_cases(case: str, options: CaseOptions, requested: str, *, with_log: bool) -> list[ComparedCase]:
    """Return a case under both rule sets. ``requested``: mode, "" = none; ``with_log``: the lines of the log are
    compared, too. Raise BadInput."""
    scenarios = read_under_engines(case, options)
    reports = scenarios[0].reports
    compared = options.profiles or ([reports[0].fault, reports[0].fixed] if reports else [])
    _only_two(compared)
    if len(scenarios) > 1 and with_log:
        engines = " and ".join(scenario.engine for scenario in scenarios)
        raise BadInput(f"--log compares the log lines of one engine, found {engines}")
    return [
        ComparedCase(scenario, profile, mode)
        for scenario, mode in zip(scenarios, modes(scenarios, requested), strict=True)
        for profile in profiles_of(scenario, compared)
    ]


def _only_two(profiles: Sequence[str]) -> None:
    if len(set(profiles)) != 2:
        raise BadInput("diff compares two different profiles", hint="-p A -p B")


def _shown(data: dict[str, Any]) -> PictureOptions:
    """Return the text around a picture: whether requests differ, the report, and names of the runs."""
    from cachesim.tools.run.diff_report import diff_report, differing_line

    names = [f"{name}: {data[name.lower()]['profile']}" for name in "AB"]
    note = differing_line(data["observed"], len(data["a"]["requests"])).plain
    return PictureOptions(note=note, names=names, report=diff_report(data))
