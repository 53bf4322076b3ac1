"""Comparison of a warm answer of a server with its cold answer: tokens, text, and log-probabilities.

The likeliest tokens at every place up to the first different token are compared. A different token is acceptable only
if both servers found the two tokens about equally likely.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any, Mapping, Sequence

from cachesim.tools.conformance.compare_replies import Difference

TOP = 4                      # log-probabilities compared per place

Place = Mapping[Any, float]
"""The likeliest tokens at one place of an answer, by id or text, with their log-probabilities."""


@dataclass(frozen=True)
class ScoredAnswer:
    """An answer: its ``tokens`` (ids or texts), its ``text``, and the likeliest tokens at each place. Has the
    interface of an array of all log-probabilities, so that reports can show it."""

    tokens: tuple[Any, ...] | None
    text: str
    places: tuple[Place, ...]
    dtype: str = "log-probabilities"

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of log-probabilities that are compared."""
        return (len(self.tolist()),)

    def beginning(self, answer: ScoredAnswer) -> ScoredAnswer:
        """Return as much of this answer as the other one has, too."""
        number, letters = min(len(self.places), len(answer.places)), min(len(self.text), len(answer.text))
        both = self.tokens is not None and answer.tokens is not None
        kept = min(len(self.tokens or ()), len(answer.tokens or ()))
        return ScoredAnswer((self.tokens or ())[:kept] if both else None, self.text[:letters], self.places[:number])

    def tolist(self) -> list[float]:
        """Return the log-probabilities, place by place, the likeliest first."""
        return [one for place in self.places for one in ranked(place)]

    def differs_from(self, answer: ScoredAnswer) -> Difference:
        """Return the distance of another answer to the request."""
        return Difference(*_first(self, answer))


@dataclass(frozen=True, slots=True)
class NearAnswers:
    """Comparison of answers: no log-probability may differ by more than ``tolerance``."""

    tolerance: float

    def __call__(self, a: Any, b: Any) -> bool:
        return gap(a, b) <= self.tolerance


def gap(a: Any, b: Any) -> float:
    """Return the largest difference of log-probabilities of two answers to a request; infinite if a token differs and
    its rival was not as likely."""
    if not isinstance(a, ScoredAnswer) or not isinstance(b, ScoredAnswer):
        return 0.0 if a == b else inf
    return _first(a, b)[0]


def ranked(place: Place) -> list[float]:
    """Return the largest log-probabilities, in descending order."""
    return sorted(place.values(), reverse=True)[:TOP]


def _first(a: ScoredAnswer, b: ScoredAnswer) -> tuple[float, str]:
    """Return the largest difference, and a description of its place. At a place where a single answer lists likely
    tokens, its tokens decide. Answers may have tokens without their text."""
    largest, text = 0.0, "no difference"
    for number, (one, two) in enumerate(zip(a.places, b.places, strict=False)):
        size = _apart(one, two)
        if size > largest:
            largest, text = size, f"largest difference {size:.3g} at token {number}"
        pair = _differing(a.tokens, b.tokens, number)
        if pair is not None:
            leads = [_lead(place, *both) for place, both in ((one, pair), (two, pair[::-1])) if place]
            lead = max(leads, default=inf)
            return (lead, f"token {number} differs: {pair[0]} and {pair[1]}") if lead > largest else (largest, text)
    if a.tokens is None or b.tokens is None:
        return (largest, text) if a.text == b.text else (inf, "the texts differ")
    if a.tokens != b.tokens:
        return inf, "the tokens differ"
    alike = a.text == b.text or not (a.text and b.text)
    return (largest, text) if alike else (inf, "the texts differ, the tokens do not")


def _differing(a: Sequence[Any] | None, b: Sequence[Any] | None, number: int) -> tuple[Any, Any] | None:
    if a is None or b is None or number >= min(len(a), len(b)) or a[number] == b[number]:
        return None
    return a[number], b[number]


def _apart(a: Place, b: Place) -> float:
    """Return the largest difference at a place, by rank and by token. A token that a single answer lists is, in the
    other, at most as likely as the least likely token listed there."""
    by_rank = [abs(x - y) for x, y in zip(ranked(a), ranked(b), strict=False)]
    by_token = [abs(a[token] - b[token]) for token in a.keys() & b.keys()]
    both = ((a, b), (b, a)) if a and b else ()
    beyond = [one[token] - min(two.values()) for one, two in both for token in one.keys() - two.keys()]
    return max((*by_rank, *by_token, *beyond), default=0.0)


def _lead(place: Place, chosen: Any, rival: Any) -> float:
    """Return half the difference of two log-probabilities: if both tokens moved by that much, they would be equal."""
    return (place[chosen] - place[rival]) / 2 if chosen in place and rival in place else inf
