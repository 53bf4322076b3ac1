"""Reads a log once, line by line: which requests, with what?"""

from __future__ import annotations

from typing import Iterable

from cachesim.engines.shared.log_grammar import LogGrammar
from cachesim.logs import session_lines  # noqa: F401   (it says what is done with each kind of line)
from cachesim.logs.session import Reader, Session


def read_session(engine: str, grammar: LogGrammar, lines: Iterable[str]) -> Session:
    """Read a log once, line by line. Raises BadInput for one with too many requests."""
    reader = Reader(Session(engine), grammar)
    for number, line in enumerate(lines, 1):
        reader.line(number, line)
    for one in reader.session.requests:
        one.settle()
    return reader.session
