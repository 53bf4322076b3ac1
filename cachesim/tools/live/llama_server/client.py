"""HTTP client for a llama-server on the loopback: completions, disconnects, slot files, concurrent requests.

Needs the package httpx (extra `live`), which is imported when the first client is made.
"""

from __future__ import annotations

import json
import socket
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from importlib import import_module
from typing import Any, Callable, Mapping, Sequence

from cachesim.base.errors import BadInput
from cachesim.base.extras import install_command

GREEDY: Mapping[str, Any] = {"temperature": 0, "ignore_eos": True, "n_probs": 4, "return_tokens": True}
"""Constant fields of every completion: greedy, without end of text, with the four likeliest tokens and their
log-probabilities. Recordings omit them."""

ANSWER_WITHIN = 120.0       # seconds
CONNECTIONS = 64
PATIENCE = 0.25             # seconds between two calls of ``meanwhile``


class ConnectionLost(Exception):
    """Raised if the connection breaks before the answer is complete."""


class HttpReply:
    """A response: HTTP status and decoded body."""

    def __init__(self, status: int, body: Any) -> None:
        self.status, self.body = status, body


class Client:
    """Client of a server. A context manager, which closes its connections."""

    def __init__(self, url: str) -> None:
        self.url = url
        try:
            self._httpx = import_module("httpx")
        except ImportError:
            raise BadInput("connecting to a server needs the package httpx", hint=install_command("live")) from None
        limits = self._httpx.Limits(max_connections=CONNECTIONS)
        # Loopback only: no proxies from the environment, and no certificates (loading them takes longer than a start).
        self._client = self._httpx.Client(base_url=url, timeout=ANSWER_WITHIN, limits=limits, trust_env=False,
                                          verify=False)  # fmt: skip

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def healthy(self, alias: str) -> bool:
        """True if the server that was started under this alias has loaded its model. Another may have taken the
        port."""
        try:
            reply = self._client.get("/props")
            return bool(reply.status_code == 200 and reply.json().get("model_alias") == alias)
        except (self._httpx.TransportError, ValueError):
            return False

    def get(self, path: str) -> HttpReply:
        """GET a path such as `/props` or `/slots`. Raises ConnectionLost."""
        return self._reply(lambda: self._client.get(path))

    def post(self, path: str, body: Mapping[str, Any]) -> HttpReply:
        """POST a JSON body. Raises ConnectionLost, and BadInput after ANSWER_WITHIN seconds."""
        return self._reply(lambda: self._client.post(path, json=dict(body)))

    def complete(self, body: Mapping[str, Any]) -> HttpReply:
        """Request a completion for a prompt of tokens."""
        return self.post("/completion", {**GREEDY, **body})

    def slot(self, action: str, id_slot: int, filename: str = "") -> HttpReply:
        """Save, restore or erase a slot. ``filename``: name in the server's folder of slot files."""
        return self.post(f"/slots/{id_slot}?action={action}", {"filename": filename} if filename else {})

    def hang_up(self, body: Mapping[str, Any], after: int, launched: Callable[[], None]) -> list[int]:
        """Request a stream and disconnect after ``after`` tokens; return the received tokens. With 0 the connection is
        closed as soon as ``launched()`` returns. After a refusal or an early end there are fewer tokens."""
        sent = {**GREEDY, **body, "stream": True}
        if after == 0:
            self._only_ask(sent, launched)
            return []
        seen: list[int] = []
        try:
            with self._client.stream("POST", "/completion", json=sent) as response:
                for line in response.iter_lines():
                    seen += self.tokens_in(line)
                    if len(seen) >= after:
                        break
        except self._httpx.TransportError as error:
            raise ConnectionLost(repr(error)) from None
        return seen

    def tokens_in(self, line: str) -> list[int]:
        """Return the tokens in a line of an event stream."""
        if not line.startswith("data: ") or line == "data: [DONE]":
            return []
        body = json.loads(line.removeprefix("data: "))
        return [] if body.get("stop") else [int(token) for token in body.get("tokens", ())]

    def _only_ask(self, body: Mapping[str, Any], launched: Callable[[], None]) -> None:
        """Send a request and close without reading. Uses a plain socket, because httpx waits for the headers."""
        data = json.dumps(body).encode()
        host, _, port = self.url.removeprefix("http://").partition(":")
        head = f"POST /completion HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        with socket.create_connection((host, int(port)), ANSWER_WITHIN) as connection:
            connection.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
            launched()

    def _reply(self, ask: Callable[[], Any]) -> HttpReply:
        try:
            response = ask()
        except self._httpx.TimeoutException:
            raise BadInput(f"no answer within {ANSWER_WITHIN:g} s", file=self.url) from None
        except self._httpx.TransportError as error:
            raise ConnectionLost(repr(error)) from None
        try:
            return HttpReply(response.status_code, response.json())
        except ValueError:
            return HttpReply(response.status_code, None)


def at_once(calls: Sequence[Callable[[], Any]], meanwhile: Callable[[], None]) -> None:
    """Run all calls concurrently, each in a thread, and ``meanwhile`` at intervals. Raises the exception of a call."""
    pool = ThreadPoolExecutor(max(1, len(calls)))
    try:
        waiting = {pool.submit(call) for call in calls}
        while waiting:
            done, waiting = wait(waiting, PATIENCE, FIRST_EXCEPTION)
            for future in done:
                future.result()
            if waiting:
                meanwhile()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)      # a call that still waits ends with its server
