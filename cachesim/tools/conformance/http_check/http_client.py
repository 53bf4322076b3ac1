"""HTTP to one address, bounded: time-outs, size, number of requests. Nothing else is ever contacted.

Needs the package httpx (extra `live`). Whatever goes wrong is one line.
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
from cachesim.tools.conformance.timeouts import Patience

LARGEST = 1 << 24            # bytes of a reply


class NoReply(TimedOut):
    """No reply in time."""


class NotJson(Failed):
    """A reply that is no JSON."""


class Exhausted(Exception):
    """As many requests were sent as are allowed."""


class Http:
    """Talks to one server. ``timeout``: seconds for a reply; ``most``: requests in all; ``key``: for servers that want
    one. ``sent`` counts."""

    def __init__(self, url: str, timeout: float, most: int, key: str = "") -> None:
        self.url, self.timeout, self.most, self.sent = _checked(url), timeout, most, 0
        self.dead = ""                               # why nothing is sent any more
        try:
            self._httpx = import_module("httpx")
        except ImportError:
            raise BadInput("a running server needs the package httpx", hint=install_command("live")) from None
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._client = self._httpx.Client(base_url=self.url, timeout=timeout, trust_env=False, headers=headers)

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def get(self, path: str) -> Any:
        """The JSON at a path, None where there is none (404 and the like). Raises Failed."""
        status, body = self._ask("GET", path, None)
        return body if status == 200 else None

    def post(self, path: str, body: Mapping[str, Any]) -> tuple[int, Any]:
        """Status and JSON of the reply. Raises Failed."""
        return self._ask("POST", path, body)

    def hang_up(self, path: str, body: Mapping[str, Any], after: int) -> None:
        """Ask for a stream and close the connection behind so many events. Raises Failed."""
        seen, limit = 0, Patience(self.timeout, self.timeout)
        with self._response("POST", path, body) as response:
            for line in response.iter_lines():
                seen += line.startswith("data: ")
                if seen >= max(1, after):
                    return
                self._in_time(limit)

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None) -> tuple[int, Any]:
        with self._response(method, path, body) as response:
            data, limit = bytearray(), Patience(self.timeout, self.timeout)
            for piece in response.iter_bytes():
                data += piece
                self._in_time(limit)
                if len(data) > LARGEST:
                    raise Failed(f"a reply of more than {LARGEST:,} bytes")
        return response.status_code, _json(bytes(data), response.status_code)

    @contextmanager
    def _response(self, method: str, path: str, body: Mapping[str, Any] | None) -> Iterator[Any]:
        """A response that is on its way. Raises Exhausted, Failed."""
        self._count()
        try:
            with self._client.stream(method, path, json=None if body is None else dict(body)) as response:
                yield response
        except self._httpx.TimeoutException:
            raise NoReply(f"no reply within {self.timeout:g} seconds") from None
        except self._httpx.HTTPError as error:
            raise Failed(f"the connection broke: {cut(str(error) or type(error).__name__, 80)}") from None

    def _in_time(self, limit: Patience) -> None:
        """Raises Silent where a reply has come in pieces for too long."""
        if limit.spent:
            raise NoReply(f"no whole reply within {self.timeout:g} seconds")

    @property
    def spent(self) -> bool:
        """Returns True if no more requests may be sent."""
        return bool(self.stopped)

    @property
    def stopped(self) -> str:
        """Why no more requests may be sent, "" if they may."""
        return self.dead or (f"stopped after {self.most:,} requests" if self.sent >= self.most else "")

    def _count(self) -> None:
        if self.spent:
            raise Exhausted(self.stopped)
        self.sent += 1


def _checked(url: str) -> str:
    """The address. Raises BadInput for one that is none."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise BadInput(f"{quoted(url)} is no address of a server", hint="for example http://127.0.0.1:8080")
    return url.rstrip("/")


def _json(data: bytes, status: int) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        if status == 200:
            if data.lstrip().startswith(b"data:"):
                raise NotJson("a stream of events where a whole reply was asked for") from None
            raise NotJson(f"a reply that is not JSON: {cut(repr(data[:60]), 80)}") from None
        return None
