"""Texts of requests that stand inside a log: bodies that a server prints at its highest verbosity.

They enter nothing by themselves. ``import --with-text`` quotes their beginnings in comments of the scenario file.
"""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import Any, Iterable, Iterator, NamedTuple

from cachesim.tools.server_logs.message import plain

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
        if (body := _parsed("\n".join(pieces))) is not None:
            yield start, body
        if body is not None or not begins:
            pieces, size = [], 0


def _parsed(text: str) -> Any:
    try:
        return json.JSONDecoder().raw_decode(text)[0]
    except (ValueError, RecursionError):
        return None


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
