"""HTTP/1.1 client for servers that are not trusted, on the standard library.

A reply is bounded before it is used: seconds from the connection to its last byte, bytes on the wire, bytes and number
of headers, size and nesting of its JSON. Redirects and compressed replies are refused; proxies named in the environment
are ignored. ``http.client`` parses the reply and reads from a ``BoundedSocket``.
"""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse, IncompleteRead
from time import monotonic
from typing import Any, Iterator, Mapping, NamedTuple, Sequence
from urllib.parse import SplitResult, urlsplit

from cachesim.base.bounded_socket import BoundedSocket, TooManyBytes
from cachesim.base.errors import BadInput, cut, quoted
from cachesim.base.limits import REPLY_BYTES
from cachesim.base.untrusted_files import parse_json

HEADER_BYTES = 1 << 16       # largest head of a reply [bytes]; http.client limits it to 100 headers
LINE_BYTES = 1 << 20         # longest line of an event stream [bytes]
PIECE = 1 << 16              # bytes read at once


JsonBody = Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""Body of a request: a JSON object, or a list of them."""


class HttpFailure(BadInput):
    """A request without a usable reply. Each subclass has one cause; the message names the URL."""


class ConnectionLost(HttpFailure):
    """The connection cannot be made, or ends before the reply is complete."""


class ReplyLate(HttpFailure):
    """The reply is not complete in time."""


class BadReply(HttpFailure):
    """The reply is too large, a redirect, compressed, or not HTTP."""


class NotJsonReply(BadReply):
    """The body of a successful reply is not JSON within the limits."""


class HttpReply(NamedTuple):
    """Status and parsed JSON of a reply; None if an error's body is not JSON."""

    status: int
    body: Any


class _Connection(NamedTuple):
    """A connection to the server."""

    http: HTTPConnection
    socket: BoundedSocket


class HttpClient:
    """Client of one server. Threads may share it. Every request has a connection of its own: if a server closes an idle
    connection, the next request on it fails as if the server had died. Raise BadInput for an invalid URL."""

    def __init__(self, url: str, headers: Mapping[str, str] | None = None) -> None:
        self.url = url.rstrip("/")
        self._parts, self._headers = _parse_url(url), {"Connection": "close", **(headers or {})}
        if wrong := [name for name, value in self._headers.items() if not (value.isascii() and value.isprintable())]:
            raise BadInput(f"the header {wrong[0]} must be printable ASCII text", file=self.url)
        self._open: set[_Connection] = set()

    def close(self) -> None:
        """Close all connections. Requests of other threads fail at once."""
        for connection in list(self._open):
            connection.socket.shut()

    def ask(self, method: str, path: str, body: JsonBody | None, within: float) -> HttpReply:
        """Send a request; return the reply. ``within``: seconds from the connection to the last byte. Raise
        HttpFailure."""
        with self.send(method, path, body, within) as exchange:
            return exchange.reply()

    @contextmanager
    def send(self, method: str, path: str, body: JsonBody | None, within: float) -> Iterator[HttpExchange]:
        """Send a request over a connection of its own and yield the exchange, whose reply can be read in the block.
        Raise HttpFailure, also for failures in the block."""
        connection, end = None, monotonic() + within
        try:
            connection = self._connected(end)
            plain = dict(body) if isinstance(body, Mapping) else body
            data = None if body is None else json.dumps(plain).encode()
            headers = self._headers if data is None else {**self._headers, "Content-Type": "application/json"}
            connection.http.request(method, self._parts.path.rstrip("/") + path, data, headers)
            connection.socket.allow(HEADER_BYTES, "headers")
            yield HttpExchange(connection, self.url)
        except TimeoutError:
            what = "complete reply" if connection is not None and connection.socket.received else "reply"
            raise ReplyLate(f"no {what} within {within:g} seconds", file=self.url) from None
        except TooManyBytes as error:
            raise BadReply(str(error), file=self.url) from None
        except OSError as error:
            cause = cut(error.strerror or str(error) or type(error).__name__)
            raise ConnectionLost(f"connection failed: {cause}", file=self.url) from None
        except IncompleteRead:
            raise ConnectionLost("connection failed: closed within a reply", file=self.url) from None
        except (HTTPException, ValueError, OverflowError) as error:
            cause = cut(str(error) or type(error).__name__)
            raise BadReply(f"not a valid HTTP reply: {cause}", file=self.url) from None
        finally:
            if connection is not None:
                self._open.discard(connection)
                connection.socket.shut()

    def _connected(self, end: float) -> _Connection:
        """Return a new connection. Raise OSError."""
        host, secure = str(self._parts.hostname), self._parts.scheme == "https"
        http = HTTPConnection(host, self._parts.port or (443 if secure else 80))
        connection = _Connection(http, BoundedSocket(host, http.port, secure, end))
        http.sock = connection.socket
        self._open.add(connection)
        return connection


