"""Tests of the growth of the judge's work, counted in function calls, which do not depend on the clock or other
processes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cachesim.engines.base import Request
from cachesim.judging.judged_run import run_judged
from cachesim.scenarios.schema import Scenario, Step
from tests.fourth import conftest as fourth
from tests.unit.judging.call_count import STEEPEST, counted_calls, exponent

block_pool = fourth.engine
pytestmark = [pytest.mark.long, pytest.mark.usefixtures("block_pool")]

LLAMA, IK, MLX, POOL = "llama_cpp@b11549", "ik_llama@main", "mlx_lm@0.32.2", "blockpool@0.33.0"


def word(number, n):
    return tuple(range(number * 100_000 + 1, number * 100_000 + 1 + n))


def asked(prompt, n=2, number=0, mark=None):
    starts = () if mark is None else (mark,)
    return Request(prompt, n_predict=n, forced=word(5000 + number, n), user_starts=starts)


def different(n):
    """Return so many conversations that share nothing."""
    return [asked(word(i, 60), number=i, mark=40) for i in range(n)]


def turns(n):
    """Return so many turns of four conversations, some of which go back."""
    found, talks = [], [word(i, 20) for i in range(4)]
    for i in range(n):
        talk = talks[i % 4] if i % 5 else talks[i % 4][:16]
        found.append(asked((*talk, *word(100 + i, 4)), number=i, mark=len(talk)))
        talks[i % 4] = (*found[-1].prompt, *word(5000 + i, 2))
    return found


def answer(n):
    """Return a request with an answer of so many tokens."""
    return [asked(word(0, 20), n)]


def prompt(n):
    """Return a request with a prompt of so many tokens."""
    return [asked(word(0, 100 * n))]


def calls(requests, profile, model="GGGA", **server):
    """Return the number of functions called while these requests are run and judged."""
    known = requests if profile == LLAMA else [replace(one, user_starts=()) for one in requests]
    steps = tuple(Step(one, None) for one in known)
    scenario = Scenario("growth", "", (), "", profile.partition("@")[0], model, (profile,), server, {}, steps)
    with counted_calls() as counted:
        run = run_judged(scenario, profile, "provenance")
    assert not run.broken
    return counted.number


# Not `different` with ik_llama: its rule compares the prompt with the text of every entry, token by token.
# A prompt comes in micro-batches of 16 tokens, so that there is something to be done for each.
BLOCKS = {"block_size": 4, "num_gpu_blocks": 4000}
STEPS = {LLAMA: {"batch_size": 16, "ubatch_size": 16}, IK: {"batch_size": 16, "ubatch_size": 16},
         MLX: {"prefill_step_size": 16}, POOL: {**BLOCKS, "max_num_batched_tokens": 16}}  # fmt: skip
CASES = [
    (different, 24, LLAMA, {"checkpoint_min_step": 0}), (turns, 24, LLAMA, {"checkpoint_min_step": 0}),
    (turns, 24, IK, {}), (turns, 24, MLX, {}), (different, 24, MLX, {}),
    (turns, 24, POOL, BLOCKS), (different, 24, POOL, BLOCKS),
    *((answer, 100, profile, BLOCKS if profile == POOL else {}) for profile in STEPS),
    *((prompt, 12, *one) for one in STEPS.items()),
]


def named(value):
    return getattr(value, "__name__", None)


@pytest.mark.parametrize(("make", "n", "profile", "server"), CASES, ids=named)
def test_twice_as_much_is_twice_the_work(make, n, profile, server):
    """The first run is for the caches of the interpreter and of the model."""
    calls(make(2), profile, **server)
    once, twice = (calls(make(many), profile, **server) for many in (n, 2 * n))
    assert exponent(once, twice) < STEEPEST
