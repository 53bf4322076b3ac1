"""Tests of the growth of the judge's work, counted in function calls, which do not depend on the clock or other
processes."""

from __future__ import annotations

import pkgutil
from dataclasses import replace
from itertools import product

import pytest

from cachesim.engines.base import Request
from cachesim.engines.registry import engine_of
from cachesim.engines.shared.conversation_points import ConversationPoints
from cachesim.events import Advanced, Gained, Log
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


@pytest.mark.parametrize(("make", "n", "profile", "server"), CASES, ids=named)
def test_a_planted_scan_of_everything_before_is_found(monkeypatch, make, n, profile, server):
    """The planted fault: at every step of the server, forty calls for each earlier step."""
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
    assert exponent(once, calls(make(2 * n), profile, **server)) > STEEPEST


def traffic(monkeypatch, n, profile):
    """Return the tokens in the restore points reported while an answer grows, and the rows that the judge inspects. A
    tuple or an array counts as a single call, however long, so calls do not show them."""
    flags = BLOCKS if profile == POOL else {}
    inspection = type(engine_of(profile).start(profile, "GGGA", flags, "provenance").inspection)
    emit, content = Log.emit, inspection.content
    tokens, rows = [], []

    def emitted(log, event):
        if isinstance(event, Gained | Advanced):
            tokens.append(len(event.point.tokens))
        emit(log, event)

    def looked(server, key, start=0):
        found = content(server, key, start)
        rows.extend(len(part.pos) for part in found.rows)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(Log, "emit", emitted)
        patch.setattr(inspection, "content", looked)
        calls(answer(n), profile, **flags)
    return sum(tokens), sum(rows)


@pytest.mark.parametrize("profile", [LLAMA, IK, POOL])
def test_tokens_and_rows_that_the_judge_sees_of_an_answer_grow_as_the_answer(monkeypatch, profile):
    """An answer of n tokens follows a prompt of 20. Nothing is reported or inspected more than three times."""
    once, twice = (traffic(monkeypatch, n, profile) for n in (200, 400))
    for few, many in zip(once, twice, strict=True):
        assert 200 <= few <= 3 * 220 and exponent(few, many) < STEEPEST


def report_all(changed):
    """The tracker reports all tokens of a slot whenever it has changed."""
    return lambda self, slot, cause, rule="", kept=0, grown=False: changed(self, slot, cause, rule, 0, grown)


def report_blocks_again(rows):
    """The tracker reports every block again whenever a block was added."""
    def reported(self, key, chain):
        rows(self, key, chain)
        for known, node in self.keys.items():
            self._report(node, known)

    return reported


def look_at_all(content):
    """The server returns all rows of a slot, whatever was requested."""
    return lambda self, key, start=0: content(self, key)


TRACKER = "blockpool.point_tracker.BlockPoints"          # of the engine's own module, which the plugin imports


PLANTED = [
    *product([LLAMA, IK], [(ConversationPoints, "changed", report_all), (None, "content", look_at_all)]),
    (POOL, (TRACKER, "rows", report_blocks_again)),
]


@pytest.mark.parametrize(("profile", "plant"), PLANTED, ids=lambda value: getattr(value[-1], "__name__", None))
def test_a_planted_look_at_all_that_was_there_before_is_found(monkeypatch, profile, plant):
    """``None`` stands for the class of the server's inspection."""
    owner, name, planted = plant
    server = engine_of(profile).start(profile, "GGGA", {}, "provenance")
    owner = pkgutil.resolve_name(owner) if isinstance(owner, str) else owner or type(server.inspection)
    monkeypatch.setattr(owner, name, planted(getattr(owner, name)))
    once, twice = (traffic(monkeypatch, n, profile) for n in (200, 400))
    assert max(exponent(few, many) for few, many in zip(once, twice, strict=True)) > STEEPEST
