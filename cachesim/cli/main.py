"""The command ``cachesim``: which sub-command was asked for, and how does its end become an exit code?

Nothing heavy is imported here; a command's module is imported only when that command is given.
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
    "run": ("tools.run.run_command", "run scenario files under one or more profiles"),
    "try": ("tools.run.try_command", "run requests written in one line"),
    "why": ("tools.run.why_command", "show the decisions behind one request of a scenario"),
    "advise": ("tools.advise.command", "find the flags, builds and requests that would have helped"),
    "diff": ("tools.run.diff_command", "compare two profiles on a scenario"),
    "explain": ("tools.rulebook.explain_command", "explain a rule and name its source"),
    "lesson": ("tools.lessons.command", "how these caches work, in seven short lessons with exercises"),
    "profiles": ("tools.rulebook.profiles_command", "list, show or compare rule sets"),
    "options": ("tools.rulebook.options_command", "list a server's flags: defaults, and what each changes"),
    "bisect": ("tools.run.bisect_command", "find the version, and the rule in it, that changed the outcome"),
    "fuzz": ("tools.search.fuzz_command", "search for conversations that break a property"),
    "merge": ("tools.search.merge_command", "put campaigns of several machines together"),
    "shrink": ("tools.search.shrink_command", "make a conversation that is broken as small as it can be"),
    "repair": ("tools.search.repair_command", "find the rule whose change cures each failure, and what that costs"),
    "scenarios": ("tools.run.scenarios_command", "list the scenarios that come with cachesim"),
    "workload": ("tools.workload.command", "play recorded sessions under rule sets: tokens, MiB, bounds"),
    "replay": ("tools.replay.command", "compare the simulator with recorded traces of real servers"),
    "import": ("tools.server_logs.command", "turn a server's log into a scenario, with what was lost and why"),
    "verify": ("tools.live.verify_command", "compare a case with what a real llama-server does, request by request"),
    "check": ("tools.conformance.check_command", "ask a running server whether its cache is sound"),
    "export": ("tools.live.export_command", "write a case as a script, a test, an issue or a scenario file"),
    "record": ("tools.live.record_command", "play scenarios on a real llama-server and record what it does"),
    "completion": ("cli.completion", "print a script that completes commands in a shell"),
}
"""Sub-command -> its module in cachesim, and its line of help."""

LISTS = ("profiles", "explain", "options", "scenarios", "lesson", "completion")
"""Commands that only print: nothing is lost where somebody reads their beginning only."""

CARD = (
    ("try", "cachesim try S40.A60/B80/S.C50/S.A --model qwen3-next -np 2"),
    ("run", "cachesim run seed-24143-dense"),
    ("why", "cachesim why seed-24143-dense 3"),
    ("diff", "cachesim diff seed-24143-dense -p b9518 -p latest"),
    ("bisect", "cachesim bisect S100.A40/S.B40"),
    ("explain", "cachesim explain pos_min"),
    ("lesson", "cachesim lesson 1"),
    ("options", "cachesim options"),
    ("fuzz", "cachesim fuzz -p latest --minutes 1"),
)
"""Commands on the card, in the order in which one meets them, and an example of each."""


_CHOICES = re.compile(r" \(choose from .{150,}\)$")      # many, which --help lists
_LONG = re.compile(r"'[^']{79,}'|\S{81,}")          # values that argparse repeats


class Parser(ArgumentParser):
    """An argument parser that raises instead of printing usage and ending the process."""

    def error(self, message: str) -> NoReturn:
        said = _CHOICES.sub("", _LONG.sub(lambda found: cut(found[0]), message))
        raise BadInput(said, hint=f"see {self.prog} --help")

    def _print_message(self, message: str, file: Any = None) -> None:
        """Help and version, of which the parent class would not say that they cannot be written."""
        with stdout_errors():
            (file or sys.stdout).write(message)


# Our matrices are small: a second BLAS thread only waits for the first, and on a busy machine that takes fifteen times
# as long. The numbers do not depend on it. NumPy reads this when it is imported, which no command has done yet.
ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


ASCII = {"·": "-", "…": "~"}
"""Signs of our tables, and what stands for them where the output cannot show them."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code. No exception leaves this function except SystemExit."""
    for name in ONE_THREAD:
        os.environ.setdefault(name, "1")
    codecs.register_error("cachesim", _replaced)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="cachesim")
    with _ending():
        return _told(list(sys.argv[1:] if argv is None else argv))


def _told(argv: list[str]) -> int:
    """The exit code; what went wrong is on stderr, and with ``--json`` as an object on stdout."""
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
    """Print an error as JSON, if JSON is asked for and stdout takes it; returns the code."""
    from cachesim.cli.output_options import error_data, wants_json

    if wants_json(argv) and sys.stdout is not None and not isinstance(error, Unwritable):
        from cachesim.base.console import say_json

        with suppress(OSError, BadInput):
            say_json(error_data(kind, code, error))
            sys.stdout.flush()
    return code


