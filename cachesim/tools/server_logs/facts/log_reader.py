"""Reader of a log: a single pass over its lines, each of which goes to its server run."""

from __future__ import annotations

from collections import defaultdict
from itertools import chain
from typing import Iterable

from cachesim.engines.shared.log_grammar import LogGrammar
from cachesim.tools.server_logs.facts.session import LogSession, SessionReader
from cachesim.tools.server_logs.lines.logical_lines import LineCounter, logical_lines
from cachesim.tools.server_logs.lines.recognise import has_sign
from cachesim.tools.server_logs.lines.timing_headings import TimingHeadings


def read_session(engine: str, grammar: LogGrammar, lines: Iterable[str]) -> LogSession:
    """Read a log of any length line by line. Return the server run with the most requests; ``others`` are the other
    runs in the file. Requests beyond the limit are only counted."""
    readers: dict[int, SessionReader] = {}
    headings: defaultdict[str, TimingHeadings] = defaultdict(TimingHeadings)
    counted = LineCounter(lines)
    for line in logical_lines(grammar, counted):
        if line.run not in readers:
            readers[line.run] = SessionReader(engine, grammar)
        readers[line.run].read_line(line, headings[line.logged.source])
    runs = [reader.finish() for reader in readers.values()] or [LogSession(engine)]
    main = max(runs, key=lambda run: (len(run.requests), run.recognised))
    main.others = [run for run in runs if run is not main]
    main.lines = counted.number
    return main


ONE_OF = 20                  # lines, of which one at least is recognised in a log without ids and signs


def is_log(session: LogSession, grammar: LogGrammar) -> bool:
    """True if a file contains lines of the server's log: lines that name a slot or a task, recognised lines with a text
    that only this server prints, or so many recognised lines that they are no coincidence. A page about a server has
    its name alone, a source file a few of its messages."""
    runs = (session, *session.others)
    recognised = sum(run.recognised for run in runs)
    if any(run.addressed for run in runs) or recognised == session.lines > 0:
        return True
    lines = chain.from_iterable(run.read_lines for run in runs)
    if any(has_sign(grammar, f"{line.head}{line.text}") for line in lines):
        return True
    specific = any(kind not in grammar.common for run in runs for kind in run.kinds)
    return specific and ONE_OF * recognised >= session.lines
