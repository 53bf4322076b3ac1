"""Rows of a log that grows: a row for each finished request, with its numbers and the causes that its lines prove.

The last lines of a server run are treated as an excerpt of its log: what ``import`` would conclude from them is stated.
An excerpt proves less than the whole log and nothing false, so that the memory stays bounded.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field, replace
from typing import Any, Iterable, Iterator, Mapping, Sequence

from cachesim.engines.shared.log_grammar import LogGrammar, Number
from cachesim.engines.shared.log_signatures import SEARCHES
from cachesim.engines.shared.log_totals import LoggedNumbers
from cachesim.tools.server_logs.facts.cause_statements import cause_statements
from cachesim.tools.server_logs.facts.client_changes import ADVICE, CLIENT_CHANGES, SlotPrompts
from cachesim.tools.server_logs.facts.conclusions import conclude
from cachesim.tools.server_logs.facts.earlier_causes import EarlierCauses
from cachesim.tools.server_logs.facts.logged_requests import LoggedRequest, logged_request
from cachesim.tools.server_logs.facts.request_numbers import DerivedNumbers, numbers_of
from cachesim.tools.server_logs.facts.session import SessionReader, is_request
from cachesim.tools.server_logs.facts.statements import Statement
from cachesim.tools.server_logs.lines.logical_lines import LogicalLine, LogicalLineReader
from cachesim.tools.server_logs.lines.recognise import HEAD, engine_of_log, grammars, recognise
from cachesim.tools.server_logs.lines.tied_requests import ENDS, TiedRequest
from cachesim.tools.server_logs.lines.timing_headings import TimingHeadings
from cachesim.tools.server_logs.report.first_lines import facts_first
from cachesim.tools.server_logs.report.headline import headline, most_again
from cachesim.tools.watch.listed_lines import ListedLines
from cachesim.tools.watch.watched_exchange import CLIENT_LEFT, UNREAD, WHOLE

Row = dict[str, Any]
EXCERPT = 1_200              # latest recognised lines of a run that conclusions are drawn from
LATE = 12                    # lines after which a finished request gets no more lines
HEAD_LINES = 25 * HEAD       # latest lines that are kept before the engine is known
HEAD_SIZE = 1 << 24          # characters of these lines, at most
RUNS, SOURCES = 8, 64        # latest server runs, and latest sources of lines, that are kept
WAITING = 64                 # requests without a row, at most


@dataclass(slots=True)
class _Run:
    """A server run. ``prompts``: what the requests with rows left in its slots."""

    number: int
    reader: SessionReader
    prompts: SlotPrompts = field(default_factory=SlotPrompts)
    derived: list[DerivedNumbers] = field(default_factory=list)                     # requests with rows, in the excerpt
    is_cut: bool = False                                                     # earlier lines were forgotten
    has_named: bool = False                                                  # a row names its slot
    last: int = 0                                                            # number of its last line

    def over(self) -> list[TiedRequest]:
        """Return the requests without a row that the server has finished."""
        latest = {one.slot: one for one in self.reader.ties.requests}
        return [one for one in self.reader.ties.requests
                if one.is_over or (one.slot is not None and latest[one.slot] is not one)]  # fmt: skip


class LogRows:
    """Incremental report on a log."""

    def __init__(self) -> None:
        self.lines = 0
        self.engine = ""
        self._head: deque[str] = deque()                                     # latest lines before the engine is known
        self._head_size = 0                                                  # characters of these lines
        self._grammar = LogGrammar()
        self._listed = ListedLines(self._grammar)
        self._reader: LogicalLineReader | None = None
        self._runs: dict[int, _Run] = {}
        self._headings: defaultdict[str, TimingHeadings] = defaultdict(TimingHeadings)

    def read(self, lines: Iterable[str]) -> Iterator[Row]:
        """Take the next lines and yield the rows of the requests that are over."""
        for line in lines:
            self.lines += 1
            if self._reader is not None:
                if not self._listed.is_listed(self.lines, line):
                    yield from self._read(self._reader, self.lines, line)
                continue
            self._keep(line)
            if any(one.read.line.ev in ENDS for one in recognise(line)[:1]):       # enough lines to tell the engine
                yield from self._begin()

    def idle(self) -> Iterator[Row]:
        """Yield the rows of the requests that are over. Call it when no more lines arrive for a while."""
        if self._reader is None:
            yield from self._begin()
        if self._reader is not None:
            for line in self._reader.flush():
                yield from self._add(line)
        for run in self._runs.values():
            run.reader.ties.flush()
            yield from self._rows(run, run.over())

    def rest(self) -> Iterator[Row]:
        """Yield the rows of all requests that have none, also of those that are not over. Call it at the end."""
        yield from self.idle()
        for run in self._runs.values():
            ties = run.reader.ties
            yield from self._rows(run, list(ties.requests if run.derived else ties.finished()))

    def totals(self) -> list[str]:
        """Return what the last lines of the current run say about all of its requests, for servers that log no single
        request."""
        lines = [line for run in list(self._runs.values())[-1:] for line in run.reader.session.read_lines]
        numbers = [LoggedNumbers(line.number, line.kind, line.read.numbers) for line in lines]
        return [total.says for total in self._grammar.totals(numbers)]

    def first_lines(self) -> list[str]:
        """Return what ``import`` says first about the last lines of the current run, [] before a known line."""
        run = next(reversed(self._runs.values()), None)
        if run is None:
            return []
        session = replace(run.reader.session, derived=run.derived)
        statements = [said.as_data() for said in conclude(session).statements]
        part = f"The last {len(session.read_lines):,} known lines of the log:" if run.is_cut else ""
        says = [headline(statements).plain, *(line.says for line in facts_first(statements))]
        return [part, *says] if part else says

    def _keep(self, line: str) -> None:
        """Keep a line until the engine is known."""
        self._head.append(line)
        self._head_size += len(line)
        while len(self._head) > HEAD_LINES or self._head_size > HEAD_SIZE:
            self._head_size -= len(self._head.popleft())

    def _begin(self) -> Iterator[Row]:
        """Find the engine of the lines so far, and read them."""
        self.engine = engine_of_log(self._head) or ""
        if not self.engine:
            return
        self._grammar = grammars()[self.engine]
        self._reader, self._listed = LogicalLineReader(self._grammar), ListedLines(self._grammar)
        head = self._head
        first = self.lines - len(head)
        self._head = deque()
        for number, line in enumerate(head, first + 1):
            if not self._listed.is_listed(number, line):
                yield from self._read(self._reader, number, line)

    def _read(self, reader: LogicalLineReader, number: int, line: str) -> Iterator[Row]:
        """Read a line, after those of the list before it that it makes matter, and yield the rows."""
        for at, needed in (*self._listed.loaded(line), (number, line)):
            for found in reader.read(at, needed):
                yield from self._add(found)

    def _add(self, line: LogicalLine) -> Iterator[Row]:
        """Read a message, and yield the rows of requests that get no more lines."""
        run = self._runs.get(line.run)
        if run is None:
            run = self._runs[line.run] = _Run(line.run, SessionReader(self.engine, self._grammar))
            for old in list(self._runs)[:-RUNS]:
                gone = self._runs.pop(old)
                gone.reader.ties.flush()
                yield from self._rows(gone, list(gone.reader.ties.requests))
        run.last = line.number
        yield from self._rows_of_others(run, line.number)
        for source in list(self._headings)[:-SOURCES]:
            del self._headings[source]
        session, ties = run.reader.session, run.reader.ties
        run.reader.read_line(line, self._headings[line.logged.source])
        if len(session.read_lines) > 2 * EXCERPT:
            del session.read_lines[:-EXCERPT]
            run.is_cut = True
        over = [one for one in run.over() if line.number - one.lines[-1].number > LATE]
        yield from self._rows(run, over or ties.requests[: len(ties.requests) - WAITING])

    def _rows_of_others(self, run: _Run, number: int) -> Iterator[Row]:
        """Yield the rows of other runs whose requests are over and which got no more lines up to this number."""
        for other in list(self._runs.values()):
            if other is not run and other.reader.ties.requests and number - other.last > LATE:
                other.reader.ties.flush()
                yield from self._rows(other, other.over())

    def _rows(self, run: _Run, over: Sequence[TiedRequest]) -> Iterator[Row]:
        """Yield the rows of these requests, which then wait no longer."""
        if not over:
            return
        run.reader.ties.forget(over)
        known, sieve = run.reader.session.read_lines, run.reader.session.sieve
        run.derived = [one for one in run.derived if one.request.span[0] >= known[0].number] if known else []
        for request in over:
            run.reader.ties.check(request)
            derived = numbers_of(request, self._grammar, sieve)
            run.has_named |= request.slot is not None
            if not is_request(derived) or (request.slot is None and (run.has_named or not derived.numbers)):
                continue                                         # lines that belong to no request
            run.derived.append(derived)
            found = [*cause_statements(derived, self._grammar)]
            if any(line.kind in SEARCHES for line in request.lines):
                found += EarlierCauses(known, run.derived, self._grammar, sieve).of(derived)
            yield self._row(run, logged_request(derived), found)

    def _row(self, run: _Run, request: LoggedRequest, found: Sequence[Statement]) -> Row:
        """Return the row of a request."""
        numbers = {name: value.data for name, value in request.numbers.items()}
        change = run.prompts.change(request)
        keys = [said.numbers["cause"] for said in found]
        again = _again(numbers)
        loses = change != "new" or bool(again)
        flags = self._flags(keys, run.reader.session.facts.get("n_swa")) if loses else []
        return {
            "source": "log", "run": run.number, "slot": request.slot if request.is_slot_known else None,
            "task": request.task, "lines": list(request.lines), "prompt": numbers.get("n_tokens"),
            "reused": numbers.get("cache_n"), "evaluated": numbers.get("prompt_n"), "again": again,
            "generated": numbers.get("predicted_n"), "end": _end(request),
            "change": change, "says": CLIENT_CHANGES.get(change, ""),
            "causes": [{"cause": key, "says": said.says, "lines": [*said.lines]}
                       for key, said in zip(keys, found, strict=True)],
            "flags": flags, "advice": ADVICE.get(change, "") if change != "new" else "",
            "refused": request.is_refused,
        }  # fmt: skip

    def _flags(self, causes: Sequence[str], n_swa: Number | str | None) -> list[str]:
        """Return the flags that may help against these causes. ``n_swa``: window of the model that the log states, at
        most 1 = none, None = not stated."""
        has_no_window = isinstance(n_swa, int) and n_swa <= 1
        useless = self._grammar.window_flags if has_no_window else ()
        flags = (flag for one in self._grammar.signatures if one.key in causes for flag in one.flags)
        return list(dict.fromkeys(flag for flag in flags if flag not in useless))


def _again(numbers: Mapping[str, Any]) -> int | list[int | None] | None:
    """Return the tokens of the common prefix that were evaluated again, None if the log does not show them."""
    if "lost" in numbers:
        lost: int | list[int | None] = numbers["lost"]
        return lost
    return 0 if most_again(numbers) == 0 else None


def _end(request: LoggedRequest) -> str:
    """Return how a request ended, as the log shows it."""
    tied = request.tied
    if tied is not None and tied.is_cancelled:
        return WHOLE if request.is_refused else CLIENT_LEFT
    return WHOLE if tied is None or tied.is_over else UNREAD
