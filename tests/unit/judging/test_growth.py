"""How does the work of the judge grow? Counted in calls of functions, which no clock and no other process changes."""

from __future__ import annotations

import sys
from dataclasses import replace
from math import log2

import pytest
from cachesim.engines.shared.held_tokens import HeldTokens, Moment
from cachesim.engines.shared.seen_rows import SeenRows

from cachesim.engines.base import Request
from cachesim.engines.registry import engine_of
from cachesim.engines.shared import shelves
from cachesim.judging.judged_run import run_judged
from cachesim.scenarios.schema import Scenario, Step

pytestmark = pytest.mark.long

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


def elements(monkeypatch, requests, profile):
    """Tokens that are copied, rows that are compared, when the judge looks: an array is one call, however long."""
    plain, alike, count = Moment.__getitem__, SeenRows.alike, 0

    def copied(self, at):
        nonlocal count
        found = plain(self, at)
        count += len(found)
        return found

    def compared(self, n, rows, known=0):
        nonlocal count
        count += max(0, min(n, self.n) - known)
        return alike(self, n, rows, known)

    with monkeypatch.context() as patch:
        patch.setattr(Moment, "__getitem__", copied)
        patch.setattr(SeenRows, "alike", compared)
        calls(requests, profile)
    return count


@pytest.mark.parametrize("profile", [LLAMA, IK])
def test_what_is_copied_and_compared_of_an_answer_grows_as_the_answer(monkeypatch, profile):
    once, twice = (elements(monkeypatch, answer(many), profile) for many in (200, 400))
    assert once > 0 and log2(twice / once) < STEEPEST


def copying(look):
    """A look that copies all tokens at once."""
    def looked(self, reader):
        moment = look(self, reader)
        assert len(moment[:]) == len(self)
        return moment

    return looked


@pytest.mark.parametrize("profile", [LLAMA, IK])
@pytest.mark.parametrize(("of", "name", "planted"), [
    (HeldTokens, "look", copying), (shelves, "still", lambda still: lambda written, first, n: 0),
], ids=["every token is copied", "every row is compared"])  # fmt: skip
def test_a_look_at_all_that_was_there_before_is_found(monkeypatch, profile, of, name, planted):
    monkeypatch.setattr(of, name, planted(getattr(of, name)))
    once, twice = (elements(monkeypatch, answer(many), profile) for many in (200, 400))
    assert log2(twice / once) > STEEPEST


# Not `different` with ik_llama: its rule compares the prompt with the text of every entry, token by token.
# A prompt comes in micro-batches of 16 tokens, so that there is something to be done for each.
STEPS = {LLAMA: {"batch_size": 16, "ubatch_size": 16}, IK: {"batch_size": 16, "ubatch_size": 16},
         MLX: {"prefill_step_size": 16}}  # fmt: skip
CASES = [
    (different, 24, LLAMA, {"checkpoint_min_step": 0}), (turns, 24, LLAMA, {"checkpoint_min_step": 0}),
    (turns, 24, IK, {}), (turns, 24, MLX, {}), (different, 24, MLX, {}),
    *((answer, 100, profile, {}) for profile in STEPS), *((prompt, 12, *one) for one in STEPS.items()),
]


def named(value):
    return getattr(value, "__name__", None)


@pytest.mark.parametrize(("make", "n", "profile", "server"), CASES, ids=named)
def test_twice_as_much_is_twice_the_work(make, n, profile, server):
    """The first run is for the caches of the interpreter and of the model."""
    calls(make(2), profile, **server)
    once, twice = (calls(make(many), profile, **server) for many in (n, 2 * n))
    assert log2(twice / once) < STEEPEST


@pytest.mark.parametrize(("make", "n", "profile", "server"), CASES, ids=named)
def test_a_planted_scan_of_everything_before_is_found(monkeypatch, make, n, profile, server):
    """Whenever the server goes on, forty things are asked of each time that it did before."""
    server_class = type(engine_of(profile).start(profile, "GGGA", server, "provenance"))
    update, before = server_class.update, []

    def scanning(self):
        for _ in range(40 * len(before)):
            abs(0)
        before.append(self)
        update(self)

    monkeypatch.setattr(server_class, "update", scanning)
    before.clear()
    once = calls(make(n), profile, **server)
    before.clear()
    assert log2(calls(make(2 * n), profile, **server) / once) > STEEPEST
