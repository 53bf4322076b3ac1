"""HTTP client for a llama-server: completions, disconnects, slot files, concurrent requests."""

from __future__ import annotations

from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any, Callable, Mapping, Sequence

from cachesim.base.http_client import HttpClient, HttpFailure, HttpReply, JsonBody
from cachesim.base.json_shapes import Shape
from cachesim.tools.live.llama_server.reply_shapes import COMPLETION, check_completions, streamed_tokens

GREEDY: Mapping[str, Any] = {"temperature": 0, "ignore_eos": True, "n_probs": 4, "return_tokens": True}
"""Constant fields of every completion: greedy, without end of text, with the four likeliest tokens and their
log-probabilities. Recordings omit them."""

ANSWER_WITHIN = 120.0       # seconds
PATIENCE = 0.25             # seconds between two calls of ``meanwhile``


class Client:
    """Client of a server. ``within``: seconds for a whole reply. Every method raises HttpFailure without a usable
    reply: ConnectionLost if the connection breaks."""

    shape: Shape = staticmethod(COMPLETION)      # of a completion

    def __init__(self, url: str, within: float = ANSWER_WITHIN) -> None:
        self.url, self.within = url, within
        self.fixed: Mapping[str, Any] = GREEDY          # fields of every completion
        self._http = HttpClient(url)

    def close(self) -> None:
        """Close all connections. Requests of other threads fail at once."""
        self._http.close()

    def healthy(self, alias: str) -> bool:
        """True if the server that was started under this alias has loaded its model. Another may have taken the
        port."""
        try:
            reply = self.get("/props")
        except HttpFailure:
            return False
        return reply.status == 200 and isinstance(reply.body, Mapping) and reply.body.get("model_alias") == alias

    def get(self, path: str) -> HttpReply:
        """GET a path such as `/props` or `/slots`."""
        return self._http.ask("GET", path, None, self.within)

    def post(self, path: str, body: JsonBody, within: float | None = None) -> HttpReply:
        """POST a JSON body. ``within``: seconds for this reply."""
        return self._http.ask("POST", path, body, within or self.within)

    def complete(self, body: Mapping[str, Any]) -> HttpReply:
        """Request a completion for a prompt of tokens. Raise BadInput if the reply lacks fields or is longer than
        requested."""
        reply = self.post("/completion", {**self.fixed, **body})
        if reply.status == 200:
            check_completions(reply.body, body, self.shape, f"{self.url}/completion")
        return reply

    def slot(self, action: str, id_slot: int, filename: str = "") -> HttpReply:
        """Save, restore or erase a slot. ``filename``: name in the server's folder of slot files."""
        return self.post(f"/slots/{id_slot}?action={action}", {"filename": filename} if filename else {})

    def set_adapters(self, scales: JsonBody) -> HttpReply:
        """Set the scales of the server's adapters; those not named are off."""
        return self.post("/lora-adapters", scales)

    def hang_up(self, body: Mapping[str, Any], after: int, launched: Callable[[], None]) -> list[int]:
        """Request a stream and disconnect after ``after`` tokens; return the received tokens. With 0 the connection is
        closed as soon as ``launched()`` returns. After a refusal or an early end there are fewer tokens."""
        sent, seen = {**self.fixed, **body, "stream": True}, list[int]()
        with self._http.send("POST", "/completion", sent, self.within) as exchange:
            if after == 0:
                launched()
                return []
            for line in exchange.lines():
                seen += self.tokens_in(line)
                if len(seen) >= after:
                    break
        return seen

    def tokens_in(self, line: str) -> list[int]:
        """Return the tokens in a line of an event stream. Raise BadInput for an invalid event."""
        return streamed_tokens(line, f"{self.url}/completion")


def at_once(calls: Sequence[Callable[[], Any]], meanwhile: Callable[[], None]) -> None:
    """Run all calls concurrently, each in a thread, and ``meanwhile`` at intervals. Raise the exception of a call."""
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
