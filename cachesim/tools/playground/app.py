"""Web application of the playground: its page, and the simulation of a case. Nothing else.

The server trusts no request. The Host header must name the loopback address, so that a foreign name that resolves to it
(DNS rebinding) reaches nothing. A simulation also needs the page's own Origin, so that other pages cannot start any.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any, AsyncIterator, Coroutine

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cachesim.base.errors import BadInput
from cachesim.base.json_shapes import check
from cachesim.base.untrusted_files import parse_json
from cachesim.tools.playground.case import FIELDS
from cachesim.tools.playground.page import Page
from cachesim.tools.playground.simulator import QueueFull, Simulator

BODY = 1 << 15               # longest request [bytes]


def application(port: int, page: Page, simulator: Simulator) -> Starlette:
    """Return the application of a server on this port of the loopback address."""

    async def show(_: Request) -> Response:
        return HTMLResponse(page.text)

    async def run(request: Request) -> Response:
        try:
            fields = parse_json(await _body(request))
            check(fields, FIELDS)
            return JSONResponse(await _while_connected(request, simulator.ask(fields)))
        except ClientDisconnect:                 # the response has no reader
            return Response(status_code=400)
        except _TooLong:
            return PlainTextResponse(f"at most {BODY} bytes are allowed", 413)
        except BadInput as bad:
            return PlainTextResponse(str(bad), 400)
        except QueueFull:
            return PlainTextResponse("busy", 503)

    @asynccontextmanager
    async def life(_: Starlette) -> AsyncIterator[None]:
        await simulator.start()
        yield
        await simulator.close()

    routes = [Route("/", show), Route("/run", run, methods=["POST"])]
    return Starlette(routes=routes, lifespan=life, middleware=[Middleware(_Guard, port=port, policy=policy(page))])


def policy(page: Page) -> str:
    """Return the Content-Security-Policy: the page's own script and style, and requests to its own server."""
    script, style = (f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for text in page.inline)
    return (f"default-src 'none'; script-src {script}; style-src {style}; connect-src 'self'; img-src data:; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'")  # fmt: skip


class _TooLong(Exception):
    """A request with too long a body."""


async def _body(request: Request) -> bytes:
    """Return the body of a request. Raise _TooLong."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > BODY:
            raise _TooLong
    return body


async def _while_connected(request: Request, work: Coroutine[Any, Any, Any]) -> Any:
    """Return what a coroutine returns. If the client leaves first (its page is closed), cancel the coroutine and raise
    ClientDisconnect."""
    answer = asyncio.create_task(work)
    leaving = asyncio.create_task(_client_leaves(request))
    try:
        await asyncio.wait((answer, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            raise ClientDisconnect
        return answer.result()
    finally:
        answer.cancel()
        leaving.cancel()
        await asyncio.gather(answer, leaving, return_exceptions=True)


async def _client_leaves(request: Request) -> None:
    """Return when the client has closed its connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


class _Guard:
    """Middleware that refuses foreign requests and adds the headers of every response."""

    def __init__(self, app: ASGIApp, port: int, policy: str) -> None:
        self.app = app
        self.hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        self.added = {
            "content-security-policy": policy, "cache-control": "no-store", "x-content-type-options": "nosniff",
            "referrer-policy": "no-referrer", "cross-origin-opener-policy": "same-origin",
            "cross-origin-resource-policy": "same-origin",
        }  # fmt: skip

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self.added)
            await send(message)

        refusal = self.refusal(scope["method"], Headers(scope=scope))
        await (refusal or self.app)(scope, receive, send_safely)

    def refusal(self, method: str, headers: Headers) -> Response | None:
        """Return the response to a foreign request, None if the request is acceptable."""
        host = headers.get("host")
        if host not in self.hosts or len(headers.getlist("host")) != 1:
            return PlainTextResponse("unknown host", 421)
        if method in ("GET", "HEAD"):
            return None
        if headers.getlist("origin") != [f"http://{host}"]:
            return PlainTextResponse("foreign origin", 403)
        if headers.get("content-type") != "application/json":
            return PlainTextResponse("expected application/json", 415)
        return None
