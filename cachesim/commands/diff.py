"""``cachesim diff FILE -p A -p B``: where do two profiles decide differently, and what does it cost?"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from cachesim.commands.common import add_json, add_profiles, chosen_profiles, load_one, unfinished
from cachesim.errors import BadInput


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="scenario file")
    add_profiles(parser)
    add_json(parser)


def run(args: Namespace) -> int:
    if len(set(args.profiles)) != 2:
        raise BadInput("diff compares two different profiles", hint="-p A -p B")
    chosen_profiles(load_one(args.file), args.profiles)
    unfinished("diff")
