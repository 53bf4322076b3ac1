"""Is a run as its file expects? Compares numbers, request by request."""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

from cachesim.judge.judgement import Judgement
from cachesim.scenarios.schema import Expect


class Mismatch(NamedTuple):
    """One number that is not as expected. ``request`` -1 = the list of broken requests as a whole."""

    request: int
    what: str
    expected: Any
    got: Any


def compare_expected(expected: Expect, requests: Sequence[Judgement], broken: list[int]) -> list[Mismatch]:
    """Every number of a run that its file does not allow."""
    out = []
    for i, one in enumerate(requests):
        for what, allowed in (("cache_n", expected.cache_n), ("prompt_n", expected.prompt_n)):
            got = getattr(one.answer, what)
            if allowed is not None and got not in allowed[i]:
                out.append(Mismatch(i, what, allowed[i][0] if len(allowed[i]) == 1 else list(allowed[i]), got))
        if expected.checkpoints is not None and list(expected.checkpoints[i]) != one.checkpoints:
            out.append(Mismatch(i, "checkpoints", list(expected.checkpoints[i]), one.checkpoints))
    if list(expected.broken) != broken:
        out.append(Mismatch(-1, "broken", list(expected.broken), broken))
    return out


def measured(requests: Sequence[Judgement], broken: list[int]) -> dict[str, list[Any]]:
    """What ``run --complete`` writes into a file."""
    return {
        "cache_n": [one.answer.cache_n for one in requests],
        "prompt_n": [one.answer.prompt_n for one in requests],
        "broken": broken,
        "checkpoints": [one.checkpoints for one in requests],
    }
