"""A server run in a log: its recognised lines, read once, its requests, and facts about the server."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from cachesim.base.limits import LOG_REQUESTS, LOG_STATEMENTS
from cachesim.engines.shared.log_grammar import LogGrammar
from cachesim.tools.server_logs.facts.logged_requests import LoggedRequest, logged_request
from cachesim.tools.server_logs.facts.request_numbers import DerivedNumbers, numbers_of
from cachesim.tools.server_logs.facts.server_facts import Facts, add_facts
from cachesim.tools.server_logs.lines.line_ties import LineTies
from cachesim.tools.server_logs.lines.logical_lines import LogicalLine
from cachesim.tools.server_logs.lines.read_lines import LONGEST, LineSieve, ReadLine, head_of
from cachesim.tools.server_logs.lines.timing_headings import TimingHeadings

UNKNOWN = 1_000              # unknown lines that are kept, at most
LONGEST_QUOTE = 200          # characters of an unknown line that are kept
BEGINNINGS = frozenset({"launch", "fetch"})
"""Kinds of lines that begin a request."""


@dataclass(slots=True)
class LogSession:
    """Log of a server run."""

    engine: str
    requests: list[LoggedRequest] = field(default_factory=list)
    derived: list[DerivedNumbers] = field(default_factory=list)  # numbers of all groups of lines, in their order
    facts: Facts = field(default_factory=dict)                     # values about the server
    date: str = ""               # first date before a message, "" = none is printed
    lines: int = 0               # lines read
    first: int = 0               # its first line
    recognised: int = 0          # lines recognised
    addressed: int = 0           # lines that name a slot or a task, whether recognised or not
    kinds: dict[str, int] = field(default_factory=dict)    # lines of each kind
    since: int = 0               # oldest build that prints every line of the log, 0 = unknown
    beyond: int = 0              # requests beyond the limit, counted only
    until: int = 0               # oldest build known not to print a line of the log, 0 = unknown
    read_lines: list[ReadLine] = field(default_factory=list)       # recognised lines
    sieve: LineSieve = field(default_factory=LineSieve)                    # words that every line contains
    others: list[LogSession] = field(default_factory=list)         # other server runs in the same file
    unknown: list[tuple[int, str]] = field(default_factory=list)   # lines that are not recognised, at most UNKNOWN
    tasks: dict[str, list[int]] = field(default_factory=dict)      # access lines of requests by kind of task
    alarms: list[tuple[int, str]] = field(default_factory=list)    # unrecognised warnings and errors, likewise

    def note_unknown(self, line: LogicalLine) -> None:
        """Store a line that is not recognised, without quoted texts and JSON objects: these may be prompts."""
        text = _TEXTS.sub(_left_out, line.logged.text)[:LONGEST_QUOTE]
        if text and len(self.unknown) < UNKNOWN:
            self.unknown.append((line.number, text))
        if line.logged.level in ("W", "E") and len(self.alarms) < UNKNOWN:
            self.alarms.append((line.number, text))

    def note_task(self, kind: str, number: int) -> None:
        """Store the number of an access line, at most UNKNOWN of a kind. ``kind``: kind of task of its request."""
        numbers = self.tasks.setdefault(kind, [])
        if len(numbers) < UNKNOWN:
            numbers.append(number)


_DATE = re.compile(r"(?<!\d)20\d\d-[01]\d-[0-3]\d(?=[T ])")
_TEXTS = re.compile(r"\{.*|\"(?:[^\"\\]|\\.)*\"?|(?<!\w)'.*'(?!\w)", re.S)


def _left_out(found: re.Match[str]) -> str:
    """Return the replacement of a quoted text or a JSON object."""
    return found[0][0] + "..." + {"{": "}"}.get(found[0][0], found[0][0])


class SessionReader:
    """Reader of the lines of a server run, one by one. ``ties`` has the requests so far."""

    def __init__(self, engine: str, grammar: LogGrammar) -> None:
        self.session, self.ties = LogSession(engine), LineTies()
        self._grammar = grammar

    def read_line(self, line: LogicalLine, headings: TimingHeadings) -> None:
        """Read a message. ``headings``: those of the source of the line."""
        session, read = self.session, line.read
        session.first = min(session.first or line.number, line.number)
        session.lines = line.number
        session.sieve.add(line.text)
        heading = headings.read(line)
        named = line.logged if read is None else read
        session.addressed += named.slot is not None or named.task is not None
        if read is None:
            session.note_unknown(line)
            if kind := self._grammar.task_of(line.logged.text):
                session.note_task(kind, line.number)
            return
        text = line.logged.text
        found = ReadLine(
            number=line.number, read=read, text=text[:LONGEST], head=head_of(line.text, text), heading=heading
        )
        session.recognised += 1
        session.date = session.date or next(iter(_DATE.findall(found.head)), "")
        session.kinds[found.kind] = session.kinds.get(found.kind, 0) + 1
        session.since = max(session.since, read.line.since)
        if read.line.until:
            session.until = min(session.until or read.line.until, read.line.until)
        add_facts(session.facts, found)
        if len(session.read_lines) < LOG_STATEMENTS.now:
            session.read_lines.append(found)
            self.ties.add(found)
        else:
            if found.kind in BEGINNINGS:
                session.beyond += 1

    def finish(self) -> LogSession:
        """Return the run with its requests and their numbers."""
        session = self.session
        session.derived = [numbers_of(one, self._grammar, session.sieve) for one in self.ties.finished()]
        found = [logged_request(one) for one in _of_requests(session.derived)]
        session.requests, session.beyond = found[: LOG_REQUESTS.now], session.beyond + len(found[LOG_REQUESTS.now :])
        return session


def _of_requests(derived: list[DerivedNumbers]) -> list[DerivedNumbers]:
    """Return the groups of lines that are requests, without lines about an earlier request and, where lines name their
    slot, without lines that no request takes."""
    found = [one for one in derived if is_request(one)]
    named = [one for one in found if one.request.slot is not None]
    return named or found


def is_request(derived: DerivedNumbers) -> bool:
    """True if lines show a request, and not only what belongs to an earlier one."""
    return any(line.kind not in _LEFT_OVER for line in derived.request.lines)


_LEFT_OVER = frozenset({"ckpt_evict", "ckpt_too_close", "drafts", "cancel"})
"""Kinds of lines that alone show nothing about a request."""
