"""``cachesim explain RULE``: what does this rule decide, and where is it in the real engine's source?"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from cachesim.commands.common import add_json, unfinished


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("rule", metavar="RULE", help="id of a rule, such as the table of `run` shows")
    add_json(parser)


def run(args: Namespace) -> int:
    unfinished("explain")
