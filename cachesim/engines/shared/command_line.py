"""Command lines of servers: what one sets, read and written with the flags of an engine."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, Callable, Mapping, Sequence, TypeVar

from cachesim.base.errors import BadInput, nearest, quoted
from cachesim.engines.capabilities import Flag, Option

_WHOLE = re.compile(r"[+-]?[0-9]{1,10}")
_SHARE = re.compile(r"[+-]?(?:[0-9]{1,20}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})(?:[eE][+-]?[0-9]{1,2})?")
T = TypeVar("T")


@dataclass(slots=True)
class CommandLine:
    """``options`` of the server by name; ``request`` defaults of request fields; whether the server ``sleeps`` when it
    has been idle for some time."""

    options: dict[str, Any] = field(default_factory=dict)
    request: dict[str, Any] = field(default_factory=dict)
    sleeps: bool = False

    @property
    def drafts_by_model(self) -> bool:
        """Do drafts come from a model, and not from what was said before?"""
        return str(self.options.get("spec_type", "none")).startswith("draft-")


SetOn = Callable[[CommandLine, str], None]
"""Sets on a command line what a word with this value means."""


def parse_integer(text: str) -> int:
    """The number that a flag's value is: 32 bits, as the servers read it. Raises BadInput."""
    if not _WHOLE.fullmatch(text) or not -(2**31) <= int(text) < 2**31:
        raise BadInput(f"{quoted(text)} is no integer of 32 bits")
    return int(text)


def parse_number(text: str) -> float:
    """The finite number that a flag's value is. Raises BadInput."""
    if not _SHARE.fullmatch(text):
        raise BadInput(f"{quoted(text)} is no number")
    return float(text)


def parse_on_off(text: str) -> bool:
    """The truth value that a flag's value is. Raises BadInput."""
    if text not in ("on", "off"):
        raise BadInput(f"{quoted(text)} is neither on nor off")
    return text == "on"


READERS: Mapping[type, Callable[[str], Option]] = {int: parse_integer, float: parse_number, str: str}
"""How values are read, by the type of a flag's default; a truth value has none."""


def read_line(words: Sequence[str], flags: Sequence[Flag], line: CommandLine, ignored: Mapping[str, int],
              others: Mapping[str, SetOn] = MappingProxyType({})) -> CommandLine:
    """``line`` with what the words set; of a flag given twice the last one holds. ``ignored``: words that set nothing,
    with the number of values that follow; ``others``: words with a value that are none of the flags. Raises BadInput
    for an unknown word, or a value that is missing or wrong."""
    rows = {word: (flag, word in flag.spellings) for flag in flags for word in (*flag.spellings, *flag.off)}
    todo = [str(word) for word in words][::-1]
    while todo:
        word = todo.pop()
        if word in rows:
            flag, on = rows[word]
            read = flag.read or READERS.get(type(flag.default))
            value = _read(word, read, todo) if on and read else on
            place = line.request if flag.request else line.options
            place.update(value if isinstance(value, Mapping) else {flag.name: value})
        elif word in others:
            _read(word, partial(others[word], line), todo)
        elif word in ignored:
            for _ in range(ignored[word]):
                _read(word, str, todo)
        else:
            raise BadInput(f"unknown flag {quoted(word)}", hint=nearest(word, [*rows, *others, *ignored]))
    return line


def _read(word: str, read: Callable[[str], T], todo: list[str]) -> T:
    if not todo:
        raise BadInput(f"flag {quoted(word)} has no value")
    try:
        return read(todo.pop())
    except BadInput as bad:
        raise BadInput(f"flag {quoted(word)}: {bad.cause}") from None


def write_line(options: Mapping[str, Option], flags: Sequence[Flag]) -> list[str]:
    """The command line that sets these options, in the order of the flags; ``read_line`` reads it back."""
    out: list[str] = []
    for flag in flags:
        value = options.get(flag.name)
        if flag.write is not None:
            out += flag.write(options)
        elif value is not None and value != flag.unwritten:
            out += _words(flag, value)
    return out


def _words(flag: Flag, value: Option) -> Sequence[str]:
    if isinstance(value, bool) and flag.read is None:
        return (flag.spellings if value else flag.off)[:1]
    text = str(value) if not isinstance(value, bool) else "on" if value else "off"
    return (flag.spellings[0], text) if flag.spellings else ()


def unwritten(options: Mapping[str, Option]) -> list[str]:
    """No words: the writer of another flag has those of this one."""
    return []
