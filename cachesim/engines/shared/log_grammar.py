"""What does a line of a server's log say? Templates of lines and their meaning, brought by each engine.

A template is the message behind the line's prefix; ``{name}`` is a field, one word that may be padded on its left;
``{}`` is anything. Logs are pasted: runs of spaces, and upper and lower case, make no difference here. (A recording is
read more strictly, see the engine's ``log``.)
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Callable, Mapping, NamedTuple, Sequence

Number = bool | int | float
LONGEST = 40                 # characters of a number
_WHOLE = re.compile(r"-?[0-9]{1,18}")
_REAL = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?(e[+-]?[0-9]{1,3})?", re.I)
_BOOLEAN = {"yes": True, "no": False, "true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Line:
    """A kind of line, ``ev`` by name. ``since``: the oldest build known to print it, ``until``: the oldest known not to
    print it any more; 0 = not known."""

    ev: str
    template: str
    since: int = 0
    until: int = 0


class Meaning(NamedTuple):
    """What lines of a kind say. ``says`` explains the numbers by their names, ``causes`` are what usually leads to
    it, the likeliest first, ``flags`` server flags that matter, ``rules`` families of rules that decide it."""

    says: str
    causes: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()


class Read(NamedTuple):
    """A line that was recognised. ``slot`` and ``task`` are None where it names none."""

    line: Line
    slot: int | None
    task: int | None
    numbers: Mapping[str, Number | str]


@dataclass(frozen=True)
class LogGrammar:
    """The lines of an engine and their meaning by kind; ``signs``: texts that only logs of this engine have;
    ``options`` makes server options of what a log says of its server, by the names of fields; ``open`` are options that
    logs often do not say, with the values to try, the likeliest first; ``hints`` are values that prompts suggest,
    (length, reused tokens) of each, which are tried with every kind of model; ``end``: tokens between the last
    checkpoint of a prompt and its end."""

    lines: tuple[Line, ...] = ()
    meanings: Mapping[str, Meaning] = field(default_factory=dict)
    signs: tuple[str, ...] = ()
    options: Callable[[Mapping[str, Number | str]], dict[str, Number | str]] = lambda facts: {}
    open: Mapping[str, Sequence[Number]] = field(default_factory=dict)
    end: int = 4
    hints: Callable[[Sequence[tuple[int, int | None]]], Mapping[str, Sequence[Number]]] = lambda prompts: {}

    def read(self, text: str, slot: int | None = None, task: int | None = None) -> Read | None:
        """The kind of line of a message without prefix, and its numbers; None for any other message."""
        plain = collapsed(text)
        for line in (*self._by_head.get(_head(plain), ()), *self._by_head.get("", ())):
            found = pattern(line.template).fullmatch(plain)
            if found is not None:
                numbers = {name: value(word) for name, word in found.groupdict().items() if word is not None}
                where = numbers.pop("slot", slot), numbers.pop("task", task)
                return Read(line, _id(where[0]), _id(where[1]), numbers)
        return None

    @cached_property
    def _by_head(self) -> Mapping[str, Sequence[Line]]:
        heads: dict[str, list[Line]] = {}
        for line in self.lines:
            head = _head(collapsed(line.template))
            heads.setdefault("" if "{" in head else head, []).append(line)
        return heads


HEAD = 5           # most templates begin with so many characters of text; the others are always tried


def _head(text: str) -> str:
    return text[:HEAD].lower()


def _id(word: Number | str | None) -> int | None:
    return word if isinstance(word, int) and word >= 0 else None


def collapsed(text: str) -> str:
    """The text with single spaces, and none at its ends."""
    return " ".join(text.split())


@cache
def pattern(template: str) -> re.Pattern[str]:
    """What a collapsed message of this template looks like."""
    out = []
    for literal, place, name in re.findall(r"([^{]*)(\{(\w*)\}|$)", collapsed(template)):
        out.append(re.escape(literal))
        if place:
            out.append(rf" ?(?P<{name}>[^\s,()\[\]/']+)" if name else ".*")
    return re.compile("".join(out), re.I)


def value(word: str) -> Number | str:
    """The number that a word is, or the word, cut at what a number may have."""
    if word.lower() in _BOOLEAN:
        return _BOOLEAN[word.lower()]
    if _WHOLE.fullmatch(word):
        return int(word)
    return float(word) if _REAL.fullmatch(word) else word[:LONGEST]
