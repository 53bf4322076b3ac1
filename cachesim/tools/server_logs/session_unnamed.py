"""Requests of a log whose lines name neither slot nor task: which one is meant?

mlx_lm.server says when it looks for a prompt in its cache, how far prompts are evaluated, and, at its DEBUG level, what
it answered. Several requests may be in work: progress is that of the oldest one whose numbers fit, an answer that of
the newest (streams are not logged, and stay open). What may be said of another one is not kept.
"""

from __future__ import annotations

from cachesim.engines.shared.log_grammar import Read
from cachesim.tools.server_logs.session import Logged, LogState
from cachesim.tools.server_logs.session_lines import hears, number_of


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
