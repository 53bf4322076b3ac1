"""``cachesim profiles list | show NAME | diff A B``: which rule sets are there, and how do they differ?"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from cachesim.commands.common import add_json, unfinished
from cachesim.errors import BadInput, nearest

NAMES = {"list": 0, "show": 1, "diff": 2}
"""How many profiles each action takes."""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("action", metavar="list|show|diff", help="list all, show one, compare two")
    parser.add_argument("names", metavar="NAME", nargs="*", help="profiles: none, one, two")
    add_json(parser)


def run(args: Namespace) -> int:
    if args.action not in NAMES:
        raise BadInput(f"unknown action {args.action!r}", hint=nearest(args.action, NAMES) or "list, show or diff")
    if len(args.names) != NAMES[args.action]:
        raise BadInput(f"profiles {args.action} takes {NAMES[args.action]} names, not {len(args.names)}")
    unfinished("profiles")
