"""Arguments of a command, as its parser has them."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from typing import Any


def arguments(add_arguments: Callable[[ArgumentParser], None], words: Sequence[str] = ()) -> dict[str, Any]:
    """Return what a command reads from these words; every argument has a help text and the name of its value."""
    parser = ArgumentParser()
    add_arguments(parser)
    for action in parser._actions:
        assert action.help, action.dest
        assert action.metavar or action.choices or action.nargs == 0, action.dest
    return vars(parser.parse_args(words))
