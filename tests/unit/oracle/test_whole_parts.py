"""Recurrences over a whole sequence: the states that they keep, and their outputs from any mark on."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.model.grid import UNIT
from cachesim.model.weights import D, WeightDraw, draw_delta_net, draw_short_conv, draw_ssm
from cachesim.oracle.whole_parts import delta_net, short_conv, ssm

RECURRENCES = [(delta_net, draw_delta_net), (ssm, draw_ssm)]


def tokens(n):
    """Return the inputs of n tokens on the grid."""
    return np.rint(np.random.default_rng(3).normal(size=(n, D)) / 4 / UNIT)


@pytest.mark.parametrize(("evaluate", "draw"), RECURRENCES)
def test_the_states_at_the_marks_and_at_the_beginning_are_kept(evaluate, draw):
    """The state at a mark is that at the end of a sequence of so many tokens, also behind a prepared stretch."""
    u, weights = tokens(140), draw(WeightDraw(0, 1))
    kept = evaluate(u, weights, [1, 128, 129, 140]).h
    assert sorted(kept) == [0, 1, 128, 129, 140] and not kept[0].any()
    for mark in (1, 128, 129):
        alone = evaluate(u[:mark], weights, [mark]).h
        assert sorted(alone) == [0, mark] and np.array_equal(alone[mark], kept[mark]) and kept[mark].any()
    assert sorted(evaluate(u, weights, []).h) == [0]


@pytest.mark.parametrize(("evaluate", "draw"), [*RECURRENCES, (short_conv, draw_short_conv)])
def test_outputs_and_inputs_depend_on_no_later_token(evaluate, draw):
    u, weights = tokens(130), draw(WeightDraw(0, 1))
    whole, part = evaluate(u, weights, []), evaluate(u[:129], weights, [])
    assert np.array_equal(whole.y[:129], part.y) and np.array_equal(whole.inputs[:129], part.inputs)
    assert whole.y.any(axis=1).all()


def test_a_short_convolution_has_no_matrix():
    assert short_conv(tokens(5), draw_short_conv(WeightDraw(0, 1)), [2, 5]).h == {}
