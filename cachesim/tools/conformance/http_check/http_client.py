"""HTTP client for a server, with limits on time, size and number of requests. Each error message is a single line."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Callable, Iterator, Mapping

from cachesim.base.http_client import ConnectionLost, HttpClient, HttpFailure, HttpReply, NotJsonReply, ReplyLate
from cachesim.tools.conformance.protocol import Failed, TimedOut
from cachesim.tools.conformance.timeouts import TIMEOUTS, TimeBudget


class NoReply(TimedOut):
    """Raised if a reply is not complete in time."""


class NotJson(Failed):
    """Raised for a reply that is not JSON."""


class NoConnection(Failed):
    """Raised if the connection failed, as it does if the server died."""


class Exhausted(Exception):
    """Raised if the limit on requests or time is reached or the server answers no request."""


def _nothing() -> None:
    """Do nothing."""


class Http:
    """Client of a server. ``timeout``: seconds for a reply; ``most``: limit on requests; ``key``: API key, "" = none;
    ``seconds``: limit for all requests together, None = none; ``sent``: requests so far. After ``TIMEOUTS`` missed
    replies in a row nothing more is sent."""

    def __init__(self, url: str, timeout: float, most: int, key: str = "", seconds: float | None = None) -> None:
        self._client = HttpClient(url, {"Authorization": f"Bearer {key}"} if key else {})
        self.url = self._client.url
        self.timeout = timeout
        self.most = most
        self.sent = 0
        self._budget = TimeBudget(timeout, seconds)
        self.dead = ""                               # reason for sending nothing more
        self.missed = 0                              # replies in a row that did not arrive in time
        self.when_sent: Callable[[], None] = _nothing    # called for every request

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def halt(self, why: str) -> None:
        """Send nothing more; requests of other threads fail at once."""
        self.dead = self.dead or why
        self.close()

    def get(self, path: str) -> Any:
        """Return the JSON at a path, None unless the status is 200. Raise Failed without a usable reply."""
        status, body = self._ask("GET", path, None)
        return body if status == 200 else None

    def post(self, path: str, body: Mapping[str, Any]) -> tuple[int, Any]:
        """Send a POST request; return the reply's HTTP status, also an error status, and its JSON. Raise Failed
        without a usable reply."""
        return self._ask("POST", path, body)

    def hang_up(self, path: str, body: Mapping[str, Any], after: int) -> None:
        """Request a stream and close the connection after ``after`` events. Raise Failed without a usable reply."""
        seen = 0
        with self._counted() as within, self._client.send("POST", path, body, within) as exchange:
            for line in exchange.lines():
                seen += line.startswith("data: ")
                if seen >= max(1, after):
                    return

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None) -> HttpReply:
        with self._counted() as within:
            return self._client.ask(method, path, body, within)

    @contextmanager
    def _counted(self) -> Iterator[float]:
        """Count a request; yield the seconds for its reply. Raise Exhausted, Failed."""
        if self.is_spent:
            raise Exhausted(self.stopped)
        self.sent += 1
        self.when_sent()
        try:
            yield self._budget.left
            self.missed = 0
        except ReplyLate as late:
            if self._budget.is_spent:
                raise Exhausted(self.stopped) from None
            self.missed += 1
            raise NoReply(late.cause) from None
        except NotJsonReply as bad:
            raise NotJson(bad.cause) from None
        except HttpFailure as failed:
            if self.dead:
                raise Exhausted(self.stopped) from None
            raise (NoConnection if isinstance(failed, ConnectionLost) else Failed)(failed.cause) from None

    @property
    def is_spent(self) -> bool:
        """True if no more requests may be sent."""
        return bool(self.stopped)

    @property
    def stopped(self) -> str:
        """Reason why no more requests may be sent, "" if they may."""
        if self._budget.is_spent:
            return self.dead or self._budget.stopped
        silent = f"stopped after {self.missed} missed replies" if self.missed >= TIMEOUTS else ""
        return self.dead or silent or (f"stopped after {self.most:,} requests" if self.sent >= self.most else "")
