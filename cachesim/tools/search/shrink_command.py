"""``cachesim shrink FILE|LINE``: finds the smallest line that fails in the same way."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from contextlib import closing
from typing import TYPE_CHECKING, Any

from cachesim.base import exits
from cachesim.base.console import complain, say_json, show
from cachesim.base.progress_bar import LateBar, progress
from cachesim.tools.run import arguments, work_arguments

if TYPE_CHECKING:
    from cachesim.tools.search.shrink_scenario import ScenarioShrinking


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("what", metavar="FILE|LINE", help="scenario file, id, or requests in one line")
    parser.add_argument("-p", "--profile", metavar="PROFILE", type=arguments.profile_name, default="",
                        help="rule set to run under (default: the first profile of the file that fails, "
                        "for a line the newest recorded one)")  # fmt: skip
    arguments.add_model(parser)
    arguments.add_settings(parser)
    parser.add_argument("--property", dest="properties", metavar="NAME", action="append", default=[],
                        help="property that must fail, may be repeated (default: those of fuzz)")  # fmt: skip
    parser.add_argument("--mode", choices=("provenance", "exact"), default="provenance",
                        help="exact: full arithmetic, compares bits and argmax; about 10x slower (default provenance)")
    parser.add_argument("--tries", metavar="N", type=work_arguments.count, help="maximum lines to run (default 4000)")
    work_arguments.add_limits(parser)
    arguments.add_json(parser)


def run(args: Namespace) -> int:
    from cachesim.scenarios.notation.shrink import TRIES
    from cachesim.tools.search.fuzz_command import requested_properties
    from cachesim.tools.search.shrink_scenario import ScenarioShrinking

    properties = requested_properties(args.properties)
    tries = TRIES if args.tries is None else args.tries
    asked = [args.profile] if args.profile else []
    options = arguments.CaseOptions(model=args.model, profiles=asked, settings=args.settings)
    scenario = arguments.read_case(args.what, options)
    undecided: list[str] = []
    for profile in arguments.chosen_profiles(scenario, asked):
        with LateBar("running the scenario"):
            one = ScenarioShrinking(scenario, profile, properties, args.mode, tries)
        if one.found:
            return _shrunk(one, tries, args.json)
        undecided += [profile] if one.is_undecided else []
    return _nothing(undecided, args.json)


def _shrunk(shrinking: ScenarioShrinking, tries: int, as_json: bool) -> int:
    """Shrink and print the result; after an interruption the smallest scenario so far. Return the exit code."""
    from cachesim.tools.search.property_failure import exit_code

    ended = None
    try:
        with closing(progress(range(tries), tries, "shrinking")) as ticks:
            shrinking.run(lambda: next(ticks, None))
    except KeyboardInterrupt as error:
        ended = error
        complain("interrupted: smallest scenario so far")
    _tell(shrinking.data(), as_json)
    return exits.interrupted(ended) if ended else exit_code(shrinking.found[0].name)


def _tell(data: dict[str, Any], as_json: bool) -> None:
    from cachesim.judging.failure_chain import explained
    from cachesim.tools.search.shrink_scenario import shrink_report

    if as_json:
        say_json({"shrunk": data})
        return
    show(shrink_report(explained(data, data["profile"], data["step"], data["text"])))


def _nothing(undecided: list[str], as_json: bool) -> int:
    """Report that the scenario does not fail. Return 0, or UNDECIDED if it is ``undecided`` under some profiles."""
    complain(f"undecided under {', '.join(undecided)}: the outcome depends on a number that the server never wrote"
             if undecided else "nothing fails: nothing to shrink")  # fmt: skip
    if as_json:
        say_json({"shrunk": None})
    return exits.UNDECIDED if undecided else exits.HOLDS
