"""Requests and replies of the copied connections: a passive HTTP/1.1 reader for each connection.

h11 reads both directions. It is never asked to write: the relay has already forwarded the bytes. All bytes that are
held count against one limit. A body or a reply beyond it is not kept, and the exchange has the reason. After bytes that
are not HTTP/1.1, or that were dropped in front of a head, the rest of a connection is not read.
"""

from __future__ import annotations

from contextlib import suppress
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
from cachesim.tools.watch.held_bytes import HeldBytes, buffer_bytes
from cachesim.tools.watch.watched_exchange import (
    CLIENT_LEFT,
    NOT_COPIED,
    OPEN,
    SERVER_LEFT,
    UNREAD,
    WHOLE,
    WatchedExchange,
)

HEAD = 1 << 16               # longest head of a message [bytes]
PIECE = 1 << 14              # bytes that h11 gets at once: it bounds only heads that are not complete yet
FILLER = 1 << 16             # bytes that stand for dropped bytes of a body, at once
CONNECTIONS = 4_096          # connections that are read at the same time, at most
READER = 1 << 14             # bytes of the objects that read a connection

Heard = Callable[[WatchedExchange], None]


class ConnectionReader:
    """Reader of one connection. ``sent`` gets an exchange when its request is complete, ``ended`` when it is over."""

    def __init__(self, number: int, sent: Heard, ended: Heard, held: HeldBytes) -> None:
        self._number = number
        self._sent = sent
        self._ended = ended
        self._held = held
        self._client = _reader_of(h11.SERVER)
        self._server = _reader_of(h11.CLIENT)
        self._keeps = {REQUEST: False, REPLY: False}                 # the last head leaves the connection open
        self._waiting = {REQUEST: bytearray(), REPLY: bytearray()}   # bytes for which h11 is not ready
        self._incomplete = {REQUEST: 0, REPLY: 0}                    # bytes that h11 holds, at most
        self._counted = 0
        self._current: WatchedExchange | None = None
        self.is_broken = self._has_server_ended = False

    def read(self, frame: Frame) -> None:
        """Take a frame. Raise nothing for bytes that are not HTTP: the connection is then broken."""
        if self.is_broken:
            return
        try:
            self._take(frame)
            self._count()
        except (h11.RemoteProtocolError, h11.LocalProtocolError):
            self.close(SERVER_LEFT if frame.kind in (REPLY, SKIPPED_REPLY, SERVER_ENDS) else CLIENT_LEFT)

    def close(self, end: str) -> None:
        """Read nothing more, and release all bytes. ``end``: how the current exchange ends."""
        self.is_broken = True
        self._end(end)
        self._held.recount(self._counted, 0)
        self._waiting.clear()
        del self._client, self._server

    @property
    def has_unread(self) -> bool:
        """True if a request was not read because the server ended the exchange before it."""
        return bool(self._waiting.get(REQUEST))

    @property
    def _is_last(self) -> bool:
        """True if the client announced that it sends no further request."""
        return self._client.their_state is h11.MUST_CLOSE and not self._keeps[REQUEST]

    def _count(self) -> None:
        """Count the bytes that wait. Raise RemoteProtocolError if there is no room for them."""
        if self.is_broken:
            return
        waiting = sum(map(len, self._waiting.values()))
        size = READER + buffer_bytes(waiting + sum(self._incomplete.values()))
        if not self._held.recount(self._counted, size):
            raise h11.RemoteProtocolError("too many bytes were held")
        self._counted = size

    def _take(self, frame: Frame) -> None:
        if frame.kind in (REQUEST, REPLY):
            if frame.kind == REQUEST and self._is_last:
                raise h11.RemoteProtocolError("bytes after the last request")
            self._waiting[frame.kind] += frame.data
        elif frame.kind == CLIENT_ENDS:
            if self._client.their_state is h11.SEND_BODY:
                self._end(CLIENT_LEFT)
            elif self._current is not None and self._current.end == OPEN:
                self._current.end = CLIENT_LEFT          # the reply may still arrive
                self._current.has_client_left = True
            return
        elif frame.kind == SERVER_ENDS:
            if self._current is not None and self._server.their_state is h11.SEND_BODY:
                self._server.receive_data(b"")           # ends a reply without a length
        elif frame.kind in (SKIPPED_REQUEST, SKIPPED_REPLY):
            self._skip(frame)
        self._read_both()
        self._has_server_ended |= frame.kind in (SERVER_ENDS, UNREACHABLE)
        if self._has_server_ended:                       # also of a request that the client sends afterwards
            self._end(SERVER_LEFT)

    def _skip(self, frame: Frame) -> None:
        """Stand in for dropped bytes, if they are those of a body."""
        connection = self._client if frame.kind == SKIPPED_REQUEST else self._server
        if self._current is None or connection.their_state is not h11.SEND_BODY:
            raise h11.RemoteProtocolError("the copy of a head was dropped")
        if frame.kind == SKIPPED_REQUEST:
            self._current.leave_out(NOT_COPIED)
        for at in range(0, frame.skipped, FILLER):
            connection.receive_data(bytes(min(FILLER, frame.skipped - at)))
            self._read_both()

    def _read_both(self) -> None:
        """Read all complete events of both directions."""
        while self._read_request() or self._read_reply() or self._feed(REQUEST) or self._feed(REPLY):
            pass

    def _feed(self, kind: int) -> bool:
        """Give h11 the next bytes of a direction, if it is ready for them; return True if there were any. It holds the
        bytes of later messages without a limit."""
        waiting = self._waiting.get(kind)
        if self.is_broken or not waiting or (kind == REPLY and self._current is None):
            return False
        connection = self._client if kind == REQUEST else self._server
        if connection.their_state not in (h11.IDLE, h11.SEND_RESPONSE, h11.SEND_BODY):
            return False
        connection.receive_data(bytes(waiting[:PIECE]))
        self._incomplete[kind] += min(PIECE, len(waiting))
        del waiting[:PIECE]
        return True

    def _read_request(self) -> bool:
        """Read an event of the client; return True if there was one."""
        if self.is_broken or (self._client.their_state is h11.MUST_CLOSE and not self._is_last):
            return False
        event = self._client.next_event()
        if isinstance(event, h11.Request):
            self._current = WatchedExchange(event.method.decode(), event.target.decode("latin-1"), self._number,
                                            held=self._held)  # fmt: skip
            self._keeps[REQUEST] = _keeps_alive(event)
            self._server.send(h11.Request(method=event.method, target="/", headers=[("host", "-")]))
            self._server.send(h11.EndOfMessage())
        elif isinstance(event, h11.Data) and self._current is not None:
            self._current.take_request(event.data)
        elif isinstance(event, h11.EndOfMessage) and self._current is not None:
            self._current.is_sent = True
            self._sent(self._current)
        is_event = isinstance(event, h11.Request | h11.Data | h11.EndOfMessage)
        self._incomplete[REQUEST] *= not is_event
        return is_event

    def _read_reply(self) -> bool:
        """Read an event of the server; return True if there was one."""
        if self.is_broken or self._current is None or self._server.their_state is h11.SWITCHED_PROTOCOL:
            return False
        event = self._server.next_event()
        if isinstance(event, h11.Response):
            self._current.status = event.status_code
            self._keeps[REPLY] = _keeps_alive(event)
            self._current.coding = dict(event.headers).get(b"content-encoding", b"").decode("latin-1")
        elif isinstance(event, h11.Data):
            self._current.take_reply(event.data)
        elif isinstance(event, h11.EndOfMessage):
            self._end(WHOLE)
            self._next()
            return True
        is_event = isinstance(event, h11.InformationalResponse | h11.Response | h11.Data)
        self._incomplete[REPLY] *= not is_event
        return is_event

    def _next(self) -> None:
        """Prepare the next exchange of the connection, if it can have one."""
        if self._client.their_state not in (h11.DONE, h11.MUST_CLOSE):
            self.close(WHOLE)                        # answered before the request was complete
        elif all(self._keeps.values()):              # h11 does not reuse a connection of HTTP/1.0
            self._client, self._server = _reader_after(self._client), _reader_after(self._server)

    def _end(self, end: str) -> None:
        """End the current exchange, if there is one."""
        current, self._current = self._current, None
        if current is not None:
            current.end = current.end if end == SERVER_LEFT and current.end else end
            if not current.is_sent:
                self._sent(current)
            self._ended(current)
            current.release()


