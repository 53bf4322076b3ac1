"""Command ``cachesim watch``: rows of a running server, from its log and from the traffic with its clients."""

from __future__ import annotations

import ipaddress
import os
import signal
import socket
import sys
from argparse import ArgumentParser, Namespace
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from cachesim.base import exits
from cachesim.base.console import complain, note, say_json
from cachesim.base.ending import killed_at_second_signal
from cachesim.base.errors import ENDING, BadInput, Unwritable, quoted, stdout_errors
from cachesim.base.extras import install_command
from cachesim.base.pool import blocked_signals, unblock_signals
from cachesim.base.untrusted_files import argument_path, path_of
from cachesim.tools.run.arguments import add_json, profile_name
from cachesim.tools.watch.log_follower import LogFollower
from cachesim.tools.watch.relay import Address
from cachesim.tools.watch.saved_bodies import SavedBodies
from cachesim.tools.watch.secret_fields import without_secrets
from cachesim.tools.watch.shared_deadline import SharedDeadline

if TYPE_CHECKING:
    from cachesim.tools.watch.analysis import Sources

CONNECTIONS = 128            # connections that may wait to be accepted
NICE = 5                     # the analysis leaves the processor to server and relay
GRACE = 3                    # seconds after the end of the relay in which requests are still compared


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("log", metavar="LOG", nargs="?", default="", help="log of the server (- = standard input)")
    parser.add_argument("--log", metavar="LOG", dest="joined", default="", help="like LOG")
    parser.add_argument("--once", action="store_true", help="end at the end of the log file")
    parser.add_argument("--listen", metavar="HOST:PORT", default="",
                        help="loopback address for clients, for example 127.0.0.1:8081 (port 0: any)")  # fmt: skip
    parser.add_argument("--to", metavar="URL", default="", help="server, for example http://127.0.0.1:8080")
    parser.add_argument("--save", metavar="FILE", default="",
                        help="file to which request bodies are appended (default: never stored)")  # fmt: skip
    parser.add_argument("--header", action="store_true",
                        help="add the response header x-cachesim-cause (default: replies are unchanged)")  # fmt: skip
    parser.add_argument("-p", "--profile", metavar="PROFILE", default="", type=profile_name,
                        help="rule set or engine of the server that reads the bodies (default: the engine of the log, "
                        "else as for import)")  # fmt: skip
    parser.add_argument("--kv-events", metavar="SOURCE", default="",
                        help="KV events of a server: an endpoint of this machine, for example "
                             "tcp://127.0.0.1:5557, or a growing file of JSON lines")  # fmt: skip
    parser.add_argument("--kv-replay", metavar="ENDPOINT", default="",
                        help="endpoint from which missing messages are read again, for example tcp://127.0.0.1:5558")
    parser.add_argument("--bodies", metavar="FILE", default="",
                        help="growing file of request bodies, as --save writes them, to be joined with KV events")
    parser.add_argument("--tokenizer", metavar="FILE", default="",
                        help="tokenizer of --bodies with texts: tokenizer.json or GGUF")
    parser.add_argument("--template", metavar="FILE", default="",
                        help="chat template of --bodies with chats: Jinja, tokenizer_config.json or GGUF")
    add_json(parser)


class RelayOptions(NamedTuple):
    """What the relay of a server does."""

    listen: str             # loopback address for clients
    server: str             # URL of the server
    save: str               # file to which request bodies are appended, "" = none
    adds_header: bool       # add the response header with the cause
    profile: str            # rule set of the server, "" = not given


def run(args: Namespace) -> int:
    if args.log and args.joined:
        raise BadInput("LOG and --log are the same option")
    if args.kv_events:
        return _events(args)
    of_events = {"--kv-replay": args.kv_replay, "--bodies": args.bodies, "--tokenizer": args.tokenizer,
                 "--template": args.template}  # fmt: skip
    for option, value in of_events.items():
        if value:
            raise BadInput(f"{option} needs --kv-events")
    if bool(args.listen) != bool(args.to):
        raise BadInput("--listen and --to belong together")
    name = args.log or args.joined
    if not (name or args.listen):
        raise BadInput("nothing to watch", hint="give a LOG, --listen 127.0.0.1:8081 --to http://127.0.0.1:8080, or "
                                                "--kv-events tcp://127.0.0.1:5557")  # fmt: skip
    if args.save and not args.listen:
        raise BadInput("--save needs --listen: a log contains no bodies")
    if args.header and not args.listen:
        raise BadInput("--header needs --listen: a log has no replies")
    if args.profile and not args.listen:
        raise BadInput("--profile needs --listen: a log contains no bodies")
    if args.profile:
        from cachesim.engines.registry import engine_of

        engine_of(args.profile)
    log = LogFollower(argument_path(name)) if name else None
    if args.listen:
        relay = RelayOptions(listen=args.listen, server=args.to, save=args.save, adds_header=args.header,
                             profile=args.profile)  # fmt: skip
        return _relay(relay, log, once=args.once, as_json=args.json)
    from cachesim.tools.watch.analysis import Sources

    return _analyse(Sources(log=log, once=args.once), args.json)


