"""``cachesim bisect CASE``: at which version did the outcome of each request change, and which rule did it?"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from cachesim.commands import exits
from cachesim.commands.common import add_json, add_limits, add_profiles, add_settings, load_one, scenario_of_line
from cachesim.errors import BadInput
from cachesim.reports.console import progress, say_json, show

if TYPE_CHECKING:
    from cachesim.scenarios.schema import Scenario


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("case", metavar="CASE", 
                        help="scenario file or id, or requests in one line such as S40.A60/S.B50")  # fmt: skip
    parser.add_argument("--model", metavar="MODEL", help="for requests in one line: layers or a model (default GGGA)")
    add_profiles(parser, "for requests in one line: any version of the engine that is asked; "
                 "or a Python file of rules, which are compared too")  # fmt: skip
    add_settings(parser, "for requests in one line: ")
    add_limits(parser)
    add_json(parser)


def run(args: Namespace) -> int:
    scenario = _scenario(args)
    from cachesim.engines.registry import ENGINES
    from cachesim.reports.bisect_report import bisect_data, bisect_report
    from cachesim.verdicts.bisect import bisect, neighbours

    engine = ENGINES.get(scenario.engine)
    if engine is None or not engine.line:
        raise BadInput(f"the versions of {scenario.engine} are not in this build", file=scenario.file)
    pairs = neighbours(engine)
    courses = bisect(scenario, engine, progress(pairs, len(pairs), "bisecting"))
    if args.json:
        say_json(bisect_data(scenario, courses))
    else:
        show(bisect_report(scenario, courses))
        told = {turn.new for course in courses for turn in course.beside}
        for name in (one for one in args.profiles if one in engine.beside and one not in told):
            show(f"{name}: as under {engine.beside[name]}\n")
    return exits.HOLDS


def _scenario(args: Namespace) -> Scenario:
    """The scenario of a file, or of a line. Raises BadInput."""
    from cachesim.rule_files import file_of
    from cachesim.scenarios.corpus import is_file

    if is_file(args.case):
        if args.model or args.settings or any(file_of(name) is None for name in args.profiles):
            raise BadInput("--model, --profile and --set go with requests in one line", hint="a file has its own")
        return load_one(args.case)
    return scenario_of_line(args.case, args.model or "GGGA", args.profiles, args.settings)
