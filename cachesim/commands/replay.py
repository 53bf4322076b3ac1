"""``cachesim replay FILE...``: does the simulator decide what a real server decided, as recorded?"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from cachesim.commands.common import add_json, unfinished


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="+", help="recorded trace")
    parser.add_argument("--mode", choices=("none", "provenance", "exact"), default="none",
                        help="judge answers too: by provenance, or by bits (default none)")  # fmt: skip
    parser.add_argument("--in-scope", action="store_true", help="leave traces out of scope aside")
    add_json(parser)


def run(args: Namespace) -> int:
    unfinished("replay")
