"""Is a run as its file expects? Compares numbers, request by request."""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

from cachesim.judging.request_judgement import Judgement
from cachesim.scenarios.schema import Expect


class Mismatch(NamedTuple):
    """One number that is not as expected. ``request`` -1 = a list of requests as a whole (broken, died, undecided)."""

    request: int
    what: str
    expected: Any
    got: Any


def compare_expected(
    expected: Expect, requests: Sequence[Judgement], broken: list[int], unsettled: Sequence[int] = ()
) -> list[Mismatch]:
    """Everything in a run that its file does not allow."""
    out = compare_numbers(expected, requests)
    died = [i for i, one in enumerate(requests) if one.answer.died]
    lists = (
        ("broken", expected.broken, broken), ("died", expected.died, died),
        ("undecided", expected.undecided, list(unsettled)),
    )
    for what, wanted, found in lists:
        if wanted is not None and list(wanted) != found:
            out.append(Mismatch(-1, what, list(wanted), found))
    return out


def compare_numbers(expected: Expect, requests: Sequence[Judgement]) -> list[Mismatch]:
    """Every number of a step that its file does not allow."""
    out = []
    for i, one in enumerate(requests):
        for what, got in numbers(one).items():
            allowed = getattr(expected, what)
            if allowed is not None and got not in allowed[i]:
                out.append(Mismatch(i, what, allowed[i][0] if len(allowed[i]) == 1 else list(allowed[i]), got))
        if expected.checkpoints is not None and list(expected.checkpoints[i]) != one.checkpoints:
            out.append(Mismatch(i, "checkpoints", list(expected.checkpoints[i]), one.checkpoints))
    return out


def numbers(one: Judgement) -> dict[str, int]:
    """What a file may expect of one step, by the names it has there."""
    answer = one.answer
    return {
        "cache_n": answer.cache_n,
        "prompt_n": answer.prompt_n,
        "slots": max(0, answer.id_slot),
        "status": answer.status,
        "entries": one.entries,
    }
