"""Command lines of servers, read and written with the flags of an engine."""

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
    """A parsed command line: ``options`` of the server by name; ``request``: defaults of request fields; ``sleeps``:
    the server sleeps after an idle time."""

    options: dict[str, Any] = field(default_factory=dict)
    request: dict[str, Any] = field(default_factory=dict)
    sleeps: bool = False

    @property
    def drafts_by_model(self) -> bool:
        """True if a draft model makes the drafts, and not earlier text."""
        return any(kind.startswith("draft-") for kind in str(self.options.get("spec_type", "none")).split(","))


SetOn = Callable[[CommandLine, str], None]
"""Apply a word with this value to a command line."""


def parse_integer(text: str) -> int:
    """Parse a 32-bit integer, as the servers do. Raise BadInput."""
    if not _WHOLE.fullmatch(text) or not -(2**31) <= int(text) < 2**31:
        raise BadInput(f"expected a 32-bit integer, found {quoted(text)}")
    return int(text)


def parse_number(text: str) -> float:
    """Parse a finite number. Raise BadInput."""
    if not _SHARE.fullmatch(text):
        raise BadInput(f"expected a number, found {quoted(text)}")
    return float(text)


def parse_on_off(text: str) -> bool:
    """Parse "on" or "off". Raise BadInput."""
    if text not in ("on", "off"):
        raise BadInput(f"expected on or off, found {quoted(text)}")
    return text == "on"


READERS: Mapping[type, Callable[[str], Option]] = {int: parse_integer, float: parse_number, str: str}
"""Type of a flag's default -> parser of its value; truth values have no parser."""


def read_line(words: Sequence[str], flags: Sequence[Flag], line: CommandLine, ignored: Mapping[str, int],
              others: Mapping[str, SetOn] = MappingProxyType({})) -> CommandLine:
    """Apply the words to ``line`` and return it; the last occurrence of a flag wins, unless it is a
    list. ``ignored``: words without effect, with the number of values that follow; ``others``: words with a value that
    are not flags. Raise BadInput for an unknown word, and for a missing or wrong value."""
    rows = {word: (flag, word in flag.spellings) for flag in flags for word in (*flag.spellings, *flag.off)}
    todo = [str(word) for word in words][::-1]
    while todo:
        word = todo.pop()
        if word in rows:
            flag, on = rows[word]
            read = flag.read or READERS.get(type(flag.default))
            value = _read(word, read, todo) if on and read else on
            place = line.request if flag.request else line.options
            place.update(value if isinstance(value, Mapping) else {flag.name: flag.added(place.get(flag.name), value)})
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
        raise BadInput(f"flag {quoted(word)}: {bad.cause}", hint=bad.hint) from None


def write_line(options: Mapping[str, Option], flags: Sequence[Flag]) -> list[str]:
    """Return the command line that sets these options, in the order of the flags; ``read_line`` reads it back."""
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


def write_context(options: Mapping[str, Option]) -> list[str]:
    """Return the arguments with which another model gets the context of the model that a scenario names."""
    trained = options.get("n_ctx_train", 0)
    return ["-c", str(trained)] if trained and not options.get("ctx_size") else []


def unwritten(options: Mapping[str, Option]) -> list[str]:
    """Return no words: writer of an option that the writer of another flag includes."""
    return []
