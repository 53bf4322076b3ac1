"""Command ``cachesim export FILE|LINE --to FORM``: a scenario as a program, test or report for other people."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cachesim.base import exits
from cachesim.base.console import complain, note, say, say_json
from cachesim.base.errors import BadInput, unfinished
from cachesim.base.progress_bar import LateBar
from cachesim.tools.live.llama_server.export import FORMS
from cachesim.tools.run.arguments import add_json, add_model, add_profiles, add_settings, case_options, read_case
from cachesim.tools.run.work_arguments import add_limits

if TYPE_CHECKING:
    from cachesim.scenarios.schema import Scenario
    from cachesim.tools.live.llama_server.export.script import Script

CLASS_FORMS = ("pytest", "issue")
"""Forms with a program for the classes of a released package, for engines that have one."""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("what", metavar="FILE|LINE", help="scenario file, id, or requests in one line")
    parser.add_argument("--to", dest="form", choices=tuple(FORMS), required=True,
                        help="; ".join(f"{name}: {text}" for name, text in FORMS.items()))  # fmt: skip
    parser.add_argument("--with-server", action="store_true", help="with --to curl: alias of --to script")
    parser.add_argument("--out", "-o", metavar="FILE", type=Path, help="file to write (default: standard output)")
    add_model(parser)
    parser.add_argument("--wheel", metavar="BUILD", default="", help="script, issue: run llama-server of this build "
                        "from the package xllamacpp, so that only pip is needed (cachesim real list)")  # fmt: skip
    parser.add_argument("--server", metavar="BIN", type=Path, help="issue: llama-server to run for results and log")
    parser.add_argument("--gguf", type=Path, help="issue: model file for --server")
    add_profiles(parser, "rule set for the expected numbers (default: the newest)")
    add_settings(parser)
    add_limits(parser)
    add_json(parser)


class IssueOptions(NamedTuple):
    """What an issue shows beside the scenario."""

    server: Path | None         # llama-server whose results and log it has, None = no results
    gguf: Path | None           # model file of the server
    notes_fault: bool           # print a note on stderr about the first fault


class ExportedText(NamedTuple):
    """An exported text, and notes on requests that had to be changed."""

    text: str
    notes: tuple[str, ...]


def run(args: Namespace) -> int:
    from cachesim.engines.registry import engine_named

    scenario = read_case(args.what, case_options(args))
    if len(args.profiles) > 1:
        raise BadInput("expected at most one profile for the expected numbers")
    profile = profile_of(scenario, args.profiles)
    if args.wheel and args.form not in ("script", "issue"):
        raise BadInput("--wheel goes with --to script and --to issue")
    if (args.server is None) != (args.gguf is None):
        raise BadInput("expected --server and --gguf together")
    if args.form == "toml":
        from cachesim.tools.live.llama_server.export.scenario_file import scenario_file

        name = args.out.stem if args.out else scenario.id
        exported = ExportedText(scenario_file(scenario, profile, name), ())
    elif args.form in CLASS_FORMS and (test := engine_named(scenario.engine).class_test()) is not None:
        from cachesim.tools.live.class_export import class_issue, class_program

        exported = ExportedText((class_program if args.form == "pytest" else class_issue)(scenario, profile, test), ())
    else:
        form = "script" if args.form == "curl" and args.with_server else args.form
        issue = IssueOptions(server=args.server, gguf=args.gguf, notes_fault=not args.json)
        exported = _exported(scenario, profile, form, args.wheel, issue)
    text, notes = exported
    for deviation in notes:
        complain(f"{scenario.id}: {deviation}")
    if args.out is not None:
        from cachesim.base.files import write_whole

        write_whole(args.out, text.encode("utf-8"))
    if args.json:
        say_json({"to": args.form, "file": str(args.out or ""), "text": text, "notes": list(notes)})
    elif args.out is None:
        say(text.rstrip("\n"))
    return exits.HOLDS


def profile_of(scenario: Scenario, asked: list[str]) -> str:
    """Return the requested rule set, by default the newest of the scenario's engine. Raise BadInput."""
    from cachesim.engines.registry import engine_named
    from cachesim.tools.run.arguments import chosen_profiles

    engine = engine_named(scenario.engine)
    return chosen_profiles(scenario, asked)[0] if asked else engine.newest or [*engine.line][-1]


def _exported(scenario: Scenario, profile: str, form: str, build: str, asked: IssueOptions) -> ExportedText:
    """Return a scenario as a program, test or issue with the numbers of a rule set. ``build``: of the package with the
    server, "" = none. Raise BadInput."""
    from cachesim.tools.live.llama_server.export.issue import check_fault
    from cachesim.tools.live.llama_server.export.program_text import standalone_script
    from cachesim.tools.live.llama_server.export.python_test import pytest_file, server_test
    from cachesim.tools.live.llama_server.export.script import make_script
    from cachesim.tools.live.llama_server.export.shell import shell_script

    with LateBar("running the case"):
        script = make_script(scenario, profile)
    check_fault(script)
    if form == "script":
        return ExportedText(standalone_script(script, _wheel(build)), script.notes)
    if form == "curl":
        return ExportedText(shell_script(script), script.notes)
    if form != "issue":
        return ExportedText((pytest_file if form == "pytest" else server_test)(script), script.notes)
    return ExportedText(_issue(script, scenario.id, build, asked), script.notes)


def _issue(script: Script, name: str, build: str, asked: IssueOptions) -> str:
    """Return an issue about the scenario of this name. ``build``: of the package with the server, "" = none."""
    from cachesim.tools.live.llama_server.export.issue import first_fault, issue
    from cachesim.tools.live.llama_server.export.program_text import standalone_script
    from cachesim.tools.live.llama_server.export.scenario_file import observed

    heard = None
    if asked.server is not None and asked.gguf is not None:
        heard = observed(script, asked.server, asked.gguf)
    if asked.notes_fault and (fault := first_fault(script)):
        note(f"{name}: {fault}")
    with unfinished("the search for the first bad version was not finished"):
        wheel = _wheel(build)
        needs = wheel[0] if wheel else "llama-server"
        return issue(script, standalone_script(script, wheel), heard, needs)


def _wheel(build: str) -> tuple[str, str] | None:
    """Return the package with the server of a build and its name, None without one. Raise BadInput."""
    if not build:
        return None
    from cachesim.tools.live.llama_server.real.wheels import find_wheel

    wheel = find_wheel(build)
    return wheel.requirement, wheel.build