def _flushed(argv: list[str]) -> int:
    """Run the command, and see that its results arrive. Raises BadInput if stdout does not take them, before anything
    is done if that is closed."""
    if sys.stdout is None:
        raise BadInput("standard output is closed", hint="> /dev/null, if only the exit code is wanted")
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
    """The interpreter flushes stdout once more at its end; give it somewhere to write."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _ending() -> Iterator[None]:
    """A signal that asks us to end is heard like Ctrl-C, unless whoever started us had it ignored. Only the main thread
    may say so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in ENDING]
    heard = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
    for number in heard:
        signal.signal(number, _terminated)
    try:
        yield
    finally:
        for number in heard:
            signal.signal(number, signal.SIG_DFL)


def _terminated(number: int, _: object) -> NoReturn:
    raise Terminated(number)


def _replaced(error: UnicodeError) -> tuple[str, int]:
    """What a stream's encoding lacks is written as another sign: no result is lost to a terminal that knows ASCII
    only."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(ASCII.get(sign, "?") for sign in error.object[error.start : error.end]), error.end


def _run(argv: list[str]) -> int:
    chosen = argv[0] if argv and not argv[0].startswith("-") else None
    if chosen is not None and chosen not in COMMANDS:
        raise BadInput(f"unknown command {quoted(chosen)}", hint=nearest(chosen, COMMANDS) or "see cachesim --help")
    parser, commands = _parsers([chosen] if chosen else [])
    if chosen is None:
        _parse(parser, argv)
        import_module("cachesim.base.console").say(_card())
        return exits.HOLDS
    command = commands[chosen]
    import_module("cachesim.cli.output_options").mind(argv)
    prepared = getattr(_module(chosen), "prepared", None)
    args = _parse(command, prepared(argv[1:], command._option_string_actions) if prepared else argv[1:])
    import_module("cachesim.tools.run.arguments").lift_limits(args)
    if hasattr(_module(chosen), "PARSERS"):
        args.parsers = _parsers(COMMANDS)
    code: int = _module(chosen).run(args)
    return code


class _Version(Action):
    """``--version``: ours, and the newest rule set of each engine."""

    def __call__(self, parser: ArgumentParser, *_: Any, **__: Any) -> None:
        from cachesim.engines.registry import ENGINES

        newest = [engine.newest or engine.line[-1] for engine in ENGINES.values() if engine.line]
        parser._print_message(f"cachesim {__version__}\n{', '.join(newest)}\n")
        parser.exit()


def _parsers(chosen: Collection[str]) -> tuple[Parser, dict[str, Parser]]:
    """The parser of the whole line, and those of the chosen commands: only these get their arguments."""
    parser = Parser(prog="cachesim", allow_abbrev=False,
                    description="Reference simulator of cache semantics in LLM servers.")  # fmt: skip
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and the newest rule sets")
    table = parser.add_subparsers(title="commands", metavar="COMMAND")
    commands = {}
    for name, (_, line) in COMMANDS.items():
        one = table.add_parser(name, prog=f"cachesim {name}", help=line, description=line, allow_abbrev=False)
        if name in chosen:
            _module(name).add_arguments(one)
            import_module("cachesim.cli.output_options").add_manners(one)
            commands[name] = one
    return parser, commands


def _card() -> str:
    """What a command line without a command shows: the commands, with an example of the first ones."""
    rest = [name for name in COMMANDS if name not in dict(CARD)]
    lines = [f"cachesim {__version__}: reference simulator of cache semantics in LLM servers", ""]
    for name, example in CARD:
        lines += [f"  {name:8} {COMMANDS[name][1]}", f"           {example}"]
    words = wrap(" ".join(rest), 78, initial_indent="  more:    ", subsequent_indent=" " * 11)
    last = "cachesim COMMAND --help says more; cachesim completion bash completes words."
    return "\n".join([*lines, *words, "", last])


def _parse(parser: Parser, argv: list[str]) -> Namespace:
    """The arguments; an unknown one is an error that names the nearest option. Where server options can be set, the
    server's own flags are taken too: they join ``args.settings``, and ``args.silent`` are those that change nothing."""
    taken = None
    if any(one.dest == "settings" for one in parser._actions):
        taken = import_module("cachesim.cli.engine_flags").take(argv, parser)
        argv = taken.argv
    args, extra = parser.parse_known_args(argv)
    if extra:
        raise _unknown(parser, extra[0].partition("=")[0], argv if taken else None)
    if taken:
        args.settings = [*args.settings, *taken.settings]
        if taken.silent:
            import_module("cachesim.base.console").note(f"changes nothing here: {', '.join(taken.silent)}")
    return args


def _unknown(parser: Parser, word: str, argv: list[str] | None) -> BadInput:
    """``argv``: the command line, if it may have flags of a server."""
    known = sorted(name for name in parser._option_string_actions if name.startswith("--"))
    if argv is not None and word.startswith("-"):
        known += import_module("cachesim.cli.engine_flags").spellings(argv)
    kind = "option" if word.startswith("-") else "argument"
    hint = nearest(word, known) or f"see {parser.prog} --help"
    if argv is not None and not hint.startswith("did") and kind == "option":
        hint += "; for a server's flags, cachesim options ENGINE"
    return BadInput(f"unknown {kind} {quoted(word)}", hint=hint)


def _module(name: str) -> ModuleType:
    return import_module(f"cachesim.{COMMANDS[name][0]}")
