"""Parser for the prefix of a log line: time stamps, ports, colours, or a JSON object around the message.

Servers write ``slot FUNCTION: id 0 | task 7 | text``. journald, syslog, Docker, Kubernetes, a router, Ollama, LM Studio
and people who paste logs put more text in front, or cut a part of it off. The returned text never contains control
characters.
"""

from __future__ import annotations

import json
import re
from typing import Any, Mapping, NamedTuple

from cachesim.engines.shared.log_grammar import Number, value

LONGEST = 16_384             # characters of a line that are read
_COLOUR = re.compile(
    r"(?:\x1b|\^\[|␛|\\x1b|\\u001b|\\033|\\e|#033)\[[0-9;?]{0,12}[A-Za-z]"     # escape sequences, also printed ones
    r"|\x1b\][^\x07\x1b]{0,200}\x07?|\[[0-9;]{0,12}m|\x1b"                      # titles; colours without their escape
)
_BOLD = re.compile(r"\*\*(\d[\d.,]{0,20})\*\*")           # a number that somebody marked in a thread
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\ufeff]")
_PART = re.compile(r"\b(?P<part>slot|srv|cmn|spec|que|res|ui)\s+(?P<function>(?!\d+:)[\w():~]{1,40}):\s*(?P<text>.*)",
                   re.S)  # fmt: skip
_SLOT = re.compile(r"id\s+(?P<slot>-?\d{1,18})\s*\|\s*(?:task\s+(?P<task>-?\d{1,18})\s*\|)?\s*(?P<text>.*)", re.S)
_LOST = re.compile(r"(?:[^|\"{]{0,60}?(?:\bid\s+(?P<slot>\d{1,18})\s*)?\|\s*|)task\s+(?P<task>-?\d{1,18})\s*\|"
                   r"\s*(?P<text>.*)", re.S)  # fmt: skip
_FIELDS = re.compile(r"\b(?P<level>INFO|WARN|ERR|VERB)\s*\[\s*(?P<function>[\w:]{1,60})\s*\](?P<text>[^|]*+)\|")
_FIELD = re.compile(r"(\w{1,40})=(\"[^\"]{0,200}\"|\S{1,200})")
_STAMP = r"(?P<minutes>\d{1,6})\.(?P<s>\d{2})\.(?P<ms>\d{3})\.(?P<us>\d{3})\s+(?P<level>[DIWE])"
_GLUED = re.compile(r"-?\d+[^\d.,:e+-]")                   # a number with the text of another message after it
_TIME = r"\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d[.,\dZ+:-]*"
_HEAD = re.compile(
    r"(?:"
    r"\[(?P<port>\d{1,5})\]\s+|\[\d{6,12}\]\s+"                               # a router's port; a time stamp of 2023
    rf"|{_STAMP}(?:\s+|$)"                                                     # llama.cpp's own
    r"|(?P<letter>[DIWE])\s+(?=[a-z])"
    r"|(?:<\d{1,3}>)?\S{1,12}\s+\d{1,2}\s+\d\d:\d\d:\d\d\s+\S{1,64}\s+(?P<unit>[\w./@-]{1,64}(?:\[\d{1,10}\])?):\s+"
    r"|(?:[A-Z][a-z]{2}\s+\d{1,2}\s)?\d\d:\d\d:\d\d\s+"                         # ts, foreman
    r"|<\d{1,3}>1\s+\S{10,40}\s+\S{1,255}\s+(?P<app>\S{1,48}\s+\S{1,128})\s+\S{1,32}\s+(?:-|\[[^\]]{0,400}\])\s+"
    rf"|{_TIME}\s*|\[{_TIME}(?:\s[A-Z]{{1,4}}\d{{1,4}}){{0,4}}\]\s*"        # ISO, Docker, Python, its workers
    r"|\((?:[\w.+-]{1,60}\s)?pid=\d{1,10}\)\s+|\d\d-\d\d\s\d\d:\d\d:\d\d\s+"     # Python: process, date
    r"|\[?[\w./-]{1,160}\.py:\d{1,6}\]\s+"                    # Python with the line of the source; vLLM of 2024
    r"|\[\s*\d{1,12}\.\d{3,9}\]\s+"                                            # journald's monotonic clock
    r"|(?:stdout|stderr)\s+[FP]\s+"                                            # Kubernetes' files
    r"|\S{1,64}\s+(?P<process>[\w./@-]{1,64}\[\d{1,10}\]):\s+"                 # syslog after an ISO time stamp
    r"|\[(?P<pod>pod/[^\]\s]{1,200})\]\s+"                                     # kubectl
    r"|\[\w{1,40}\]\[(?P<grade>DEBUG|INFO|WARNING|ERROR)\]:?\s+"               # mlx-engine
    r"|\[?(?:DEBUG|INFO|WARN|WARNING|ERROR)\]?\s*[:\-|]?\s+"
    r"|omlx[\w.]{0,60}\s{1,20}-\s(?:DEBUG|INFO|WARNING|ERROR)\s{1,3}-\s(?:\[[^\]\s]{1,80}\]\s-\s)?\s{0,8}"      # oMLX
    r"|\[\d\d:\d\d:\d\d(?:\s[A-Z]{1,4}\d{1,4}){0,4}\]\s+"                     # KoboldCpp; SGLang of 2024, its workers
    r"|[-|>]\s+"
    r"|(?P<container>(?:\d{1,3}\|)?(?!\d+\s)[\w.-]{1,40})\s*\|\s+(?=\S+\s)"    # docker compose, pm2
    r")"
)
_OWN = re.compile(rf"(?<![\d.]){_STAMP}\s*$")
_LOGFMT = re.compile(r"\bmsg=(?:\"((?:[^\"\\]|\\.){0,4000})\"|(\S{1,400}))")
_TEXTS = ("msg", "message", "log", "MESSAGE")
IDS = {"id_slot": "slot", "slot_id": "slot", "id_task": "task", "task_id": "task"}
"""Fields that name the slot and the task of a line."""
_LEVELS = {"WARN": "W", "ERR": "E", "INFO": "I", "VERB": "D"}


