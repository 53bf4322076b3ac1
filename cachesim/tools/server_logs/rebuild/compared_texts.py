"""Common prefixes of a log's prompts with the texts of other requests, as the server printed them.

A server compares a prompt with the contents of every slot, and with every entry of its prompt cache. Two conversations
that begin alike may first be compared turns later; the comparison then shows where the first prompt of the later one
differs from the other. A text is the prompt of a request with its answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterator, NamedTuple, Sequence

from cachesim.tools.server_logs.facts.logged_requests import LoggedRequest


class ComparedText(NamedTuple):
    """Text of an earlier request, and the tokens that a prompt has in common with it."""

    text: LoggedRequest
    lcp: int


@dataclass(slots=True)
class _Comparison:
    """Texts of two requests, by their numbers, and the tokens that they have in common."""

    one: int
    other: int
    lcp: int


def compared_texts(requests: Sequence[LoggedRequest]) -> dict[int, ComparedText]:
    """Return the earlier text with which the prompt of each request has the longest common prefix that comparisons
    show, by the id of the request. ``requests``: in the order of their launch."""
    continued = [_continued(requests, number) for number in range(len(requests))]
    found: dict[int, ComparedText] = {}
    for comparison in _comparisons(requests):
        _move_to_first_difference(comparison, continued)
        if comparison.one == comparison.other:
            continue
        later, earlier = max(comparison.one, comparison.other), min(comparison.one, comparison.other)
        known = found.get(id(requests[later]))
        if known is None or known.lcp < comparison.lcp:
            found[id(requests[later])] = ComparedText(requests[earlier], comparison.lcp)
    return found


def _move_to_first_difference(comparison: _Comparison, continued: Sequence[_Continued | None]) -> None:
    """Replace each text of a comparison by the text that it continues, as long as the difference lies in that one."""
    while (before := continued[comparison.one]) is not None and comparison.lcp < before.lcp:
        comparison.one = before.text
    while (before := continued[comparison.other]) is not None and comparison.lcp < before.lcp:
        comparison.other = before.text


class _Continued(NamedTuple):
    """Number of the request whose text a prompt continues, and the tokens that it has in common with it."""

    text: int
    lcp: int


def _continued(requests: Sequence[LoggedRequest], number: int) -> _Continued | None:
    """Return the text that a prompt continues: that of its slot, or the loaded one; None if the log does not show
    it."""
    request = requests[number]
    if request.lcp is None:
        return None
    text = _entry(requests, number, request.held) if request.is_loaded else _in_slot(requests, number, request.slot)
    return None if text is None else _Continued(text, request.lcp)


def _comparisons(requests: Sequence[LoggedRequest]) -> Iterator[_Comparison]:
    """Yield the comparisons that the log prints."""
    for number, request in enumerate(requests):
        if request.tied is None or request.tied.is_doubtful:
            continue
        for line in request.tied.others:
            text = None if line.slot is None else _in_slot(requests, number, line.slot)
            if text is not None and (lcp := line.number_of("lcp")) is not None:
                yield _Comparison(number, text, lcp)
        for line in request.tied.of_cache("pc_cand"):
            text = _entry(requests, number, line.number_of("n_tokens"))
            if text is not None and (lcp := line.number_of("lcp")) is not None:
                yield _Comparison(number, text, lcp)


def _in_slot(requests: Sequence[LoggedRequest], number: int, slot: int) -> int | None:
    """Return the last request of a slot before another one, None without one."""
    return next((at for at in range(number - 1, -1, -1) if requests[at].slot == slot), None)


def _entry(requests: Sequence[LoggedRequest], number: int, n_tokens: int | None) -> int | None:
    """Return the request before another one that left a text of this length, None if none or several did."""
    found = [at for at in range(number) if requests[at].end == n_tokens]
    return found[0] if len(found) == 1 and n_tokens is not None else None
