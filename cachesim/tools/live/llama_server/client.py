"""HTTP to a llama-server on the loopback: completions, hang-ups, slot files, several at once.

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
"""The constant part of every completion: the likeliest token, never an end, with the four likeliest and their
log-probabilities. Recordings leave it out."""

ANSWER_WITHIN = 120.0       # seconds
CONNECTIONS = 64
PATIENCE = 0.25             # seconds between two looks at what else happens


class ConnectionLost(Exception):
    """The connection broke before the answer was complete."""


class HttpReply:
    """An answer: HTTP status and decoded body."""

    def __init__(self, status: int, body: Any) -> None:
        self.status, self.body = status, body


class Client:
    """Talks to one server. A context manager; its connections end with it."""

    def __init__(self, url: str) -> None:
        self.url = url
        try:
            self._httpx = import_module("httpx")
        except ImportError:
            raise BadInput("real servers need the package httpx", hint=install_command("live")) from None
        limits = self._httpx.Limits(max_connections=CONNECTIONS)
        # Loopback only: no proxies from the environment, and no certificates, whose loading takes longer than a start.
        self._client = self._httpx.Client(base_url=url, timeout=ANSWER_WITHIN, limits=limits, trust_env=False,
                                          verify=False)  # fmt: skip

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def healthy(self, alias: str) -> bool:
        """Is the model loaded, by the server that was started under this name? Another may have taken the port."""
        try:
            reply = self._client.get("/props")
            return bool(reply.status_code == 200 and reply.json().get("model_alias") == alias)
        except (self._httpx.TransportError, ValueError):
            return False

    def get(self, path: str) -> HttpReply:
        """GET, for `/props` and `/slots`. Raises Lost."""
        return self._reply(lambda: self._client.get(path))

    def post(self, path: str, body: Mapping[str, Any]) -> HttpReply:
        """POST a JSON body. Raises Lost, and BadInput after ANSWER_WITHIN seconds."""
        return self._reply(lambda: self._client.post(path, json=dict(body)))

    def complete(self, body: Mapping[str, Any]) -> HttpReply:
        """One completion of a prompt of tokens."""
        return self.post("/completion", {**GREEDY, **body})

    def slot(self, action: str, id_slot: int, filename: str = "") -> HttpReply:
        """Save, restore or erase a slot. ``filename`` is a name in the server's folder of slot files."""
        return self.post(f"/slots/{id_slot}?action={action}", {"filename": filename} if filename else {})

    def hang_up(self, body: Mapping[str, Any], after: int, launched: Callable[[], None]) -> list[int]:
        """Ask for a stream and close the connection when ``after`` tokens have come; returns the tokens seen. With 0
        the connection is closed as soon as ``launched()`` returns. A refusal or an early end gives fewer tokens."""
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
        """Return the tokens in one line of a stream of events."""
        if not line.startswith("data: ") or line == "data: [DONE]":
            return []
        body = json.loads(line.removeprefix("data: "))
        return [] if body.get("stop") else [int(token) for token in body.get("tokens", ())]

    def _only_ask(self, body: Mapping[str, Any], launched: Callable[[], None]) -> None:
        """Send a request and close without reading anything: a plain socket, because httpx waits for the headers."""
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
    """Do all calls at the same time, each in a thread, and ``meanwhile`` now and then. Raises what one of them
    raised."""
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
        pool.shutdown(wait=False, cancel_futures=True)      # one that still waits ends with its server
