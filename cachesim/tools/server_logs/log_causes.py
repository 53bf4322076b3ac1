"""Why were prompts evaluated from nothing? What the client changed, and what the server could not keep.

A request goes on from what a slot held: a prompt, and the answer to it. Where the new prompt leaves that text says what
the client did; how much of what they share is evaluated all the same says what the server lost.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from contextlib import suppress
from itertools import islice
from typing import Any, Iterable, Iterator, NamedTuple, Sequence

from cachesim.tools.server_logs.line_prefixes import plain
from cachesim.tools.server_logs.reconstruction import Rebuilt

# Texts of requests that stand inside a log: bodies that a server prints at its highest verbosity.
#
# They enter nothing by themselves. ``import --with-text`` quotes their beginnings in comments of the scenario file.

BODY = re.compile(r"(?:\brequest:|\bbody:?)\s*(\{.*)$", re.I)
"""``request: {...}`` of llama-server, ``Incoming Request Body: {...}`` of mlx_lm.server, ``with body {...}``."""
LONGEST = 1 << 20      # characters of one body
MOST = 200             # texts that are quoted
SHOWN = 80             # characters of a text


class Quoted(NamedTuple):
    """The beginning of a text, where the log has it: number of the line, from 1; role of the message, "prompt" without
    one."""

    line: int
    role: str
    text: str


def texts(lines: Iterable[str]) -> Iterator[Quoted]:
    """The prompt of each body, or its last message, at most so many; bodies over several lines are put together."""
    for number, body in islice(_bodies(lines), MOST):
        for role, text in _said(body):
            yield Quoted(number, role, cut(text))


def comments(every: Iterable[Quoted]) -> str:
    """Comments for the end of a scenario file, one line each, "" = there is nothing to quote."""
    told = [f"#   line {one.line}, {one.role}: {json.dumps(one.text, ensure_ascii=False)}" for one in every]
    return "\n".join(["", "# Texts of the log; the words above do not stand for them:", *told, ""]) if told else ""


def cut(text: str) -> str:
    """Its beginning, without control characters and line ends."""
    text = plain(" ".join(text[: 8 * SHOWN].split()))
    return text if len(text) <= SHOWN else f"{text[:SHOWN]} ..."


def _bodies(lines: Iterable[str]) -> Iterator[tuple[int, Any]]:
    """Each body with the number of the line where it begins."""
    start, pieces, size = 0, [], 0
    for number, line in enumerate(lines, 1):
        begins = BODY.search(line)
        if begins:
            start, pieces, size = number, [begins[1]], len(begins[1])
        elif pieces:
            pieces.append(line)
            size += len(line)
        if size > LONGEST:
            pieces, size = [], 0
        if not pieces or not (begins or line.startswith("}")):
            continue                    # a body over several lines ends where its first brace is closed, at the margin
        body = None
        with suppress(ValueError, RecursionError):
            body = json.JSONDecoder().raw_decode("\n".join(pieces))[0]
        if body is not None:
            yield start, body
        if body is not None or not begins:
            pieces, size = [], 0


def _said(body: Any) -> Iterator[tuple[str, str]]:
    if not isinstance(body, dict):
        return
    messages = body.get("messages")
    if isinstance(messages, list) and messages and isinstance(messages[-1], dict):
        content = messages[-1].get("content")
        if isinstance(content, list):
            content = " ".join(part["text"] for part in content
                               if isinstance(part, dict) and isinstance(part.get("text"), str))  # fmt: skip
        if isinstance(content, str) and content:
            yield cut(str(messages[-1].get("role", "message")))[:20], content
    elif isinstance(body.get("prompt"), str) and body["prompt"]:
        yield "prompt", body["prompt"]


NEAR = 16                    # tokens that a chat template puts at the end of a prompt
OFTEN = 3                    # requests that differ at the same token: something near it changes each time


class LogTurn(NamedTuple):
    """One request: what the client did (``how``), tokens in common with the slot, evaluated ones, and those among them
    that were in common (``lost``); ``forced``: the log says that all was evaluated, and not what was in common."""

    number: int
    how: str
    lcp: int
    evaluated: int
    lost: int
    n_tokens: int
    forced: bool = False


HOWS = {
    "new": "a new conversation: nothing in common with the slot",
    "extends": "extends what the slot holds",
    "answer": "the answer came back changed: reasoning removed, or the text rendered anew",
    "turn end": "differs at the end of the previous prompt: reasoning removed, or the chat template renders a turn "
                "differently once it is history",
    "history": "differs before the end of the previous prompt: the history was edited, shortened or compacted",
    "start": "differs near the same token each time: a date, an id, or tools in changing order at the front",
}
"""What a client did, in a sentence."""

ADVICE = {
    "answer": "send answers back as they were generated: keep the reasoning in the history",
    "turn end": "keep the reasoning in the history, or use a chat template that renders past turns as at first",
    "history": "edit or compact the history rarely, and from its end",
    "start": "put what changes (dates, ids, a list of files) at the end of the prompt",
    "new": "more slots (one for each conversation), or a larger prompt cache",
}
"""What helps on the client's side."""


def turns(requests: Sequence[Rebuilt]) -> list[LogTurn]:
    """What happened at each request whose length is known."""
    found = [_turn(number, one) for number, one in enumerate(requests) if one.step >= 0 and one.logged.n_tokens]
    same = Counter(one.lcp // NEAR for one in found if one.how == "history")
    often = {where for where, times in same.items() if times >= OFTEN}
    return [one._replace(how="start") if one.how == "history" and one.lcp // NEAR in often else one for one in found]


def _turn(number: int, one: Rebuilt) -> LogTurn:
    logged, before = one.logged, one.before
    n_tokens = logged.n_tokens or 0
    evaluated = n_tokens - (one.got or 0) if logged.prompt_n is None else logged.prompt_n
    lost = max(0, evaluated - max(1, n_tokens - one.lcp))
    return LogTurn(number, _how(one.lcp, before.prompt, before.size), one.lcp, evaluated, lost, n_tokens,
                logged.full and not one.lcp)


def _how(lcp: int, prompt: int, size: int) -> str:
    if not lcp or not size:
        return "new"
    if lcp >= size - 1:
        return "extends"
    if lcp > prompt:
        return "answer"
    return "turn end" if prompt - lcp <= NEAR else "history"


def summary(found: Sequence[LogTurn]) -> dict[str, Any]:
    """How much was evaluated, from nothing and again, what the client did how often, and what would help."""
    tokens, evaluated = sum(one.n_tokens for one in found), sum(one.evaluated for one in found)
    again = [one for one in found if one.lost]
    nothing = [one for one in found if one.lcp and one.evaluated >= one.n_tokens]
    causes: list[dict[str, Any]] = [
        {"cause": how, "says": HOWS[how], "requests": [one.number for one in found if one.how == how],
         "lost": sum(one.lost for one in found if one.how == how), "advice": ADVICE.get(how, "")}
        for how in HOWS if any(one.how == how for one in found)
    ]  # fmt: skip
    causes.sort(key=lambda cause: -cause["lost"])
    return {
        "requests": len(found), "tokens": tokens, "evaluated": evaluated, "lost": sum(one.lost for one in found),
        "forced": [one.number for one in found if one.forced],
        "from_nothing": [one.number for one in nothing], "again": [one.number for one in again], "causes": causes,
    }  # fmt: skip
