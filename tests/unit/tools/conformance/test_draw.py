"""Tests of drawn histories: reproducible, all different, and within their bounds."""

from __future__ import annotations

import pytest

from cachesim.tools.conformance.corpus import DrawBounds, histories

ALL = frozenset({"cache", "cancel_prompt", "cancel_answer", "burst"})


def lines(examples, requests=6, prompt=256, near=(), abilities=ALL):
    return [history.line for history in histories(DrawBounds(requests, prompt, near, abilities), examples)]


def test_the_same_histories_on_every_machine():
    """They must not depend on a library whose next version draws others."""
    assert lines(4, 3, 20, (8,)) == ["A4/A[:1].B2/A[:1]>4", "A2>4/A[:1].B1>3{together}/A",
                                     "A1/B9{cancel_after=0}/C2", "A8/B1>3"]  # fmt: skip
    assert lines(14, 6, 64, (16,)) == [
        "A4/A[:1].B2/A[:1]>4/D4>2{together}", "A2>4/A[:1].B1>3{together}/A>c1/A.c.D1",
        "A1/B17{cancel_after=0}/C2/A{cancel_after=0}/C[:1]", "A16/B1>3",
        "A11/A[:1].B21>b3!/A[:1].B>4!/A[:1].B.b.D16>3{together}", "A17>2/B3>4", "A15>a1/A.a.B17!",
        "A3>4/B1!/B>3/B.D16{cancel_after=0}", "A16", "A1>2/A>2{together}/A.C17>3/A/E3>2/F2>4", "A15/B16>4!",
        "A23>4/A[:11].B4>2/A[:11].C18", "A5!/A>b1/A.b.C1/A.D16!/A.b.C.E15", "A16>2/B15>2{together}/A[:1].C17>3"]


def test_more_examples_are_the_same_ones_and_more():
    assert lines(60)[:20] == lines(20)


def test_all_are_different_and_as_many_as_were_asked_for():
    assert len(set(lines(200))) == 200


def test_where_there_are_few_it_ends():
    """A request of a single token has 24 lengths of its word and 4 of its answer."""
    assert 50 < len(lines(97, 1, 1, abilities=frozenset())) <= 96


def test_only_what_can_be_done_is_drawn():
    plain = "".join(lines(200, abilities=frozenset()))
    assert "!" not in plain and "{" not in plain
    every = "".join(lines(200))
    assert "!" in every and "cancel_after" in every and "together" in every


def test_requests_and_prompts_stay_within_their_limits():
    drawn = list(histories(DrawBounds(4, 9, (16,), ALL), 200))
    assert {len(history.hang_ups) for history in drawn} == {1, 2, 3, 4}
    assert max(len(step.request.prompt) for history in drawn for step in history.scenario.steps) == 9


def test_lengths_crowd_around_the_sizes():
    beside = [history for history in histories(DrawBounds(6, 256, (100,), ALL), 100)
              if any(len(step.request.prompt) in (99, 100, 101) for step in history.scenario.steps)]  # fmt: skip
    assert len(beside) > 30


@pytest.mark.parametrize(("abilities", "least", "most"), [
    ({"cancel_prompt"}, 0, 0), ({"cancel_answer"}, 1, 3), ({"cancel_prompt", "cancel_answer"}, 0, 3),
])  # fmt: skip
def test_a_client_hangs_up_only_where_the_implementation_allows_it(abilities, least, most):
    """It hangs up before the end of the answer, which has at most 4 tokens."""
    drawn = histories(DrawBounds(6, 256, (), frozenset(abilities)), 150)
    ends = [(after, step.request.n_predict) for history in drawn
            for after, step in zip(history.hang_ups, history.scenario.steps, strict=True) if after is not None]
    assert {after for after, _ in ends} == {*range(least, most + 1)} and all(after < n for after, n in ends)
