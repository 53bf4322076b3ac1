"""Command ``cachesim``: selects the sub-command and turns its end into an exit code.

Imports are light: the module of a command is imported only when that command is given.
"""

from __future__ import annotations

import codecs
import os
import re
import signal
import sys
import threading
from argparse import Action, ArgumentParser, Namespace
from contextlib import contextmanager, suppress
from importlib import import_module
from textwrap import wrap
from types import ModuleType
from typing import Any, Collection, Iterator, NoReturn, Sequence

from cachesim import __version__
from cachesim.base import exits
from cachesim.base.errors import ENDING, BadInput, Terminated, Unwritable, cut, nearest, quoted, stdout_errors

COMMANDS = {
    "run": ("tools.run.run_command", "run scenarios, or requests in one line, under rule sets"),
    "why": ("tools.run.why_command", "show the decisions behind one request of a scenario"),
    "diff": ("tools.run.diff_command", "compare two rule sets on a scenario"),
    "bisect": ("tools.run.bisect_command", "find the version, and the rule in it, that changed the outcome"),
    "advise": ("tools.advise.command", "find flags, builds and request changes that save tokens"),
    "playground": ("tools.playground.command", "serve a page that simulates a case as you type it"),
    "lesson": ("tools.lessons.command", "how these caches work, in seven short lessons with exercises"),
    "explain": ("tools.rulebook.explain_command", "explain a rule, a term, a log line or a message"),
    "scenarios": ("tools.run.scenarios_command", "list the scenarios that come with cachesim"),
    "options": ("tools.rulebook.options_command", "list a server's flags: defaults and effects"),
    "profiles": ("tools.rulebook.profiles_command", "list, show or compare rule sets"),
    "import": ("tools.server_logs.command", "turn a server's log into a scenario, with lost tokens and causes"),
    "check": ("tools.conformance.check_command", "test the cache of a running server"),
    "verify": ("tools.live.verify_command", "compare a case with a real llama-server, request by request"),
    "export": ("tools.live.export_command", "write a case as a script, a test, an issue or a scenario file"),
    "fuzz": ("tools.search.fuzz_command", "search for conversations that break a property"),
    "shrink": ("tools.search.shrink_command", "shrink a conversation that breaks a property"),
    "repair": ("tools.search.repair_command", "find the rule change that fixes each failure, and its cost"),
    "merge": ("tools.search.merge_command", "merge the campaigns of several machines"),
    "workload": ("tools.workload.command", "run recorded sessions under rule sets: tokens, MiB, bounds"),
    "record": ("tools.live.record_command", "run scenarios on a real llama-server and record it"),
    "replay": ("tools.replay.command", "compare the simulator with recorded traces of real servers"),
    "completion": ("cli.completion", "print a shell completion script"),
}
"""Sub-command -> its module in cachesim, and its help text."""

FORMER = {"try": "run"}
"""Hidden former name of a command -> its name."""

GROUPS = {
    "simulate": ("run", "why", "diff", "bisect", "advise", "playground"),
    "understand": ("lesson", "explain", "scenarios", "options", "profiles"),
    "your server": ("import", "check", "verify", "export"),
    "search": ("fuzz", "shrink", "repair"),
}
"""Heading of ``--help`` -> its commands. All other commands stand in a last line."""

EXIT_CODES = """\
exit codes: 0 correct, 1 wrong answer or failed property, 2 unusable input,
3 undecided, 5 nothing selected, 70 fault of cachesim, 130 interrupted"""

LISTS = ("profiles", "explain", "options", "scenarios", "lesson", "completion")
"""Commands that only print: a reader may close the pipe early without losing results."""

CARD = (
    ("run", "cachesim run S40.A60/B80/S.C50/S.A --model qwen3-next -np 2"),
    ("why", "cachesim why llama-24143-entry-removed-dense 3"),
    ("diff", "cachesim diff llama-24143-entry-removed-dense -p b9518 -p pr24143-on-b9518"),
    ("bisect", "cachesim bisect S100.A40/S.B40"),
    ("explain", "cachesim explain pos_min"),
    ("lesson", "cachesim lesson 1"),
    ("options", "cachesim options"),
    ("fuzz", "cachesim fuzz -p latest --minutes 1"),
)
"""Commands of the overview, in the order in which a new user needs them, each with an example."""


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
        groups = [[f"{title}:", *(f"  {name:10} {COMMANDS[name][1]}" for name in names)]
                  for title, names in GROUPS.items()]  # fmt: skip
        shown = {name for names in GROUPS.values() for name in names}
        more = [f"more: {' '.join(name for name in COMMANDS if name not in shown)}"]
        options = ["cachesim COMMAND --help: options of a command", "cachesim --version: version and newest rule sets"]
        head = ["usage: cachesim COMMAND ...", "", "Reference simulator of cache semantics in LLM servers."]
        parts = [head, *groups, more, options, [EXIT_CODES]]
        return "\n\n".join("\n".join(lines) for lines in parts) + "\n"


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
    with _ending():
        return _exit_code(list(sys.argv[1:] if argv is None else argv))


