"""The command ``cachesim``: which sub-command was asked for, and how does its end become an exit code?

Nothing heavy is imported here; a command's module is imported only when that command is given.
"""

from __future__ import annotations

import codecs
import os
import sys
from argparse import ArgumentParser, Namespace
from importlib import import_module
from types import ModuleType
from typing import NoReturn, Sequence, TextIO

from cachesim import __version__
from cachesim.commands import exits
from cachesim.errors import BadInput, nearest

COMMANDS = {
    "run": ("run", "run scenario files under one or more profiles"),
    "try": ("try_line", "run requests written in one line"),
    "why": ("why", "show the decisions behind one request of a scenario"),
    "diff": ("diff", "compare two profiles on a scenario"),
    "explain": ("explain", "explain a rule and name its source"),
    "profiles": ("profiles", "list, show or compare rule sets"),
    "bisect": ("bisect", "find the version, and the rule in it, that changed the outcome"),
    "fuzz": ("fuzz", "search for conversations that break a property"),
    "scenarios": ("scenarios", "list the scenarios that come with cachesim"),
    "replay": ("replay", "compare the simulator with recorded traces of real servers"),
    "record": ("record", "play scenarios on a real llama-server and record what it does"),
}
"""Sub-command -> its module in cachesim.commands, and its line of help."""


class Parser(ArgumentParser):
    """An argument parser that raises instead of printing usage and ending the process."""

    def error(self, message: str) -> NoReturn:
        raise BadInput(message, hint=f"see {self.prog} --help")


# Our matrices are small: a second BLAS thread only waits for the first, and on a busy machine that takes fifteen times
# as long. The numbers do not depend on it. NumPy reads this when it is imported, which no command has done yet.
ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


ASCII = {"·": "-", "…": "~"}
"""Signs of our tables, and what stands for them where the output cannot show them."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code. No exception leaves this function except SystemExit."""
    for name in ONE_THREAD:
        os.environ.setdefault(name, "1")
    for stream in (sys.stdout, sys.stderr):
        _write_anything(stream)
    try:
        try:
            return _run(list(sys.argv[1:] if argv is None else argv))
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter flushes stdout once more at its end; give it somewhere to write.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exits.BROKEN_PIPE
    except KeyboardInterrupt:
        from cachesim.reports.console import complain

        complain("interrupted")
        return exits.INTERRUPTED
    except BadInput as bad:
        from cachesim.reports.errors import report_bad_input

        report_bad_input(bad)
        return exits.BAD_INPUT
    except Exception as error:
        from cachesim.reports.errors import report_crash

        report_crash(error)
        return exits.CRASH


def _write_anything(stream: TextIO) -> None:
    """What the stream's encoding lacks is written as another sign: no result is lost to a terminal that knows ASCII
    only."""
    codecs.register_error("cachesim", _replaced)
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="cachesim")


def _replaced(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(ASCII.get(sign, "?") for sign in error.object[error.start : error.end]), error.end


def _run(argv: list[str]) -> int:
    chosen = argv[0] if argv and not argv[0].startswith("-") else None
    if chosen is not None and chosen not in COMMANDS:
        raise BadInput(f"unknown command {chosen!r}", hint=nearest(chosen, COMMANDS) or "see cachesim --help")
    parser, command = _parsers(chosen)
    args = _parse(command or parser, argv[1:] if command else argv)
    if command is None or chosen is None:
        raise BadInput("no command given", hint="see cachesim --help")
    code: int = _module(chosen).run(args)
    return code


def _parsers(chosen: str | None) -> tuple[Parser, Parser | None]:
    """The parser of the whole line, and that of the chosen command: only this one gets its arguments."""
    parser = Parser(prog="cachesim", allow_abbrev=False,
                    description="Reference simulator of cache semantics in LLM servers.")  # fmt: skip
    parser.add_argument("--version", action="version", version=f"cachesim {__version__}")
    table = parser.add_subparsers(title="commands", metavar="COMMAND")
    command = None
    for name, (_, line) in COMMANDS.items():
        one = table.add_parser(name, prog=f"cachesim {name}", help=line, description=line, allow_abbrev=False)
        if name == chosen:
            _module(name).add_arguments(one)
            command = one
    return parser, command


def _parse(parser: Parser, argv: list[str]) -> Namespace:
    """The arguments; an unknown one is an error that names the nearest option."""
    args, extra = parser.parse_known_args(argv)
    if extra:
        word = extra[0].partition("=")[0]
        known = sorted(name for name in parser._option_string_actions if name.startswith("--"))
        kind = "option" if word.startswith("-") else "argument"
        raise BadInput(f"unknown {kind} {word!r}", hint=nearest(word, known) or f"see {parser.prog} --help")
    return args


def _module(name: str) -> ModuleType:
    return import_module(f"cachesim.commands.{COMMANDS[name][0]}")