class HttpExchange:
    """A request that was sent, and its reply."""

    def __init__(self, connection: _Connection, url: str) -> None:
        self._connection, self._url = connection, url

    def reply(self) -> HttpReply:
        """Read the whole reply. Raise BadReply."""
        response, data = self._head(), bytearray()
        if (response.length or 0) > REPLY_BYTES.now:
            raise self._bad(f"a reply of more than {REPLY_BYTES.now:,} bytes")
        while piece := response.read(PIECE):
            data += piece
        if response.length:
            raise IncompleteRead(b"")
        try:
            return HttpReply(response.status, _parse(bytes(data)))
        except BadInput as bad:
            if response.status == 200:
                raise NotJsonReply(bad.cause, file=self._url) from None
            return HttpReply(response.status, None)

    def lines(self) -> Iterator[str]:
        """Yield the lines of an event stream as they arrive. Raise BadReply."""
        response = self._head()
        while line := response.readline(LINE_BYTES + 1):
            if len(line) > LINE_BYTES:
                raise self._bad(f"a line of more than {LINE_BYTES:,} bytes")
            yield line.rstrip(b"\r\n").decode("utf-8", "replace")

    def _head(self) -> HTTPResponse:
        """Read status and headers; return the response with an unread body."""
        response = self._connection.http.getresponse()
        self._connection.socket.allow(REPLY_BYTES.now, "a reply")
        if 300 <= response.status < 400:
            target = quoted(response.getheader("Location", ""))
            raise self._bad(f"redirect refused: status {response.status} to {target}")
        coding = response.getheader("Content-Encoding", "identity")
        if coding.strip().lower() not in ("", "identity"):
            raise self._bad(f"compressed reply refused: {quoted(coding)} was not requested")
        return response

    def _bad(self, cause: str) -> BadReply:
        return BadReply(cause, file=self._url)


def _parse_url(url: str) -> SplitResult:
    """Return the parts of a URL. Raise BadInput if it is not the URL of a server."""
    try:
        parts = urlsplit(url)
        (parts.hostname or "").encode("idna")
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        good = good and parts.path.isascii() and not re.search(r"[\x00-\x20\x7f]", url)
    except ValueError:
        good = False
    if not good:
        raise BadInput(f"not a server URL: {quoted(url)}", hint="for example http://127.0.0.1:8080")
    return parts


def _parse(data: bytes) -> Any:
    """Return the JSON of a reply; surrogates without their other half become question marks. Raise BadInput."""
    if data.lstrip().startswith(b"data:"):
        raise BadInput("expected a whole reply, found a stream of events")
    try:
        value = parse_json(data, what="the reply")
    except BadInput as bad:
        found = f"{cut(repr(data[:60]))}: {bad.cause}" if data.strip() else "an empty reply"
        raise BadInput(f"expected JSON as the reply, found {found}") from None
    if b"\\ud" in data.lower():
        value = json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    return value
