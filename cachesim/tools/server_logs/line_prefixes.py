"""What is left of a line of a log without what others put before it? Time stamps, ports, colours, JSON around it.

Servers write ``slot FUNCTION: id 0 | task 7 | text``; journald, Docker, a router, Ollama, LM Studio and people who
paste add to the front of it. Control characters never leave this module.
"""

from __future__ import annotations

import json
import re
from typing import Any, Mapping, NamedTuple

from cachesim.engines.shared.log_grammar import Number, value

LONGEST = 16_384             # characters of a line that are looked at
_COLOUR = re.compile(r"(?:\x1b|\^\[|␛)?\[[0-9;]{0,12}m|\x1b[^m]{0,12}m|\x1b")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\ufeff]")
_PART = re.compile(r"\b(?P<part>slot|srv|cmn|spec|que|res|ui)\s+(?P<function>(?!\d+:)[\w():~]{1,40}):\s*(?P<text>.*)",
                   re.S)  # fmt: skip
_SLOT = re.compile(r"id\s+(?P<slot>-?\d{1,18})\s*\|\s*(?:task\s+(?P<task>-?\d{1,18})\s*\|)?\s*(?P<text>.*)", re.S)
_FIELDS = re.compile(r"\b(?:INFO|WARN|ERR|VERB)\s*\[\s*(?P<function>[\w:]{1,60})\s*\]\s*(?P<text>[^|]*?)\s*\|"
                     r"(?P<fields>.*)", re.S)  # fmt: skip
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
    """A line without its prefix. ``slot`` and ``task`` are None where it names none; ``function``: the name before the
    colon, "" = none; ``fields``: what stands behind the bar of a line ``text | key=value``."""

    text: str
    slot: int | None = None
    task: int | None = None
    function: str = ""
    fields: Mapping[str, Number | str] = {}


def message(line: str) -> LogMessage:
    """The message of one line; of a line that begins with a JSON object its text."""
    line = line[:LONGEST]
    if line.lstrip().startswith("{"):
        line, fields = _unpacked(line.strip())
        if fields:
            return _with(LogMessage(plain(line), fields=fields))
    return _of(plain(line))


def plain(line: str) -> str:
    """The line without colours and control characters."""
    return _CONTROL.sub("", _COLOUR.sub("", line).replace("\t", " ")).rstrip()


def _unpacked(line: str) -> tuple[str, dict[str, Number | str]]:
    """The text in a JSON object, and its plain values; a line that is no object as it is."""
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
        str(key)[:40]: one for key, one in found.items() if isinstance(one, int | float) and key != "time"
    }
    return text, flat if "id_slot" in flat or "slot_id" in flat else {}


def _of(line: str) -> LogMessage:
    if "msg=" in line and (packed := _LOGFMT.search(line)):
        line = packed[1].replace('\\"', '"')
    if (part := _PART.search(line)) is not None:
        slot = _SLOT.match(part["text"])
        if slot is None:
            return LogMessage(part["text"].strip(), function=part["function"])
        task = None if slot["task"] is None else int(slot["task"])
        return LogMessage(slot["text"].strip(), int(slot["slot"]), task, part["function"])
    if (found := _FIELDS.search(line)) is not None:
        fields = {name: value(word.strip('"')) for name, word in _FIELD.findall(found["fields"])}
        return _with(LogMessage(found["text"].strip(), function=found["function"], fields=fields))
    return LogMessage(_bare(line).strip())


def _with(said: LogMessage) -> LogMessage:
    """Slot and task from the fields."""
    ids = {_IDS[name]: one for name, one in said.fields.items() if name in _IDS and isinstance(one, int)}
    rest = {name: one for name, one in said.fields.items() if name not in _IDS}
    return said._replace(slot=ids.get("slot"), task=ids.get("task"), fields=rest)


def _bare(line: str) -> str:
    """The line without time stamps, levels and names of containers at its front."""
    for _ in range(6):
        shorter = _STAMP.sub("", line, count=1)
        if shorter == line:
            return line
        line = shorter
    return line
