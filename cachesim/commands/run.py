"""``cachesim run FILE...``: what happens in these scenarios, under each profile?"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from cachesim.commands.common import add_json, add_profiles, chosen_profiles, count, load_files, unfinished
from cachesim.commands.exits import NOTHING
from cachesim.errors import BadInput
from cachesim.reports.console import complain


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="+", help="scenario file, or a folder of them")
    add_profiles(parser)
    parser.add_argument("--complete", action="store_true", help="write missing expectations into the files")
    parser.add_argument("--provenance", action="store_true", help="follow tokens only, without arithmetic (faster)")
    parser.add_argument("-j", "--jobs", metavar="N", type=count, default=1, help="processes to use (default 1)")
    add_json(parser)


def run(args: Namespace) -> int:
    if args.jobs < 1:
        raise BadInput("-j must be at least 1")
    scenarios = load_files(args.files)
    if not scenarios:
        complain("no scenario found in " + ", ".join(args.files))
        return NOTHING
    for scenario in scenarios:
        chosen_profiles(scenario, args.profiles)
    unfinished("run")                        # from here: scenarios.runner.run_scenario, reports, --complete
