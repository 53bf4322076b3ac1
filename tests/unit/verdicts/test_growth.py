"""How does the work of the judge grow? Counted in calls of functions, which no clock and no other process changes."""

from __future__ import annotations

import sys
from dataclasses import replace
from math import log2

import pytest

from cachesim.engines.base import Request
from cachesim.scenarios.schema import Scenario, Step
from cachesim.verdicts.judged_run import run_judged

LLAMA, IK, MLX = "llama_cpp@b11549", "ik_llama@main", "mlx_lm@0.32.2"
STEEPEST = 1.2


def word(number, n):
    return tuple(range(number * 100_000 + 1, number * 100_000 + 1 + n))


def asked(prompt, n=2, number=0, mark=None):
    starts = () if mark is None else (mark,)
    return Request(prompt, n_predict=n, forced=word(5000 + number, n), user_starts=starts)


def different(n):
    """So many conversations, which share nothing."""
    return [asked(word(i, 60), number=i, mark=40) for i in range(n)]


def turns(n):
    """So many turns of four conversations, some of which go back."""
    found, talks = [], [word(i, 20) for i in range(4)]
    for i in range(n):
        talk = talks[i % 4] if i % 5 else talks[i % 4][:16]
        found.append(asked((*talk, *word(100 + i, 4)), number=i, mark=len(talk)))
        talks[i % 4] = (*found[-1].prompt, *word(5000 + i, 2))
    return found


def answer(n):
    """One answer of so many tokens."""
    return [asked(word(0, 20), n)]


def prompt(n):
    """One prompt of so many tokens."""
    return [asked(word(0, 100 * n))]


def calls(requests, profile, model="GGGA", **server):
    """Functions called while these requests are played and judged."""
    known = requests if profile == LLAMA else [replace(one, user_starts=()) for one in requests]
    steps = tuple(Step(one, None) for one in known)
    scenario = Scenario("growth", "", (), "", profile.partition("@")[0], model, (profile,), server, {}, steps)
    count = 0

    def told(frame, event, what):
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(told)
    try:
        run = run_judged(scenario, profile, "provenance")
    finally:
        sys.setprofile(before)
    assert not run.broken
    return count


# Not `different` with ik_llama: its rule compares the prompt with the text of every entry, token by token.
CASES = [
    (different, 24, LLAMA, {"checkpoint_min_step": 0}), (turns, 24, LLAMA, {"checkpoint_min_step": 0}),
    (answer, 100, LLAMA, {}), (prompt, 40, LLAMA, {}),
    (turns, 24, IK, {}), (answer, 100, IK, {}), (prompt, 40, IK, {}),
    (answer, 100, MLX, {}), (prompt, 40, MLX, {}),
]


@pytest.mark.parametrize(("make", "n", "profile", "server"), CASES, ids=lambda value: getattr(value, "__name__", None))
def test_twice_as_much_is_twice_the_work(make, n, profile, server):
    """The first run is for the caches of the interpreter and of the model."""
    calls(make(2), profile, **server)
    once, twice = (calls(make(many), profile, **server) for many in (n, 2 * n))
    assert log2(twice / once) < STEEPEST
