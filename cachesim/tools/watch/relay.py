"""Relay between clients and a server: it copies the bytes of each connection unchanged, in both directions.

A connection to the server belongs to each connection of a client. The relay parses nothing: status, headers, bodies,
streams, pauses and ends arrive as they were sent. Buffers are bounded, because each side reads no faster than the other
accepts. A copy of the bytes goes to the analysis, after they were forwarded. With the header ``x-cachesim-cause`` the
first bytes of a reply wait a moment for the cause of its request.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from itertools import count
from typing import Any, NamedTuple

from cachesim.tools.watch.cause_header import with_header
from cachesim.tools.watch.frames import (
    CLIENT_ENDS,
    REPLY,
    REQUEST,
    SERVER_ENDS,
    UNREACHABLE,
    FrameQueue,
)

DELAY = 0.05                 # seconds after which the copies are sent to the analysis
BATCH = 1 << 18              # bytes that are sent earlier
PIECE = 1 << 16              # bytes that are read at once
HOLD = 0.1                   # seconds that a reply waits for the cause of its request, if that is a header


class Address(NamedTuple):
    """Address of a server."""

    host: str
    port: int


class Relay:
    """All connections of a relay. ``has_header``: replies get the header ``x-cachesim-cause``."""

    def __init__(self, server: Address, queue: FrameQueue, has_header: bool) -> None:
        self._server = server
        self._queue = queue
        self.has_header = has_header
        self._numbers = count(1)
        self.buffer = memoryview(bytearray(PIECE))   # of all connections: bytes leave it before the next are read
        self.headed: dict[int, _HeadedSide] = {}     # open connections to the server whose replies get the header
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, listener: socket.socket) -> None:
        """Accept connections until the task is cancelled."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(self._client, sock=listener)
        try:
            await loop.create_future()
        finally:
            server.close()           # without `wait_closed`: clients may keep their connections open

    def _client(self) -> _Side:
        """Return the protocol of a new client."""
        return _Side(self, REQUEST, next(self._numbers))

    def connect(self, client: _Side) -> None:
        """Connect a client with the server."""
        task = asyncio.get_running_loop().create_task(self._connect(client))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, client: _Side) -> None:
        side = (_HeadedSide if self.has_header else _Side)(self, REPLY, client.number)
        side.peer, client.peer = client, side
        try:
            await asyncio.get_running_loop().create_connection(lambda: side, *self._server)
        except Exception as error:               # also ValueError and UnicodeError, of names that no resolver takes
            why = getattr(error, "strerror", None) or str(error)
            self.copy(UNREACHABLE, client.number, why.encode("utf-8", "replace"))
            client.reset()

    def copy(self, kind: int, connection: int, data: bytes = b"") -> None:
        """Queue a copy for the analysis."""
        is_first = self._queue.put(kind, connection, data)
        if len(data) >= BATCH or (self.has_header and kind == REQUEST):
            self._queue.flush()
        elif is_first:
            asyncio.get_running_loop().call_later(DELAY, self._queue.flush)

    def take_cause(self, connection: int, cause: bytes) -> None:
        """Give the cause of its last request to a connection. ``cause``: value of the header, b"" = no header."""
        if (side := self.headed.get(connection)) is not None:
            side.take_cause(cause)

    def end_causes(self) -> None:
        """Wait for no further cause: the analysis has ended."""
        self.has_header = False
        for side in self.headed.values():
            side.release()


