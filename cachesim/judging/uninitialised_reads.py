"""A run read a number that nobody wrote: is its outcome the same whatever that number was?

A server can do one thing with such a number: ask whether it holds more tokens. So 0 and every count that was asked
about are all the values that make a difference; the scenario is run with each of them. Where the outcome of a request
is not the same in all these cases, it is undecided.

outcome  what a client can tell: slot, tokens kept and evaluated, status, stored conversations, right or wrong
"""

from __future__ import annotations

from typing import Any, Callable, Mapping, Protocol, Sequence, TypeVar

from cachesim.events import Compared, Log
from cachesim.judging.expect import numbers
from cachesim.judging.fault_kinds import Kind
from cachesim.judging.request_judgement import Judgement
from cachesim.judging.verdict import HOLDS, undecided

MOST = 64                # cases; who needs more of them stays undecided from the first question on
Values = Mapping[tuple[int, int], int]


class JudgedCase(Protocol):
    """A judged run."""

    log: Log
    requests: list[Judgement]


R = TypeVar("R", bound=JudgedCase)


def every_case(play: Callable[[Values], R]) -> list[R]:
    """The run with every number 0, then with every other value that makes a difference."""
    todo: list[Values] = [{}]
    seen = [todo[0]]
    found: list[R] = []
    while todo and len(found) <= MOST:
        values = todo.pop()
        found.append(play(values))
        for asked in (event for event in found[-1].log.events if isinstance(event, Compared)):
            other = {**values, asked.unset: asked.held}
            if other not in seen:
                seen.append(other)
                todo.append(other)
    return found


def settle(cases: Sequence[JudgedCase]) -> list[int]:
    """Mark the requests of the first case whose outcome is another in another case; returns their numbers. An answer
    that is wrong in every case stays wrong."""
    first, out = cases[0].requests, []
    for i, one in enumerate(first):
        outcomes = [outcome(case.requests[i]) for case in cases]
        cut_off = len(cases) > MOST and i > _first_question(cases)
        wrong = all(case.requests[i].judged.equal_cold is False for case in cases)
        if wrong or (not cut_off and all(found == outcomes[0] for found in outcomes)):
            continue
        one.judged.answer, one.judged.state = undecided(Kind.UNWRITTEN, cases=_told(outcomes)), HOLDS
        one.judged.refused = False
        out.append(i)
    return out


def outcome(one: Judgement) -> dict[str, Any]:
    """What a client can tell of a step."""
    return {**numbers(one), "right": one.judged.equal_cold, "died": one.answer.died}


def _first_question(cases: Sequence[JudgedCase]) -> int:
    """The earliest step in which such a number was read."""
    return min(
        number for case in cases for number in range(len(case.log.marks))
        if any(isinstance(event, Compared) for event in case.log.of(number))
    )  # fmt: skip


def _told(outcomes: Sequence[Mapping[str, Any]]) -> str:
    """What differs: ``cache_n 95 or 130``."""
    parts = []
    for name in outcomes[0]:
        values = list(dict.fromkeys(str(one[name]) for one in outcomes))
        if len(values) > 1:
            parts.append(f"{name} {' or '.join(values)}")
    return ", ".join(parts) or "too many cases"
