"""Positions as sets: those that a move loses, and those that a change brings back."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.engines.llama_cpp.memory.position_sets import PositionSets


@pytest.mark.parametrize(("held", "moved", "delta", "lost"), [
    ([0, 1, 2, 3], [1, 2, 3], 1, {2, 3}),        # 1 takes the place of 2, which then leaves it
    ([0, 1, 2, 3], [3, 2, 1], 1, set()), ([0, 2, 3], [2, 3], -1, set()), ([0, 2, 3], [3, 2], -1, {2}),
    ([0, 1, 2, 3], [2, 3], 5, set()), ([0, 1, 2], [], 1, set()), ([0, 1, 2, 3, 4], [1, 2, 3, 4], 2, {3, 4}),
])  # fmt: skip
def test_a_position_that_the_next_cell_leaves_is_lost(held, moved, delta, lost):
    sets = PositionSets(2)
    sets.move(1, held, moved, delta)
    assert sets.lost == [set(), lost]


def test_a_lost_position_stays_lost_until_a_cell_with_it_changes():
    sets = PositionSets(1)
    now = np.array([0, 2, 3, 4])
    assert sets.known_positions(0, now).tolist() == [0, 2, 3, 4]
    sets.move(0, [0, 1, 2, 3], [1, 2, 3], 1)
    assert sets.known_positions(0, now).tolist() == [0, 4]
    sets.move(0, [0, 2, 3, 4], [4], 1)
    assert sets.lost == [{2, 3}]
    sets.change(0, [3, 9])
    assert sets.lost == [{2}] and sets.known_positions(0, now).tolist() == [0, 3, 4]
    sets.move(0, [0, 2, 3, 5], [2, 3, 5], -1)
    assert sets.lost == [set()]
