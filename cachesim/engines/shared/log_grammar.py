"""Grammar of a server's log: line templates with their meaning, supplied by each engine.

A template is the message after the line's prefix. ``{name}`` is a field: a word, possibly padded on its left;
``{name,}`` is a number that may have separators of thousands; ``{}`` matches any text. Logs may be pasted, so matching
ignores runs of spaces and case. (Recordings are parsed more strictly, see the engine's ``log``.)
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Callable, Iterable, Iterator, Literal, Mapping, NamedTuple, Sequence

from cachesim.engines.shared.log_signatures import Signature
from cachesim.engines.shared.log_totals import LoggedNumbers, LogTotal

Number = bool | int | float
LONGEST = 40                 # longest value [characters]
_WHOLE = re.compile(r"-?[0-9]{1,18}")
_THOUSANDS = re.compile(r"[0-9]{1,3}(,[0-9]{3}){1,5}")
_REAL = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?(e[+-]?[0-9]{1,3})?", re.I)
_ANSWERED = re.compile(r"(?:^|[ :])request: +POST (?P<path>/[^\s?]{0,40})\S* \S+ 200$")
"""Access line of a request that a server answered."""
_WORD = re.compile(r" ?[^\s,()\[\]/']*")
_BOOLEAN = {"yes": True, "no": False, "true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Line:
    """A kind of line with its event name ``ev``. ``since``: the oldest build known to print it, ``until``: the oldest
    build known not to print it any more; 0 = unknown. ``by``: the software that prints it, if it is not this engine.
    ``needs``: field after the message that such a line has."""

    ev: str
    template: str
    since: int = 0
    until: int = 0
    by: str = ""
    needs: str = ""


class Meaning(NamedTuple):
    """Meaning of a kind of line. ``says`` explains the numbers by their names, ``causes`` are the usual causes, most
    likely first, ``flags`` are relevant server flags, ``rules`` are the families of rules that decide it."""

    says: str
    causes: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()


class ParsedLine(NamedTuple):
    """A recognised line. ``slot`` and ``task`` are None if the line does not contain them. ``words``: the values as
    printed, whose digits show how they were rounded."""

    line: Line
    slot: int | None
    task: int | None
    numbers: Mapping[str, Number | str]
    words: Mapping[str, str] = {}


class PrintedNumber(NamedTuple):
    """Number of a request that a kind of line prints: the printed value of the first of ``fields`` that it has, or
    0 without fields; it may be larger by ``plus``.

    ``unless``: kinds of lines of the request that make it false; ``absent``: such kinds, and the excerpt must prove
    that no such line was printed. ``inside``: that is proven, too, if the prompt is longer than the number and the
    printed memory (pos_min, pos_max) ends before it or has no recurrent state. ``first``: only the first such line of a
    request counts, if the request's start is in the excerpt. ``spelled``: lines without this word are false if the
    number is not 0 and the server does what it does not print. ``cuts``: lines with this word are false if the
    number has no room in the context that they print, and no line refuses the prompt: such builds cut it off.
    ``bound``: the number of the request is at least the printed one plus ``plus``, or at most the printed one.
    ``beside``: kinds of lines of the request without one of which the line does not give the number."""

    kind: str
    name: str
    fields: tuple[str, ...] = ()
    plus: int = 0
    unless: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    inside: bool = False
    first: bool = False
    spelled: str = ""
    cuts: str = ""
    bound: Literal["", "least", "most"] = ""
    beside: tuple[str, ...] = ()


class PromptHint(NamedTuple):
    """Numbers of a prompt [tokens]: its length, the reused tokens (None = not in the log), and the lengths of the
    checkpoints created during it and of those that were examined for it. ``is_full``: none of them could be
    restored."""

    length: int
    reused: int | None
    created: Sequence[int] = ()
    checked: Sequence[int] = ()
    is_full: bool = False


@dataclass(frozen=True)
class LogGrammar:
    """The log lines of an engine, and the conclusions that a log allows."""

    lines: tuple[Line, ...] = ()
    meanings: Mapping[str, Meaning] = field(default_factory=dict)    # meaning by kind of line
    signs: tuple[str, ...] = ()                                      # texts that occur only in logs of this engine
    starts: tuple[str, ...] = ()                                     # beginnings of messages at the start of a server
    words: tuple[str, ...] = ()                                      # beginnings of messages that are no kind of line
    common: frozenset[str] = frozenset()                             # kinds of line that other programs print, too
    warnings: frozenset[str] = frozenset()                           # kinds of line that warn of lost tokens or errors
    fatal: frozenset[str] = frozenset()                              # kinds of line after which no request is answered
    # kind of line -> function from its numbers to a verdict on them
    verdicts: Mapping[str, Callable[[Mapping[str, Number | str]], str]] = field(default_factory=dict)
    # kind of line -> predicate on its numbers: nothing is lost here, so its causes do not apply
    harmless: Mapping[str, Callable[[Mapping[str, Number | str]], bool]] = field(default_factory=dict)
    ordinary: Mapping[str, str] = field(default_factory=dict)        # lines not about the cache: name -> pattern
    # fields of a log by name -> options of its server
    options: Callable[[Mapping[str, Number | str]], dict[str, Number | str]] = lambda facts: {}
    # options that logs often lack, with the values to try, most likely first
    open: Mapping[str, Sequence[Number]] = field(default_factory=dict)
    end: int = 4                                                     # tokens from a prompt's last checkpoint to its end
    gives: Sequence[PrintedNumber] = ()                                      # numbers of a request that lines print
    # (kind of line, number in it) -> option of the server whose value it is
    flags: Mapping[tuple[str, str], str] = field(default_factory=dict)
    # option -> value that servers take without its flag, or with another one: a printed value does not show the flag
    automatic: Mapping[str, Number] = field(default_factory=dict)
    # kind of line -> numbers that it means without printing them
    constants: Mapping[str, Mapping[str, Number]] = field(default_factory=dict)
    # share of the slot that a prompt keeps, below which the server may load an entry of the prompt cache
    loads_below: float = 2.0
    is_sim_symmetric: bool = False       # f_sim is the Dice coefficient of prompt and slot, not a share of the prompt
    # tokens that a slot may hold after a request beyond the prompt and all but the last generated token
    end_slack: int = 0
    # kind of line and two of its numbers, which are equal if prompt and slot have the same tokens; () = they always do
    same_tokens: tuple[str, ...] = ()
    signatures: Sequence[Signature] = ()                             # causes, and the lines that show them
    window_flags: Sequence[str] = ()                                 # flags of signatures that only a window reads
    # numbers of a line -> what they show that the memory allows: "none", "window", "" = nothing
    memory: Callable[[Mapping[str, Number | str]], str] = lambda numbers: ""
    # beginning of a rule id -> where its decision becomes visible, as no line reports it
    unlogged: Mapping[str, str] = field(default_factory=dict)
    # prompts -> option values to try with every kind of model
    hints: Callable[[Sequence[PromptHint]], Mapping[str, Sequence[Number]]] = lambda prompts: {}
    # recognised lines of a server run -> conclusions from lines that name no request, the most important first
    totals: Callable[[Sequence[LoggedNumbers]], Iterable[LogTotal]] = lambda lines: ()
    # paths of requests as the access lines print them -> kind of task (see ``Request.kind``)
    tasks: Mapping[str, str] = field(default_factory=dict)
    # kind of task -> what a server does not do for such requests, as a predicate
    task_limits: Mapping[str, str] = field(default_factory=dict)
    nameless: str = ""                                # what a log without requests does not show, and what would

    def read(self, text: str, slot: int | None = None, task: int | None = None) -> ParsedLine | None:
        """Return the kind of a message without prefix, and its numbers; None for an unknown message."""
        plain = collapsed(text)
        for line in (*self._by_head.get(_head(plain), ()), *self._by_head.get("", ())):
            found = pattern(line.template).fullmatch(plain)
            if found is not None:
                words = {name: word for name, word in found.groupdict().items() if word is not None}
                numbers = {name: value(word) for name, word in words.items()}
                where = numbers.pop("slot", slot), numbers.pop("task", task)
                kept = {name: word[:LONGEST] for name, word in words.items()}
                return ParsedLine(line, _id(where[0]), task=_id(where[1]), numbers=numbers, words=kept)
        return None

    def task_of(self, text: str) -> str:
        """Return the kind of task of an answered request whose access line this is, "" for any other line."""
        found = _ANSWERED.search(text)
        return "" if found is None else self.tasks.get(found["path"], "")

    def begins(self, text: str) -> bool:
        """True if the text starts like a message that has its own index entry."""
        return _head(collapsed(text)) in self._by_head

    def beginnings(self, text: str) -> Iterator[int]:
        """Yield the positions after the start of a text at which the fixed words of a message begin."""
        return (found.start() for found in self._words.finditer(text.translate(_LOWER), 1))

    @cached_property
    def _words(self) -> re.Pattern[str]:
        """Pattern of the fixed words in lower case. It is grouped by first letters, because a search with as many
        alternatives as there are lines is slow."""
        heads = {collapsed(line.template.partition("{")[0]) for line in self.lines} | {*self.words}
        groups: dict[str, list[str]] = {}
        for head in sorted((head.lower() for head in heads if len(head) >= WORDS), key=lambda head: (-len(head), head)):
            groups.setdefault(head[0], []).append(re.escape(head[1:]).replace("\\ ", " +"))
        parts = (f"{re.escape(first)}(?:{'|'.join(rest)})" for first, rest in groups.items())
        return re.compile("|".join(parts) or "(?!)")

    def begun(self, text: str) -> list[Line]:
        """Return the lines that begin with a text."""
        plain = collapsed(text)
        return [line for line in self.lines if len(plain) >= SHORTEST and _is_beginning(line.template, plain)]

    def part(self, text: str) -> ParsedLine | None:
        """Return the kind of message of which a text is a part between commas, and its numbers; None if the text is a
        part of no message, or of several kinds."""
        plain = collapsed(text).strip(" ,;.")
        found: dict[str, ParsedLine] = {}
        for line in self.lines:
            for clause in _clauses(line.template):
                agrees = pattern(clause).fullmatch(plain)
                if agrees is not None:
                    numbers = {name: value(word) for name, word in agrees.groupdict().items() if word is not None}
                    slot, task = _id(numbers.pop("slot", None)), _id(numbers.pop("task", None))
                    found.setdefault(line.ev, ParsedLine(line, slot, task, numbers))
        return next(iter(found.values())) if len(found) == 1 else None

    @cached_property
    def _by_head(self) -> Mapping[str, Sequence[Line]]:
        heads: dict[str, list[Line]] = {}
        for line in self.lines:
            head = _head(collapsed(line.template))
            heads.setdefault("" if "{" in head else head, []).append(line)
        return heads


HEAD = 5           # characters of text that index a template; templates with a shorter start are always tried
WORDS = 12         # characters of fixed words that show where a message begins
SHORTEST = 8       # characters of a text that can be recognised as the beginning of a line


_LOWER = {ord(letter): letter.lower() for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
"""Changes capital letters and keeps positions, unlike ``str.lower``."""


def _is_beginning(template: str, text: str) -> bool:
    """True if a collapsed text is the beginning of a message of this template. A ``{}`` in its middle must be
    followed by the words after it, else the text says too little."""
    literal = 0                                        # literal characters that agree
    text = text.lower()
    parts = re.findall(r"([^{]*)(\{\w*,?\}|$)", collapsed(template).lower())
    for number, (fixed, place) in enumerate(parts):
        if len(text) <= len(fixed):
            return literal + len(text) >= SHORTEST and fixed.startswith(text)
        if not place or not text.startswith(fixed):
            break
        literal, text = literal + len(fixed), text[len(fixed) :]
        following = parts[number + 1][0]
        if place == "{}" and not following:
            return literal >= SHORTEST                                       # {} at the end matches any text
        if place == "{}":
            at = f"{text} ".find(following)
            if at < 0:
                break
            text = text[at:]
            continue
        text = _WORD.sub("", text, count=1)
    return False


@cache
def _clauses(template: str) -> tuple[str, ...]:
    """Return every part of a template between commas, semicolons or bars, and every run of neighbouring parts, that has
    enough words of its own to be recognised; the whole template is left out."""
    pieces = re.split(r"(, |; | \| )", collapsed(template))
    found = []
    for start in range(0, len(pieces), 2):
        for stop in range(start + 1, len(pieces) + 1, 2):
            part = "".join(pieces[start:stop])
            words = re.sub(r"\{\w*,?\}|[^A-Za-z]", "", part)
            loose = part.startswith("{}") and part.endswith("{}")
            if stop - start < len(pieces) and len(words) >= (2 if loose else 1) * WORDS:
                found.append(part)
    return tuple(found)


def _head(text: str) -> str:
    return text[:HEAD].lower()


def _id(word: Number | str | None) -> int | None:
    return word if isinstance(word, int) and word >= 0 else None


def collapsed(text: str) -> str:
    """Return the text with single spaces, and without spaces at its ends."""
    return " ".join(text.split())


@cache
def pattern(template: str) -> re.Pattern[str]:
    """Return the regular expression for collapsed messages of this template."""
    out = []
    for literal, place, name, thousands in re.findall(r"([^{]*)(\{(\w*)(,?)\}|$)", collapsed(template)):
        out.append(re.escape(literal))
        if thousands:
            out.append(rf" ?(?P<{name}>[0-9]+(?:,[0-9]+)*)")
        elif place:
            out.append(rf" ?(?P<{name}>[^\s,()\[\]/']+)" if name else ".*?")
    return re.compile("".join(out), re.I)


def value(word: str) -> Number | str:
    """Return the number that a word denotes, else the word, shortened to the longest value."""
    if word.lower() in _BOOLEAN:
        return _BOOLEAN[word.lower()]
    if _WHOLE.fullmatch(word):
        return int(word)
    if _THOUSANDS.fullmatch(word):
        return int(word.replace(",", ""))
    return float(word) if _REAL.fullmatch(word) else word[:LONGEST]
