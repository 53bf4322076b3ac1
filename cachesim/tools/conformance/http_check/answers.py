"""What a server said, with its log-probabilities, and when two such answers are the same.

Compared are the likeliest tokens at every place up to the first token that differs. A token that differs is the same
answer only where both servers found the two about as likely.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any, Mapping, Sequence

from cachesim.tools.conformance.fingerprint import Difference

TOP = 4                      # log-probabilities that are compared

Place = Mapping[Any, float]
"""The likeliest tokens at one place of an answer, by id or text, with their log-probabilities."""


@dataclass(frozen=True)
class Answered:
    """An answer: its ``tokens`` (ids or texts), its ``text``, and what was likely at each place. Looks like an array of
    all log-probabilities, so that reports can show it."""

    tokens: tuple[Any, ...] | None
    text: str
    places: tuple[Place, ...]
    dtype: str = "log-probabilities"

    @property
    def shape(self) -> tuple[int, ...]:
        """How many log-probabilities are compared."""
        return (len(self.tolist()),)

    def tolist(self) -> list[float]:
        """The log-probabilities, place by place, the likeliest first."""
        return [one for place in self.places for one in ranked(place)]

    def differs_from(self, other: Answered) -> Difference:
        """How far another answer to the same request is from this one."""
        size, text = _first(self, other)
        return Difference(size, text)


@dataclass(frozen=True, slots=True)
class Alike:
    """Compares answers: no log-probability may differ by more than ``tolerance``."""

    tolerance: float

    def __call__(self, a: Any, b: Any) -> bool:
        return gap(a, b) <= self.tolerance


def gap(a: Any, b: Any) -> float:
    """The largest difference of log-probabilities of two answers to the same request; infinite where a token differs
    though its rival was not as likely."""
    if not isinstance(a, Answered) or not isinstance(b, Answered):
        return 0.0 if a == b else inf
    return _first(a, b)[0]


def ranked(place: Place) -> list[float]:
    """The largest log-probabilities, in order."""
    return sorted(place.values(), reverse=True)[:TOP]


def _first(a: Answered, b: Answered) -> tuple[float, str]:
    """The largest difference, and where."""
    largest, text = 0.0, "no difference"
    for number, (one, two) in enumerate(zip(a.places, b.places, strict=False)):
        size = _apart(one, two)
        if size > largest:
            largest, text = size, f"largest difference {size:.3g} at token {number}"
        pair = _differing(a.tokens, b.tokens, number)
        if pair is not None:
            lead = max(_lead(one, *pair), _lead(two, *reversed(pair)))
            return (lead, f"token {number} differs: {pair[0]} and {pair[1]}") if lead > largest else (largest, text)
    if a.tokens is None or b.tokens is None:
        return (largest, text) if a.text == b.text else (inf, "the texts differ")
    if a.tokens != b.tokens:
        return inf, "the tokens differ"
    return (largest, text) if a.text == b.text else (inf, "the texts differ, the tokens do not")


def _differing(a: Sequence[Any] | None, b: Sequence[Any] | None, number: int) -> tuple[Any, Any] | None:
    if a is None or b is None or number >= min(len(a), len(b)) or a[number] == b[number]:
        return None
    return a[number], b[number]


def _apart(a: Place, b: Place) -> float:
    """The largest difference at one place: rank by rank, and token by token. A token that only one names is at most as
    likely in the other as the least likely there."""
    by_rank = [abs(x - y) for x, y in zip(ranked(a), ranked(b), strict=False)]
    by_token = [abs(a[token] - b[token]) for token in a.keys() & b.keys()]
    both = ((a, b), (b, a)) if a and b else ()
    beyond = [one[token] - min(two.values()) for one, two in both for token in one.keys() - two.keys()]
    return max((*by_rank, *by_token, *beyond), default=0.0)


def _lead(place: Place, chosen: Any, other: Any) -> float:
    """By how much, halved, the chosen token was likelier than the other one: both moved by so much are equal."""
    return (place[chosen] - place[other]) / 2 if chosen in place and other in place else inf
