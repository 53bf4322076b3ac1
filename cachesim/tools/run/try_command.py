"""Command ``cachesim try LINE``: run requests written in notation, or a scenario given as a file or an id."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from cachesim.base import exits
from cachesim.tools.picture.picture_options import add_pictures, write_pictures
from cachesim.tools.run.arguments import (
    add_arithmetic,
    add_case,
    add_json,
    add_limits,
    add_profiles,
    case_of,
    chosen_profiles,
    modes,
)
from cachesim.tools.run.run_command import report, report_interrupted, run_all
from cachesim.tools.run.run_jobs import RunJob, exit_code
from cachesim.tools.run.suggestions import after_run, say_next, typed


def add_arguments(parser: ArgumentParser) -> None:
    add_case(parser)
    add_profiles(parser)
    add_arithmetic(parser)
    add_limits(parser)
    add_json(parser)
    add_pictures(parser)


def run(args: Namespace) -> int:
    scenario = case_of(args)
    (mode,) = modes(args, [scenario])
    jobs = [RunJob(scenario, profile, mode) for profile in chosen_profiles(scenario, args.profiles)]
    done, codes, interrupt = run_all(jobs, 1)
    runs, verbose = [data for _, data in done], getattr(args, "verbose", 0)
    if interrupt is not None:
        return report_interrupted(interrupt, runs, len(jobs), args.json, len(codes), verbose)
    report(runs, args.json, len(codes), verbose)
    write_pictures(args, [(scenario, data) for data in runs])
    say_next(args, after_run([(scenario, data) for data in runs], typed(args)))
    return exits.worst([*codes, exit_code(runs)])
