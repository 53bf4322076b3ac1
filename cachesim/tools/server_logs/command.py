"""``cachesim import FILE...``: turn a server log into a scenario, or report what changed between request bodies."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterator, Sequence

from cachesim.base import exits
from cachesim.base.errors import BadInput, unfinished
from cachesim.base.escaping import shell_command
from cachesim.base.limits import OF_AN_IMPORT
from cachesim.base.untrusted_files import argument_path, kind
from cachesim.tools.picture.picture_options import PictureOptions, add_pictures, picture_files
from cachesim.tools.request_bodies.command import SCHEMA, add_body_arguments, run_bodies
from cachesim.tools.run.arguments import add_json, add_profiles, add_server, add_settings, case_arguments, case_options
from cachesim.tools.run.pictured_runs import draw_text
from cachesim.tools.run.work_arguments import add_limits

if TYPE_CHECKING:
    from cachesim.base.console import ProgressBar
    from cachesim.tools.advise.saved_tokens import RepairCase
    from cachesim.tools.server_logs.import_log import LogReading


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="+",
                        help="server log of any build (- = standard input), or request bodies: JSON, JSON lines, HAR, "
                             "folder")  # fmt: skip
    parser.add_argument("-o", "--out", metavar="FILE", default="", help="scenario file to write (for a single log)")
    parser.add_argument("--force", action="store_true", help="overwrite FILE")
    parser.add_argument("--model", default="",
                        help="layers or name of the model (default: inferred from the log)")
    add_profiles(parser, "rule set, build or date of the server (default: inferred from the log)")
    add_settings(parser)
    add_server(parser)
    add_limits(parser, *OF_AN_IMPORT)
    add_body_arguments(parser)
    add_json(parser)
    add_pictures(parser)


def run(args: Namespace) -> int:
    from cachesim.base.console import say_json
    from cachesim.scenarios.option_checks import parse_settings
    from cachesim.tools.request_bodies.body_files import are_bodies

    if are_bodies(args.files):
        return run_bodies(args)
    if picture_files(args).are_wanted() and len(args.files) > 1:
        raise BadInput("a picture can show one log only, found several")
    _check_out(args)
    engine = args.profiles[0].partition("@")[0] if args.profiles else ""
    if args.settings and not engine:
        raise BadInput("--set needs -p (options depend on the engine)")
    server = parse_settings(args.settings, engine)
    results = [_imported(args, name, server) for name in args.files]
    if args.json:
        say_json({"schema": SCHEMA, "logs": [{**data, "toml": text} for data, text in results]})
    if picture_files(args).are_wanted():
        _draw(args, *results[0])
    undecided = any(data["undecided"] or not data["line"] for data, _ in results)
    return exits.UNDECIDED if undecided else exits.HOLDS


def _imported(args: Namespace, name: str, server: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Return the report on a log as data, and its scenario file, which is also written if the user asked for it. Print
    the report unless JSON was requested: what rests on the log alone before the log is simulated."""
    from cachesim.base.console import ProgressBar, show
    from cachesim.tools.server_logs.import_log import read_log
    from cachesim.tools.server_logs.report.import_report import report_head, report_rest

    read = read_log(argument_path(name), args.profiles, _reading)
    if not args.json:
        show(report_head(read.as_data()))
    with unfinished(f"the simulation of {name} was not finished"), ProgressBar() as bar:
        data, text = _simulated(args, read, server, bar)
    if not args.json:
        show(report_rest(data, args.out, bool(args.verbose)))
    return data, text


