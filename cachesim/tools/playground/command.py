"""Command ``cachesim playground``: serve a page on the loopback address that simulates a case as it is typed."""

from __future__ import annotations

import signal
import socket
import sys
import threading
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from typing import TYPE_CHECKING

from cachesim.base import exits
from cachesim.base.console import note, say, say_json
from cachesim.base.errors import BadInput, quoted, stdout_errors
from cachesim.base.extras import install_command
from cachesim.tools.run.arguments import add_json
from cachesim.tools.run.work_arguments import count

if TYPE_CHECKING:
    from types import FrameType

    import uvicorn

LOOPBACK = "127.0.0.1"
ENDED_WITHIN = 1            # seconds for replies that are being made when a signal arrives
AT_ONCE = 128               # connections; above it the server answers 503


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--port", metavar="N", type=port, default=0, help="port of 127.0.0.1 (default: a free port)")
    add_json(parser)


def port(text: str) -> int:
    """Parse a port. Raise ArgumentTypeError."""
    if (number := count(text)) > 65535:
        raise ArgumentTypeError(f"expected a port from 0 to 65535, found {quoted(text)}")
    return number


def run(args: Namespace) -> int:
    try:
        import uvicorn

        from cachesim.tools.playground.app import application
        from cachesim.tools.playground.bounded_connection import BoundedConnection
    except ImportError as error:
        if error.name not in ("uvicorn", "starlette"):
            raise
        cause = f"the playground needs the package {error.name} of the extra `playground`"
        raise BadInput(cause, hint=install_command("playground")) from None
    from cachesim.tools.playground.page import make_page
    from cachesim.tools.playground.simulator import Simulator

    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((LOOPBACK, args.port))
        except OSError as error:
            cause = (error.strerror or str(error)).lower()
            raise BadInput(f"port {args.port}: {cause}", hint="--port 0 chooses a free port") from None
        listener.listen(AT_ONCE)
        here = listener.getsockname()[1]
        url = f"http://{LOOPBACK}:{here}/"
        server = uvicorn.Server(uvicorn.Config(
            application(here, make_page(), Simulator()), log_level="error", access_log=False,
            http=BoundedConnection, ws="none", proxy_headers=False, server_header=False, limit_concurrency=AT_ONCE,
            timeout_graceful_shutdown=ENDED_WITHIN,
        ))  # fmt: skip
        if args.json:
            say_json({"url": url})
        else:
            say(url)
        with stdout_errors():
            sys.stdout.flush()                # a program that started the playground waits for the address
        note("Ctrl-C ends the playground")
        _run_server(server, listener)
    return exits.HOLDS


def _run_server(server: uvicorn.Server, listener: socket.socket) -> None:
    """Answer requests until a signal ends the server. Unlike other signals, uvicorn does not handle SIGHUP."""
    if not hasattr(signal, "SIGHUP") or threading.current_thread() is not threading.main_thread():
        server.run(sockets=[listener])
        return
    received: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        server.force_exit = bool(received)
        server.should_exit = True
        received.append(number)

    before = signal.getsignal(signal.SIGHUP)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, end)
    try:
        server.run(sockets=[listener])
    finally:
        signal.signal(signal.SIGHUP, before)
    if received:
        signal.raise_signal(received[0])
