"""Command ``cachesim``: selects the sub-command and turns its end into an exit code.

Imports are light: the module of a command is imported only when that command is given.
"""

from __future__ import annotations

import codecs
import os
import re
import sys
from argparse import Action, ArgumentParser, Namespace
from contextlib import suppress
from importlib import import_module
from types import ModuleType
from typing import Any, Collection, NoReturn, Sequence

from cachesim import __all__ as python_names
from cachesim import __version__
from cachesim.base import exits
from cachesim.base.ending import ended_by_signals
from cachesim.base.errors import (
    BadInput,
    Unfinished,
    Unwritable,
    cut,
    nearest,
    quoted,
    stdout_errors,
)
from cachesim.cli.command_list import COMMANDS, LISTS, help_text, overview

_CHOICES = re.compile(r" \(choose from .{150,}\)$")      # long lists, which --help prints
_LONG = re.compile(r"'[^']{79,}'|\S{81,}")          # values that argparse repeats


class Parser(ArgumentParser):
    """Argument parser that raises BadInput instead of printing the usage and ending the process."""

    def error(self, message: str) -> NoReturn:
        text = _CHOICES.sub("", _LONG.sub(lambda found: cut(found[0]), message))
        raise BadInput(text, hint=f"see {self.prog} --help")

    def _print_message(self, message: str, file: Any = None) -> None:
        """Write help or version. Unlike the parent class, report an error if they cannot be written."""
        with stdout_errors():
            (file or sys.stdout).write(message)


class TopParser(Parser):
    """Parser of the command line without a command."""

    def format_help(self) -> str:
        """Return the commands by group, the other options, and the exit codes."""
        return help_text()


# The matrices are small: a second BLAS thread only waits for the first, and a busy machine gets fifteen times slower.
# Results do not change. NumPy reads these variables when it is imported, which happens later.
ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


ASCII = {"·": "-", "…": "~"}
"""Replacements of table signs that the encoding of the output lacks."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code. Only SystemExit leaves this function."""
    for name in ONE_THREAD:
        os.environ.setdefault(name, "1")
    codecs.register_error("cachesim", _replaced)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="cachesim")
    with ended_by_signals():
        return _exit_code(list(sys.argv[1:] if argv is None else argv))


def _exit_code(argv: list[str]) -> int:
    """Return the exit code; report errors on stderr, and with ``--json`` as an object on stdout."""
    try:
        return _flushed(argv)
    except BrokenPipeError:
        _forget_stdout()
        return exits.HOLDS if argv and argv[0] in LISTS else exits.BROKEN_PIPE
    except KeyboardInterrupt as error:
        what = f"interrupted: {error}" if isinstance(error, Unfinished) else "interrupted"
        import_module("cachesim.base.console").complain(what)
        return _as_json(argv, "interrupted", exits.interrupted(error), error)
    except Exception as error:
        from cachesim.base.console import complain
        from cachesim.cli.output_options import report_crash

        jobs = import_module("cachesim.tools.run.run_jobs")
        wrong = error if isinstance(error, BadInput) else jobs.rule_file_error(error)
        if wrong is not None:
            complain(str(wrong))
            return _as_json(argv, "input", wrong.code, wrong)
        report_crash(error)
        return _as_json(argv, "crash", exits.CRASH, error)


def _as_json(argv: list[str], kind: str, code: int, error: BaseException) -> int:
    """Print an error as JSON, if JSON was requested and stdout accepts it; return the code."""
    from cachesim.base.errors import error_data
    from cachesim.cli.output_options import wants_json

    if wants_json(argv) and sys.stdout is not None and not isinstance(error, Unwritable):
        from cachesim.base.console import say_json

        with suppress(OSError, BadInput):
            say_json(error_data(kind, code, error))
            sys.stdout.flush()
    return code


def _flushed(argv: list[str]) -> int:
    """Run the command and flush its results. Raise BadInput if stdout does not accept them; if stdout is closed,
    before the command starts."""
    if sys.stdout is None:
        raise BadInput("standard output is closed", hint="redirect it to /dev/null if you need the exit code only")
    try:
        return _run(argv)
    finally:
        try:
            with stdout_errors():
                sys.stdout.flush()
        except Unwritable:
            _forget_stdout()
            raise


def _forget_stdout() -> None:
    """Redirect stdout to the null device, because the interpreter flushes stdout once more at its end."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _replaced(error: UnicodeError) -> tuple[str, int]:
    """Replace signs that the encoding of a stream lacks, so that results reach an ASCII terminal."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(ASCII.get(sign, "?") for sign in error.object[error.start : error.end]), error.end


