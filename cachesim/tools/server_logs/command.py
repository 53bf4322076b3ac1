"""``cachesim import FILE...``: which requests made a server write this log, or what do these request bodies change?"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Iterator

from cachesim.base import exits
from cachesim.base.errors import BadInput
from cachesim.base.limits import LOG_REQUESTS, REBUILT, SOUGHT
from cachesim.tools.picture.picture_options import Shown, add_pictures, draw_text, wanted
from cachesim.tools.request_bodies.command import add_body_arguments, run_bodies
from cachesim.tools.run.arguments import add_json, add_limits, add_profiles, add_settings


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="+",
                        help="log of a server, of any build; or request bodies: JSON, JSON lines, HAR, a folder")
    parser.add_argument("-o", "--out", metavar="FILE", default="", help="scenario file to write (one log only)")
    parser.add_argument("--force", action="store_true", help="overwrite FILE")
    parser.add_argument("--model", metavar="MODEL", default="", help="layers or a model's name (default: solved for)")
    add_profiles(parser, "rule set, build or date of the server (default: solved for)")
    add_settings(parser)
    add_limits(parser, LOG_REQUESTS, REBUILT, SOUGHT)
    add_body_arguments(parser)
    add_json(parser)
    add_pictures(parser)


def run(args: Namespace) -> int:
    from cachesim.base.console import say_json, show
    from cachesim.base.files import write_whole
    from cachesim.scenarios.option_checks import parse_settings
    from cachesim.tools.advise.command import say_tip
    from cachesim.tools.request_bodies.body_files import are_bodies
    from cachesim.tools.server_logs.import_log import import_log
    from cachesim.tools.server_logs.report import import_report

    if are_bodies(args.files):
        return run_bodies(args)
    if wanted(args) and len(args.files) > 1:
        raise BadInput("a picture shows one log, and there are several")
    if args.out and len(args.files) > 1:
        raise BadInput("-o writes one file, and there are several logs")
    if args.out and not args.force and Path(args.out).exists():
        raise BadInput("the file exists", file=args.out, hint="--force overwrites it")
    engine = args.profiles[0].partition("@")[0] if args.profiles else ""
    if args.settings and not engine:
        raise BadInput("--set needs -p: which engine's option is it?")
    server = parse_settings(args.settings, engine) if args.settings else {}
    found, logs = [], len(args.files)
    for name in args.files:
        stem = Path(args.out).stem
        data, text = import_log(Path(name), args.profiles, args.model, server, stem, _reading, args.with_text, logs)
        if args.out:
            if not text:
                raise BadInput("no request of it can be played", file=name)
            write_whole(Path(args.out), text.encode())
        found.append((data, text))
    if args.json:
        say_json({"logs": [{**data, "toml": text} for data, text in found]})
    else:
        show(*(import_report(data, args.out, bool(getattr(args, "verbose", 0))) for data, _ in found))
        for data, text in found:
            say_tip(args, text if data["line"] else "", args.out)
    if wanted(args) and found[0][1]:
        draw_text(args, found[0][1], Shown(f"cachesim import {args.files[0]}"))
    open_ = any(data["undecided"] or not data["line"] for data, _ in found)
    return exits.UNDECIDED if open_ else exits.HOLDS


def _reading(lines: Iterator[str]) -> Iterator[str]:
    """The lines, with a progress bar on a terminal."""
    from cachesim.base.console import progress

    return progress(lines, None, "reading")
