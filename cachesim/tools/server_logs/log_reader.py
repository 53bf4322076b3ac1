"""Reader of a log: a single pass over its lines, each of which goes to its server run."""

from __future__ import annotations

from collections import defaultdict
from typing import Iterable

from cachesim.engines.shared.log_grammar import LogGrammar
from cachesim.tools.server_logs.logical_lines import LineCounter, logical_lines
from cachesim.tools.server_logs.session import LogSession, SessionReader
from cachesim.tools.server_logs.timing_headings import TimingHeadings


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
