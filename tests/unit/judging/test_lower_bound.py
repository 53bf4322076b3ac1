"""Tests that no server can evaluate less than the bound, and that a server without losses reaches it."""

from __future__ import annotations

from itertools import permutations

import pytest

from cachesim.base.tokens import common_prefix
from cachesim.judging.judged_run import run_judged
from cachesim.judging.lower_bound import EvaluatedPrefixes, EvaluatedRequest, evaluated_request, lower_bound
from cachesim.model.hash_mixing import Rng
from cachesim.scenarios.corpus import corpus_files
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.load import load

B11549 = "llama_cpp@b11549"


def bound_of(run):
    """The bound of a run's requests."""
    pairs = zip(run.requests, run.scenario.steps, strict=True)
    return lower_bound(evaluated_request(one.request, one.answer, step.together) for one, step in pairs)


def played(line, model="AA", profile=B11549, **server):
    """Return the tokens that each request evaluated, and the bound."""
    run = run_judged(from_line(line, model=model, profiles=(profile,), server=server), profile, "provenance")
    return [one.answer.prompt_n for one in run.requests], bound_of(run)


@pytest.mark.parametrize(("line", "least"), [
    ("A10", (10,)), ("A10/A", (10, 1)), ("S10.A5/S.B5", (15, 5)),
    ("A10/B10/A.C5/B", (10, 10, 5, 1)), ("S10.A5/S", (15, 1)),
])  # fmt: skip
def test_one_after_the_other_attention_reaches_it(line, least):
    found, bound = played(line)
    assert bound.each == least
    assert bound.total == sum(least) == sum(found)


def test_a_recurrent_model_stays_above_it():
    found, bound = played("S100.A30/S.B40", "GGGA", parallel=1)
    assert (found, bound.each) == ([130, 140], (130, 40))


def test_what_is_no_answer_bounds_nothing_and_is_there_for_the_next():
    _, bound = played("A300/A[:100]/A[:30].B20>5{cancel_after=1}/A[:30].B.C20", ctx_size=256)
    assert bound.each == (0, 1, 0, 20)


def test_the_last_token_of_an_answer_may_have_been_evaluated():
    """It was not, but a server that drafts evaluates it."""
    found, bound = played("A10>a5/A.a.B5")
    assert (found, bound.each) == ([10, 6], (10, 5))


def test_seen_finds_the_best_of_its_neighbours():
    rng = Rng(5)
    lists = [tuple(rng.below(3) for _ in range(rng.between(1, 6))) for _ in range(200)]
    seen = EvaluatedPrefixes(lists[:50])
    for one in lists[50:]:
        assert seen.longest(one) == max(common_prefix(one, other) for other in lists[:50])
    assert EvaluatedPrefixes().longest((1, 2)) == 0


def test_no_order_of_requests_sent_together_is_below_it():
    """Every order, each request after the previous, on a server that loses nothing."""
    rng = Rng(7)
    for _ in range(300):
        group = [drawn(rng, together=i > 0) for i in range(rng.between(2, 4))]
        bound = lower_bound(group)
        best = min(served(order) for order in permutations(group))
        assert sum(bound.each) <= bound.total <= best, group
    a = EvaluatedRequest((1, 2, 3), ((1, 2, 3),))
    assert lower_bound([a, a._replace(is_parallel=True)]).total == 4


def drawn(rng, together):
    """A request over two tokens."""
    prompt = tuple(rng.below(2) for _ in range(rng.between(1, 5)))
    return EvaluatedRequest(prompt, (prompt + tuple(rng.below(2) for _ in range(rng.below(4))),), together)


def served(order):
    """Tokens evaluated by a server that keeps everything."""
    seen, total = EvaluatedPrefixes(), 0
    for one in order:
        total += max(1, len(one.prompt) - seen.longest(one.prompt))
        seen.add(one.after[0])
    return total


@pytest.mark.long
def test_no_right_run_of_the_corpus_is_below_it():
    for number, file in enumerate(corpus_files().values()):
        scenario = load(file)
        if number % 5 or not scenario.profiles or scenario.server.get("cache_reuse"):
            continue                        # --cache-reuse moves blocks, and the bound counts prefixes
        run = run_judged(scenario, scenario.profiles[-1], "provenance", with_ledger=False)
        if not run.broken:
            bound, found = bound_of(run), [one.answer.prompt_n for one in run.requests]
            assert sum(found) >= bound.total >= sum(bound.each), scenario.id
            assert all(map(int.__ge__, found, bound.each)), scenario.id
