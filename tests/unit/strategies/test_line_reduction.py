"""Numbers that Hypothesis draws for a line."""

from __future__ import annotations

from cachesim.strategies.line_reduction import NumberSource


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
