"""``cachesim import FILE...``: turn a server log into a scenario, or report what changed between request bodies."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterator, Mapping, NamedTuple, Sequence

from cachesim.base import exits
from cachesim.base.errors import BadInput, unfinished
from cachesim.base.escaping import shell_command
from cachesim.base.limits import OF_AN_IMPORT
from cachesim.base.untrusted_files import argument_path, kind
from cachesim.tools.picture.picture_options import PictureFiles, PictureOptions, add_pictures, picture_files
from cachesim.tools.picture.plot_file import add_plot, plot_file
from cachesim.tools.request_bodies.command import SCHEMA, add_body_arguments, run_bodies
from cachesim.tools.run.arguments import (
    CaseOptions,
    add_json,
    add_profiles,
    add_server,
    add_settings,
    case_arguments,
    case_options,
)
from cachesim.tools.run.pictured_runs import draw_text
from cachesim.tools.run.work_arguments import add_limits

if TYPE_CHECKING:
    from cachesim.base.progress_bar import ProgressBar
    from cachesim.tools.advise.saved_tokens import RepairCase
    from cachesim.tools.server_logs.import_log import LogReading


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="+",
                        help="server log of any build (- = standard input), request bodies: JSON, JSON lines, HAR, "
                             "folder; or KV events, then request bodies")  # fmt: skip
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
    add_plot(parser, "the prompt of each request: reusable, evaluated again, new")


class LogImportOptions(NamedTuple):
    """What the user said about logs and about the import of each."""

    case: CaseOptions
    server: Mapping[str, Any]               # the settings of ``case``, parsed
    limits: Sequence[tuple[str, int]]       # names and amounts of --limit
    out: str                                # scenario file to write, "" = none
    with_text: bool                         # texts in the scenario file
    logs: int                               # number of logs
    tries_changes: bool                     # try other clients, flags and cures


INCOMPLETE = "the log contains no complete request to simulate"


class ImportedLog(NamedTuple):
    """The report on a log as data, and its scenario file."""

    data: dict[str, Any]
    text: str                               # "" = no request could be simulated
    refused: str = ""                       # why not, "" = the log has no complete request


def run(args: Namespace) -> int:
    from cachesim.base.console import complain, say_json
    from cachesim.scenarios.option_checks import parse_settings
    from cachesim.tools.request_bodies.body_files import are_bodies
    from cachesim.tools.server_logs.kv_events.message_reader import has_events

    file = plot_file(args)
    if has_events(Path(args.files[0])):
        if file:
            raise BadInput("--plot needs a log or request bodies, found KV events")
        from cachesim.tools.server_logs.kv_events.command import run_events

        return run_events(args)
    if are_bodies(args.files):
        return run_bodies(args)
    pictures = picture_files(args)
    if (pictures.are_wanted() or file) and len(args.files) > 1:
        raise BadInput("a picture can show one log only, found several")
    _check_out(args.out, len(args.files), may_overwrite=args.force)
    engine = args.profiles[0].partition("@")[0] if args.profiles else ""
    if args.settings and not engine:
        raise BadInput("--set needs -p (options depend on the engine)")
    server = parse_settings(args.settings, engine)
    asked = LogImportOptions(
        case=case_options(args), server=server, limits=args.limits, out=args.out, with_text=args.with_text,
        logs=len(args.files), tries_changes=not args.quiet,
    )  # fmt: skip
    results = [_imported(name, asked, as_json=args.json, everything=bool(args.verbose)) for name in args.files]
    if args.json:
        say_json({"schema": SCHEMA, "logs": [{**found.data, "toml": found.text} for found in results]})
    is_missing = bool(args.out) and not results[0].text
    if is_missing:
        complain(f"{args.files[0]}: {results[0].refused or INCOMPLETE}: {args.out} was not written")
    if pictures.are_wanted():
        _draw(pictures, args.files[0], args.out, results[0])
    if file:
        from cachesim.tools.picture.plot_file import write_plots
        from cachesim.tools.server_logs.report.growth_plot import log_plots
        from cachesim.tools.server_logs.report.import_report import import_report

        data = results[0].data
        write_plots(file, log_plots(data), import_report(data, args.out, False))
    undecided = any(found.data["undecided"] or not found.data["line"] for found in results)
    return exits.BAD_INPUT if is_missing else exits.UNDECIDED if undecided else exits.HOLDS


def _imported(name: str, asked: LogImportOptions, *, as_json: bool, everything: bool) -> ImportedLog:
    """Return the report on a log, and its scenario file, which is also written if the user asked for it and there is
    one. Print the report unless JSON was requested: what rests on the log alone before the log is simulated.
    ``everything``: all of the report."""
    from cachesim.base.console import show
    from cachesim.base.progress_bar import ProgressBar
    from cachesim.tools.server_logs.import_log import read_log
    from cachesim.tools.server_logs.report.import_report import report_head, report_rest

    read = read_log(argument_path(name), asked.case.profiles, _reading)
    if not as_json:
        show(report_head(read.as_data()))
    with unfinished(f"the simulation of {name} was not finished"), ProgressBar() as bar:
        imported = _simulated(asked, read, bar)
    if not as_json:
        show(report_rest(imported.data, asked.out, everything))
    return imported


def _simulated(asked: LogImportOptions, read: LogReading, bar: ProgressBar) -> ImportedLog:
    """Return the report on a log with its simulation, and its scenario file. ``bar`` shows what is done."""
    from cachesim.base.files import write_whole
    from cachesim.tools.advise.saved_tokens import saved_tokens
    from cachesim.tools.advise.setup_changes import TrialRuns
    from cachesim.tools.server_logs.import_log import simulate_log
    from cachesim.tools.server_logs.rebuild.assumed_history import repair_case
    from cachesim.tools.server_logs.rebuild.case_facts_of_log import unproved_changes
    from cachesim.tools.server_logs.rebuild.cures import cures
    from cachesim.tools.server_logs.report.first_lines import first_lines

    bar.show("simulating the log")
    imported = simulate_log(
        read, asked.case.profiles, asked.case.model or "", asked.server,
        name=Path(asked.out).stem, with_text=asked.with_text, logs=asked.logs,
    )  # fmt: skip
    data = imported.data
    found = imported.found
    facts = imported.facts
    data["saved"] = None
    if found is not None and facts is not None and asked.tries_changes:
        case = repair_case(found, facts)
        excluded = unproved_changes(data["statements"])
        runs = TrialRuns()
        bar.show("trying other clients and flags")
        data["saved"] = case and saved_tokens(case._replace(excluded=case.excluded | excluded), runs=runs)
        bar.show("trying cures of the costliest request")
        data["cures"] = cures(found, data["statements"], facts, runs)
    data["arguments"] = case_arguments(asked.case, asked.limits)
    data["first_lines"] = [line.as_data() for line in first_lines(data, asked.out)]
    if asked.out and imported.text:
        write_whole(Path(asked.out), imported.text.encode())
    return ImportedLog(data, imported.text, imported.refused)


def _check_out(out: str, logs: int, *, may_overwrite: bool) -> None:
    """Raise BadInput if the scenario file ``out`` of this number of logs cannot be written."""
    if out and logs > 1:
        raise BadInput("-o writes one scenario file, found several logs (import each log by itself)")
    if out and not may_overwrite and kind(out):
        raise BadInput("the file exists", file=out, hint="--force overwrites it")


def _draw(pictures: PictureFiles, file: str, out: str, imported: ImportedLog) -> None:
    """Draw the scenario of the log ``file``, if there is one, below the report. ``out``: scenario file that was
    written, "" = none."""
    from cachesim.tools.server_logs.report.headline import headline
    from cachesim.tools.server_logs.report.import_report import import_report

    data = imported.data
    if imported.text:
        short, verbose = (import_report(data, out, everything) for everything in (False, True))
        command = shell_command(["cachesim", "import", file, *data["arguments"]])
        note, name = headline(data["statements"]).plain, "simulated with assumed texts"
        shown = PictureOptions(command, note, names=[name], report=short, verbose=verbose)
        draw_text(pictures, imported.text, shown)


def log_case(path: Path, options: CaseOptions) -> RepairCase:
    """Return the conversation of a log for ``cachesim advise``, with what the log shows about its server. Raise
    BadInput without a request to simulate."""
    from cachesim.base.progress_bar import ProgressBar
    from cachesim.scenarios.option_checks import parse_settings
    from cachesim.tools.advise.saved_tokens import RepairCase
    from cachesim.tools.server_logs.import_log import read_log, simulate_log
    from cachesim.tools.server_logs.rebuild.assumed_history import EXCLUDED, repair_case
    from cachesim.tools.server_logs.rebuild.case_facts_of_log import unproved_changes
    from cachesim.tools.server_logs.rebuild.proposed_changes import proposed_changes

    profiles = options.profiles
    engine = profiles[0].partition("@")[0] if profiles else ""
    if options.settings and not engine:
        raise BadInput("--set needs -p (options depend on the engine)")
    server = parse_settings(list(options.settings), engine)
    read = read_log(path, profiles, _reading)
    with unfinished(f"the simulation of {path} was not finished"), ProgressBar() as bar:
        bar.show("simulating the log")
        imported = simulate_log(read, profiles, options.model or "", server)
    data = imported.data
    found = imported.found
    facts = imported.facts
    if found is None or facts is None or not found.line:
        raise BadInput(imported.refused or INCOMPLETE, file=str(path))
    case = repair_case(found, facts) or RepairCase(found.scenario, facts=facts)
    excluded = case.excluded | EXCLUDED | unproved_changes(data["statements"])
    return case._replace(excluded=excluded, proposed=proposed_changes(found, data, bool(case.assumes)))


def _reading(lines: Iterator[str]) -> Iterator[str]:
    """Yield the lines and draw a progress bar on a terminal."""
    from cachesim.base.progress_bar import progress

    return progress(lines, None, "reading")
