"""Client of the planned requests: the conversations, what it does with them, and what their replies state."""

from __future__ import annotations

import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.client import HTTPConnection
from random import Random
from typing import Any
from urllib.parse import urlsplit

from tests.live.watch_plan import HUNG_UP, REFUSED, WHOLE, Action, Planned

PLAIN = 90                   # ids of tokens below are text
ANSWER = 5                   # tokens of an answer to a prompt of tokens
LONG = 400                   # tokens of an answer that its client does not wait for
APART = 0.05                 # seconds between requests that are sent at once
TOO_LONG = 5_000             # tokens, more than a slot's context
WORDS = ("river", "stone", "cloud", "amber", "quiet", "lantern", "violet", "harbor", "meadow", "signal")


@dataclass
class Outcome:
    """A request as its client knows it. ``numbers``: counts that the reply states."""

    planned: Planned
    model: str
    status: int = 0
    end: str = WHOLE
    slot: int | None = None
    numbers: dict[str, int] = field(default_factory=dict)


@dataclass
class Talk:
    """A conversation: messages of a chat, or tokens. ``sent``: the last prompt of tokens."""

    name: str
    draw: Random
    messages: list[dict[str, Any]] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    answer: list[int] = field(default_factory=list)
    slot: int | None = None

    def text(self, words: int) -> str:
        return " ".join(self.draw.choices(WORDS, k=words))

    def tokens(self, number: int) -> list[int]:
        return [self.draw.randrange(PLAIN) for _ in range(number)]


