"""Parser for the prefix of a log line: time stamps, ports, colours, or a JSON object around the message.

Servers write ``slot FUNCTION: id 0 | task 7 | text``. journald, Docker, a router, Ollama, LM Studio and people who
paste logs put more text in front. The returned text never contains control characters.
"""

from __future__ import annotations

import json
import re
from typing import Any, Mapping, NamedTuple

from cachesim.engines.shared.log_grammar import Number, value

LONGEST = 16_384             # characters of a line that are read
_COLOUR = re.compile(r"(?:\x1b|\^\[|␛)?\[[0-9;]{0,12}m|\x1b[^m]{0,12}m|\x1b")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\ufeff]")
_PART = re.compile(r"\b(?P<part>slot|srv|cmn|spec|que|res|ui)\s+(?P<function>(?!\d+:)[\w():~]{1,40}):\s*(?P<text>.*)",
                   re.S)  # fmt: skip
_SLOT = re.compile(r"id\s+(?P<slot>-?\d{1,18})\s*\|\s*(?:task\s+(?P<task>-?\d{1,18})\s*\|)?\s*(?P<text>.*)", re.S)
_FIELDS = re.compile(r"\b(?:INFO|WARN|ERR|VERB)\s*\[\s*(?P<function>[\w:]{1,60})\s*\](?P<text>[^|]*+)\|")
_FIELD = re.compile(r"(\w{1,40})=(\"[^\"]{0,200}\"|\S{1,200})")
_LEVEL = re.compile(r"(?:^|\s|\])([DIWE])\s*$")
_STAMP = re.compile(
    r"^(?:"
    r"\[\d{1,12}\]\s+"                                             # a router's port, a time stamp of 2023
    r"|\d+\.\d{2}\.\d{3}\.\d{3}\s+[DIWE]\s+|[DIWE]\s+(?=[a-z])"                # llama.cpp's own
    r"|\S{1,12}\s+\d{1,2}\s+\d\d:\d\d:\d\d\s+\S+\s+\S+\[\d+\]:\s+"             # journald, in any language
    r"|\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d[.,\dZ+:-]*\s*"                  # ISO, Docker, Python
    r"|\[\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d[.,\dZ+:-]*\]\s*"
    r"|\[?(?:DEBUG|INFO|WARNING|ERROR)\]?\s*[:\-|]?\s+"
    r"|[-|>]\s+"
    r"|[\w.-]{1,40}\s+\|\s+(?=\S+\s)"                                          # docker compose
    r")"
)
_LOGFMT = re.compile(r"\bmsg=\"((?:[^\"\\]|\\.){0,4000})\"")
_TEXTS = ("msg", "message", "log", "MESSAGE")
_IDS = {"id_slot": "slot", "slot_id": "slot", "id_task": "task", "task_id": "task"}


class LogMessage(NamedTuple):
    """Log line without its prefix. ``slot`` and ``task`` are None if the line does not contain them. ``function``: the
    name before the colon, "" = none. ``fields``: the values after the bar of a line ``text | key=value``."""

    text: str
    slot: int | None = None
    task: int | None = None
    function: str = ""
    fields: Mapping[str, Number | str] = {}


def message(line: str) -> LogMessage:
    """Return the message of a line. If the line begins with a JSON object, return the text in that object."""
    line = line[:LONGEST]
    if line.lstrip().startswith("{"):
        line, fields = _parse_json(line.strip())
        if fields:
            return _with_ids(LogMessage(plain(line), fields=fields))
    return _parse_plain(plain(line))


def plain(line: str) -> str:
    """Return the line without colours and control characters."""
    return _CONTROL.sub("", _COLOUR.sub("", line).replace("\t", " ")).rstrip()


def _parse_json(line: str) -> tuple[str, dict[str, Number | str]]:
    """Return the text and the numeric fields of a JSON object; the unchanged line if it is not a JSON object with a
    text."""
    try:
        found: Any = json.loads(line)
    except (ValueError, RecursionError):
        return line, {}
    if not isinstance(found, dict):
        return line, {}
    text: str | None = next((found[key] for key in _TEXTS if isinstance(found.get(key), str)), None)
    if text is None:
        return line, {}
    flat: dict[str, Number | str] = {
        str(key)[:40]: number for key, number in found.items() if isinstance(number, int | float) and key != "time"
    }
    return text, flat if "id_slot" in flat or "slot_id" in flat else {}


def _parse_plain(line: str) -> LogMessage:
    """Return the message of a plain line: logfmt, ``slot``/``srv`` with a function name, or ``text | key=value``."""
    if "msg=" in line and (packed := _LOGFMT.search(line)):
        line = packed[1].replace('\\"', '"')
    if (part := _PART.search(line)) is not None:
        slot = _SLOT.match(part["text"])
        if slot is None:
            return LogMessage(part["text"].strip(), function=part["function"])
        task = None if slot["task"] is None else int(slot["task"])
        return LogMessage(slot["text"].strip(), int(slot["slot"]), task, part["function"])
    if (found := _FIELDS.search(line, 0, line.rfind("|") + 1)) is not None:      # linear: a bar follows every start
        fields = {name: value(word.strip('"')) for name, word in _FIELD.findall(line, found.end())}
        return _with_ids(LogMessage(found["text"].strip(), function=found["function"], fields=fields))
    return LogMessage(_without_stamps(line).strip())


def _with_ids(found: LogMessage) -> LogMessage:
    """Return the message with slot and task moved out of its fields."""
    ids = {_IDS[name]: number for name, number in found.fields.items() if name in _IDS and isinstance(number, int)}
    rest = {name: number for name, number in found.fields.items() if name not in _IDS}
    return found._replace(slot=ids.get("slot"), task=ids.get("task"), fields=rest)


def _without_stamps(line: str) -> str:
    """Return the line without time stamps, levels and container names at its start."""
    for _ in range(6):
        shorter = _STAMP.sub("", line, count=1)
        if shorter == line:
            return line
        line = shorter
    return line