def _events(args: Namespace) -> int:
    """Print the rows of KV events until their source ends or an interrupt, then the totals. Return the exit code."""
    from cachesim.tools.request_bodies.prompt_tokens import PromptTokens
    from cachesim.tools.watch.event_endpoint import EventEndpoint, is_endpoint
    from cachesim.tools.watch.event_lines import EventLines
    from cachesim.tools.watch.event_report import EventOutput
    from cachesim.tools.watch.event_watch import LONGEST_BODY, EventWatch

    others = {"LOG": args.log or args.joined, "--listen": args.listen, "--to": args.to, "--save": args.save,
              "--header": args.header}  # fmt: skip
    for name, value in others.items():
        if value:
            raise BadInput(f"--kv-events does not go with {name}", hint="use a second `cachesim watch`")
    if (args.tokenizer or args.template or args.profile) and not args.bodies:
        raise BadInput("--tokenizer, --template and --profile need --bodies")
    of_endpoint = is_endpoint(args.kv_events)
    if args.once and of_endpoint:
        raise BadInput("--once needs a file: an endpoint has no end")
    if args.kv_replay and not of_endpoint:
        raise BadInput("--kv-replay needs the endpoint of the events, not a file")
    bodies = LogFollower(argument_path(args.bodies), LONGEST_BODY) if args.bodies else None
    source = (EventEndpoint(args.kv_events, args.kv_replay) if of_endpoint
              else EventLines(argument_path(args.kv_events), args.once))  # fmt: skip
    if of_endpoint:
        note(f"subscribed to {source.name}; Ctrl-C ends")
    output = EventOutput(args.json)
    with PromptTokens(args.tokenizer, args.template, args.profile) as reader, closing(source):
        watch = EventWatch(source, bodies, reader, output.row)
        try:
            watch.run()
        except KeyboardInterrupt as interrupt:
            output.end(watch.totals())
            return exits.interrupted(interrupt)
        totals = watch.totals()
    output.end(totals)
    return exits.UNDECIDED if totals["undecided"] else exits.HOLDS


def _analyse(sources: Sources, as_json: bool) -> int:
    """Print the rows until the sources end or an interrupt, then the totals. Return the exit code. Raise the interrupt
    if another one came before the totals."""
    from cachesim.tools.watch.analysis import Analysis
    from cachesim.tools.watch.report import output

    analysis = Analysis(sources, output(as_json))
    try:
        analysis.run()
    except KeyboardInterrupt as interrupt:
        if not analysis.has_printed_totals:
            raise
        return exits.interrupted(interrupt)
    return exits.BAD_INPUT if sources.saved is not None and sources.saved.unsaved else exits.HOLDS


def _relay(relay: RelayOptions, log: LogFollower | None, *, once: bool, as_json: bool) -> int:
    """Relay connections until an interrupt, while a second process prints the rows. Return the exit code. ``once``: end
    at the end of the log."""
    server = server_address(relay.server)
    try:
        import h11  # noqa: F401 - the second process needs it
    except ImportError:
        raise BadInput("--listen needs the package h11 of the extra `watch`", hint=install_command("watch")) from None
    with _listener(relay.listen) as listener:
        saved = SavedBodies(path_of(relay.save)) if relay.save else None
        host, port, *_ = listener.getsockname()
        url = f"http://{f'[{host}]' if ':' in host else host}:{port}/"
        if as_json:
            say_json({"url": url, "to": relay.server})
        note(f"clients use {url} instead of {relay.server}; Ctrl-C ends the relay")
        with stdout_errors():
            sys.stdout.flush()
        deadline = SharedDeadline()
        (read, write), (cause_read, cause_write) = os.pipe(), os.pipe()
        with blocked_signals():
            if (child := os.fork()) == 0:
                listener.close()
                os.close(write)
                os.close(cause_read)
                pipes = (read, cause_write if relay.adds_header else None)
                os._exit(_second_process(log, saved, pipes, deadline, once=once, as_json=as_json,
                                         profile=relay.profile))  # fmt: skip
        os.close(read)
        os.close(cause_write)
        with killed_at_second_signal(child):
            return _run_relay(server, listener, (write, cause_read if relay.adds_header else None), child, deadline)


