"""What stands in braces in a line: flags of a request that have no sign, and steps that are no requests.

    A5>r2{n_cmpl=2 cancel_after=0 drafts=3:1,2:0 together+2}      behind a request, as a file would have them
    {save@0 f}   {restore@1 f}   {erase@0}   {restart parallel=2}     a step of its own

Everything is checked where files are checked (requests.py).
"""

from __future__ import annotations

import re
from typing import Any

from cachesim.errors import BadInput, quoted
from cachesim.scenarios.fields import Table
from cachesim.scenarios.options import parse_settings
from cachesim.scenarios.read import Source
from cachesim.scenarios.requests import read_action, read_flags
from cachesim.scenarios.steps import Asked
from cachesim.scenarios.words import parse_pieces

_BRACE = re.compile("([{}])")
_NUMBER = re.compile(r"-?[0-9]{1,9}")


def requests_of(line: str) -> list[str]:
    """The steps of a line, cut at every ``/`` that stands in no braces."""
    parts = _BRACE.split(line.strip())           # texts, and between them the braces
    steps = [""]
    for i in range(0, len(parts), 2):
        inside = parts[i + 1 : i + 2] == ["}"]
        first, *others = [parts[i]] if inside else parts[i].split("/")
        steps[-1] += first
        steps += others
        steps[-1] += "".join(parts[i + 1 : i + 2])
    return steps


def flagged(asked: Asked, text: str) -> Asked:
    """The request with the flags of its braces. Raises BadInput."""
    raw: dict[str, Any] = {}
    for word in text.split():
        name, equals, value = word.partition("=")
        name, plus, after = name.partition("+")
        if name in raw or bool(equals) == (name == "together"):
            raise BadInput(f"{quoted(word)} in braces cannot be read (NAME=VALUE, each once; together or together+N)")
        raw[name] = _value(name, value)
        if plus:
            raw["after"] = _value("after", after)
    answers = tuple(parse_pieces(one) for one in raw.pop("answers", ()))
    return asked._replace(answers=answers, **read_flags(Table(raw, Source("", ""))))


def _value(name: str, text: str) -> Any:
    """As a file would have it."""
    if name == "together":
        return True
    if name == "answers":
        return text.split("/")
    if name == "drafts":
        return [[_plain(one) for one in pair.split(":")] for pair in text.split(",")]
    return _plain(text)


def _plain(text: str) -> Any:
    if text in ("True", "False"):
        return text == "True"
    return int(text) if _NUMBER.fullmatch(text) else text


def action_of(text: str, saved: list[str], engine: str) -> Asked:
    """A step that is no request. ``saved``: the files written so far; a name that this step writes is added. Raises
    BadInput."""
    first, *rest = text.split() or [""]
    do, at, slot = first.partition("@")
    settings = [word.replace("=True", "=true").replace("=False", "=false") for word in rest if "=" in word]
    names = [word for word in rest if "=" not in word]
    raw: dict[str, Any] = {"do": do}
    if at:
        raw["id_slot"] = _plain(slot)
    if names:
        raw["file"] = " ".join(names)
    if settings:
        raw["server"] = parse_settings(settings, engine)
    return read_action(Table(raw, Source("", "")), saved, engine)