def _simulated(
    args: Namespace, read: LogReading, server: dict[str, Any], bar: ProgressBar
) -> tuple[dict[str, Any], str]:
    """Return the report on a log with its simulation, as data, and its scenario file. ``bar`` shows what is done."""
    from cachesim.base.files import write_whole
    from cachesim.tools.advise.saved_tokens import saved_tokens
    from cachesim.tools.server_logs.import_log import simulate_log
    from cachesim.tools.server_logs.rebuild.assumed_history import repair_case
    from cachesim.tools.server_logs.rebuild.case_facts_of_log import unproved_changes
    from cachesim.tools.server_logs.rebuild.cures import cures
    from cachesim.tools.server_logs.report.first_lines import first_lines

    bar.show("simulating the log")
    imported = simulate_log(
        read, args.profiles, args.model, server,
        name=Path(args.out).stem, with_text=args.with_text, logs=len(args.files),
    )  # fmt: skip
    data = imported.data
    found = imported.found
    facts = imported.facts
    data["saved"] = None
    if found is not None and facts is not None and not args.quiet:
        case = repair_case(found, facts)
        excluded = unproved_changes(data["statements"])
        bar.show("trying other clients and flags")
        data["saved"] = case and saved_tokens(case._replace(excluded=case.excluded | excluded))
        bar.show("trying cures of the costliest request")
        data["cures"] = cures(found, data["statements"], facts)
    data["arguments"] = case_arguments(case_options(args), args.limits)
    data["first_lines"] = [line.as_data() for line in first_lines(data, args.out)]
    if args.out:
        if not imported.text:
            missing = imported.refused or "the log contains no complete request to simulate"
            raise BadInput(missing, file=str(read.path))
        write_whole(Path(args.out), imported.text.encode())
    return data, imported.text


def _check_out(args: Namespace) -> None:
    """Raise BadInput if the scenario file cannot be written."""
    if args.out and len(args.files) > 1:
        raise BadInput("-o writes one scenario file, found several logs (import each log by itself)")
    if args.out and not args.force and kind(args.out):
        raise BadInput("the file exists", file=args.out, hint="--force overwrites it")


def _draw(args: Namespace, data: dict[str, Any], text: str) -> None:
    """Draw the scenario of a log, if there is one, below the report."""
    from cachesim.tools.server_logs.report.headline import headline
    from cachesim.tools.server_logs.report.import_report import import_report

    if text:
        short, verbose = (import_report(data, args.out, everything) for everything in (False, True))
        command = shell_command(["cachesim", "import", args.files[0], *data["arguments"]])
        note, name = headline(data["statements"]).plain, "simulated with assumed texts"
        draw_text(picture_files(args), text, PictureOptions(command, note, names=[name], report=short, verbose=verbose))


def log_case(path: Path, profiles: Sequence[str], model: str, settings: Sequence[str]) -> RepairCase:
    """Return the conversation of a log for ``cachesim advise``, with what the log shows about its server. Raise
    BadInput without a request to simulate."""
    from cachesim.base.console import ProgressBar
    from cachesim.scenarios.option_checks import parse_settings
    from cachesim.tools.advise.saved_tokens import RepairCase
    from cachesim.tools.server_logs.import_log import read_log, simulate_log
    from cachesim.tools.server_logs.rebuild.assumed_history import EXCLUDED, repair_case
    from cachesim.tools.server_logs.rebuild.case_facts_of_log import unproved_changes
    from cachesim.tools.server_logs.rebuild.proposed_changes import proposed_changes

    engine = profiles[0].partition("@")[0] if profiles else ""
    if settings and not engine:
        raise BadInput("--set needs -p (options depend on the engine)")
    server = parse_settings(list(settings), engine)
    read = read_log(path, profiles, _reading)
    with unfinished(f"the simulation of {path} was not finished"), ProgressBar() as bar:
        bar.show("simulating the log")
        imported = simulate_log(read, profiles, model, server)
    data = imported.data
    found = imported.found
    facts = imported.facts
    if found is None or facts is None or not found.line:
        raise BadInput(imported.refused or "the log contains no complete request to simulate", file=str(path))
    case = repair_case(found, facts) or RepairCase(found.scenario, facts=facts)
    excluded = case.excluded | EXCLUDED | unproved_changes(data["statements"])
    return case._replace(excluded=excluded, proposed=proposed_changes(found, data, bool(case.assumes)))


def _reading(lines: Iterator[str]) -> Iterator[str]:
    """Yield the lines and draw a progress bar on a terminal."""
    from cachesim.base.console import progress

    return progress(lines, None, "reading")
