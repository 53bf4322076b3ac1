"""Logical lines of a log: a message each, although the file may have lost line ends or gained some.

Two messages on a line are split where the second has a prefix. A message that was wrapped at a column is joined with
the lines after it, if only the whole is recognised. A number that a lost or added line end may have changed is dropped.
"""

from __future__ import annotations

import re
from collections import deque
from itertools import islice, product
from typing import Any, Iterable, Iterator, NamedTuple, Sequence

from cachesim.engines.shared.log_grammar import LogGrammar, ParsedLine
from cachesim.tools.server_logs.lines.line_prefixes import (
    IDS,
    LogMessage,
    message,
    plain_message,
    prefix_end,
    visible_text,
)
from cachesim.tools.server_logs.lines.recognise import read_message
from cachesim.tools.server_logs.lines.server_runs import ServerRuns

PIECES = 16                  # messages without a prefix in a line, at most
WRAPPED = 4                  # lines that a wrapped message has after its first, at most
_CLOCK = r"\.\d{2}\.\d{3}\.\d{3}\s[DIWE]\s"
_NAMED = r"\s{1,14}[\w():~]{1,12}:\s"
_LEVEL = r"\s{0,4}\[\s*\w{1,60}\s*\]"
_BEGIN = re.compile("(?=[0-9=A-Z[cegpqrst])(?:" + "|".join((     # fast: the first letter excludes most alternatives
    rf"[0-9]\d{{0,5}}(?P<seconds>){_CLOCK}", rf"\[\d{{1,5}}\]\s\d{{1,6}}{_CLOCK}",
    r"slot\s{1,14}[\w():~]{1,12}:\s+id\s+\d+\s*\|",
    *(word + _NAMED for word in ("srv", "que", "cmn", "s(?<![A-Za-z]s)pec", "r(?<![A-Za-z]r)es")),
    *(word + _LEVEL for word in ("INFO", "WARN", "ERR", "VERB")),
    r"[A-Z][a-z]{2}\s+\d{1,2}\s\d\d:\d\d:\d\d\s\S{1,64}\s\S{1,64}\[\d+\]:\s",
    r"[0-9](?<!=\d)\d{3}-\d\d-\d\d[T ]\d\d:\d\d:\d\d",
    "={8} Prompt cache: ", "={8} Cache: ",
    "prompt eval time = ", "generation eval time = ", "e(?<!prompt e)(?<!generation e)val time = ", "total time = ",
)) + ")")  # fmt: skip
"""Texts that begin a message, wherever they stand in a line."""
_QUOTED = re.compile(r'\b\w{1,40}="[^"]{0,200}"')
_OPEN = re.compile(r"\{(\w+)\}$")
_FIELD = re.compile(r"\b(\w{1,40})=\S*$")
_FUNCTION = re.compile(r"[a-z]+_\w+: ")
"""Name of a function with which a message without other prefix begins."""
_REST = re.compile(r"(?:[.,]?\d\S*|\w{1,40}=\S+)?(?:\s+\w{1,40}=\S+)*\s*")
"""Rest of a message that was wrapped in or after a number at its end: digits of the number, and further fields."""


class LogicalLine(NamedTuple):
    """Message of a log. ``read`` is None if the grammar does not know it. ``run``: server run that printed it, from 0;
    values of different runs must not be combined."""

    number: int              # line in the file, from 1; of a wrapped message: its first line
    text: str                # the line without colours and control characters
    logged: LogMessage
    read: ParsedLine | None
    run: int = 0


