"""Reader of a log: a single pass over its lines that collects the requests.

Requests of mlx_lm.server name neither slot nor task. That server logs prompt cache lookups, evaluation progress and, at
level DEBUG, its answers. Several requests may be active. Progress is assigned to the oldest active request whose
numbers fit, an answer to the newest (streams are not logged and stay open). Values that could belong to another request
are dropped.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Iterable, Sequence

from cachesim.engines.shared.log_grammar import LogGrammar, Read
from cachesim.tools.server_logs.line_handlers import handles, token_count
from cachesim.tools.server_logs.logical_lines import LineCounter, logical_lines
from cachesim.tools.server_logs.session import LoggedRequest, LogSession, LogState
from cachesim.tools.server_logs.timing_headings import TimingHeadings


def read_session(engine: str, grammar: LogGrammar, lines: Iterable[str]) -> LogSession:
    """Read a log of any length line by line. Return the server run with the most requests; ``others`` are the other
    runs in the file. Requests beyond the limit are only counted."""
    readers: dict[int, LogState] = {}
    headings: defaultdict[str, TimingHeadings] = defaultdict(TimingHeadings)
    counted = LineCounter(lines)
    for line in logical_lines(grammar, counted):
        if line.run not in readers:
            readers[line.run] = LogState(LogSession(engine), grammar)
        readers[line.run].read_line(line, headings[line.logged.source])
    runs = [reader.session for reader in readers.values()] or [LogSession(engine)]
    for run in runs:
        _settle(run.requests)
    main = max(runs, key=lambda run: (len(run.requests), run.recognised))
    main.others = [run for run in runs if run is not main]
    main.lines = counted.number
    return main


def _settle(requests: Sequence[LoggedRequest]) -> None:
    """Fill in the values of the requests of a run that follow from others."""
    for request in requests:
        request.settle()
    _extend_longest_prompt(requests)
    last: dict[int, LoggedRequest] = {}                   # slot -> the previous request in it
    for after in (request for request in requests if request.named):
        request = last.get(after.slot, after)
        last[after.slot] = after
        if request is not after and request.guessed and after.cache_n and after.cache_n > (request.n_tokens or 0):
            request.n_tokens = after.cache_n           # the next request reused so many tokens
            request.prompt_n = None if request.cache_n is None else request.n_tokens - request.cache_n


def _extend_longest_prompt(requests: Sequence[LoggedRequest]) -> None:
    """Assume that a prompt extends the longest prompt before it if the log contains only its evaluated tokens."""
    longest = 0
    for request in requests:
        if request.n_tokens is None and request.cache_n is None and request.prompt_n is not None:
            request.cache_n, request.n_tokens, request.guessed = longest, longest + request.prompt_n, True
        longest = max(longest, request.n_tokens or 0)


@handles("fetch")
def _fetch(reader: LogState, read: Read, number: int) -> None:
    """Begin a request. Nothing is reused from an empty cache."""
    request = reader.add_request(LoggedRequest(0, None, (number, number), whole=True, named=False))
    request.cache_n = 0 if token_count(read, "prompts") == 0 else None
    reader.unnamed.append(request)


@handles("progress_of")
def _progress(reader: LogState, read: Read, number: int) -> None:
    """Store the evaluation progress; ``total`` is the number of tokens that the request evaluates."""
    done, total = token_count(read, "n_tokens"), token_count(read, "total")
    if done is None or total is None:
        return
    known = [request for request in reader.unnamed if request.prompt_n == total and request.done < done]
    fresh = [request for request in reader.unnamed if request.prompt_n is None]
    if not known and len({request.cache_n for request in fresh}) > 1:
        for request in fresh:
            request.cache_n = None                     # the empty cache may be that of another request
    for request in (known or fresh)[:1]:
        request.prompt_n, request.done = total, done
        request.lines = request.lines[0], number


@handles("reply")
def _reply(reader: LogState, read: Read, number: int) -> None:
    """Begin an answer. Its lines follow, up to its last number."""
    reader.reply = {}


@handles("usage")
def _usage(reader: LogState, read: Read, number: int) -> None:
    """Collect the numbers of an answer. Numbers of the same name in a client's request are ignored."""
    if reader.reply is None:
        return
    reader.reply.update({name: found for name in read.numbers if (found := token_count(read, name)) is not None})
    if "cache_n" in reader.reply:
        _answered(reader, reader.reply, number)
        reader.reply = None


def _answered(reader: LogState, usage: dict[str, int], number: int) -> None:
    """Store the numbers of a complete answer in the newest active request that they fit, else in a new request."""
    n_tokens, cache_n = usage.get("n_tokens"), usage["cache_n"]
    if n_tokens is None or cache_n > n_tokens:
        return
    fits = [request for request in reader.unnamed if request.prompt_n is None]
    fits += [request for request in reader.unnamed if request.prompt_n == n_tokens - cache_n]
    request = fits[-1] if fits else reader.add_request(LoggedRequest(0, None, (number, number), named=False))
    reader.unnamed = [held for held in reader.unnamed if held is not request]
    request.n_tokens, request.cache_n, request.prompt_n = n_tokens, cache_n, n_tokens - cache_n
    request.predicted_n = usage.get("predicted_n")
    request.lines = request.lines[0], number