def _exit_code(argv: list[str]) -> int:
    """Return the exit code; report errors on stderr, and with ``--json`` as an object on stdout."""
    try:
        return _flushed(argv)
    except BrokenPipeError:
        _forget_stdout()
        return exits.HOLDS if argv and argv[0] in LISTS else exits.BROKEN_PIPE
    except KeyboardInterrupt as error:
        import_module("cachesim.base.console").complain("interrupted")
        return _as_json(argv, "interrupted", exits.interrupted(error), error)
    except Exception as error:
        from cachesim.base.console import complain
        from cachesim.cli.output_options import report_crash

        jobs = import_module("cachesim.tools.run.run_jobs")
        wrong = error if isinstance(error, BadInput) else jobs.rule_file_error(error)
        if wrong is not None:
            complain(str(wrong))
            return _as_json(argv, "input", exits.BAD_INPUT, wrong)
        report_crash(error)
        return _as_json(argv, "crash", exits.CRASH, error)


def _as_json(argv: list[str], kind: str, code: int, error: BaseException) -> int:
    """Print an error as JSON, if JSON was requested and stdout accepts it; return the code."""
    from cachesim.cli.output_options import error_data, wants_json

    if wants_json(argv) and sys.stdout is not None and not isinstance(error, Unwritable):
        from cachesim.base.console import say_json

        with suppress(OSError, BadInput):
            say_json(error_data(kind, code, error))
            sys.stdout.flush()
    return code


def _flushed(argv: list[str]) -> int:
    """Run the command and flush its results. Raises BadInput if stdout does not accept them; if stdout is closed,
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


@contextmanager
def _ending() -> Iterator[None]:
    """Treat termination signals like Ctrl-C, unless the parent process had them ignored. Has no effect outside the main
    thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in ENDING]
    handled = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
    for number in handled:
        signal.signal(number, _terminated)
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, signal.SIG_DFL)


def _terminated(number: int, _: object) -> NoReturn:
    raise Terminated(number)


def _replaced(error: UnicodeError) -> tuple[str, int]:
    """Replace signs that the encoding of a stream lacks, so that results reach an ASCII terminal."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(ASCII.get(sign, "?") for sign in error.object[error.start : error.end]), error.end


def _run(argv: list[str]) -> int:
    chosen = FORMER.get(argv[0], argv[0]) if argv and not argv[0].startswith("-") else None
    if chosen is not None and chosen not in COMMANDS:
        raise BadInput(f"unknown command {quoted(chosen)}", hint=nearest(chosen, COMMANDS) or "see cachesim --help")
    parser, commands = _parsers([chosen] if chosen else [])
    if chosen is None:
        _parse(parser, argv)
        import_module("cachesim.base.console").say(_card())
        return exits.HOLDS
    command = commands[chosen]
    command.prog = f"cachesim {argv[0]}"
    import_module("cachesim.cli.output_options").apply_output_options(argv)
    prepared = getattr(_module(chosen), "prepared", None)
    args = _parse(command, prepared(argv[1:], command._option_string_actions) if prepared else argv[1:])
    import_module("cachesim.tools.run.arguments").lift_limits(args)
    if hasattr(_module(chosen), "PARSERS"):
        args.parsers = _parsers(COMMANDS)
    if hasattr(_module(chosen), "IMPORTS"):
        args.imported = import_module("cachesim.cli.imported_case").imported_case
    code: int = _module(chosen).run(args)
    return code


class _Version(Action):
    """``--version``: version of cachesim, and the newest rule set of each engine."""

    def __call__(self, parser: ArgumentParser, *_: Any, **__: Any) -> None:
        from cachesim.engines.registry import ENGINES

        newest = [engine.newest or engine.line[-1] for engine in ENGINES.values() if engine.line]
        parser._print_message(f"cachesim {__version__}\n{', '.join(newest)}\n")
        parser.exit()


def _parsers(chosen: Collection[str]) -> tuple[Parser, dict[str, Parser]]:
    """Return the top-level parser and the parsers of the chosen commands; only these get their arguments."""
    parser = TopParser(prog="cachesim", allow_abbrev=False)
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and the newest rule sets")
    table = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=Parser)
    commands = {}
    for name, (_, line) in COMMANDS.items():
        command = table.add_parser(name, prog=f"cachesim {name}", help=line, description=line, allow_abbrev=False)
        if name in chosen:
            _module(name).add_arguments(command)
            import_module("cachesim.cli.output_options").add_output_options(command)
            commands[name] = command
    return parser, commands


def _card() -> str:
    """Return the overview that is printed without a command: the commands, with examples of the first."""
    rest = [name for name in COMMANDS if name not in dict(CARD)]
    lines = [f"cachesim {__version__}: reference simulator of cache semantics in LLM servers", ""]
    for name, example in CARD:
        lines += [f"  {name:8} {COMMANDS[name][1]}", f"      {example}"]
    words = wrap(" ".join(rest), 78, initial_indent="  more:    ", subsequent_indent=" " * 11)
    last = "Options: cachesim COMMAND --help. Shell completion: cachesim completion bash."
    return "\n".join([*lines, *words, "", last])


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
