"""Output options of every command: ``-q``, ``-v``, ``--color``, ``--json``, $COLUMNS, $PAGER; the output of errors.

The options are applied before the arguments are parsed, so that parse errors honour them.
"""

from __future__ import annotations

import os
from argparse import ArgumentParser
from pathlib import Path
from shlex import split
from typing import Sequence

from cachesim.base.console import WIDTH, OutputOptions, complain, on_stderr
from cachesim.base.errors import BadInput, Crash, quoted

COLOURS = ("auto", "always", "never")


def add_output_options(parser: ArgumentParser) -> None:
    """Add ``args.quiet``, ``args.verbose`` (a count) and ``args.color``."""
    group = parser.add_argument_group("output")
    group.add_argument("-q", "--quiet", action="store_true", help="results and errors only, without notes and progress")
    group.add_argument("-v", "--verbose", action="count", default=0, help="more details; may be repeated")
    group.add_argument("--color", metavar="WHEN", choices=COLOURS, default="auto",
                       help="auto (on a terminal), always or never")  # fmt: skip


def apply_output_options(argv: Sequence[str]) -> None:
    """Apply the output options of the command line. Raise BadInput for an unknown colour mode."""
    ours = list(argv)[: list(argv).index("--")] if "--" in argv else list(argv)
    OutputOptions.quiet = "-q" in ours or "--quiet" in ours
    OutputOptions.colour = _colour(ours)
    columns = os.environ.get("COLUMNS", "")
    valid = columns.isascii() and columns.isdigit() and 0 < int(columns) < 10_000
    OutputOptions.columns = int(columns) if valid else WIDTH
    OutputOptions.pager = pager_of(os.environ.get("PAGER", "less"), "LESS" in os.environ)


def pager_of(command: str, is_configured: bool) -> list[str]:
    """Return the words of the command that shows pages; [] for a malformed one. ``less`` without options of its own
    gets those that git gives it: it prints what fits on the screen, keeps colours, and leaves the text there.
    ``is_configured``: the variable LESS is set."""
    try:
        words = split(command)
    except ValueError:
        return []
    return [*words, "-FRX"] if len(words) == 1 and Path(words[0]).name == "less" and not is_configured else words


def _colour(argv: list[str]) -> str:
    found = "auto"
    for word, after in zip(argv, [*argv[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        if name in ("--color", "--colour"):
            found = value if equals else after
    if found not in COLOURS:
        raise BadInput(f"--color: expected one of {', '.join(COLOURS)}, found {quoted(found)}")
    return found


def wants_json(argv: Sequence[str]) -> bool:
    """True if the command line contains ``--json``."""
    return "--json" in (list(argv)[: list(argv).index("--")] if "--" in argv else argv)


def report_crash(error: BaseException) -> None:
    """Print an unexpected error with its traceback; a Crash prints only its message."""
    if not isinstance(error, Crash):
        from traceback import format_exception

        on_stderr("".join(format_exception(error)).rstrip("\n"))
    complain(f"{str(error) or type(error).__name__} (a fault of cachesim: please open an issue with this output)")