def _reader_of(role: type[h11.SERVER] | type[h11.CLIENT]) -> h11.Connection:
    """Return a reader of the bytes that a side in this role gets."""
    return h11.Connection(role, max_incomplete_event_size=HEAD)


def _reader_after(before: h11.Connection) -> h11.Connection:
    """Return a reader of the message that follows the one that was read."""
    after = _reader_of(before.our_role)
    rest, _ = before.trailing_data
    if rest:                                         # empty data would be the end of the connection
        after.receive_data(rest)
    return after


def _keeps_alive(head: h11.Request | h11.Response) -> bool:
    """True if a side leaves the connection open after this message."""
    named = b",".join(value for name, value in head.headers if name == b"connection").lower()
    options = {option.strip() for option in named.split(b",")}
    return b"keep-alive" in options if head.http_version == b"1.0" else b"close" not in options


class Connections:
    """Readers of all connections. ``unread``: connections that could not be read to their end."""

    def __init__(
        self, sent: Heard, ended: Heard, held: HeldBytes | None, unreachable: Callable[[], None] = lambda: None
    ) -> None:
        self._sent = sent
        self._ended = ended
        self._held = held or HeldBytes()
        self._unreachable = unreachable
        self._readers: dict[int, ConnectionReader] = {}
        self._ends: dict[int, set[int]] = {}
        self.unread, self.unreachable = 0, 0

    def read(self, frame: Frame) -> None:
        """Take a frame of any connection."""
        if frame.kind == UNREACHABLE:
            self.unreachable += 1
            self._unreachable()
        reader = self._readers.get(frame.connection)
        if reader is None:
            if frame.kind in (CLIENT_ENDS, SERVER_ENDS, UNREACHABLE):
                return
            if len(self._readers) >= CONNECTIONS:
                self._close_first()
            reader = ConnectionReader(frame.connection, self._sent, self._ended, self._held)
            self._readers[frame.connection] = reader
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
            del self._ends[frame.connection]
            reader = self._readers.pop(frame.connection)
            if not reader.is_broken:
                self.unread += reader.has_unread
                reader.close(UNREAD)

    def _close_first(self) -> None:
        """Drop the reader of the connection that is read for the longest time."""
        number = next(iter(self._readers))
        reader = self._readers.pop(number)
        self._ends.pop(number, None)
        if not reader.is_broken:
            self.unread += 1
            reader.close(UNREAD)

    def close(self) -> None:
        """Read nothing more: end all open exchanges."""
        for reader in self._readers.values():
            if not reader.is_broken:
                reader.close(UNREAD)

    @property
    def counts(self) -> Mapping[str, int]:
        """Counts for the totals."""
        return {"unread_connections": self.unread, "refused_connections": self.unreachable}
