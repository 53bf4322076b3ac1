"""Records of a log: its requests in the order of their start, with the values that the log contains.

Values that the log does not contain are None. `reconstruct` fills them in.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Callable, Iterator, Sequence

from cachesim.base.limits import LOG_REQUESTS, LOG_STATEMENTS
from cachesim.engines.shared.log_grammar import LogGrammar, Number, Read
from cachesim.tools.server_logs.logical_lines import LogicalLine
from cachesim.tools.server_logs.read_lines import LONGEST, ReadLine, Sieve, head_of
from cachesim.tools.server_logs.timing_headings import SlotTask, TimingHeadings

TOGETHER = 12                # overlapping requests in a group, at most
UNKNOWN = 1_000              # unknown lines that are kept, at most
LONGEST_QUOTE = 200          # characters of an unknown line that are kept


@dataclass(slots=True)
class LoggedRequest:
    """Request as the log shows it. Counts and positions are tokens."""

    slot: int                                                    # slot id
    task: int | None = None                                      # task id, None = not printed
    lines: tuple[int, int] = (0, 0)                              # first and last line, from 1
    chosen: str = ""  # slot selection: "lcp", "lru", "id" or "" (not printed)
    f_sim: float | None = None                                   # similarity of the slot, as printed
    f_keep: float | None = None                                  # share of the slot that is kept, as printed
    held: int | None = None                                      # tokens in the slot before it
    lcp: int | None = None                                       # common prefix with them
    n_tokens: int | None = None                                  # tokens of its prompt
    cache_n: int | None = None                                   # prompt tokens reused
    prompt_n: int | None = None                                  # prompt tokens evaluated
    predicted_n: int | None = None                               # tokens generated
    end: int | None = None                                       # tokens in the slot after it
    truncated: bool = False                                      # the prompt was shortened, or the context shifted
    pos_min: int | None = None                                   # first position in the memory, as printed
    restored: int | None = None                                  # n_past after a restored checkpoint
    full: bool = False                                           # the server reports a full evaluation
    refused: bool = False                                        # the server refused it
    loaded: bool = False                                         # an entry of the prompt cache was loaded for it
    created: list[int] = field(default_factory=list)             # tokens of the checkpoints made during it
    # checkpoints that were checked: pos_min, pos_max, threshold
    checked: list[tuple[int, int, float]] = field(default_factory=list)
    shifts: list[tuple[int, int]] = field(default_factory=list)  # context shifts: n_keep, n_discard
    chunks: list[tuple[int, int]] = field(default_factory=list)  # chunks of the slot that were moved: start, end
    spans: list[tuple[int, int]] = field(default_factory=list)   # (pos_min, pos_max) of checkpoints created
    share: tuple[int, float] | None = None                       # tokens evaluated, and their share as printed
    prefix_end: int | None = None  # common prefix, printed without the length of the slot
    evaluation_begun: bool = False                                          # evaluation has begun
    seen: int = 0                                                # minimum number of tokens in the slot before it
    guessed: bool = False                                        # n_tokens is the minimum possible length
    whole: bool = False                                          # its beginning is in the log
    slot_known: bool = True                                          # its slot was printed
    named: bool = True                                               # its lines contain slot and task
    done: int = -1                                                   # tokens evaluated at the last progress line
    printed: list[ReadLine] = field(default_factory=list)        # lines that a simulation can contradict

    @property
    def least(self) -> int:
        """Minimum length of the prompt that fits the evaluated tokens; 0 = unknown."""
        seen = [*self.created, self.cache_n or 0, self.restored or 0, self.lcp or 0, self.prefix_end or 0,
                self.share[0] if self.share else 0, *(int(thold) for _, _, thold in self.checked)]
        if self.end is not None and self.predicted_n is None and not self.truncated:
            return max(1, self.end)
        return max(seen) + 1 if max(seen) or self.whole or self.full else 0

    def settle(self) -> None:
        """Fill in the values that follow from the others."""
        if self.n_tokens is None and self.cache_n is not None and self.prompt_n is not None:
            self.n_tokens = self.cache_n + self.prompt_n
        known = self.n_tokens is None and self.end is not None and self.predicted_n is not None
        if known and (self.shifts or not self.truncated):
            assert self.end is not None and self.predicted_n is not None
            gone = sum(discarded for _, discarded in self.shifts)
            self.n_tokens = self.end + gone - self.predicted_n + (1 if self.predicted_n else 0)
        if self.n_tokens is None and self.share is not None:
            self.n_tokens = _whole(*self.share)
        if self.cache_n is None and self.n_tokens is not None and self.prompt_n is not None:
            reused = self.n_tokens - self.prompt_n
            self.cache_n = reused if reused >= 0 else None      # b11063 counts some tokens twice with drafts
        if self.n_tokens is None and self.least and self.named:
            self.n_tokens, self.guessed = self.least, True
        if self.prompt_n is None and self.n_tokens is not None and self.cache_n is not None:
            self.prompt_n = self.n_tokens - self.cache_n


def _whole(done: int, share: float) -> int | None:
    """Return the only length of which ``done`` tokens print as this share (six decimals), None if several lengths
    fit."""
    if share <= 0 or not done:
        return None
    low, high = done / (share + 5e-7), done / max(share - 5e-7, 1e-9)
    return round(done / share) if int(high) - int(low) == 1 or int(low) == int(high) == low else None


@dataclass(slots=True)
class LogSession:
    """Log of a server run."""

    engine: str
    requests: list[LoggedRequest] = field(default_factory=list)
    facts: dict[str, Number | str] = field(default_factory=dict)   # values about the server
    lines: int = 0               # lines read
    first: int = 0               # its first line
    recognised: int = 0          # lines recognised
    kinds: dict[str, int] = field(default_factory=dict)    # lines of each kind
    since: int = 0               # oldest build that prints every line of the log, 0 = unknown
    beyond: int = 0              # requests beyond the limit, counted only
    until: int = 0               # oldest build known not to print a line of the log, 0 = unknown
    read_lines: list[ReadLine] = field(default_factory=list)       # recognised lines
    sieve: Sieve = field(default_factory=Sieve)                    # words that every line contains
    others: list[LogSession] = field(default_factory=list)         # other server runs in the same file
    unknown: list[tuple[int, str]] = field(default_factory=list)   # lines that are not recognised, at most UNKNOWN
    alarms: list[tuple[int, str]] = field(default_factory=list)    # unrecognised warnings and errors, likewise

    def note_unknown(self, line: LogicalLine) -> None:
        """Store a line that is not recognised, without quoted texts and JSON objects: these may be prompts."""
        text = _TEXTS.sub(_left_out, line.logged.text)[:LONGEST_QUOTE]
        if text and len(self.unknown) < UNKNOWN:
            self.unknown.append((line.number, text))
        if line.logged.level in ("W", "E") and len(self.alarms) < UNKNOWN:
            self.alarms.append((line.number, text))


_TEXTS = re.compile(r"\{.*|\"(?:[^\"\\]|\\.)*\"?|(?<!\w)'.*'(?!\w)", re.S)


def _left_out(found: re.Match[str]) -> str:
    """Return the replacement of a quoted text or a JSON object."""
    return found[0][0] + "..." + {"{": "}"}.get(found[0][0], found[0][0])


def overlapping(requests: Sequence[LoggedRequest]) -> Iterator[list[LoggedRequest]]:
    """Yield groups of requests that were active at the same time, by their line numbers in the log."""
    group: list[LoggedRequest] = []
    end = 0
    for request in requests:
        if group and (request.lines[0] > end or len(group) == TOGETHER):
            yield group
            group, end = [], 0
        group.append(request)
        end = max(end, request.lines[1])
    if group:
        yield group


class LogState:
    """State of the reader: the request in each slot, and the slot that lines without a slot belong to."""

    def __init__(self, session: LogSession, grammar: LogGrammar) -> None:
        self.session, self.grammar = session, grammar
        self.open: dict[int, LoggedRequest] = {}                 # slot -> its open request
        self.closed: dict[int, LoggedRequest] = {}               # slot -> the last request that left it
        self.ends: dict[int, int] = {}                    # slot -> tokens that the last request left
        self.choice: dict[int, dict[str, Any]] = {}       # slot -> selection for the next request
        self.last_slot: int | None = None                  # slot of the last line that contains a slot
        self.candidates: list[Read] = []                  # prompt cache entries listed last
        self.unnamed: list[LoggedRequest] = []                   # active requests without a slot in their lines
        self.reply: dict[str, int] | None = None          # numbers of the answer being read, None = none
        self.timing: SlotTask | None = None               # slot and task of the timings that follow

    def read_line(self, line: LogicalLine, headings: TimingHeadings) -> None:
        """Read a message: count its kind, and call its handler. ``headings``: those of the source of the line."""
        number, logged, read = line.number, line.logged, line.read
        self.session.first = min(self.session.first or number, number)
        self.session.lines = number
        self.session.sieve.add(line.text)
        if logged.slot is not None and logged.slot >= 0:
            self.last_slot = logged.slot
        heading, self.timing = headings.read(line), headings.last
        if read is None:
            self.session.note_unknown(line)
            return
        self.session.recognised += 1
        kind = read.line.ev
        if len(self.session.read_lines) < LOG_STATEMENTS.now:
            self.session.read_lines.append(ReadLine(
                number, read, logged.text[:LONGEST], head_of(line.text, logged.text), heading))
        if read.slot is not None:
            self.last_slot = read.slot
        self.session.kinds[kind] = self.session.kinds.get(kind, 0) + 1
        self.session.since = max(self.session.since, read.line.since)
        if read.line.until:
            self.session.until = min(self.session.until or read.line.until, read.line.until)
        if (heard := LINE_HANDLERS.get(kind)) is not None:
            heard(self, read, number)

    def request_of(self, read: Read, number: int, begins: bool = False, late: bool = False) -> LoggedRequest | None:
        """Return the request that a line is about. Begin a new request if the task is new or the slot has no open
        request. ``late``: old builds print this line after the end of the request."""
        slot, is_known = read.slot if read.slot is not None else self.last_slot, True
        if slot is None:
            if not begins:
                return None
            slot, is_known = 0, False
        request = self.open.get(slot)
        before = self.closed.get(slot)
        if before is not None and read.task is not None and read.task == before.task:
            return before                      # written by another thread after the end of the request
        if late and request is None and before is not None and read.task in (None, before.task):
            return before
        is_new = request is not None and None not in (request.task, read.task) and request.task != read.task
        if request is None or is_new or (begins and request.end is not None):
            request = self._new(slot, read.task, number, begins)
            request.slot_known = is_known
        request.task = read.task if request.task is None else request.task
        request.lines = request.lines[0], number
        return request

    def timed_request(self, read: Read, number: int) -> LoggedRequest | None:
        """Return the request that timings are about: the request named by the heading above them, if any. Other lines
        may stand between the heading and the timings."""
        if read.slot is not None or self.timing is None:
            return self.request_of(read, number, late=True)
        slot, task = self.timing
        candidates = self.open.get(slot), self.closed.get(slot)
        return next((request for request in candidates if request and request.task == task), None)

    def _new(self, slot: int, task: int | None, number: int, begins: bool) -> LoggedRequest:
        """Begin a request in a slot, with the values of the slot's selection."""
        request = LoggedRequest(slot, task, (number, number), held=self.ends.get(slot), whole=begins)
        for name, found in self.choice.pop(slot, {}).items():
            setattr(request, name, found)
        self.choice = {key: found for key, found in self.choice.items() if "chosen" in found}
        self.open[slot] = request
        return self.add_request(request)

    def add_request(self, request: LoggedRequest) -> LoggedRequest:
        """Add a new request to the session; beyond the limit, only count it."""
        if len(self.session.requests) < LOG_REQUESTS.now:
            self.session.requests.append(request)
        else:
            self.session.beyond += 1
        return request


LineHandler = Callable[[LogState, Read, int], None]
LINE_HANDLERS: dict[str, LineHandler] = {}
"""Handlers of lines, by kind. `line_handlers` and `log_reader` fill it."""