def _run_relay(server: Address, listener: socket.socket, pipes: tuple[int, int | None], child: int,
               deadline: SharedDeadline) -> int:  # fmt: skip
    """Relay connections until an interrupt; then wait for the totals of the second process. Return its exit code; after
    an interrupt that of the interrupt, unless an output could not be written."""
    write, causes = pipes
    try:
        with open(write, "wb", 0) as copies:     # closed after an interrupt before the relay, too
            import asyncio

            from cachesim.tools.watch.relay_process import relay_connections

            asyncio.run(relay_connections(server, listener, copies, causes, ending=lambda: deadline.set(GRACE)))
    except KeyboardInterrupt as interrupt:
        deadline.set(GRACE)
        code = _end(child)
        return exits.BAD_INPUT if code == exits.BAD_INPUT else exits.interrupted(interrupt)
    return _end(child)


def _end(child: int) -> int:
    """Wait for the second process. Return its exit code."""
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code if code >= 0 else exits.UNDECIDED


def _second_process(log: LogFollower | None, saved: SavedBodies | None, pipes: tuple[int, int | None],
                    deadline: SharedDeadline, *, once: bool, as_json: bool, profile: str) -> int:  # fmt: skip
    """Print the rows until the relay ends. ``pipes``: for the copies of the traffic, and for the causes, None = no
    header is added. Return the exit code; report errors on stderr."""
    from cachesim.tools.watch.analysis import Sources

    for name in ("SIGINT", *ENDING):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    unblock_signals()
    try:
        os.nice(NICE)
        copies, causes = pipes
        sources = Sources(copies=copies, causes=causes, log=log, once=once, saved=saved,
                          is_over=deadline.is_over, profile=profile)  # fmt: skip
        return _analyse(sources, as_json)
    except BrokenPipeError:
        return exits.BROKEN_PIPE
    except BadInput as error:
        if not isinstance(error, Unwritable):
            complain(str(error))
        return error.code
    except Exception as error:
        complain(f"the analysis failed ({type(error).__name__}: {error}); connections are still relayed")
        return exits.CRASH


def _listener(text: str) -> socket.socket:
    """Return the listening socket. Raise BadInput for an address that is not a loopback address."""
    host, colon, port = text.rpartition(":")
    host = "127.0.0.1" if host == "localhost" else host.strip("[]")
    try:
        address = ipaddress.ip_address(host)
        is_good = bool(colon) and port.isascii() and port.isdigit() and int(port) < 1 << 16
    except ValueError:
        is_good = False
    if not is_good:
        raise BadInput(f"not an address to listen on: {quoted(text)}", hint="for example 127.0.0.1:8081")
    if not address.is_loopback:
        raise BadInput(f"not a loopback address: {quoted(host)}", hint="other machines must not reach the relay")
    made = socket.socket(socket.AF_INET6 if address.version == 6 else socket.AF_INET)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, int(port)))
        made.listen(CONNECTIONS)
    except OSError as error:
        made.close()
        cause = (error.strerror or str(error)).lower()
        raise BadInput(f"port {port}: {cause}", hint="port 0 chooses a free port") from None
    return made


def server_address(url: str) -> Address:
    """Return the address in the URL of a server. Raise BadInput: the relay changes neither paths nor encryption."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, 80 if parts.port is None else parts.port
        (host or "").encode("idna")
    except ValueError:                           # UnicodeError: a label of the name is empty or too long
        host, port = None, 0
    if not host or not port or not url.isprintable() or " " in url:
        raise BadInput(f"not a server URL: {quoted(without_secrets(url))}", hint="for example http://127.0.0.1:8080")
    is_bare = not (parts.path.strip("/") or parts.query or parts.fragment) and parts.username is None
    if parts.scheme != "http" or not is_bare:
        raise BadInput(f"expected http://HOST:PORT, found {quoted(without_secrets(url))}", hint="clients add the path")
    return Address(host, port)
