"""Conclusions from vLLM's status lines, metrics and start-up lines, which name no request."""

from __future__ import annotations

from typing import Iterator, Sequence

from cachesim.engines.shared.log_totals import LoggedNumbers, LogTotal, by_engine, of_kind, series, share

NAMELESS = (
    "the lines name no request: which prompts missed, and which decision lost their blocks (replies have cached_tokens "
    "with --enable-prompt-tokens-details; cachesim import BODIES compares prompts)"
)
_RECENT = "of the looked-up tokens of the last 1,000 requests"


def totals(lines: Sequence[LoggedNumbers]) -> Iterator[LogTotal]:
    """Yield the conclusions, the most important first."""
    yield from _counters(lines)
    yield from _replies(of_kind(lines, "reply_usage"))
    yield from _hit_rate(of_kind(lines, "status"))
    yield from _caching_off(lines)
    yield from _block_size(lines)
    yield from _preemptions(lines)
    for label, own in by_engine(of_kind(lines, "status")):
        for found in series(own, "usage"):
            yield LogTotal(found.ends, {"usage": found.range}, f"{label}KV cache usage {found.percent}; cached blocks "
                           "of ended requests count as free")  # fmt: skip
        for found in series(own, "waiting"):
            if max(found.values):
                yield LogTotal(found.ends, {"waiting": max(found.values)}, f"{label}up to {max(found.values):.0f} "
                               "requests waited for admission")  # fmt: skip
    for sizes in series(of_kind(lines, "start_capacity"), "tokens"):
        tokens = int(sizes.values[-1])
        yield LogTotal(sizes.lines[-1:], {"tokens": tokens}, f"the KV cache has {tokens:,} tokens")


def _counters(lines: Sequence[LoggedNumbers]) -> Iterator[LogTotal]:
    """Yield the share of hits between the first and the last scrape of the metrics, for each engine and cache; since
    the start of the server with a single scrape. A counter that fell belongs to a new server."""
    for where, says in (("", "in the prefix cache"), ("external_", "at the KV connector")):
        asked, hit = f"{where}prefix_cache_queries", f"{where}prefix_cache_hits"
        for label, own in by_engine(of_kind(lines, asked, hit)):
            for queries, hits in zip(series(of_kind(own, asked), asked), series(of_kind(own, hit), hit), strict=False):
                counts = [one.growth for one in (queries, hits)]
                if len(queries.lines) != len(hits.lines) or None in counts or not counts[0]:
                    continue
                total, found = (int(count or 0) for count in counts)
                since = "since the start of the server" if len(queries.lines) == 1 else "between the scrapes"
                proof = {*queries.lines[:1], *queries.lines[-1:], *hits.lines[:1], *hits.lines[-1:]}
                yield LogTotal(tuple(sorted(proof)), {"queries": total, "hits": found}, f"{label}{found:,} of "
                               f"{total:,} looked-up tokens were {says}, {share(found, total)} ({since})")  # fmt: skip


def _replies(lines: Sequence[LoggedNumbers]) -> Iterator[LogTotal]:
    """Yield the reused share of the prompts of logged replies."""
    pairs = [(line.line, line.numbers["cache_n"], line.numbers["n_tokens"]) for line in lines
             if isinstance(line.numbers["n_tokens"], int) and isinstance(line.numbers["cache_n"], int)]  # fmt: skip
    cached, tokens = sum(pair[1] for pair in pairs), sum(pair[2] for pair in pairs)
    if tokens:
        yield LogTotal(tuple(pair[0] for pair in pairs), {"cache_n": cached, "n_tokens": tokens}, f"replies: "
                       f"{cached:,} of {tokens:,} prompt tokens were cached, {share(cached, tokens)}")  # fmt: skip


def _hit_rate(lines: Sequence[LoggedNumbers]) -> Iterator[LogTotal]:
    """Yield the hit rates that each engine prints."""
    for name, what in (("hit_rate", "prefix cache"), ("external_rate", "external prefix cache")):
        for label, own in by_engine(lines):
            for found in series(own, name):
                yield LogTotal(found.ends, {name: found.range, "last": found.values[-1]}, f"{label}{what} hit rate "
                               f"{found.percent} {_RECENT}")  # fmt: skip


def _caching_off(lines: Sequence[LoggedNumbers]) -> Iterator[LogTotal]:
    off = [line.line for line in lines if line.kind == "start_caching_off" or line.numbers.get("caching") is False]
    if off:
        yield LogTotal(tuple(off), {"caching": False}, "prefix caching is off: every prompt is evaluated completely")


def _block_size(lines: Sequence[LoggedNumbers]) -> Iterator[LogTotal]:
    """Yield the unit of reuse. A server that splits blocks further (partial hits) is the exception."""
    for found in series(of_kind(lines, "start_block_size", "start_scheduler_block"), "block_size"):
        size = int(max(found.values))
        unless = ", unless --prefix-match-unit is smaller" if size > 1 else ""
        yield LogTotal(found.ends, {"block_size": size}, f"a common prefix shorter than {size:,} tokens is not reused "
                       f"(block size{unless})")  # fmt: skip


def _preemptions(lines: Sequence[LoggedNumbers]) -> Iterator[LogTotal]:
    """Yield the preemptions that status lines report; each counts those since the line before it."""
    for found in series(of_kind(lines, "status"), "preemptions"):
        count = int(sum(found.values))
        yield LogTotal(found.lines, {"preemptions": count}, f"{count:,} preemptions: these requests were evaluated "
                       "again, except blocks that were still cached")  # fmt: skip
