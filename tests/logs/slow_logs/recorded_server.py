"""A llama-server that a recording asks, and what the recording notes about each request.

Prompts are lists of tokens, so the recording knows every token of all slots. The speed of the last reply determines how
many tokens take some seconds.
"""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Sequence

from cachesim.base.http_client import HttpFailure
from cachesim.model.hash_mixing import Rng
from cachesim.tools.live.llama_server.server import LlamaServer, ServerStart, run_server

PLAIN = 90                      # ids below are text
FEWEST, MOST = 200, 6000        # tokens of a text that is sized in seconds
REPLY_WITHIN = 300.0            # seconds
RELEASED = "stop processing: n_tokens"
LAUNCHED = "processing task, is_child"
APART = 0.2                     # seconds between requests that are sent at once
FIRST_SPEED = 2.0               # assumed milliseconds per token before the first reply


@dataclass(slots=True)
class Asked:
    """A request as its client knows it."""

    conversation: str
    what: str
    prompt: list[int]
    sent_s: float                               # seconds after the first request
    answer: list[int] = field(default_factory=list)
    reply: dict[str, Any] | None = None         # None: the client hung up
    cancelled: bool = False
    status: int | None = None
    error: str = ""


class RecordedServer:
    """A running server; ``asked``: all requests in the order of sending, those sent at once in one list."""

    def __init__(self, start: ServerStart, folder: Path, log: Path, rng: Rng) -> None:
        self.log, self.rng = log, rng
        self.server: LlamaServer = run_server(start, folder, log, listen=False)
        self.server.client.within = REPLY_WITHIN
        self.groups: list[list[Asked]] = []
        self.speed = FIRST_SPEED          # milliseconds per token of the last prompt
        self._began: float | None = None

    def text(self, tokens: int) -> list[int]:
        """Return a random text."""
        return [self.rng.below(PLAIN) for _ in range(tokens)]

    def text_for(self, seconds: float) -> list[int]:
        """Return a random text whose evaluation takes about this long."""
        tokens = int(seconds * 1000 / self.speed)
        return self.text(max(FEWEST, min(MOST, tokens)) + self.rng.below(40))

    def ask(self, conversation: str, what: str, prompt: Sequence[int], predict: int, **fields: Any) -> list[int]:
        """Send a request and wait for its reply; return the answer."""
        return self.ask_at_once([(conversation, what, prompt, predict)], **fields)[0]

    def ask_at_once(self, calls: Sequence[tuple[str, str, Sequence[int], int]], **fields: Any) -> list[list[int]]:
        """Send requests at the same time and wait for all replies; return the answers."""
        group = [self._new(conversation, what, prompt) for conversation, what, prompt, _ in calls]
        self.groups.append(group)
        with ThreadPoolExecutor(len(group)) as pool:
            futures = []
            for asked, (*_, predict) in zip(group, calls, strict=True):
                time.sleep(APART if futures else 0)
                futures.append(pool.submit(self._complete, asked, predict, fields))
            for future in futures:
                future.result()
        self._wait_until_released()
        return [asked.answer for asked in group]

    def cancel(self, conversation: str, what: str, prompt: Sequence[int], seconds: float) -> None:
        """Send a request and hang up after this time."""
        asked = self._new(conversation, what, prompt)
        asked.cancelled = True
        self.groups.append([asked])
        body = {"prompt": list(prompt), "n_predict": 200, "temperature": 0, "ignore_eos": True}
        self.server.client.hang_up(body, 0, lambda: time.sleep(seconds))
        self._wait_until_released()

    def cancel_answer(self, conversation: str, what: str, prompt: Sequence[int], tokens: int) -> list[int]:
        """Send a request and hang up after some tokens of the answer; return those."""
        asked = self._new(conversation, what, prompt)
        asked.cancelled = True
        self.groups.append([asked])
        body = {"prompt": list(prompt), "n_predict": 400, "temperature": 0, "ignore_eos": True}
        asked.answer = self.server.client.hang_up(body, tokens, lambda: None)
        self._wait_until_released()
        return asked.answer

    def stop(self) -> None:
        """End the server by SIGTERM, so that its log is complete."""
        self.server.client.close()
        self.server.process.terminate()

    def _new(self, conversation: str, what: str, prompt: Sequence[int]) -> Asked:
        now = time.monotonic()
        self._began = now if self._began is None else self._began
        return Asked(conversation, what, list(prompt), round(now - self._began, 2))

    def _complete(self, asked: Asked, predict: int, fields: dict[str, Any]) -> None:
        body = {"prompt": asked.prompt, "n_predict": predict, "temperature": 0, "ignore_eos": True}
        try:
            reply = self.server.client.post("/completion", {**body, "return_tokens": True, **fields})
        except HttpFailure as failure:
            asked.error = str(failure)
            raise
        asked.status = reply.status
        if reply.status == 200 and isinstance(reply.body, dict):
            asked.reply = reply.body
            asked.answer = list(reply.body["tokens"])
            timings = reply.body["timings"]
            if timings["prompt_n"] > 200:
                self.speed = timings["prompt_ms"] / timings["prompt_n"]
        else:
            asked.error = str(reply.body)

    def _wait_until_released(self) -> None:
        """Wait until the log shows the end of every request."""
        launched = sum(1 for group in self.groups for asked in group if not asked.error)

        def quiet() -> bool:
            text = self.log.read_text(encoding="utf-8", errors="replace")
            return text.count(RELEASED) >= max(launched, len(re.findall(LAUNCHED, text)))

        self.server.process.wait(quiet, REPLY_WITHIN, "finishing the pending work")
