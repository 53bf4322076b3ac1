"""Exit codes: their values, the worst of several, and those of an interrupt."""

from __future__ import annotations

from itertools import permutations

import pytest

from cachesim.base import exits


def test_the_codes_are_those_of_the_documentation():
    assert (exits.HOLDS, exits.BROKEN, exits.BAD_INPUT, exits.UNDECIDED, exits.NOTHING) == (0, 1, 2, 3, 5)
    assert (exits.CRASH, exits.INTERRUPTED, exits.BROKEN_PIPE) == (70, 130, 141)


@pytest.mark.parametrize(("codes", "worst"), [
    ([], 0), ([0, 0], 0), ([0, 5], 5), ([5, 3], 3), ([3, 2, 5], 2), ([2, 1, 0], 1), ([1, 70, 2], 70), ([3], 3),
])  # fmt: skip
def test_the_worst_code_is_the_first_in_the_order_wherever_it_stands(codes, worst):
    assert {exits.worst(iter(order)) for order in permutations(codes)} == {worst}


def test_a_signal_that_ends_the_program_has_its_number():
    plain, hung_up, other = KeyboardInterrupt(), KeyboardInterrupt(), KeyboardInterrupt()
    hung_up.number, other.number = 1, 0
    assert [exits.interrupted(error) for error in (plain, hung_up, other)] == [130, 129, 128]
