"""Tests of drawn histories: reproducible, all different, and within their bounds."""

from __future__ import annotations

from cachesim.model.hash_mixing import Rng
from cachesim.tools.conformance.corpus import DrawBounds, _length, histories

ALL = frozenset({"cache", "cancel_prompt", "cancel_answer", "burst"})


def lines(examples, requests=6, prompt=256, near=(), abilities=ALL):
    return [history.line for history in histories(DrawBounds(requests, prompt, near, abilities), examples)]


def test_the_same_histories_on_every_machine():
    """They must not depend on a library whose next version draws others."""
    assert lines(4, 3, 20, (8,)) == ["A4/A[:1].B2/A[:1]>4", "A2>4/A[:1].B1>3{together}/A",
                                     "A1/B9{cancel_after=0}/C2", "A8/B1>3"]  # fmt: skip


def test_more_examples_are_the_same_ones_and_more():
    assert lines(60)[:20] == lines(20)


def test_all_are_different_and_as_many_as_were_asked_for():
    assert len(set(lines(200))) == 200


def test_where_there_are_few_it_ends():
    """A request of a single token has 24 lengths of its word and 4 of its answer."""
    assert 50 < len(lines(200, 1, 1, abilities=frozenset())) <= 96


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


def test_lengths_next_to_a_size_of_the_implementation_are_drawn_more_often():
    drawn = [_length(Rng(seed), (16, 100), 3) for seed in range(400)]
    beside = {length: drawn.count(length) for length in (15, 16, 17, 99, 100, 101)}
    assert min(beside.values()) >= 10 and min(drawn) == 3 and 14 in drawn
    assert {_length(Rng(seed), (2,), 3) for seed in range(100)} >= {3}
    assert all(_length(Rng(seed), (2,), 3) >= 3 for seed in range(100))
