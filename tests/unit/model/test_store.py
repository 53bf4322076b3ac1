"""Comparison of recurrent states: bit by bit, where both sides have the part."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.model.store import LayerState, index_of, layer_of, same_state


def state(digest=7, conv=(1, 2), conv_x=(1.0, 2.0), h=(3.0,)):
    parts = (None if part is None else np.array(part) for part in (conv_x, h))
    return LayerState(np.array(conv, np.uint64), digest, *parts)


@pytest.mark.parametrize("a, b, same", [
    (state(), state(), True), (state(), state(digest=8), False), (state(), state(conv=(1, 3)), False),
    (state(), state(conv_x=(1.0, 2.5)), False), (state(), state(h=(3.5,)), False),
    (state(), state(conv_x=None, h=None), True), (state(h=None), state(conv_x=(0.0, 2.0)), False),
    (None, None, True), (None, state(), False), (state(), None, False),
    (None, state(0, (0, 0), (0.0, 0.0), (0.0,)), True), (None, state(0, (0, 0), None, None), True),
    (None, state(0, (0, 1), None, None), False),
])  # fmt: skip
def test_states_are_equal_in_every_part_that_both_have(a, b, same):
    assert same_state(a, b) is same


@pytest.mark.parametrize("layer", [0, 1, 7])
def test_a_layer_has_two_numbers(layer):
    assert index_of(layer) == -layer - 1 and index_of(index_of(layer)) == layer
    assert layer_of(layer) == layer_of(index_of(layer)) == layer
