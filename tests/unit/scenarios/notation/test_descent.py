"""Tests of the descent over vectors: dependent numbers, and the budget of tries."""

from __future__ import annotations

import pytest

from cachesim.scenarios.notation.shrink import lowest

CASES = [
    ((1, 1, 1, 1), lambda row: row[2] == 1, (0, 0, 1, 0)),
    ((9, 40, 7), lambda row: row[1] >= 17, (0, 17, 0)),
    ((9, 40, 7), lambda row: True, (0, 0, 0)),
    ((30, 25, 8), lambda row: row[0] == row[1] + 5, (5, 0, 0)),
    ((30, 25, 8), lambda row: row[0] == row[1] + 5 and row[1] > 3, (9, 4, 0)),
    ((12, 12), lambda row: sum(row) >= 13, (1, 12)),
    ((1, 5, 1), lambda row: not row[0] or row[1] > 2, (0, 0, 0)),
    ((4, 4), lambda row: row == (4, 4), (4, 4)),
    ((3, 40), lambda row: row[1] - row[0] == 37 and row[0] >= 1, (1, 38)),
    ((), lambda row: True, ()),
    ((3, 5), lambda row: row in ((3, 5), (0, 0)), (0, 0)),
    ((9, 3, 5), lambda row: row in ((9, 3, 5), (9, 3, 0), (9, 2, 0)), (9, 2, 0)),
]


@pytest.mark.parametrize(("row", "holds", "small"), CASES, ids=[str(row) for row, _, _ in CASES])
def test_the_smallest_row(row, holds, small):
    assert lowest(row, holds, 1000) == small


def test_no_row_is_asked_for_twice_and_none_with_a_negative_number():
    asked = []

    def holds(row):
        asked.append(row)
        return sum(row) >= 20

    assert sum(lowest((50, 60, 70), holds, 1000)) == 20
    assert len(set(asked)) == len(asked)
    assert min(min(row) for row in asked) >= 0


@pytest.mark.parametrize("tries", [0, 1, 5])
def test_it_ends_after_so_many_tries(tries):
    asked = []

    def holds(row):
        asked.append(row)
        return sum(row) % 2 == 0

    assert holds(lowest((1000, 999, 1), holds, tries))
    assert len(asked) <= tries + 1


def test_two_numbers_are_lowered_by_the_smaller_one_first():
    asked = []

    def holds(row):
        asked.append(row)
        return row[1] - row[0] == 37

    assert lowest((3, 40), holds, 1000) == (0, 37)
    assert (0, 37) in asked and all(row[0] <= 3 for row in asked)
