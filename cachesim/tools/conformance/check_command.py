"""Command ``cachesim check URL``: compares a running server's cached answers with its uncached answers."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Iterator, Mapping, NamedTuple, Sequence

from cachesim.base import exits
from cachesim.base.errors import BadInput, NotStarted, counted
from cachesim.base.escaping import shell_word
from cachesim.tools.picture.plot_file import add_plot, plot_file
from cachesim.tools.run.arguments import add_json
from cachesim.tools.run.real_option import RealRuns, add_real, real_options, real_runs
from cachesim.tools.run.work_arguments import count, number

if TYPE_CHECKING:
    from cachesim.tools.conformance.http_check.batch_control import ColdSource
    from cachesim.tools.conformance.http_check.dialect import ServerFacts
    from cachesim.tools.conformance.http_check.http_client import Http
    from cachesim.tools.conformance.http_check.suite import CheckOptions, ServerReport
    from cachesim.tools.conformance.http_check.warm_run import ServerRunner
    from cachesim.tools.conformance.report import Report

SCHEMA = 2                   # version of the JSON form
REQUESTS = 20_000
EXAMPLES = 100
ROUNDS = 20
TIMEOUT = 60.0
LAYERS, FLAGS = "GGGA", "-np 2 -c 4096 -t 1"    # of a server that --real starts


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", nargs="?", default="", help="server URL, such as http://127.0.0.1:8080")
    add_real(parser, "instead of a URL: start the llama-server of a build, such as b11549, or of a path")
    parser.add_argument("--layers", metavar="MODEL", default=LAYERS,
                        help=f"--real: layers of its tiny model (default {LAYERS})")  # fmt: skip
    parser.add_argument("--flags", default=FLAGS, help=f"--real: its flags in quotes (default '{FLAGS}')")
    parser.add_argument("--control", metavar="URL", default="",
                        help="server with the same model and flags and another -ub, such as 32: what its cold "
                             "answers show, too, is a matter of numbers (--real starts one)")  # fmt: skip
    parser.add_argument("--model", metavar="NAME", default="",
                        help="model of the server by name or layers, if the name that it states does not tell")
    parser.add_argument("--only", metavar="SECTION", action="append", default=[],
                        help="section of the check to run, as listed by --dryrun (repeatable)")  # fmt: skip
    parser.add_argument("--history", metavar="LINE", action="append", default=[],
                        help="history to run first, as printed by a finding (repeatable)")  # fmt: skip
    parser.add_argument("--examples", metavar="N", type=count, default=EXAMPLES,
                        help=f"number of drawn histories (default {EXAMPLES})")  # fmt: skip
    parser.add_argument("--seconds", metavar="S", type=number, default=None, help="time limit of the check [seconds]")
    parser.add_argument("--requests", metavar="N", type=count, default=REQUESTS,
                        help=f"limit on requests sent (default {REQUESTS})")  # fmt: skip
    parser.add_argument("--timeout", metavar="S", type=number, default=TIMEOUT,
                        help=f"time limit of a reply [seconds] (default {TIMEOUT:g})")  # fmt: skip
    parser.add_argument("--tolerance", metavar="X", type=number, default=None,
                        help="largest allowed difference of log-probabilities "
                             "(default: 10 times the measured noise, at least 0.005)")  # fmt: skip
    parser.add_argument("--seed", metavar="N", type=count, default=0, help="seed for the tokens of the histories")
    parser.add_argument("--key", default="", help="API key, sent as a bearer token")
    parser.add_argument("--yes", action="store_true", help="overwrite slots that are in use")
    parser.add_argument("--parallel", metavar="N", type=count, default=0,
                        help="requests that arrive together (default: the server's slots, at least 2)")  # fmt: skip
    parser.add_argument("--rounds", metavar="N", type=count, default=ROUNDS,
                        help=f"drawn rounds of four interleaved conversations (default {ROUNDS})")  # fmt: skip
    parser.add_argument("--no-images", dest="images", action="store_false",
                        help="send no images, also where the model takes them")  # fmt: skip
    parser.add_argument("--dryrun", action="store_true", help="list the sections that would run; send nothing")
    parser.add_argument("--junit", metavar="FILE", default="", help="JUnit XML report to write")
    parser.add_argument("--summary", metavar="FILE", default="",
                        help="Markdown file to write, a summary for CI")  # fmt: skip
    add_json(parser)
    add_plot(parser, "the properties of each section")


class HttpLimits(NamedTuple):
    """How a server is asked: limits on the requests, and the API key."""

    timeout: float              # time limit of a reply [seconds]
    requests: int               # limit on requests sent
    key: str                    # API key, "" = none
    seconds: float | None       # time limit of all requests together, None = none

    def client(self, url: str) -> Http:
        """Return a client of the server at a URL."""
        from cachesim.tools.conformance.http_check.http_client import Http

        return Http(url, self.timeout, self.requests, self.key, self.seconds)


class ReportFiles(NamedTuple):
    """The reports for CI that the command line names; "" = without this option."""

    junit: str
    summary: str

    def write(self, url: str, report: Report, verdict: str, rules: Mapping[str, Sequence[str]]) -> None:
        """Write the reports on the server at a URL. ``rules``: sentences about the rules behind a failed property.
        Raise Unwritable."""
        from cachesim.base.files import write_whole
        from cachesim.tools.conformance.ci_reports import junit, summary

        if self.junit:
            write_whole(Path(self.junit), junit(report, url, rules).encode())
        if self.summary:
            write_whole(Path(self.summary), summary(report, verdict, url, rules).encode())

    def write_reason(self, url: str, why: str) -> None:
        """Write reports on a server that could not be checked: an undecided property with the reason."""
        from cachesim.tools.conformance.properties import PROPERTIES
        from cachesim.tools.conformance.report import Report, Result

        result = Result("answers", "faults", PROPERTIES["answers"], "undecided", why=why)
        self.write(url, Report((result,)), "NOT CHECKED", {})


class AskedCheck(NamedTuple):
    """A check as the command line requests it, of any server."""

    options: CheckOptions
    limits: HttpLimits
    files: ReportFiles
    model: str                  # model of the server by name or layers, "" = as the server states
    overwrites: bool            # overwrite slots that are in use
    as_json: bool               # print faults on stderr, because stdout has the JSON


class CheckedServer(NamedTuple):
    """The URL of a server and the result of its check."""

    url: str
    report: ServerReport


def run(args: Namespace) -> int:
    from cachesim.base.console import say, say_json
    from cachesim.tools.conformance.report import SECTIONS, chosen

    file = plot_file(args)
    sections = chosen(args.only, True)
    if not args.timeout:
        raise BadInput("--timeout: expected more than 0 seconds")
    if bool(args.url) == bool(args.real):
        raise BadInput("expected the URL of a server, or --real BUILD")
    if args.dryrun:
        named = [(number, name) for number, name in enumerate(SECTIONS, 1) if name in sections]
        say("\n".join(f"{number} {name:<12}{SECTIONS[name]}" for number, name in named))
        say(f"at most {args.requests:,} requests to {args.url or args.real}; its slots would be overwritten")
        return exits.HOLDS
    if args.control and args.real:
        raise BadInput("--control goes with a URL: --real starts its own control")
    from cachesim.tools.conformance.http_check.suite import CheckOptions

    files = ReportFiles(junit=args.junit, summary=args.summary)
    asked = AskedCheck(
        options=CheckOptions(
            tuple(args.only), tuple(args.history), args.examples or 1, args.seconds, args.timeout, args.tolerance,
            seed=args.seed, images=args.images, at_once=args.parallel, rounds=args.rounds,
        ),
        limits=HttpLimits(timeout=args.timeout, requests=args.requests, key=args.key, seconds=args.seconds),
        files=files, model=args.model, overwrites=args.yes, as_json=args.json,
    )  # fmt: skip
    if args.real:
        real = real_runs(real_options(args))
        assert real is not None
        asked = asked._replace(model=args.model or str(args.gguf or ""))
        checked = _started(real, args.real, args.layers, args.flags.split(), asked)
    else:
        checked = CheckedServer(args.url, _controlled(args.url, args.control, asked))
    found = checked.report
    rules = {name: [one.sentence for one in matches] for name, matches in found.rules.items()}
    files.write(checked.url, found.report, _verdict(found), rules)
    if args.json:
        say_json(_data(found))
    else:
        say(_text(found, checked.url))
    if file:
        from rich.text import Text

        from cachesim.tools.conformance.check_plot import check_plot
        from cachesim.tools.picture.plot_file import write_plots

        plot = check_plot(found.report, _verdict(found), found.server.name)
        write_plots(file, [plot], Text(_text(found, checked.url)))
    return _exit_code(found)


def _started(real: RealRuns, name: str, layers: str, flags: Sequence[str], asked: AskedCheck) -> CheckedServer:
    """Return the result of the check of a real server that is started for it. Servers with other micro-batches are
    started when an answer differs. ``name``: that of the server on the command line; ``layers``: of its tiny model."""
    from cachesim.tools.conformance.http_check.batch_control import SMALL, StartedServers

    @contextmanager
    def start(size: int) -> Iterator[ServerRunner]:
        uncut = [] if size == SMALL else ["--ctx-checkpoints", "0"]  # checkpoints cut a prompt before its end
        more = ["-ub", str(size), *uncut]
        with (
            real.serve(layers, [*flags, *more]) as served,
            _control_stage(served.url, asked.limits, overwrites=asked.overwrites) as stage,
        ):
            yield stage

    try:
        served = real.serve(layers, flags)
    except NotStarted as error:
        asked.files.write_reason(name, str(error))
        raise
    with served as first, StartedServers(start) as control:
        return CheckedServer(first.url, _checked(asked, first.url, control))


def _controlled(url: str, control: str, asked: AskedCheck) -> ServerReport:
    """Return the result of the check of a running server. ``control``: URL of the control that the user named, "" =
    none."""
    from cachesim.tools.conformance.http_check.batch_control import SecondServer

    if not control:
        return _checked(asked, url, None)
    with _control_stage(control, asked.limits, overwrites=asked.overwrites) as stage:
        return _checked(asked, url, SecondServer(stage))


@contextmanager
def _control_stage(url: str, limits: HttpLimits, *, overwrites: bool) -> Iterator[ServerRunner]:
    """Yield what asks another server. Raise BadInput for a server in use, or one that cannot be asked."""
    from cachesim.tools.conformance.compare_replies import near
    from cachesim.tools.conformance.http_check.dialect import identify_server
    from cachesim.tools.conformance.http_check.drafts import detect_drafts
    from cachesim.tools.conformance.http_check.http_client import Exhausted
    from cachesim.tools.conformance.http_check.warm_run import ServerRunner

    http = limits.client(url)
    try:
        server = identify_server(http)
        if server.busy and not overwrites:
            raise BadInput(f"{server.busy}", file=url, hint="--yes overwrites them")
        yield ServerRunner(http, replace(server, drafts=detect_drafts(http, server)), near(0.0))
    except Exhausted as end:
        raise BadInput(str(end), file=url, hint="raise --requests N or --seconds S") from None
    finally:
        http.close()


def _checked(asked: AskedCheck, url: str, control: ColdSource | None) -> ServerReport:
    """Return the result of the check of the server at a URL. If the server cannot be checked, write the reason into the
    reports for CI and raise BadInput."""
    from cachesim.base.progress_bar import ProgressBar
    from cachesim.tools.conformance.check_progress import CheckProgress
    from cachesim.tools.conformance.http_check.http_client import Exhausted
    from cachesim.tools.conformance.http_check.suite import check

    http = asked.limits.client(url)
    try:
        server = _identified(http, url, asked.model, overwrites=asked.overwrites)
        with ProgressBar() as bar:
            return check(http, server, asked.options, CheckProgress(bar, asked.as_json), control)
    except Exhausted as end:
        asked.files.write_reason(url, str(end))
        raise BadInput(str(end), file=url, hint="raise --requests N or --seconds S") from None
    except BadInput as error:
        asked.files.write_reason(url, str(error))
        raise
    except KeyboardInterrupt:
        asked.files.write_reason(url, "interrupted before the server was identified")
        raise
    finally:
        http.close()


def _identified(http: Http, url: str, model: str, *, overwrites: bool) -> ServerFacts:
    """Return the facts about the server, after a line that names it. ``model``: by name or layers, "" = as the server
    states. Raise BadInput for a server in use, unless the check ``overwrites`` its slots."""
    from cachesim.base.console import complain
    from cachesim.tools.conformance.http_check.dialect import identify_server, layers_choose_rows

    server = identify_server(http)
    if model:
        server = replace(server, chooses_rows=layers_choose_rows(model))
    asked = server.client.way.sentence if server.client else counted(server.slots, "slot")
    asked += f", {counted(len(server.adapters), 'adapter')}" if server.adapters else ""
    complain(f"{server.name}: {server.dialect}, {asked}; this check overwrites what it has cached")
    if server.busy and not overwrites:
        raise BadInput(f"{server.busy}", file=url, hint="--yes overwrites them")
    return server


def _exit_code(found: ServerReport) -> int:
    """Return the exit code: that of the signal which ended the check, else that of its verdict."""
    if found.interrupt is not None:
        return exits.interrupted(found.interrupt)
    if found.faults:
        return exits.BROKEN
    return exits.HOLDS if found.report.conforms else exits.UNDECIDED


def _data(found: ServerReport) -> dict[str, object]:
    server = {"dialect": found.server.dialect, "name": found.server.name, "slots": found.server.slots,
              "adapters": len(found.server.adapters), "image_tokens": found.image_tokens}  # fmt: skip
    rules = {name: [one.data() for one in matches] for name, matches in found.rules.items()}
    return {"schema": SCHEMA, "server": server, "measured": found.measured, "tolerance": found.tolerance,
            "requests": found.requests, "faults": found.faults, "stopped": found.stopped,
            "interrupted": found.interrupt is not None, "found": [asdict(one) for one in found.found],
            "rules": rules, **found.report.data()}  # fmt: skip


def _text(found: ServerReport, url: str) -> str:
    """Return the report as text, the verdict first."""
    from cachesim.tools.conformance.properties import SERVED

    failed = [one for one in found.report.results if one.state == "failed"]
    lines = [_verdict(found), str(found.report)]
    for one in failed:
        if one.finding is not None:
            history = shell_word(one.finding.line, quotes=True)
            section = one.section if one.name in SERVED else "same"
            lines.append(f"{one.name}: cachesim check {shell_word(url)} --only {section} --history {history}")
            matches = found.rules.get(one.name, [])
            lines += [f"  {match.sentence}" for match in matches] + [f"  {match.command}" for match in matches[:1]]
    return "\n".join(lines)


def _verdict(found: ServerReport) -> str:
    """Return the verdict with the numbers behind it."""
    failed = sum(one.state == "failed" for one in found.report.results)
    where = f" in {counted(failed, 'property', 'properties')}" if failed != found.faults else ""
    wrong = f"WRONG: {counted(found.faults, 'fault')}{where}"
    verdict = wrong if failed else "OK" if found.report.conforms else "UNDECIDED"
    stopped = f", {found.stopped}" if found.stopped else ""
    about = (f"{found.requests:,} requests{stopped}; "
             f"tolerance {found.tolerance:.2g}, measured {found.measured:.2g}")  # fmt: skip
    return f"{f'SERVER {found.server_end.upper()}' if found.server_end else verdict}  ({about})"
