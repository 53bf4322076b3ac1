"""Numbers that Hypothesis draws for a line."""

from __future__ import annotations

from collections import Counter

import pytest

from cachesim.scenarios.notation.parse import parse
from cachesim.scenarios.notation.shrink_vector import ShrinkCase
from cachesim.strategies import line_reduction
from cachesim.strategies.line_reduction import (
    NumberSource,
    canonical_line,
    draw_reduced,
)


class Drawn:
    """Choices in order; the last bounds and weights are kept."""

    def __init__(self, *numbers):
        self.numbers, self.asked = [*numbers], []

    def draw_integer(self, low, high, weights=None):
        self.asked.append((low, high, weights))
        return self.numbers.pop(0)


def test_an_integer_has_three_bytes_the_first_one_highest():
    assert NumberSource(Drawn(1, 2, 3)).integer() == 0x010203
    assert NumberSource(drawn := Drawn(255, 255, 255)).integer() == 0xFFFFFF
    assert drawn.asked == [(0, 255, None)] * 3


def test_elements_that_are_not_there_cost_no_choice():
    drawn = Drawn(1, 0)
    assert NumberSource(drawn).keeps((1, 0, 1)) == (1, 0, 0)
    assert drawn.asked == [(0, 1, {1: 0.99})] * 2
    drawn = Drawn(7, 3)
    assert NumberSource(drawn).lengths((7, 0, 9)) == (7, 0, 3)
    assert drawn.asked == [(0, 7, {7: 0.99}), (0, 9, {9: 0.99})]
    assert NumberSource(Drawn(1, 0, 1)).names(("a", "b", "c")) == {"a", "c"}


class Numbers:
    """Source that keeps everything except the elements with these numbers, in the order of the questions."""

    def __init__(self, **gone):
        self.gone, self.asked = gone, Counter()

    def keeps(self, weights):
        self.asked["keeps"] += 1
        return tuple(weight * (i not in self.gone.get(f"keeps{self.asked['keeps']}", ()))
                     for i, weight in enumerate(weights))  # fmt: skip

    def lengths(self, most):
        return most


@pytest.mark.parametrize("gone, line", [
    ({}, "A4.B5/C6>3"), ({"keeps1": [1]}, "A4.B5"), ({"keeps1": [0]}, "C6>3"), ({"keeps2": [0]}, "B5/C6>3")])
def test_a_vector_reduces_a_line(gone, line):
    assert draw_reduced(Numbers(**gone), ShrinkCase(parse("A4.B5/C6>3"))).line == canonical(line, "A4.B5/C6>3")


def test_words_are_split_at_their_slices_before_a_line_is_reduced():
    """Otherwise a part of a word could not be dropped alone."""
    line, words = parse("A9/A[:4].B2"), parse("A_A4.A_B5/A_A.B2")
    assert draw_reduced(Numbers(), ShrinkCase(line)).line == words
    assert draw_reduced(Numbers(keeps2=[0]), ShrinkCase(line)).line.steps == parse("A_B5/A_A4.B2").steps


def canonical(line, of):
    return parse(line)._replace(words=parse(of).words) if line == of else parse(line)


def test_an_empty_line_is_the_least_and_names_may_be_fixed():
    line = parse("Q4/Q.R5")
    assert canonical_line(line) == parse("A4/A.B5") and canonical_line(line, fixed=True) == line
    assert canonical_line(line._replace(steps=())) == line_reduction.LEAST