class LogMessage(NamedTuple):
    """Log line without its prefix. ``slot`` and ``task`` are None if the line does not contain them. ``function``: the
    name before the colon, "" = none. ``fields``: the values after the bar of a line ``text | key=value``."""

    text: str
    slot: int | None = None
    task: int | None = None
    function: str = ""
    fields: Mapping[str, Number | str] = {}
    level: str = ""                # D, I, W or E, "" = not printed
    stamp: int | None = None       # time since the start of the server [us]
    source: str = ""               # printing process: port of a router's child, container, unit; "" = not printed
    prefix: int = 0                # characters before the message that are a prefix


class _Prefix(NamedTuple):
    """Values in the text before a message, and the position of its end."""

    end: int = 0
    level: str = ""
    stamp: int | None = None
    source: str = ""


def message(line: str) -> LogMessage:
    """Return the message of a line. If the line begins with a JSON object, return the text in that object."""
    line = line[:LONGEST]
    if line.lstrip().startswith("{"):
        line, fields = _parse_json(line.strip())
        if fields:
            return _with_ids(LogMessage(visible_text(line), fields=fields))
    return plain_message(visible_text(line))


def visible_text(line: str) -> str:
    """Return the line without colours, control characters and marks of bold numbers."""
    plain = _CONTROL.sub("", _COLOUR.sub("", line).replace("\t", " ")).rstrip()
    return _BOLD.sub(r"\1", plain)


def prefix_end(line: str) -> int:
    """Return the length of the prefix of a plain line: time stamps, levels, and names of containers or processes."""
    return _read_prefix(line).end


def _parse_json(line: str) -> tuple[str, dict[str, Number | str]]:
    """Return the text and the numeric fields of a line that begins with a brace; the unchanged line if it is not a
    JSON object with a text."""
    try:
        found: dict[str, Any] = json.loads(line)
    except (ValueError, RecursionError):
        return line, {}
    text: str | None = next((found[key] for key in _TEXTS if isinstance(found.get(key), str)), None)
    if text is None:
        return line, {}
    flat: dict[str, Number | str] = {
        str(key)[:40]: number for key, number in found.items() if isinstance(number, int | float) and key != "time"
    }
    return text, flat if "id_slot" in flat or "slot_id" in flat else {}


