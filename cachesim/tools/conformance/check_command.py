"""Command ``cachesim check URL``: compares a running server's cached answers with its uncached answers."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from cachesim.base import exits
from cachesim.base.errors import BadInput, counted
from cachesim.base.escaping import shell_word
from cachesim.tools.run.arguments import add_json
from cachesim.tools.run.work_arguments import count, number

if TYPE_CHECKING:
    from cachesim.tools.conformance.http_check.suite import ServerReport

REQUESTS, EXAMPLES, ROUNDS, TIMEOUT = 20_000, 100, 20, 60.0


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="server URL, such as http://127.0.0.1:8080")
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
    parser.add_argument("--key", metavar="KEY", default="", help="API key, sent as a bearer token")
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


def run(args: Namespace) -> int:
    from cachesim.base.console import complain, say, say_json
    from cachesim.tools.conformance.http_check.dialect import identify_server
    from cachesim.tools.conformance.http_check.http_client import Exhausted, Http
    from cachesim.tools.conformance.http_check.suite import CheckOptions, check
    from cachesim.tools.conformance.report import SECTIONS, chosen

    sections = chosen(args.only, True)
    if not args.timeout:
        raise BadInput("--timeout: expected more than 0 seconds")
    if args.dryrun:
        named = [(number, name) for number, name in enumerate(SECTIONS, 1) if name in sections]
        say("\n".join(f"{number} {name:<12}{SECTIONS[name]}" for number, name in named))
        say(f"at most {args.requests:,} requests to {args.url}; its slots would be overwritten")
        return exits.HOLDS
    http = Http(args.url, args.timeout, args.requests, args.key, args.seconds)
    try:
        server = identify_server(http)
        asked = server.client.way.sentence if server.client else counted(server.slots, "slot")
        asked += f", {counted(len(server.adapters), 'adapter')}" if server.adapters else ""
        complain(f"{server.name}: {server.dialect}, {asked}; this check overwrites what it has cached")
        if server.busy and not args.yes:
            raise BadInput(f"{server.busy}", file=args.url, hint="--yes overwrites them")
        wanted = CheckOptions(tuple(args.only), tuple(args.history), args.examples or 1, args.seconds, args.timeout,
                        args.tolerance, seed=args.seed, images=args.images, at_once=args.parallel,
                        rounds=args.rounds)  # fmt: skip
        found = check(http, server, wanted)
    except Exhausted as end:
        raise BadInput(str(end), file=args.url, hint="raise --requests N or --seconds S") from None
    finally:
        http.close()
    _write_files(args, found)
    if args.json:
        say_json(_data(found))
    else:
        say(_text(found, args.url))
    states = {one.state for one in found.report.results}
    return exits.BROKEN if "failed" in states else exits.UNDECIDED if "undecided" in states else exits.HOLDS


def _write_files(args: Namespace, found: ServerReport) -> None:
    """Write the reports for CI. Raises Unwritable."""
    from cachesim.base.files import write_whole
    from cachesim.tools.conformance.ci_reports import junit, summary

    if args.junit:
        write_whole(Path(args.junit), junit(found.report, args.url).encode())
    if args.summary:
        write_whole(Path(args.summary), summary(found.report, _verdict(found), args.url).encode())


def _data(found: ServerReport) -> dict[str, object]:
    server = {"dialect": found.server.dialect, "name": found.server.name, "slots": found.server.slots,
              "adapters": len(found.server.adapters), "image_tokens": found.image_tokens}  # fmt: skip
    early = [{"line": line, "requests": sent} for line, sent in found.early]
    return {"server": server, "measured": found.measured, "tolerance": found.tolerance, "requests": found.requests,
            "rules": found.rules, "early": early, **found.report.data()}  # fmt: skip


def _text(found: ServerReport, url: str) -> str:
    """Return the report as text, the verdict first."""
    from cachesim.tools.conformance.properties import SERVED

    failed = [one for one in found.report.results if one.state == "failed"]
    lines = [_verdict(found), *(f"found after {sent} requests: {line}" for line, sent in found.early)]
    lines.append(str(found.report))
    for one in failed:
        if one.finding is not None:
            history = shell_word(one.finding.line, quotes=True)
            section = one.section if one.name in SERVED else "same"
            lines.append(f"{one.name}: cachesim check {shell_word(url)} --only {section} --history {history}")
            lines += [f"  {rule}" for rule in found.rules.get(one.name, [])]
    return "\n".join(lines)


def _verdict(found: ServerReport) -> str:
    """Return the verdict with the numbers behind it."""
    failed = sum(one.state == "failed" for one in found.report.results)
    wrong = f"WRONG: {counted(failed, 'property', 'properties')} failed"
    verdict = wrong if failed else "OK" if found.report.conforms else "UNDECIDED"
    about = f"{found.requests:,} requests; tolerance {found.tolerance:.2g}, measured {found.measured:.2g}"
    return f"{'SERVER DIED' if found.died else verdict}  ({about})"
