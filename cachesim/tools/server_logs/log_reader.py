"""Reads a log once, line by line: which requests, with what?"""

from __future__ import annotations

from typing import Iterable, Sequence

from cachesim.engines.shared.log_grammar import LogGrammar, Read
from cachesim.tools.server_logs.line_handlers import hears, number_of
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
    last: dict[int, Logged] = {}                   # slot -> the request in it, before the one that is looked at
    for after in (one for one in requests if one.named):
        one = last.get(after.slot, after)
        last[after.slot] = after
        if one is not after and one.guessed and after.cache_n and after.cache_n > (one.n_tokens or 0):
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


# Requests whose lines name neither slot nor task: which one is meant?
#
# mlx_lm.server says when it looks for a prompt in its cache, how far prompts are evaluated, and, at its DEBUG level,
# what it answered. Several requests may be in work: progress is that of the oldest one whose numbers fit, an answer
# that of the newest (streams are not logged, and stay open). What may be said of another one is not kept.


@hears("fetch")
def _fetch(reader: LogState, read: Read, number: int) -> None:
    """A request begins. Nothing is found in a cache that is empty."""
    one = reader.begin(Logged(0, None, (number, number), whole=True, named=False))
    one.cache_n = 0 if number_of(read, "prompts") == 0 else None
    reader.unnamed.append(one)


@hears("progress_of")
def _progress(reader: LogState, read: Read, number: int) -> None:
    """``total`` is what one request evaluates."""
    done, total = number_of(read, "n_tokens"), number_of(read, "total")
    if done is None or total is None:
        return
    known = [one for one in reader.unnamed if one.prompt_n == total and one.done < done]
    fresh = [one for one in reader.unnamed if one.prompt_n is None]
    if not known and len({one.cache_n for one in fresh}) > 1:
        for one in fresh:
            one.cache_n = None                     # it may be another one that found nothing
    for one in (known or fresh)[:1]:
        one.prompt_n, one.done = total, done
        one.lines = one.lines[0], number


@hears("reply")
def _reply(reader: LogState, read: Read, number: int) -> None:
    """The lines of an answer follow, up to its last number."""
    reader.reply = {}


@hears("usage")
def _usage(reader: LogState, read: Read, number: int) -> None:
    """Numbers of an answer; others of the same name, in what a client sent, are not heard."""
    if reader.reply is None:
        return
    reader.reply.update({name: found for name in read.numbers if (found := number_of(read, name)) is not None})
    if "cache_n" in reader.reply:
        _answered(reader, reader.reply, number)
        reader.reply = None


def _answered(reader: LogState, usage: dict[str, int], number: int) -> None:
    n_tokens, cache_n = usage.get("n_tokens"), usage["cache_n"]
    if n_tokens is None or cache_n > n_tokens:
        return
    fits = [one for one in reader.unnamed if one.prompt_n is None]
    fits += [one for one in reader.unnamed if one.prompt_n == n_tokens - cache_n]
    one = fits[-1] if fits else reader.begin(Logged(0, None, (number, number), named=False))
    reader.unnamed = [other for other in reader.unnamed if other is not one]
    one.n_tokens, one.cache_n, one.prompt_n = n_tokens, cache_n, n_tokens - cache_n
    one.predicted_n = usage.get("predicted_n")
    one.lines = one.lines[0], number