def plain_message(line: str) -> LogMessage:
    """Return the message of a plain line: logfmt, ``slot``/``srv`` with a function name, or ``text | key=value``."""
    line = line[:LONGEST].rstrip()
    prefix = _read_prefix(line)
    if "msg=" not in line or (packed := _LOGFMT.search(line)) is None:
        return _message_after(line, prefix, {})
    fields = {name: value(word.strip('"')) for name, word in _FIELD.findall(line, packed.end())}
    line = (packed[1] or packed[2] or "").replace('\\"', '"')
    inner = _read_prefix(line)._replace(source=prefix.source)
    return _message_after(line, inner, fields)._replace(prefix=prefix.end)


def _message_after(line: str, prefix: _Prefix, fields: Mapping[str, Number | str]) -> LogMessage:
    """Return the message of a line after its prefix. ``fields``: those of a message without fields of its own."""
    part = _PART.search(line)
    if part is not None and '"' not in line[: part.start()]:          # a quoted log in a request is not a message
        if prefix.stamp is None and (found := _OWN.search(line[: part.start()])) is not None:
            prefix = prefix._replace(level=found["level"], stamp=_microseconds(found))
        slot = _SLOT.match(part["text"])
        if slot is None:
            return _in(prefix, LogMessage(part["text"].strip(), function=part["function"]))
        task = None if slot["task"] is None else int(slot["task"])
        return _in(prefix, LogMessage(slot["text"].strip(), int(slot["slot"]), task, part["function"]))
    if (found := _FIELDS.search(line, 0, line.rfind("|") + 1)) is not None:      # linear: a bar follows every start
        numbers = {name: value(word.strip('"')) for name, word in _FIELD.findall(line, found.end())
                   if not _GLUED.match(word)}  # fmt: skip
        logged = LogMessage(found["text"].strip(), function=found["function"], fields=numbers)
        return _in(prefix._replace(level=_LEVELS[found["level"]]), _with_ids(logged))
    text = line[prefix.end :].strip()
    if (lost := _LOST.match(text)) is not None:
        number = None if lost["slot"] is None else int(lost["slot"])
        return _in(prefix, LogMessage(lost["text"].strip(), number, int(lost["task"])))
    return _in(prefix, LogMessage(text, fields=fields))


def _in(prefix: _Prefix, found: LogMessage) -> LogMessage:
    """Return the message with the values of its prefix."""
    return found._replace(level=prefix.level, stamp=prefix.stamp, source=prefix.source, prefix=prefix.end)


def _with_ids(found: LogMessage) -> LogMessage:
    """Return the message with slot and task moved out of its fields."""
    ids = {IDS[name]: number for name, number in found.fields.items() if name in IDS and isinstance(number, int)}
    rest = {name: number for name, number in found.fields.items() if name not in IDS}
    return found._replace(slot=ids.get("slot"), task=ids.get("task"), fields=rest)


def _read_prefix(line: str) -> _Prefix:
    """Return the prefix of a line: time stamps, levels and container names at its start."""
    blank = end = len(line) - len(line.lstrip())
    level = ""
    stamp: int | None = None
    source = ""
    for _ in range(8):
        found = _HEAD.match(line, end)
        if found is None or (end == blank and line[end] == "-"):        # a dash begins messages, too
            break
        end, name = found.end(), found.lastgroup
        if name == "level":
            level, stamp = found["level"], _microseconds(found)
        elif name in ("letter", "grade"):
            level = found[name][:1]
        elif name is not None:                                                  # the name of a process
            source = f"{source} {found[name]}".lstrip()
    return _Prefix(end if end > blank else 0, level, stamp, source)


def _microseconds(found: re.Match[str]) -> int:
    """Return the time of llama.cpp's time stamp."""
    minutes, seconds, thousandths, millionths = map(int, found.group("minutes", "s", "ms", "us"))
    return ((minutes * 60 + seconds) * 1000 + thousandths) * 1000 + millionths
