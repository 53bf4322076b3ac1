"""Requests and replies of the copied connections: a passive HTTP/1.1 reader for each connection.

h11 reads both directions. It is never asked to write: the relay has already forwarded the bytes. Bodies beyond a limit
are counted and not kept. After bytes that are not HTTP/1.1, or that were dropped in front of a head, the rest of a
connection is not read.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Callable, Mapping

with suppress(ImportError):  # a log alone has no connections; the command asks for the package before it relays
    import h11

from cachesim.tools.watch.frames import (
    CLIENT_ENDS,
    REPLY,
    REQUEST,
    SERVER_ENDS,
    SKIPPED_REPLY,
    SKIPPED_REQUEST,
    UNREACHABLE,
    Frame,
)

HEAD = 1 << 16               # longest head of a message [bytes]
PIECE = 1 << 14              # bytes that h11 gets at once: it bounds only heads that are not complete yet
BODY = 1 << 24               # bytes of a request's body that are kept
REPLY_START, REPLY_END = 1 << 20, 1 << 16      # bytes of a reply that are kept: its start, and its end
FILLER = 1 << 16             # bytes that stand for dropped bytes of a body, at once
CONNECTIONS = 4_096          # connections that are read at the same time, at most
OPEN, WHOLE, CLIENT_LEFT, SERVER_LEFT = "", "whole", "the client hung up", "the server hung up"
"""Ends of an exchange."""


@dataclass(slots=True, eq=False)
class WatchedExchange:
    """A request and its reply."""

    method: str
    target: str                                              # path and query
    connection: int = 0                                      # number of its connection
    body: bytearray = field(default_factory=bytearray)       # the request's body
    size: int = 0                                            # its bytes, also if they were not kept
    has_gap: bool = False                                    # a part of the request was not copied
    is_sent: bool = False                                    # the request is complete
    status: int = 0                                          # 0 = no reply yet
    coding: str = ""                                         # Content-Encoding of the reply
    reply: bytearray = field(default_factory=bytearray)      # start of the reply's body
    rest: bytearray = field(default_factory=bytearray)       # its end, if it is longer
    reply_size: int = 0                                      # bytes of the reply's body
    end: str = OPEN                                          # how it ended

    def take_request(self, data: bytes) -> None:
        """Add bytes of the request's body."""
        self.size += len(data)
        if self.size <= BODY:
            self.body += data

    def take_reply(self, data: bytes) -> None:
        """Add bytes of the reply's body."""
        self.reply_size += len(data)
        room = REPLY_START - len(self.reply)
        self.reply += data[:room]
        if len(data) > room:
            self.rest += data[room:]
            if len(self.rest) > 2 * REPLY_END:
                del self.rest[:-REPLY_END]

    @property
    def is_kept(self) -> bool:
        """True if the whole body of the request is known."""
        return self.size <= BODY and not self.has_gap


Heard = Callable[[WatchedExchange], None]


