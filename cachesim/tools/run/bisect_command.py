"""Command ``cachesim bisect CASE``: find the versions and rules that changed the outcome of each request."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Sequence

from cachesim.base import exits
from cachesim.base.console import say_json, show
from cachesim.base.errors import BadInput, unfinished
from cachesim.base.progress_bar import progress
from cachesim.tools.run.arguments import (
    add_arithmetic,
    add_case,
    add_json,
    add_log,
    add_profiles,
    case_options,
    read_case,
)
from cachesim.tools.run.real_option import add_real, real_code, real_history, real_options
from cachesim.tools.run.work_arguments import add_jobs_by_time, add_limits


def add_arguments(parser: ArgumentParser) -> None:
    add_case(parser)
    add_profiles(parser, "any version of the engine, for requests in notation; "
                 "or a Python file of rules, which is compared too")  # fmt: skip
    add_arithmetic(parser, "provenance without arithmetic (default)", "exact arithmetic too (slower)")
    add_log(parser)
    add_real(parser, "halve real llama-servers too: all, or the ends such as b8672,b11549")
    add_jobs_by_time(parser)
    add_limits(parser)
    add_json(parser)


def run(args: Namespace) -> int:
    _check_profiles(args.case, args.profiles)
    scenario = read_case(args.case, case_options(args))
    from cachesim.engines.build_names import without_place
    from cachesim.engines.registry import ENGINES
    from cachesim.judging.find_change import Bisection
    from cachesim.tools.run.bisect_jobs import compared_neighbours
    from cachesim.tools.run.bisect_report import answer_report, bisect_data, bisect_report, without_order

    engine = ENGINES.get(scenario.engine)
    if engine is None or not engine.profiles:
        raise BadInput(f"this build does not contain the versions of {scenario.engine}", file=scenario.file)
    mode = "exact" if args.exact else "provenance"
    bisection = Bisection(scenario, engine, mode, args.log)
    pairs = bisection.neighbours()
    compared = compared_neighbours(bisection, pairs, args.jobs)
    with unfinished("the comparison of versions was not finished"):
        courses = bisection.histories(progress(compared, len(pairs), "bisecting"))
    real = real_history(real_options(args), scenario)
    if args.json:
        say_json({**bisect_data(scenario, courses), **({"real": real[1]} if real else {})})
    else:
        if real:
            real[0].show_history(real[1])
        is_whole = args.verbose
        show(bisect_report(scenario, courses) if is_whole else answer_report(scenario, courses, args.profiles))
        reported = {turn.new for course in courses for turn in course.beside}
        for name in (name for name in args.profiles if name in engine.beside and name not in reported):
            show(f"{name}: same outcomes as {engine.beside[name]}\n")
        show(*without_order(without_place(engine), bool(pairs)))
    return exits.worst([exits.HOLDS if pairs else exits.UNDECIDED, real_code(real[1]["runs"] if real else [])])


def _check_profiles(case: str, profiles: Sequence[str]) -> None:
    """Raise BadInput for rule sets, other than files of rules, with a scenario file, which names its engine itself."""
    from cachesim.engines.rule_files import file_of
    from cachesim.scenarios.corpus import is_file

    if is_file(case) and any(file_of(name) is None for name in profiles):
        raise BadInput("--profile goes with requests in notation", hint="a file names its engine")
