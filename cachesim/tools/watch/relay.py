"""Relay between clients and a server: it copies the bytes of each connection unchanged, in both directions.

A connection to the server belongs to each connection of a client. The relay parses nothing: status, headers, bodies,
streams, pauses and ends arrive as they were sent. Buffers are bounded, because each side reads no faster than the other
accepts. A copy of the bytes goes to the analysis, after they were forwarded.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from itertools import count
from typing import Any, NamedTuple

from cachesim.tools.watch.frames import (
    CLIENT_ENDS,
    REPLY,
    REQUEST,
    SERVER_ENDS,
    UNREACHABLE,
    FrameQueue,
)

DELAY = 0.02                 # seconds after which the copies are sent to the analysis
BATCH = 1 << 18              # bytes that are sent earlier


class Address(NamedTuple):
    """Address of a server."""

    host: str
    port: int


class Relay:
    """All connections of a relay."""

    def __init__(self, server: Address, queue: FrameQueue) -> None:
        self._server, self._queue = server, queue
        self._numbers = count(1)
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, listener: socket.socket) -> None:
        """Accept connections until the task is cancelled."""
        server = await asyncio.get_running_loop().create_server(self._client, sock=listener)
        async with server:
            await server.serve_forever()

    def _client(self) -> _Side:
        """Return the protocol of a new client."""
        return _Side(self, REQUEST, next(self._numbers))

    def connect(self, client: _Side) -> None:
        """Connect a client with the server."""
        task = asyncio.get_running_loop().create_task(self._connect(client))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, client: _Side) -> None:
        side = _Side(self, REPLY, client.number)
        side.peer, client.peer = client, side
        try:
            await asyncio.get_running_loop().create_connection(lambda: side, *self._server)
        except OSError as error:
            self.copy(UNREACHABLE, client.number, (error.strerror or str(error)).encode())
            client.reset()

    def copy(self, kind: int, connection: int, data: bytes = b"") -> None:
        """Queue a copy for the analysis."""
        if self._queue.put(kind, connection, data):
            asyncio.get_running_loop().call_later(DELAY, self._queue.flush)
        elif len(data) >= BATCH:
            self._queue.flush()


class _Side(asyncio.Protocol):
    """Connection to a client or to the server. ``kind`` is that of its frames; ``peer`` is the other side."""

    def __init__(self, relay: Relay, kind: int, number: int) -> None:
        self._relay, self._kind, self.number = relay, kind, number
        self.transport: Any = None
        self.peer: _Side | None = None
        self._has_ended = self._is_lost = False

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

    def data_received(self, data: bytes) -> None:
        """Forward bytes, then copy them."""
        if self.peer is not None and self.peer.transport is not None:
            self.peer.transport.write(data)
            self._relay.copy(self._kind, self.number, data)

    def pause_writing(self) -> None:
        """Read no more from the other side: this side does not accept its bytes as fast as they arrive."""
        if self.peer is not None and self.peer.transport is not None:
            self.peer.transport.pause_reading()

    def resume_writing(self) -> None:
        """Read from the other side again."""
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
