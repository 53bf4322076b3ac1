"""HTTP/1.1 connections of the playground: limits for those that wait for a request.

uvicorn waits forever for the first request of a connection and for the rest of a body, and refuses all clients while
too many connections wait.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

CONNECTIONS = 64            # connections that may wait for a request
REQUEST_WITHIN = 10.0       # seconds until a request has arrived whole


class BoundedConnection(H11Protocol):
    """A connection that is closed if no whole request arrives in time. If too many connections wait, the one that has
    waited longest is closed."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._since = self.loop.time()
        self._timer = self.loop.call_at(self._since + REQUEST_WITHIN, self._give_up)
        waiting = [one for one in self.connections if isinstance(one, BoundedConnection) and one.is_waiting]
        if len(waiting) > CONNECTIONS:
            longest = min(waiting, key=lambda connection: connection._since)
            longest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        self._since = self.loop.time()
        super().on_response_complete()

    @property
    def is_waiting(self) -> bool:
        """True if no whole request has arrived since the connection was made or the last one was answered. False if it
        is being closed."""
        if self.transport.is_closing():
            return False
        cycle: Any = self.cycle
        return cycle is None or cycle.response_complete or self.conn.their_state is h11.SEND_BODY

    def _give_up(self) -> None:
        """Close the connection if it has waited long enough; else look again later."""
        now = self.loop.time()
        end = self._since + REQUEST_WITHIN
        if self.is_waiting and now >= end:
            self.transport.abort()
            return
        self._timer = self.loop.call_at(max(end, now + 1.0), self._give_up)
