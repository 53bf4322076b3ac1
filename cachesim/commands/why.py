"""``cachesim why FILE N``: which decisions made request N keep what it kept, and lose what it lost?"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from cachesim.commands.common import add_json, add_profiles, chosen_profiles, count, load_one, unfinished
from cachesim.errors import BadInput


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="scenario file")
    parser.add_argument("number", metavar="N", type=count, help="number of the request, from 0")
    add_profiles(parser)
    add_json(parser)


def run(args: Namespace) -> int:
    scenario = load_one(args.file)
    if args.number >= len(scenario.steps):
        raise BadInput(f"there is no request {args.number}", file=args.file, hint=f"0 to {len(scenario.steps) - 1}")
    chosen_profiles(scenario, args.profiles)
    unfinished("why")
