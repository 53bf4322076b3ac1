"""Causes of repeated evaluation in a log: the change that the client made to the prompt, and the tokens that the server
could not keep.

A request continues from the contents of a slot: a prompt and the answer to it. The position where the new prompt
differs shows what the client did. The part of the common prefix that was evaluated again shows what the server lost.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from contextlib import suppress
from itertools import islice
from typing import Any, Iterable, Iterator, NamedTuple, Sequence

from cachesim.base.escaping import comment_line
from cachesim.tools.server_logs.facts.client_changes import ADVICE, CLIENT_CHANGES, NEAR, SlotPrompts
from cachesim.tools.server_logs.facts.logged_requests import LoggedRequest
from cachesim.tools.server_logs.lines.line_prefixes import visible_text
from cachesim.tools.server_logs.rebuild.reconstruction import ReconstructedRequest

# Servers print request bodies at their highest verbosity. Nothing of them enters the reconstruction:
# ``import --with-text`` quotes their beginnings as comments of the scenario file.

BODY = re.compile(r"(?:\brequest:|\bbody:?)\s*(\{.*)$", re.I)
"""``request: {...}`` of llama-server, ``Incoming Request Body: {...}`` of mlx_lm.server, ``with body {...}``."""
LONGEST = 1 << 20      # characters of a body, at most
MOST = 200             # quoted texts, at most
SHOWN = 80             # quoted characters of a text, at most


class QuotedText(NamedTuple):
    """Beginning of a request text in the log: number of its line, from 1; role of the message ("prompt" if it has
    none); text."""

    line: int
    role: str
    text: str


def quoted_prompts(lines: Iterable[str]) -> Iterator[QuotedText]:
    """Yield the prompt of each request body in the log, or its last message, for the first ``MOST`` bodies. A body may
    span several lines."""
    for number, body in islice(_bodies(lines), MOST):
        for role, text in _said(body):
            yield QuotedText(number, role, shorten(text))


def quote_as_comments(every: Iterable[QuotedText]) -> str:
    """Return comment lines for the end of a scenario file, "" if there is nothing to quote."""
    quotes = [comment_line(f"  line {quote.line}, {quote.role}: {json.dumps(quote.text, ensure_ascii=False)}")
              for quote in every]  # fmt: skip
    return "\n".join(["", "# Texts from the log (unrelated to the words above):", *quotes, ""]) if quotes else ""


def shorten(text: str) -> str:
    """Return the first ``SHOWN`` characters of a text, on a single line and without control characters."""
    text = visible_text(" ".join(text[: 8 * SHOWN].split()))
    return text if len(text) <= SHOWN else f"{text[:SHOWN]} ..."


def _bodies(lines: Iterable[str]) -> Iterator[tuple[int, Any]]:
    """Yield the line number at which each body begins, and the parsed body."""
    start = 0
    pieces: list[str] = []
    size = 0                            # characters of the pieces
    for number, line in enumerate(lines, 1):
        begins = BODY.search(line)
        if begins:
            start = number
            pieces = [begins[1]]
            size = len(begins[1])
        elif pieces:
            pieces.append(line)
            size += len(line)
        if size > LONGEST:
            pieces, size = [], 0
        if not pieces or not (begins or line.startswith("}")):
            continue                    # a body of several lines ends with an unindented closing brace
        body = None
        with suppress(ValueError, RecursionError):
            body = json.JSONDecoder().raw_decode("\n".join(pieces))[0]
        if body is not None:
            yield start, body
        if body is not None or not begins:
            pieces, size = [], 0


def _said(body: Any) -> Iterator[tuple[str, str]]:
    """Yield the role and the text of the last message of a body, or of its prompt."""
    if not isinstance(body, dict):
        return
    messages = body.get("messages")
    if isinstance(messages, list) and messages and isinstance(messages[-1], dict):
        content = messages[-1].get("content")
        if isinstance(content, list):
            content = " ".join(part["text"] for part in content
                               if isinstance(part, dict) and isinstance(part.get("text"), str))  # fmt: skip
        if isinstance(content, str) and content:
            yield shorten(str(messages[-1].get("role", "message")))[:20], content
    elif isinstance(body.get("prompt"), str) and body["prompt"]:
        yield "prompt", body["prompt"]


OFTEN = 3                    # requests that differ at the same token: so many show that its text changes each time

EDITS = ("history", "history or turn end", "differs")
"""Classes of which several at the same token are the class "start"."""


class LogTurn(NamedTuple):
    """Classified request of a log."""

    number: int              # of the request in the scenario
    how: str                 # class of the client's change, a key of CLIENT_CHANGES; "" = the log does not prove it
    lcp: int                 # tokens in common with the slot
    evaluated: int           # prompt tokens evaluated
    lost: int                # evaluated tokens of the common prefix
    n_tokens: int            # prompt tokens
    forced: bool = False     # the log reports a full evaluation but not the common prefix


def classify_requests(requests: Sequence[ReconstructedRequest]) -> list[LogTurn]:
    """Return the classified requests: those that are simulated and whose length and reused tokens the log
    determines."""
    found: list[LogTurn] = []
    prompts = SlotPrompts()
    for request in requests:
        change = prompts.change(request.logged)
        is_known = request.logged.prompt_n is not None or request.logged.cache_n is not None
        n_tokens = request.logged.n_tokens
        if request.step >= 0 and n_tokens and is_known:
            found.append(_turn(request, change, n_tokens))
    return found


def _turn(request: ReconstructedRequest, change: str, n_tokens: int) -> LogTurn:
    """Return a request with its class, its evaluated tokens, and the evaluated part of its common prefix."""
    logged, common = request.logged, request.common
    evaluated = _evaluated(logged, n_tokens)
    lost = max(0, evaluated - max(1, n_tokens - common))
    proven = logged.numbers.get("lost")
    return LogTurn(
        number=request.step,
        how=change,
        lcp=common,
        evaluated=evaluated,
        lost=lost if proven is None else proven.nearest(lost),
        n_tokens=n_tokens,
        forced=logged.full and not common,
    )


def _evaluated(logged: LoggedRequest, n_tokens: int) -> int:
    """Return the evaluated tokens of a prompt: as logged, else those that the slot held at the end of a cancelled
    prompt, or all, without the reused ones."""
    if logged.prompt_n is not None:
        return logged.prompt_n
    whole = logged.end if logged.is_cancelled and logged.end is not None else n_tokens
    return max(0, whole - (logged.cache_n or 0))


def _with_starts(found: Sequence[LogTurn]) -> list[LogTurn]:
    """Return the requests; those that often leave the slot's contents near the same token have the class "start"."""
    same = Counter(one.lcp // NEAR for one in found if one.how in EDITS)
    often = {where for where, times in same.items() if times >= OFTEN}
    return [one._replace(how="start") if one.how in EDITS and one.lcp // NEAR in often else one for one in found]


def summary(found: Sequence[LogTurn]) -> dict[str, Any]:
    """Return totals of evaluated and re-evaluated tokens, and the causes with their requests and advice, most expensive
    first."""
    tokens, evaluated = sum(turn.n_tokens for turn in found), sum(turn.evaluated for turn in found)
    again = [turn for turn in found if turn.lost]
    nothing = [turn for turn in found if turn.lcp and turn.evaluated >= turn.n_tokens]
    turns = _with_starts(found)
    causes: list[dict[str, Any]] = [
        {"cause": how, "says": CLIENT_CHANGES[how], "requests": [turn.number for turn in turns if turn.how == how],
         "lost": sum(turn.lost for turn in turns if turn.how == how), "advice": ADVICE.get(how, "")}
        for how in CLIENT_CHANGES if any(turn.how == how for turn in turns)
    ]  # fmt: skip
    causes.sort(key=lambda cause: -cause["lost"])
    return {
        "requests": len(found), "tokens": tokens, "evaluated": evaluated, "lost": sum(turn.lost for turn in found),
        "forced": [turn.number for turn in found if turn.forced],
        "from_nothing": [turn.number for turn in nothing], "again": [turn.number for turn in again], "causes": causes,
    }  # fmt: skip
