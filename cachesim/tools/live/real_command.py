"""Command ``cachesim real list | install BUILD | remove BUILD | serve BUILD -m MODEL -- FLAGS``: real llama-servers."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Collection, Sequence

from cachesim.base import exits
from cachesim.base.console import say, say_json, show
from cachesim.base.errors import BadInput, nearest, quoted
from cachesim.tools.run.arguments import add_json

if TYPE_CHECKING:
    from cachesim.tools.live.llama_server.real.serving import Serving
    from cachesim.tools.live.llama_server.real.wheels import Wheel

ACTIONS = {"list": (0, 0), "install": (1, 20), "remove": (1, 20), "serve": (1, 1)}
"""Action -> least and largest number of builds."""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("action", metavar="list|install|remove|serve",
                        help="list the builds, install or remove some, or start the server of one")  # fmt: skip
    parser.add_argument("builds", metavar="BUILD", nargs="*",
                        help="build such as b11549, or version of the package xllamacpp; serve: or a path")  # fmt: skip
    parser.add_argument("-m", "--model", metavar="GGUF|LAYERS", default="",
                        help="serve: model file, or layers such as GGGA of a tiny model")  # fmt: skip
    parser.add_argument("--flag", dest="flags", metavar="WORD", action="append", default=[],
                        help="serve: word of the server's command line; or all of them after --")  # fmt: skip
    parser.add_argument("--log", metavar="FILE", type=Path,
                        help="serve: file for the server's log (default: a temporary file)")
    add_install(parser)
    add_json(parser)


def add_install(parser: ArgumentParser) -> None:
    """Add ``--install``."""
    parser.add_argument("--install", action="store_true", help="install missing builds without asking")


def prepared(argv: list[str], known: Collection[str]) -> list[str]:
    """Return the command line with the words after ``--`` as ``--flag=WORD``."""
    if "--" not in argv:
        return argv
    end = argv.index("--")
    return [*argv[:end], *(f"--flag={word}" for word in argv[end + 1 :])]


def run(args: Namespace) -> int:
    if args.action not in ACTIONS:
        hint = nearest(args.action, ACTIONS) or "list, install, remove or serve"
        raise BadInput(f"unknown action {quoted(args.action)}", hint=hint)
    least, most = ACTIONS[args.action]
    if not least <= len(args.builds) <= most:
        expected = "no build" if not most else "a build" if most == 1 else "one build or several"
        raise BadInput(f"real {args.action} takes {expected}, not {len(args.builds)}", hint="cachesim real list")
    if args.action != "serve" and (args.model or args.flags or args.log):
        raise BadInput("-m, --log and the server's flags go with serve")
    if args.action == "serve":
        if not args.model:
            raise BadInput("serve needs -m GGUF, or -m LAYERS such as GGGA")
        from cachesim.tools.live.llama_server.real.real_server import find_servers
        from cachesim.tools.live.llama_server.real.serving import Serving

        [server] = find_servers(args.builds[0], args.install)
        return _serve(Serving(server, args.model, args.flags, args.log), server.build, as_json=args.json)
    _change(args.action, args.builds, as_json=args.json)
    return exits.HOLDS


def _change(action: str, builds: Sequence[str], *, as_json: bool) -> None:
    """List builds, after an installation or a removal. ``action``: list, install or remove."""
    from cachesim.base.console import note
    from cachesim.tools.live.llama_server.real.installation import clean_up, install, is_installed, remove
    from cachesim.tools.live.llama_server.real.wheels import WHEELS, find_wheel
    from cachesim.tools.live.real_report import list_report

    chosen = [find_wheel(build) for build in builds]
    clean_up()
    for wheel in chosen:
        if action == "remove":
            remove(wheel)
        elif not is_installed(wheel):
            note(f"installing {wheel.announced}")
            install(wheel)
    rows = [_row(wheel) for wheel in chosen or WHEELS]
    if as_json:
        say_json({"builds": rows})
    else:
        show(list_report(rows))


def _row(wheel: Wheel) -> dict[str, Any]:
    from cachesim.tools.live.llama_server.real.installation import environment_of, installed_bytes, is_installed
    from cachesim.tools.live.llama_server.real.real_server import LOGGED

    here = is_installed(wheel)
    return {"build": wheel.build, "package": wheel.requirement, "installed": here, "log_read": wheel.number >= LOGGED,
            "bytes": installed_bytes(wheel) if here else None,
            "folder": str(environment_of(wheel)) if here else ""}  # fmt: skip


def _serve(starting: Serving, build: str, *, as_json: bool) -> int:
    """Wait until the server of a build is ready, and then until it ends or this process is interrupted."""
    with starting as serving:
        serving.wait_ready()
        try:
            if as_json:
                say_json({"url": serving.url, "log": str(serving.log), "build": build})
            else:
                say(f"{build} answers at {serving.url}, log in {serving.log}; Ctrl-C ends it")
            serving.wait_end()
        except KeyboardInterrupt as error:
            return exits.interrupted(error)
    return exits.HOLDS