class LineCounter:
    """Iterator over lines that knows the number of the last line."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines, self.number = lines, 0

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            self.number += 1
            yield line


class _Piece(NamedTuple):
    """Part of a line that holds a message. ``is_fresh``: it begins with a prefix of its own."""

    number: int
    text: str
    logged: LogMessage
    read: ParsedLine | None
    is_fresh: bool
    width: int = 0           # length of its line in the file


class LogicalLineReader:
    """Reader of the messages of a log that may still grow: ``read`` takes a line and yields the messages that no later
    line can change, ``flush`` yields all others."""

    def __init__(self, grammar: LogGrammar) -> None:
        self._grammar, self._runs = grammar, ServerRuns(grammar)
        self._ahead: deque[_Piece] = deque()
        self._widths: set[int] = set()           # lengths of lines that were certainly wrapped
        self._minutes: int | None = None         # of the last time stamp

    def read(self, number: int, line: str) -> Iterator[LogicalLine]:
        """Take the next line and yield the messages that are complete. ``number``: that of the line, from 1."""
        for piece in self._pieces(number, line):
            self._ahead.append(piece)
            if len(self._ahead) > WRAPPED:
                yield self._next()

    def flush(self) -> Iterator[LogicalLine]:
        """Yield the messages of all lines so far."""
        while self._ahead:
            yield self._next()

    def _next(self) -> LogicalLine:
        """Return the first message ahead, joined with the lines that belong to it."""
        found, used = _unwrap(self._grammar, self._ahead.popleft(), self._ahead, self._widths)
        for _ in range(used):
            self._ahead.popleft()
        return LogicalLine(*found[:4], self._runs.run_of(found.logged, found.read))

    def _pieces(self, number: int, line: str) -> Iterator[_Piece]:
        """Yield the parts of a line."""
        is_certain = True                        # the first digits of the message
        for text, is_exact, logged, read in _messages(self._grammar, line, self._minutes):
            if logged.stamp is not None and is_certain:
                self._minutes = logged.stamp // 60_000_000
            fresh = bool(logged.function or _FUNCTION.match(text)) or text.startswith("{") or (
                text[:1] != "|" and logged.prefix > 0)  # fmt: skip
            piece = _Piece(number, text, logged, read, is_fresh=fresh, width=len(line.rstrip("\r\n")))
            is_certain = is_exact
            yield piece if is_exact else _without_last(piece)


def logical_lines(grammar: LogGrammar, lines: Iterable[str]) -> Iterator[LogicalLine]:
    """Yield the messages of a log of any length, with their line numbers and server runs."""
    reader = LogicalLineReader(grammar)
    for number, line in enumerate(lines, 1):
        yield from reader.read(number, line)
    yield from reader.flush()


def _messages(
    grammar: LogGrammar, line: str, minutes: int | None,
) -> Iterator[tuple[str, bool, LogMessage, ParsedLine | None]]:
    """Yield the messages of a line as ``_split`` does, and their recognised lines. A message without a prefix is split
    off where the text before it is a message, too."""
    if line.lstrip().startswith("{"):
        logged = message(line)
        yield line, True, logged, read_message(grammar, logged)
        return
    for text, is_exact in _split(grammar, visible_text(line), minutes):
        logged, read = _read(grammar, text)
        for _ in range(PIECES):
            is_closed = read is not None and "{}" not in read.line.template and not logged.fields
            is_short = read is not None and len(logged.text) < len(read.line.template) and not logged.fields
            if is_closed or is_short or (read is None and not grammar.begins(logged.text)):
                break
            at = next((at for at in grammar.beginnings(text) if _is_whole(grammar, text[:at])), 0)
            if not at:
                break
            yield text[:at], True, *_read(grammar, text[:at])
            text = text[at:]
            logged, read = _read(grammar, text)
        yield text, is_exact, logged, read


def _read(grammar: LogGrammar, text: str) -> tuple[LogMessage, ParsedLine | None]:
    """Return the message of a plain text, and its recognised line."""
    logged = plain_message(text)
    return logged, read_message(grammar, logged)


def _is_whole(grammar: LogGrammar, text: str) -> bool:
    """True if a text is a recognised message, and not the beginning of one with another word."""
    return _read(grammar, text)[1] is not None and not text.endswith("print_timings: ")


def _split(grammar: LogGrammar, line: str, minutes: int | None) -> Iterator[tuple[str, bool]]:
    """Yield the messages of a plain line, each with whether its last number is certain. ``minutes``: those of the last
    time stamp, to tell a number from the time stamp that a lost line end appended to it."""
    begun = 0
    end = 0                                  # of the prefix so far
    is_exact = True
    for place in _BEGIN.finditer(line):
        if place.start() == end or place.start() <= prefix_end(line):
            end = place.end()
            continue                         # the line's own prefix
        head = line[begun : place.start()]
        if '"' in _QUOTED.sub("", head) or prefix_end(head + "x") == len(head) or not _is_message(head):
            continue                         # quoted text, or only a prefix before it
        stamp = plain_message(head).stamp if is_exact else None          # else its first digits are uncertain
        minutes = minutes if stamp is None else stamp // 60_000_000
        at, is_exact = _boundary(grammar, line, begun=begun, place=place, minutes=minutes)
        yield line[begun:at], is_exact
        begun = at
    yield line[begun:], True


def _boundary(grammar: LogGrammar, line: str, begun: int, place: re.Match[str],
              minutes: int | None) -> tuple[int, bool]:
    """Return the position at which the next message begins, and whether it is certain: the first digits of a time stamp
    may belong to the number before it."""
    first, end = place.start(), place.start("seconds")       # of the minutes; end is -1 without a time stamp
    if end - first < 2:
        return first, True
    fits = [at for at in range(first, end) if line[at] != "0" or at == end - 1]
    fits = [at for at in fits if _read(grammar, line[begun:at])[1] is not None] or [first]
    later = [at for at in fits if minutes is not None and 0 <= int(line[at:end]) - minutes < 60]
    return (later or fits)[0], len(fits) == 1 or len(later) == 1


def _is_message(head: str) -> bool:
    """True if a text contains a message, and not only a prefix or a heading."""
    text = plain_message(head).text
    return bool(text) and not text.endswith(":")


def _last_number(piece: _Piece) -> str:
    """Return the name of the number at the end of a line, "" if it ends with other text."""
    last = _FIELD.search(piece.text) or (piece.read and _OPEN.search(piece.read.line.template))
    return last[1] if last else ""


def _without_last(piece: _Piece) -> _Piece:
    """Return a recognised line without the number at its end."""
    if piece.read is None:
        return piece
    name = _last_number(piece)
    where: dict[str, Any] = {IDS[name]: None} if name in IDS else {}
    kept = {key: found for key, found in piece.read.numbers.items() if key != name}
    return piece._replace(read=piece.read._replace(numbers=kept, **where), logged=piece.logged._replace(**where))


def _unwrap(grammar: LogGrammar, first: _Piece, ahead: Sequence[_Piece], widths: set[int]) -> tuple[_Piece, int]:
    """Return the message that begins with ``first``, joined with the lines after it if it was wrapped, and the number
    of these lines. Adds the length of a line that was certainly wrapped to ``widths``."""
    after: list[str] = []
    found, used = first, 0
    if not ahead and first.width in widths and first.read is not None:
        return _without_last(first), 0
    for piece in islice(ahead, WRAPPED):
        known = piece.read is not None and (first.read is not None or not first.logged.text)
        if piece.is_fresh or known or not piece.text.strip() or not _can_begin(grammar, first):
            break
        after.append(piece.text)
        joined = _join(grammar, first, after)
        if joined is None or joined.read is None:
            continue
        if found.read is not None and joined.read.line is found.read.line:
            if not _last_number(found) or not _REST.fullmatch(piece.text):
                break                        # the text after an open end: nothing is new
            if first.width not in widths and "=" not in piece.text:
                return _without_last(found), used
        found, used = joined, len(after)
    if used and first.read is None:
        widths.add(first.width)
    return found, used


def _can_begin(grammar: LogGrammar, first: _Piece) -> bool:
    """True if a line can be the beginning of a wrapped message."""
    return first.read is not None or first.is_fresh or grammar.begins(first.logged.text)


def _join(grammar: LogGrammar, first: _Piece, after: Sequence[str]) -> _Piece | None:
    """Return the recognised message of these lines together, None if it is unknown. A space at a line end may be lost.
    Numbers that depend on that space are dropped."""
    found: list[tuple[str, LogMessage, ParsedLine]] = []
    for spaces in product(("", " "), repeat=len(after)):
        text = first.text + "".join(space + line for space, line in zip(spaces, after, strict=True))
        logged, read = _read(grammar, text)
        if read is not None:
            found.append((text, logged, read))
    if not found:
        return None
    text, logged, read = found[0]
    same = {name: number for name, number in read.numbers.items()
            if all(again.numbers.get(name) == number for _, _, again in found)}  # fmt: skip
    return first._replace(text=text, logged=logged, read=read._replace(numbers=same))