class Client:
    """Client of a world's server behind a relay. ``outcomes``: the requests in the order of sending."""

    def __init__(self, url: str, is_chat: bool, prefix: str) -> None:
        self.url, self.is_chat, self.prefix = url, is_chat, prefix
        self.talks: dict[str, Talk] = {}
        self.outcomes: list[Outcome] = []

    def talk(self, name: str) -> Talk:
        return self.talks.setdefault(name, Talk(name, Random(f"{self.prefix} {name}")))

    def act(self, action: Action) -> None:
        """Save, restore or erase a slot, or read the server's properties."""
        if action.what == "props":
            self.exchange("GET", "/props", None)
            return
        talk = self.talk(action.talk)
        body = {} if action.what == "erase" else {"filename": f"{self.prefix}-{action.talk}.bin"}
        status, _ = self.exchange("POST", f"/slots/{talk.slot or 0}?action={action.what}", body)
        assert status == 200, f"{action}: status {status}"

    def send(self, group: tuple[Planned, ...]) -> None:
        """Send requests, at once if they are several, and wait for their ends."""
        outcomes = [Outcome(one, f"{self.prefix}-{len(self.outcomes) + n}") for n, one in enumerate(group)]
        self.outcomes += outcomes
        bodies = [self.body(one) for one in outcomes]
        with ThreadPoolExecutor(len(group)) as pool:
            futures = []
            for outcome, body in zip(outcomes, bodies, strict=True):
                time.sleep(APART if futures else 0)
                futures.append(pool.submit(self._run, outcome, body))
            for future in futures:
                future.result()

    def _run(self, outcome: Outcome, body: dict[str, Any]) -> None:
        planned, path = outcome.planned, "/v1/chat/completions" if self.is_chat else "/completion"
        if planned.end == HUNG_UP:
            outcome.end = HUNG_UP
            self.leave(path, body, 3 if planned.act == "leave_answer" else 0)
            return
        outcome.status, reply = self.exchange("POST", path, body)
        outcome.end = WHOLE if outcome.status == 200 else REFUSED
        if outcome.status == 200:
            self._read(outcome, reply)

    def _read(self, outcome: Outcome, reply: dict[str, Any]) -> None:
        talk, timings = self.talk(outcome.planned.talk), reply["timings"]
        outcome.slot = talk.slot = reply.get("id_slot", talk.slot)
        outcome.slot = reply.get("id_slot")
        outcome.numbers = {
            "prompt": timings["cache_n"] + timings["prompt_n"], "reused": timings["cache_n"],
            "evaluated": timings["prompt_n"], "generated": timings["predicted_n"],
        }  # fmt: skip
        if self.is_chat:
            talk.messages.append({"role": "assistant", "content": reply["choices"][0]["message"].get("content") or ""})
        else:
            talk.answer = list(reply["tokens"])

    def exchange(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """Send a request; return status and JSON of the reply."""
        connection = HTTPConnection(urlsplit(self.url).netloc, timeout=120)
        connection.request(method, path, None if body is None else json.dumps(body),
                           {"Content-Type": "application/json"})  # fmt: skip
        reply = connection.getresponse()
        data = reply.read()
        connection.close()
        return reply.status, json.loads(data)

    def leave(self, path: str, body: dict[str, Any], pieces: int) -> None:
        """Send a request for a stream, and close the connection after some pieces of its answer."""
        connection = HTTPConnection(urlsplit(self.url).netloc, timeout=120)
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        if pieces:
            reply = connection.getresponse()
            for _ in range(2 * pieces):
                reply.fp.readline()
        else:
            time.sleep(APART)
        connection.sock.shutdown(socket.SHUT_RDWR)
        connection.close()

    # Bodies.

    def body(self, outcome: Outcome) -> dict[str, Any]:
        """Return the body of a request, and continue its conversation."""
        planned, talk = outcome.planned, self.talk(outcome.planned.talk)
        fields = {"model": outcome.model, "temperature": 0, **planned.fields}
        if self.is_chat:
            getattr(self, f"chat_{planned.act}")(talk)
            bad = {"max_tokens": "many"} if planned.act == "open_malformed" else {"max_tokens": 1}
            return {"messages": list(talk.messages), **bad, **fields}
        getattr(self, f"tokens_{planned.act}")(talk)
        if planned.act.endswith("_in_slot_of_A"):
            fields["id_slot"] = self.talk("A").slot
        is_left = planned.end == HUNG_UP
        return {"prompt": list(talk.sent), "n_predict": LONG if is_left else ANSWER, "stream": is_left,
                "return_tokens": True, "ignore_eos": True, **fields}  # fmt: skip

    def chat_open(self, talk: Talk) -> None:
        talk.messages = [{"role": "system", "content": talk.text(12)}, {"role": "user", "content": talk.text(12)}]

    def chat_open_like_A(self, talk: Talk) -> None:
        talk.messages = [self.talk("A").messages[0], {"role": "user", "content": talk.text(12)}]

    def chat_open_reasoning(self, talk: Talk) -> None:
        self.chat_open(talk)
        talk.messages += [
            {"role": "assistant", "content": talk.text(5), "reasoning_content": talk.text(12)},
            {"role": "user", "content": talk.text(12)},
        ]

    def chat_open_too_long(self, talk: Talk) -> None:
        talk.messages = [{"role": "user", "content": talk.text(TOO_LONG // 2)}]

    def chat_open_malformed(self, talk: Talk) -> None:
        self.chat_open(talk)

    def chat_append(self, talk: Talk) -> None:
        talk.messages.append({"role": "user", "content": talk.text(8)})

    def chat_same(self, talk: Talk) -> None:
        talk.messages.pop()                                      # the answer

    def chat_edit_last(self, talk: Talk) -> None:
        talk.messages.pop()
        talk.messages[-1] = {"role": "user", "content": talk.text(9)}

    def chat_edit_first(self, talk: Talk) -> None:
        talk.messages.pop()
        talk.messages[1] = {"role": "user", "content": "Please: " + talk.messages[1]["content"]}

    def chat_edit_system(self, talk: Talk) -> None:
        talk.messages.pop()
        talk.messages[0] = {"role": "system", "content": "Now " + talk.messages[0]["content"]}

    def chat_strip_reasoning(self, talk: Talk) -> None:
        talk.messages = [{key: value for key, value in one.items() if key != "reasoning_content"}
                         for one in talk.messages]  # fmt: skip
        talk.messages.append({"role": "user", "content": talk.text(8)})

    def tokens_open(self, talk: Talk) -> None:
        talk.sent = talk.tokens(120)

    tokens_leave_open = tokens_open

    def tokens_open_too_long(self, talk: Talk) -> None:
        talk.sent = talk.tokens(TOO_LONG)

    def tokens_append(self, talk: Talk) -> None:
        talk.sent = [*talk.sent, *talk.answer, *talk.tokens(30)]
        talk.answer = []

    def tokens_append_prompt(self, talk: Talk) -> None:
        talk.sent = [*talk.sent, *talk.tokens(30)]
        talk.answer = []

    tokens_append_in_slot_of_A = tokens_append
    tokens_leave_answer = tokens_append

    def tokens_leave_prompt(self, talk: Talk) -> None:
        talk.sent = [*talk.sent, *talk.answer, *talk.tokens(3_000)]
        talk.answer = []

    def tokens_same(self, talk: Talk) -> None:
        talk.answer = []

    def tokens_back(self, talk: Talk) -> None:
        talk.sent = talk.sent[: len(talk.sent) // 2]
        talk.answer = []

    def tokens_edit_first(self, talk: Talk) -> None:
        talk.sent = [*talk.sent[:3], *(PLAIN - 1 - one for one in talk.sent[3:9]), *talk.sent[9:]]
        talk.answer = []

    def tokens_edit_last(self, talk: Talk) -> None:
        talk.sent = [*talk.sent[:-20], *talk.tokens(25)]
        talk.answer = []