class ConnectionReader:
    """Reader of one connection. ``sent`` gets an exchange when its request is complete, ``ended`` when it is over."""

    def __init__(self, number: int, sent: Heard, ended: Heard) -> None:
        self._number, self._sent, self._ended = number, sent, ended
        self._client = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD)    # reads the client's bytes
        self._server = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD)    # reads the server's bytes
        self._current: WatchedExchange | None = None
        self.is_broken = False

    def read(self, frame: Frame) -> None:
        """Take a frame. Raises nothing for bytes that are not HTTP: the connection is then broken."""
        if self.is_broken:
            return
        try:
            self._take(frame)
        except (h11.RemoteProtocolError, h11.LocalProtocolError):
            self.is_broken = True
            self._end(SERVER_LEFT if frame.kind in (REPLY, SKIPPED_REPLY, SERVER_ENDS) else CLIENT_LEFT)

    def _take(self, frame: Frame) -> None:
        if frame.kind in (REQUEST, REPLY):
            connection = self._client if frame.kind == REQUEST else self._server
            for at in range(0, len(frame.data), PIECE):
                connection.receive_data(frame.data[at : at + PIECE])
                self._read_both()
        elif frame.kind == CLIENT_ENDS:
            if self._client.their_state is h11.SEND_BODY:
                self._end(CLIENT_LEFT)
            elif self._current is not None and self._current.end == OPEN:
                self._current.end = CLIENT_LEFT          # the reply may still arrive
            return
        elif frame.kind == SERVER_ENDS:
            if self._current is not None and self._server.their_state is h11.SEND_BODY:
                self._server.receive_data(b"")           # ends a reply without a length
        elif frame.kind in (SKIPPED_REQUEST, SKIPPED_REPLY):
            self._skip(frame)
        self._read_both()
        if frame.kind in (SERVER_ENDS, UNREACHABLE):
            self._end(SERVER_LEFT)

    def _skip(self, frame: Frame) -> None:
        """Stand in for dropped bytes, if they are those of a body."""
        connection = self._client if frame.kind == SKIPPED_REQUEST else self._server
        if self._current is None or connection.their_state is not h11.SEND_BODY:
            raise h11.RemoteProtocolError("the copy of a head was dropped")
        self._current.has_gap |= frame.kind == SKIPPED_REQUEST
        for at in range(0, frame.skipped, FILLER):
            connection.receive_data(bytes(min(FILLER, frame.skipped - at)))
            self._read_both()

    def _read_both(self) -> None:
        """Read all complete events of both directions."""
        while self._read_request() or self._read_reply():
            pass

    def _read_request(self) -> bool:
        """Read an event of the client; return whether there was one."""
        event = self._client.next_event()
        if isinstance(event, h11.Request):
            self._current = WatchedExchange(event.method.decode(), event.target.decode("latin-1"), self._number)
            self._server.send(h11.Request(method=event.method, target="/", headers=[("host", "-")]))
            self._server.send(h11.EndOfMessage())
        elif isinstance(event, h11.Data) and self._current is not None:
            self._current.take_request(event.data)
        elif isinstance(event, h11.EndOfMessage) and self._current is not None:
            self._current.is_sent = True
            self._sent(self._current)
        return isinstance(event, h11.Request | h11.Data | h11.EndOfMessage)

    def _read_reply(self) -> bool:
        """Read an event of the server; return whether there was one."""
        if self._current is None or self._server.their_state is h11.SWITCHED_PROTOCOL:
            return False
        event = self._server.next_event()
        if isinstance(event, h11.Response):
            self._current.status = event.status_code
            self._current.coding = dict(event.headers).get(b"content-encoding", b"").decode("latin-1")
        elif isinstance(event, h11.Data):
            self._current.take_reply(event.data)
        elif isinstance(event, h11.EndOfMessage):
            self._end(WHOLE)
            return self._next()
        return isinstance(event, h11.InformationalResponse | h11.Response | h11.Data)

    def _next(self) -> bool:
        """Prepare the next exchange of the connection; return whether it can have one."""
        if self._client.their_state is not h11.DONE:
            self.is_broken = True                    # answered before the request was complete
            return False
        self._client.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
        self._client.send(h11.EndOfMessage())
        if {self._client.our_state, self._server.their_state, self._server.our_state} != {h11.DONE}:
            return False                             # a side announced that it closes the connection
        self._client.start_next_cycle()
        self._server.start_next_cycle()
        return True

    def _end(self, end: str) -> None:
        """End the current exchange, if there is one."""
        current, self._current = self._current, None
        if current is not None:
            current.end = current.end if end == SERVER_LEFT and current.end else end
            if not current.is_sent:
                self._sent(current)
            self._ended(current)


class Connections:
    """Readers of all connections. ``unread``: connections that could not be read to their end."""

    def __init__(self, sent: Heard, ended: Heard) -> None:
        self._sent, self._ended = sent, ended
        self._readers: dict[int, ConnectionReader] = {}
        self._ends: dict[int, set[int]] = {}
        self.unread, self.unreachable = 0, 0

    def read(self, frame: Frame) -> None:
        """Take a frame of any connection."""
        self.unreachable += frame.kind == UNREACHABLE
        reader = self._readers.get(frame.connection)
        if reader is None:
            if frame.kind in (CLIENT_ENDS, SERVER_ENDS, UNREACHABLE):
                return
            if len(self._readers) >= CONNECTIONS:
                self.unread += 1
                self._readers.pop(next(iter(self._readers)))
            reader = self._readers[frame.connection] = ConnectionReader(frame.connection, self._sent, self._ended)
        before = reader.is_broken
        reader.read(frame)
        self.unread += reader.is_broken and not before
        if frame.kind in (CLIENT_ENDS, SERVER_ENDS):
            self._forget(frame)

    def _forget(self, frame: Frame) -> None:
        """Drop the reader of a connection whose two sides have ended."""
        ends = self._ends.setdefault(frame.connection, set())
        ends.add(frame.kind)
        if len(ends) == 2:
            del self._ends[frame.connection], self._readers[frame.connection]

    @property
    def counts(self) -> Mapping[str, int]:
        """Counts for the totals."""
        return {"unread_connections": self.unread, "refused_connections": self.unreachable}