def _run(argv: list[str]) -> int:
    chosen = argv[0] if argv and not argv[0].startswith("-") else None
    if chosen is not None and chosen not in COMMANDS:
        raise BadInput(f"unknown command {quoted(chosen)}", hint=_meant(chosen))
    parser, commands = _parsers([chosen] if chosen else [])
    if chosen is None:
        _parse(parser, argv)
        import_module("cachesim.base.console").say(overview())
        return exits.HOLDS
    command = commands[chosen]
    import_module("cachesim.cli.output_options").apply_output_options(argv)
    prepared = getattr(_module(chosen), "prepared", None)
    args = _parse(command, prepared(argv[1:], command._option_string_actions) if prepared else argv[1:])
    import_module("cachesim.tools.run.work_arguments").lift_limits(args)
    if hasattr(_module(chosen), "PARSERS"):
        args.parsers = _parsers(COMMANDS)
    if hasattr(_module(chosen), "IMPORTS"):
        args.imported = import_module("cachesim.cli.imported_case").imported_case
    if getattr(args, "real", ""):
        args.real_runs = import_module("cachesim.cli.real_runs").RealServers
    code: int = _module(chosen).run(args)
    return code


def _meant(word: str) -> str:
    """Return a hint for a word that is not a command."""
    if word in python_names:
        return f"a function of the Python package: help(cachesim.{word})"
    return nearest(word, COMMANDS) or "see cachesim --help"


class _Version(Action):
    """``--version``: version of cachesim, and the newest rule set of each engine."""

    def __call__(self, parser: ArgumentParser, *_: Any, **__: Any) -> None:
        from cachesim.engines.newest import newest_rule_sets

        parser._print_message(f"cachesim {__version__}\n{', '.join(newest_rule_sets())}\n")
        parser.exit()


class _LongHelp(Action):
    """``--help-all``: every command, also those that ``--help`` does not name."""

    def __call__(self, parser: ArgumentParser, *_: Any, **__: Any) -> None:
        parser._print_message(help_text(is_long=True))
        parser.exit()


def _parsers(chosen: Collection[str]) -> tuple[Parser, dict[str, Parser]]:
    """Return the top-level parser and the parsers of the chosen commands. Unless one is chosen, the first lists all."""
    parser = TopParser(prog="cachesim", allow_abbrev=False)
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and the newest rule sets")
    parser.add_argument("--help-all", action=_LongHelp, nargs=0, help="show every command")
    table = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=Parser)
    commands = {}
    for name, (_, line) in COMMANDS.items():
        if chosen and name not in chosen:                  # to make a parser for each takes 3 ms
            continue
        command = table.add_parser(name, help=line, description=line, allow_abbrev=False)
        if name in chosen:
            _module(name).add_arguments(command)
            import_module("cachesim.cli.output_options").add_output_options(command)
            commands[name] = command
    return parser, commands


def _parse(parser: Parser, argv: list[str]) -> Namespace:
    """Return the arguments. An unknown argument raises BadInput with the nearest option. If a command takes server
    options, the server's own flags are accepted too and join ``args.settings``; flags without effect are noted."""
    taken = None
    if any(action.dest == "settings" for action in parser._actions):
        taken = import_module("cachesim.tools.run.engine_flags").take(argv, parser)
        argv = taken.argv
    args, extra = parser.parse_known_args(argv)
    if extra:
        raise _unknown(parser, extra[0].partition("=")[0], argv if taken else None)
    if taken:
        args.settings = [*args.settings, *taken.settings]
        if taken.silent:
            import_module("cachesim.base.console").note(f"without effect: {', '.join(taken.silent)}")
    if getattr(args, "pasted", ""):
        import_module("cachesim.tools.run.pasted_command").apply_pasted(args)
    return args


def _unknown(parser: Parser, word: str, argv: list[str] | None) -> BadInput:
    """Return the error for an unknown argument. ``argv``: the command line, if it may contain flags of a server."""
    known = sorted(name for name in parser._option_string_actions if name.startswith("--"))
    if argv is not None and word.startswith("-"):
        known += import_module("cachesim.tools.run.engine_flags").spellings(argv)
    kind = "option" if word.startswith("-") else "argument"
    hint = nearest(word, known) or f"see {parser.prog} --help"
    if argv is not None and not hint.startswith("did") and kind == "option":
        hint += "; for a server's flags, cachesim options ENGINE"
    return BadInput(f"unknown {kind} {quoted(word)}", hint=hint)


def _module(name: str) -> ModuleType:
    return import_module(f"cachesim.{COMMANDS[name][0]}")
