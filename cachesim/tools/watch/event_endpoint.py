"""Subscriber to the KV events of a server on this machine.

A message has three frames: topic, 8 bytes of its number (big-endian), payload. A publisher may keep its last messages:
a request of 8 bytes, the first wanted number, is answered by an empty frame and the message, for each, and then by one
whose number is -1. Earlier releases leave out the topic there. Source: ``ZmqEventPublisher`` in
``vllm/distributed/kv_events.py`` (0.33.0) and ``sglang/srt/disaggregation/kv_events.py`` (0.5.23).
"""

from __future__ import annotations

import ipaddress
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Iterator, Sequence
from urllib.parse import urlsplit

from cachesim.base.errors import BadInput, quoted
from cachesim.base.extras import install_command
from cachesim.base.limits import KV_MESSAGE_BYTES, WATCHED_BYTES
from cachesim.tools.run.kv_event_messages import NUMBER_BYTES, EventMessage
from cachesim.tools.server_logs.kv_events.message_reader import message_of_frames

if TYPE_CHECKING:
    import zmq

WAITING = WATCHED_BYTES.value // KV_MESSAGE_BYTES.value
"""Messages that wait in memory. Later ones wait at the publisher; their numbers show which of them it drops."""
AT_ONCE = 200                # messages between two looks at the other sources
REPLAY = 2_000               # milliseconds in which a kept message must arrive
MOST_REPLAYED = 100_000      # kept messages that are read for a gap
LONGEST_REPLAY = 20.0        # seconds in which they must arrive
LONGEST_PATH = 100           # bytes of the path of a socket
END = b"\xff" * NUMBER_BYTES
EXAMPLE = "for example tcp://127.0.0.1:5557"


class EventEndpoint:
    """Subscriber to an address. ``replay``: address of the kept messages, "" = not given. Raise BadInput for an address
    that is not on this machine, and without the packages."""

    ended = False

    def __init__(self, address: str, replay: str = "") -> None:
        self.name = local_endpoint(address)
        self._replay = local_endpoint(replay) if replay else ""
        try:
            import msgspec as _  # noqa: F401
            import zmq
        except ModuleNotFoundError:
            raise BadInput("an endpoint of KV events needs the packages msgspec and pyzmq",
                           hint=install_command("kv-events")) from None  # fmt: skip
        self._zmq = zmq
        self._context = zmq.Context()
        self._socket = self._made(zmq.SUB)
        self._socket.subscribe(b"")
        self._monitor = self._socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED)
        self._is_answered = self._is_lost = False
        self._connect(self._socket, self.name)

    def messages(self, wait: float) -> Iterator[EventMessage | None]:
        """Yield the messages that have arrived, after at most ``wait`` seconds; None for one that cannot be read."""
        if not self._socket.poll(int(wait * 1000)):
            self._connect_again()
            return
        for _ in range(AT_ONCE):
            try:
                frames = self._socket.recv_multipart(self._zmq.NOBLOCK)
            except self._zmq.Again:
                return
            yield _message(frames)

    def replayed(self, start: int, topic: str) -> Iterator[EventMessage | None]:
        """Yield the messages from number ``start`` on that the publisher still has; None for one that cannot be
        read."""
        if not self._replay:
            return
        with self._made(self._zmq.DEALER) as socket:
            self._connect(socket, self._replay)
            socket.send_multipart((b"", start.to_bytes(NUMBER_BYTES, "big")))
            end = time.monotonic() + LONGEST_REPLAY
            for _ in range(MOST_REPLAYED):
                if time.monotonic() > end or not socket.poll(REPLAY):
                    return
                _, *frames = socket.recv_multipart()
                if END in frames[:2]:
                    return
                yield _message(frames if len(frames) == 3 else [topic.encode(), *frames])

    def has_answered(self) -> bool:
        """True if a publisher has ever been connected."""
        self._read_monitor()
        return self._is_answered

    def close(self) -> None:
        """Close the sockets."""
        self._socket.disable_monitor()
        self._context.destroy(linger=0)

    def _connect_again(self) -> None:
        """Connect again if the connection ended. ZeroMQ does so after a publisher's end, but not after a message that
        is too large."""
        self._read_monitor()
        if self._is_lost:
            self._is_lost = False
            with suppress(self._zmq.ZMQError):
                self._socket.disconnect(self.name)
            self._connect(self._socket, self.name)

    def _read_monitor(self) -> None:
        """Note whether a connection began or ended."""
        from zmq.utils.monitor import recv_monitor_message

        while self._monitor.poll(0):
            event = recv_monitor_message(self._monitor)["event"]
            self._is_answered |= event == self._zmq.EVENT_HANDSHAKE_SUCCEEDED
            self._is_lost = event == self._zmq.EVENT_DISCONNECTED

    def _made(self, kind: int) -> zmq.Socket[Any]:
        """Return a socket whose messages and queues are bounded."""
        made = self._context.socket(kind)
        made.linger = 0
        made.setsockopt(self._zmq.RCVHWM, WAITING)
        made.setsockopt(self._zmq.MAXMSGSIZE, KV_MESSAGE_BYTES.value)
        made.setsockopt(self._zmq.IPV6, 1)
        return made

    def _connect(self, socket: zmq.Socket[Any], address: str) -> None:
        """Connect a socket. Raise BadInput for an address that ZeroMQ refuses."""
        try:
            socket.connect(address)
        except self._zmq.ZMQError as error:
            raise BadInput(f"not an endpoint of KV events: {quoted(address)}: {error.strerror}", hint=EXAMPLE) from None


def _message(frames: Sequence[bytes]) -> EventMessage | None:
    """Return the message in these frames, None if it cannot be read."""
    if len(frames) != 3:
        return None
    topic, seq, payload = frames
    try:
        return message_of_frames(topic, seq, payload)
    except BadInput:
        return None


def is_endpoint(text: str) -> bool:
    """True if a text is meant as the address of an endpoint, not as the name of a file."""
    return "://" in text


def local_endpoint(text: str) -> str:
    """Return the address of an endpoint on this machine. Raise BadInput for another one."""
    scheme, _, rest = text.partition("://")
    if scheme == "ipc" and 0 < len(rest.encode(errors="replace")) <= LONGEST_PATH and rest.isprintable():
        return text
    try:
        parts = urlsplit(text)
        host = parts.hostname or ""
        port = parts.port
    except ValueError:
        host, port = "", None
    before, _, number = rest.rpartition(":")
    is_bare = scheme == "tcp" and before in (host, f"[{host}]") and number == str(port)
    if not is_bare or not port or not text.isprintable():
        raise BadInput(f"not an endpoint of KV events: {quoted(text)}", hint=EXAMPLE)
    try:
        is_here = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_here = False
    if not is_here:
        raise BadInput(f"not a loopback address: {quoted(host)}", hint=EXAMPLE)
    return f"tcp://{'127.0.0.1' if host == 'localhost' else parts.netloc}"
