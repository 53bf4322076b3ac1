"""Reads a log once, line by line: which requests, with what?"""

from __future__ import annotations

from typing import Iterable, Iterator, Sequence

from cachesim.engines.shared.log_grammar import LogGrammar
from cachesim.tools.server_logs import session_lines, session_unnamed  # noqa: F401   (they say what is done with each kind of line)
from cachesim.tools.server_logs.session import Logged, LogSession, LogState


def read_session(engine: str, grammar: LogGrammar, lines: Iterable[str]) -> LogSession:
    """Read a log once, line by line, of any length: requests beyond the limit are counted only."""
    reader = LogState(LogSession(engine), grammar)
    for number, line in enumerate(lines, 1):
        reader.line(number, line)
    requests = reader.session.requests
    for one in requests:
        one.settle()
    _go_on(requests)
    for one, after in _followed(requests):
        if one.guessed and after.cache_n and one.n_tokens is not None and after.cache_n > one.n_tokens:
            one.n_tokens = after.cache_n           # so much was in the slot when the next one came
            one.prompt_n = None if one.cache_n is None else one.n_tokens - one.cache_n
    return reader.session


def _go_on(requests: Sequence[Logged]) -> None:
    """Where only the evaluated part of a prompt is known, the rest is taken to be the longest prompt before it."""
    longest = 0
    for one in requests:
        if one.n_tokens is None and one.cache_n is None and one.prompt_n is not None:
            one.cache_n, one.n_tokens, one.guessed = longest, longest + one.prompt_n, True
        longest = max(longest, one.n_tokens or 0)


def _followed(requests: Sequence[Logged]) -> Iterator[tuple[Logged, Logged]]:
    """Each request and the next one in its slot."""
    last: dict[int, Logged] = {}
    for one in (one for one in requests if one.named):
        if one.slot in last:
            yield last[one.slot], one
        last[one.slot] = one
