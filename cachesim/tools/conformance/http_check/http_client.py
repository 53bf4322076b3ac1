"""HTTP client for a server, with limits on time, size and number of requests.

Needs the package httpx (extra `live`). Each error message is a single line.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Iterator, Mapping
from urllib.parse import urlsplit

from cachesim.base.errors import BadInput, cut, quoted
from cachesim.base.extras import install_command
from cachesim.tools.conformance.protocol import Failed, TimedOut
from cachesim.tools.conformance.timeouts import TimeBudget

LARGEST = 1 << 24            # largest reply [bytes]


class NoReply(TimedOut):
    """Raised if a reply is not complete in time."""


class NotJson(Failed):
    """Raised for a reply that is not JSON."""


class Exhausted(Exception):
    """Raised if the request limit is reached or the server died."""


class Http:
    """Client of a server. ``timeout``: seconds for a reply; ``most``: limit on requests; ``key``: API key, "" = none;
    ``sent``: requests so far."""

    def __init__(self, url: str, timeout: float, most: int, key: str = "") -> None:
        self.url, self.timeout, self.most, self.sent = _checked(url), timeout, most, 0
        self.dead = ""                               # reason for sending nothing more
        try:
            self._httpx = import_module("httpx")
        except ImportError:
            raise BadInput("checking a server needs the package httpx", hint=install_command("live")) from None
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._client = self._httpx.Client(base_url=self.url, timeout=timeout, trust_env=False, headers=headers)

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def get(self, path: str) -> Any:
        """Return the JSON at a path, None unless the status is 200. Raises Failed without a usable reply."""
        status, body = self._ask("GET", path, None)
        return body if status == 200 else None

    def post(self, path: str, body: Mapping[str, Any]) -> tuple[int, Any]:
        """Send a POST request; return the reply's HTTP status, also an error status, and its JSON. Raises Failed
        without a usable reply."""
        return self._ask("POST", path, body)

    def hang_up(self, path: str, body: Mapping[str, Any], after: int) -> None:
        """Request a stream and close the connection after ``after`` events. Raises Failed without a usable reply."""
        seen, limit = 0, TimeBudget(self.timeout, self.timeout)
        with self._response("POST", path, body) as response:
            for line in response.iter_lines():
                seen += line.startswith("data: ")
                if seen >= max(1, after):
                    return
                self._in_time(limit)

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None) -> tuple[int, Any]:
        with self._response(method, path, body) as response:
            data, limit = bytearray(), TimeBudget(self.timeout, self.timeout)
            for piece in response.iter_bytes():
                data += piece
                self._in_time(limit)
                if len(data) > LARGEST:
                    raise Failed(f"a reply of more than {LARGEST:,} bytes")
        return response.status_code, _json(bytes(data), response.status_code)

    @contextmanager
    def _response(self, method: str, path: str, body: Mapping[str, Any] | None) -> Iterator[Any]:
        """Yield an open streaming response. Raises Exhausted, Failed."""
        self._count()
        try:
            with self._client.stream(method, path, json=None if body is None else dict(body)) as response:
                yield response
        except self._httpx.TimeoutException:
            raise NoReply(f"no reply within {self.timeout:g} seconds") from None
        except self._httpx.HTTPError as error:
            raise Failed(f"connection failed: {cut(str(error) or type(error).__name__, 80)}") from None

    def _in_time(self, limit: TimeBudget) -> None:
        """Raise NoReply if a reply that arrives in pieces takes too long."""
        if limit.spent:
            raise NoReply(f"no complete reply within {self.timeout:g} seconds")

    @property
    def spent(self) -> bool:
        """True if no more requests may be sent."""
        return bool(self.stopped)

    @property
    def stopped(self) -> str:
        """Reason why no more requests may be sent, "" if they may."""
        return self.dead or (f"stopped after {self.most:,} requests" if self.sent >= self.most else "")

    def _count(self) -> None:
        if self.spent:
            raise Exhausted(self.stopped)
        self.sent += 1


def _checked(url: str) -> str:
    """Return the URL without a trailing slash. Raises BadInput if it is invalid."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise BadInput(f"not a server URL: {quoted(url)}", hint="for example http://127.0.0.1:8080")
    return url.rstrip("/")


def _json(data: bytes, status: int) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        if status == 200:
            if data.lstrip().startswith(b"data:"):
                raise NotJson("expected a whole reply, found a stream of events") from None
            raise NotJson(f"expected JSON as the reply, found {cut(repr(data[:60]), 80)}") from None
        return None