class _Side(asyncio.BufferedProtocol):
    """Connection to a client or to the server. ``kind`` is that of its frames; ``peer`` is the other side."""

    def __init__(self, relay: Relay, kind: int, number: int) -> None:
        self._relay = relay
        self._kind = kind
        self.number = number
        self.transport: Any = None
        self.peer: _Side | None = None
        self._has_ended = self._is_lost = self._is_full = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connect a client with the server before its first byte is read; then let both sides read."""
        self.transport = transport
        if self._kind == REQUEST:
            self.transport.pause_reading()
            self._relay.connect(self)
        elif self.peer is not None:
            if self.peer.transport.is_closing():         # the client left while the relay connected
                self.transport.abort()
            else:
                self.peer.transport.resume_reading()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer for the next bytes. A new one for each read would double the CPU time of small pieces."""
        return self._relay.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Take the bytes from the buffer."""
        self.take(bytes(self._relay.buffer[:nbytes]))

    def take(self, data: bytes) -> None:
        """Forward bytes, then copy them."""
        if self.peer is not None and self.peer.transport is not None:
            self.peer.transport.write(data)
            self._relay.copy(self._kind, self.number, data)
            self.peer.expect_reply()

    def expect_reply(self) -> None:
        """Take note that bytes of the other side were sent to this side."""

    def pause_writing(self) -> None:
        """Read no more from the other side: this side does not accept its bytes as fast as they arrive."""
        self._is_full = True
        if self.peer is not None and self.peer.transport is not None:
            self.peer.transport.pause_reading()

    def resume_writing(self) -> None:
        """Read from the other side again."""
        self._is_full = False
        if self.peer is not None and self.peer.transport is not None:
            self.peer.transport.resume_reading()

    def eof_received(self) -> bool:
        """Forward the end of one direction; the other direction stays open."""
        self._end()
        with suppress(OSError):
            if self.peer is not None and self.peer.transport is not None:
                self.peer.transport.write_eof()
        return not (self.peer is not None and self.peer._has_ended)

    def connection_lost(self, error: Exception | None) -> None:
        """Close the other side as this side was closed: after its bytes, or by a reset."""
        self._end()
        self._is_lost, peer = True, self.peer
        if peer is None or peer.transport is None:
            return
        if peer._is_lost:
            self.peer = peer.peer = None         # a cycle of references would wait for the garbage collector
        elif error is None:
            peer.transport.close()
        else:
            peer.reset()

    def reset(self) -> None:
        """End the connection with a reset, as the other side ended."""
        if (found := self.transport.get_extra_info("socket")) is not None:
            with suppress(OSError):
                found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def _end(self) -> None:
        """Copy the end of this side's bytes, once."""
        if not self._has_ended:
            self._has_ended = True
            self._relay.copy(CLIENT_ENDS if self._kind == REQUEST else SERVER_ENDS, self.number)


class _HeadedSide(_Side):
    """Connection to the server whose replies get a header. Only the first bytes after those of the client can be the
    head of a reply; they wait for the cause of the request."""

    _is_awaited = False                          # the next bytes begin a reply
    _cause: bytes | None = None                  # of the request before it
    _held = b""                                  # its first bytes
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take causes from now on."""
        self._relay.headed[self.number] = self
        super().connection_made(transport)

    def expect_reply(self) -> None:
        """Forget the cause of the request before."""
        self._is_awaited, self._cause = True, None

    def take(self, data: bytes) -> None:
        """Forward bytes, but hold the first ones of a reply back while their cause is unknown."""
        if not self._relay.has_header or not self._is_awaited or data.startswith(b"HTTP/1.1 1"):
            super().take(data)
            return
        self._held += data
        if self._cause is not None:
            self.release()
        elif self._timer is None:
            self.transport.pause_reading()
            self._timer = asyncio.get_running_loop().call_later(HOLD, self.release)

    def take_cause(self, cause: bytes) -> None:
        """Take the cause of the last request; it is too late if its reply was forwarded."""
        if self._is_awaited:
            self._cause = cause
            self.release()

    def release(self) -> None:
        """Forward the bytes that were held back, with the header if the cause is known."""
        held, self._held = self._held, b""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not held or self.peer is None:
            return
        self._is_awaited = False
        self.peer.transport.write(with_header(held, self._cause or b""))
        self._relay.copy(self._kind, self.number, held)
        if not self.peer._is_full:
            self.transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        """Forward what was held back, then close the other side."""
        self.release()
        self._relay.headed.pop(self.number, None)
        super().connection_lost(error)
