"""Rotations by position: one position as in company, whole turns, and pairs rotated to the grid."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.model.rope import STEPS, Rotation, rotate, turns


@pytest.mark.parametrize("position", [-300, -257, -256, -255, -1, 0, 1, 255, 256, 257, 511, 512, 1000, 10**6])
def test_a_position_alone_is_rotated_as_in_company(position: int) -> None:
    alone, company = turns(np.array([position])), turns(np.arange(position - 1, position + 2))
    assert alone.cos.shape == alone.sin.shape == (1, 1, 8)
    assert alone.cos.tolist() == company.cos[1:2].tolist() and alone.sin.tolist() == company.sin[1:2].tolist()


def test_phases_are_those_of_the_base_10000() -> None:
    """2**32 * 10000**(-i/8) / (2 pi), rounded; every second one is a power of ten."""
    assert STEPS.tolist() == [round(2**32 / (2 * np.pi) * 10000 ** (-i / 8)) for i in range(8)]


def test_no_position_and_whole_turns_are_no_rotation() -> None:
    none = turns(np.array([0, 0]))
    one = none.cos[0, 0, 0]
    assert none.cos.tolist() == np.full((2, 1, 8), one).tolist() and not none.sin.any()
    whole = np.array([0, 2**32, -(2**32)])                   # a whole number of turns of every pair
    assert turns(whole).cos.tolist() == np.full((3, 1, 8), one).tolist() and not turns(whole).sin.any()


def test_a_quarter_of_a_turn_exchanges_both_numbers_of_each_pair() -> None:
    """Pair i has the numbers i and i + 8; every head is rotated alike, every row by its own turn."""
    x = np.arange(64.0).reshape(2, 2, 16)
    ones, zeros = np.ones((1, 1, 8)), np.zeros((1, 1, 8))
    quarter = Rotation(np.concatenate((zeros, ones)), np.concatenate((ones, zeros)))
    found = rotate(x, quarter, 0.25)
    first = np.rint(np.concatenate((-x[0, :, 8:], x[0, :, :8]), axis=1) / 4)
    assert found[0].tolist() == first.tolist() and found[1].tolist() == np.rint(x[1] / 4).tolist()


def test_turns_of_many_positions_do_not_depend_on_their_order() -> None:
    positions = np.array([5, -9, 300, 5])
    found = turns(positions)
    for at, position in enumerate(positions):
        alone = turns(np.array([position]))
        assert found.cos[at].tolist() == alone.cos[0].tolist() and found.sin[at].tolist() == alone.sin[0].tolist()
