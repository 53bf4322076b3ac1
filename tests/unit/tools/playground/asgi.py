"""Client for ASGI applications: a request, sent in pieces, and its response. It opens no connection."""

from __future__ import annotations

import asyncio
import json
from typing import NamedTuple

HOST = "127.0.0.1:8080"
HEADERS = {"host": HOST, "origin": f"http://{HOST}", "content-type": "application/json"}


class Response(NamedTuple):
    """Response of an application. ``read``: pieces of the request's body that the application has read."""

    status: int
    headers: dict[str, str]
    body: bytes
    read: int

    @property
    def data(self):
        return json.loads(self.body)


async def request(app, method="GET", path="/", body=b"", headers=HEADERS, size=4096, leaving=None):
    """Send a request to an application. ``headers``: names and values, also as pairs; ``size`` [bytes] of a piece.
    When the event ``leaving`` is set, the client closes its connection, None = it waits for the response."""
    pieces = [body[at : at + size] for at in range(0, len(body), size)] or [b""]
    sent, read = [], 0

    async def receive():
        nonlocal read
        if read == len(pieces):
            await (leaving or asyncio.Event()).wait()
            return {"type": "http.disconnect"}
        read += 1
        return {"type": "http.request", "body": pieces[read - 1], "more_body": read < len(pieces)}

    async def send(message):
        sent.append(message)

    pairs = [(k.encode(), v.encode()) for k, v in (headers.items() if isinstance(headers, dict) else headers)]
    scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b"",
             "headers": pairs, "http_version": "1.1", "scheme": "http", "server": ("127.0.0.1", 8080),
             "client": ("127.0.0.1", 9), "root_path": "", "asgi": {"version": "3.0"}}  # fmt: skip
    await app(scope, receive, send)
    head = {k.decode(): v.decode() for k, v in sent[0]["headers"]}
    return Response(sent[0]["status"], head, b"".join(one.get("body", b"") for one in sent[1:]), read)


def posted(app, body, headers=HEADERS, **more):
    """Return the response to a posted body: bytes, or a value that becomes JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return asyncio.run(request(app, "POST", "/run", data, headers, **more))


def got(app, path="/", headers=HEADERS, method="GET"):
    """Return the response to a request without a body."""
    return asyncio.run(request(app, method, path, b"", headers))


async def lifespan(app):
    """Start and end an application; return the types of the messages that it sends."""
    wanted, sent = ["lifespan.startup", "lifespan.shutdown"], []

    async def receive():
        return {"type": wanted.pop(0)}

    async def send(message):
        sent.append(message["type"])

    await app({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, receive, send)
    return sent
