"""What every command line may say of how it wants to be talked to: ``-q``, ``-v``, ``--color``, ``--json``; $COLUMNS.

It holds before anything is read, so that what is said while the arguments are read keeps to it.
"""

from __future__ import annotations

import io
import os
import sys
from argparse import ArgumentParser
from contextlib import suppress
from typing import Any, Sequence

from cachesim.base.console import WIDTH, OutputOptions, complain
from cachesim.base.errors import BadInput, Crash, quoted

COLOURS = ("auto", "always", "never")


def add_manners(parser: ArgumentParser) -> None:
    """``args.quiet``, ``args.verbose`` (how often), ``args.color``."""
    group = parser.add_argument_group("output")
    group.add_argument("-q", "--quiet", action="store_true", help="results and errors only: no notes, no progress")
    group.add_argument("-v", "--verbose", action="count", default=0, help="show more, where there is more")
    group.add_argument("--color", metavar="WHEN", choices=COLOURS, default="auto",
                       help="auto (on a terminal), always or never")  # fmt: skip


def mind(argv: Sequence[str]) -> None:
    """From now on what is printed keeps to the command line. Raises BadInput for a colour that is none."""
    ours = list(argv)[: list(argv).index("--")] if "--" in argv else list(argv)
    OutputOptions.quiet = "-q" in ours or "--quiet" in ours
    OutputOptions.colour = _colour(ours)
    columns = os.environ.get("COLUMNS", "")
    valid = columns.isascii() and columns.isdigit() and 0 < int(columns) < 10_000
    OutputOptions.columns = int(columns) if valid else WIDTH


def _colour(argv: list[str]) -> str:
    found = "auto"
    for word, after in zip(argv, [*argv[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        if name in ("--color", "--colour"):
            found = value if equals else after
    if found not in COLOURS:
        raise BadInput(f"--color: {quoted(found)} is none of {', '.join(COLOURS)}")
    return found


def wants_json(argv: Sequence[str]) -> bool:
    """Does the command line ask for JSON?"""
    return "--json" in (list(argv)[: list(argv).index("--")] if "--" in argv else argv)


# How is an error told? One line for the user's faults; for ours, what we need to mend it.


def report_crash(error: BaseException) -> None:
    """What happened and where. A Crash says it itself; anything else shows its traceback."""
    if not isinstance(error, Crash):
        from traceback import print_exception

        with suppress(OSError):
            print_exception(error, file=sys.stderr or io.StringIO())
    complain(f"{str(error) or type(error).__name__} (a fault of cachesim: please open an issue with this output)")


def error_data(kind: str, code: int, bad: BaseException) -> dict[str, Any]:
    """An error as JSON has it. ``kind``: "input", "interrupted" or "crash"."""
    if isinstance(bad, BadInput):
        return {"error": {"kind": kind, "code": code, "message": bad.cause, "file": bad.file or None,
                          "line": bad.line, "hint": bad.hint or None}}  # fmt: skip
    text = str(bad) or type(bad).__name__
    return {"error": {"kind": kind, "code": code, "message": text, "file": None, "line": None, "hint": None}}
