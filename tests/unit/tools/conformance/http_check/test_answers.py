"""Tests of the comparison of answers with log-probabilities."""

from __future__ import annotations

from math import inf

from cachesim.tools.conformance.http_check.compare_answers import NearAnswers, ScoredAnswer, gap

PLACE = {1: -0.5, 2: -0.75, 3: -1.0, 4: -2.0}


def answered(*places, tokens=None, text=""):
    return ScoredAnswer(tokens, text, places)


def test_an_answer_is_as_far_from_another_as_their_likeliest_tokens():
    one = answered(PLACE, tokens=(1,))
    assert gap(one, one) == 0 and gap(one, answered({**PLACE, 3: -1.25}, tokens=(1,))) == 0.25
    assert NearAnswers(0.25)(one, answered({**PLACE, 3: -1.25}, tokens=(1,)))
    assert not NearAnswers(0.25)(one, answered({**PLACE, 3: -1.5}, tokens=(1,)))
    assert gap(one, "text") == inf and gap(None, None) == 0


def test_a_token_that_only_one_names_is_at_most_as_likely_as_the_least_likely():
    assert gap(answered(PLACE), answered({1: -0.5, 2: -0.75, 3: -1.0, 9: -2.0})) == 0
    assert gap(answered({1: -0.5, 2: -4.0}), answered({1: -0.5, 3: -4.5})) == 0.5


def test_a_token_that_differs_is_the_same_answer_only_where_both_were_about_as_likely():
    one, two = answered({1: -0.5, 2: -0.75}, tokens=(1,)), answered({1: -0.75, 2: -0.5}, tokens=(2,))
    assert gap(one, two) == 0.25
    assert gap(one, answered({7: -0.5, 2: -0.75}, tokens=(7,))) == inf


def test_what_follows_a_token_that_differs_is_not_compared():
    one = answered({1: -0.5, 2: -0.5}, {1: -1.0}, tokens=(1, 5))
    two = answered({1: -0.5, 2: -0.5}, {1: -9.0}, tokens=(2, 6))
    assert gap(one, two) == 0


def test_texts_decide_where_no_log_probability_does():
    assert gap(answered(text="a"), answered(text="b")) == inf and gap(answered(text="a"), answered(text="a")) == 0
    assert gap(answered(tokens=(1,), text="a"), answered(tokens=(1,), text="b")) == inf
    assert gap(answered(tokens=(1,)), answered(tokens=(1, 2))) == inf


def test_a_difference_names_its_place():
    one, two = answered(PLACE, PLACE, tokens=(1, 1)), answered(PLACE, {**PLACE, 4: -3.0}, tokens=(1, 1))
    assert one.differs_from(two).text == "largest difference 1 at token 1"
    assert one.differs_from(answered({1: -5.0, 9: -0.5}, tokens=(9,))).text == "token 0 differs: 1 and 9"
    assert one.differs_from(one).text == "no difference"


def test_the_four_likeliest_of_each_place_are_shown():
    assert answered({**PLACE, 5: -3.0}).tolist() == [-0.5, -0.75, -1.0, -2.0] and answered(PLACE, PLACE).shape == (8,)
