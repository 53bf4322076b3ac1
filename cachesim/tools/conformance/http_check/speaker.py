"""Speaks to a server with OpenAI's completions or chats, in tokens or in text, and gets its cache out of the way."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count as counting
from typing import Any, Mapping, Sequence

from cachesim.base.tokens import Tokens
from cachesim.tools.conformance.http_check import replies
from cachesim.tools.conformance.http_check.http_client import Http
from cachesim.tools.conformance.http_check.replies import Answered, mapping
from cachesim.tools.conformance.http_check.spelling import Arrays, Spelling
from cachesim.tools.conformance.protocol import Ask, Failed, Reply

CHAT = "/v1/chat/completions"
TIMES = (1, 2, 4)            # as many other prompts where fewer left something
SHORT = 3                    # pieces of a prompt that pushes another one out of a cache


class NoCold(Exception):
    """A cache is not to be emptied."""


@dataclass(frozen=True, slots=True)
class AskingWay:
    """How a server is asked: ``fields`` of every request. A cold answer is had by the fields ``cold``, by another value
    of the field ``salt``, by a request to ``empty`` before, or behind ``others`` other prompts; ``reports``: cached
    tokens are reported, so that it was seen to work."""

    path: str
    arrays: bool
    fields: Mapping[str, Any]
    cold: Mapping[str, Any] = field(default_factory=dict)
    salt: str = ""
    empty: str = ""
    others: int = 0
    reports: bool = True

    @property
    def sentence(self) -> str:
        """How it is asked, and how a cold answer is had."""
        asked = f"{self.path}, {'token arrays' if self.arrays else 'text'}"
        cold = ", ".join(self.cold) or self.salt or (f"POST {self.empty}" if self.empty else "")
        sure = "" if self.reports else " (cached tokens are not reported: nothing confirms it)"
        return f"{asked}; cold answers: {cold or f'behind {self.others} other prompts{sure}'}"


class Speaker:
    """Asks one server in one way."""

    def __init__(self, http: Http, way: AskingWay, spelling: Spelling) -> None:
        self.http, self.way, self.spelling = http, way, spelling
        self.numbers = counting()

    @property
    def dear(self) -> bool:
        """Returns True if a cold answer takes requests of its own."""
        return bool(self.way.others or self.way.empty)

    def complete(self, ask: Ask) -> Reply:
        """Serve one request. Raises Failed."""
        return self._complete(ask, {} if ask.cache else self.way.cold)

    def cold(self, ask: Ask, often: Sequence[int] = TIMES) -> Reply:
        """Serve it with nothing in the cache. Raises Failed, NoCold."""
        for times in often if self.way.others and self.way.reports else often[:1]:
            reply = self._cold(ask, times)
            if not reply.cached:
                return reply
        raise NoCold(f"its cache could not be emptied: {reply.cached} tokens are cached behind other prompts")

    def _cold(self, ask: Ask, times: int) -> Reply:
        if self.way.empty:
            self.http.post(self.way.empty, {})
        for _ in range(self.way.others * times):
            self._complete(Ask(self._other()), {})
        salt = {self.way.salt: f"cachesim-{next(self.numbers)}"} if self.way.salt else {}
        return self._complete(ask, {**self.way.cold, **salt})

    def length(self, text: str) -> int:
        """Tokens of the prompt that a text makes. Raises Failed where that is not reported."""
        status, said = self.post(text, {"max_tokens": 1})
        total = replies.count(mapping(mapping(said).get("usage")).get("prompt_tokens"))
        if status != 200 or total is None:
            raise Failed("the server does not report prompt_tokens: nothing says how a text is tokenized")
        return total

    def post(self, prompt: str | list[int], fields: Mapping[str, Any]) -> tuple[int, Any]:
        """Status and JSON of a completion. Raises Failed."""
        return self.http.post(self.way.path, self._body(prompt, fields))

    def _body(self, prompt: str | list[int], fields: Mapping[str, Any]) -> dict[str, Any]:
        chat = self.way.path == CHAT
        said: dict[str, Any] = {"messages": [{"role": "user", "content": prompt}]} if chat else {"prompt": prompt}
        return {**said, "temperature": 0, **self.way.fields, **fields}

    def _complete(self, ask: Ask, fields: Mapping[str, Any]) -> Reply:
        prompt, wanted = self.spelling.prompt(ask.prompt), {**fields, "max_tokens": ask.n_predict}
        if ask.cancel_after is not None:
            self.http.hang_up(self.way.path, self._body(prompt, {**wanted, "stream": True}), ask.cancel_after)
            return Reply()
        status, said = self.post(prompt, wanted)
        reply = replies.openai(said) if status == 200 and isinstance(said, Mapping) else None
        if reply is None:
            return replies.refused(status, said)
        return self._read(ask, reply, replies.count(mapping(said.get("usage")).get("prompt_tokens")))

    def _read(self, ask: Ask, reply: Reply, total: int | None) -> Reply:
        """The reply in the history's tokens: counts without those of a template, and none where a text was tokenized in
        another way than its pieces are."""
        said, base = reply.fingerprint, self.spelling.base
        n = (len(said.places) or ask.n_predict) if isinstance(said, Answered) else 0
        tokens = self.spelling.heard(said.text, n) if n and said.text else None
        if isinstance(self.spelling, Arrays):
            return reply
        if total != base + len(ask.prompt) or reply.cached is None:
            return replace(reply, tokens=tokens, cached=None, evaluated=None)
        cached = max(0, reply.cached - base)
        evaluated = len(ask.prompt) - cached if cached <= len(ask.prompt) else None
        return replace(reply, tokens=tokens, cached=cached, evaluated=evaluated)

    def _other(self) -> Tokens:
        """A prompt that was not sent before, as long as there are any."""
        number, size = next(self.numbers), len(self.spelling.tokens)
        places = (number, number // size * 5 + 1, number // size // size * 11 + 2)
        return tuple(self.spelling.tokens[one % size] for one in places[:SHORT])
