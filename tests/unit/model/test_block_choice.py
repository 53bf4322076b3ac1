"""Tests of attention to blocks of 16 positions: each head chooses, and the token's own block is always read."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.model.block_choice import best_blocks, block_sums
from cachesim.model.chosen_rows import SeenRows

POSITIONS = np.array([14, 15, 16, 17, 40, 64, 65])              # blocks 0, 0, 1, 1, 2, 4, 4
DIGEST = np.array([1, 10, 100, 1000, 10_000, 100_000, 1_000_000], np.uint64)


def seen(lo, hi):
    return SeenRows(np.array(lo), np.array(hi), POSITIONS)


@pytest.mark.parametrize(("count", "sums"), [
    (0, [1, 111, 1_111_100]), (1, [0, 111, 1_111_100]), (2, [0, 0, 1_111_100]), (3, [0, 0, 1_111_100]),
    (4, [0, 0, 0]),
])  # fmt: skip
def test_rows_count_if_they_span_more_blocks_than_may_be_chosen(count, sums):
    """The last token sees rows of blocks 1, 2 and 4: a span of 4 blocks."""
    assert block_sums(DIGEST, seen([0, 0, 2], [1, 3, 7]), count).tolist() == sums


def chosen(count, lo, hi, *scores):
    """Rows that a token reads in each head, given the scores of the rows in each head."""
    q, k = np.zeros((1, len(scores), 16)), np.zeros((7, 1, 16))
    for head, row in enumerate(scores):
        q[0, head, head] = 1.0
        k[:, 0, head] = row
    return [np.flatnonzero(one).tolist() for one in best_blocks(q, k, seen([lo], [hi]), count)[0]]


def test_each_head_reads_its_own_block_and_the_best_others():
    high_first, high_third = [0, 9, 1, 1, 2, 0, 0], [0, 0, 1, 1, 2, -5, -5]
    assert chosen(2, 0, 7, high_first, high_third) == [[0, 1, 5, 6], [4, 5, 6]]
    assert chosen(1, 0, 7, high_first, high_third) == [[5, 6], [5, 6]]
    assert chosen(9, 0, 7, high_first, high_third) == [[0, 1, 2, 3, 4, 5, 6]] * 2


def test_only_visible_rows_have_scores_and_are_read():
    high_first = [0, 9, 1, 1, 2, 0, 0]
    assert chosen(2, 2, 6, high_first) == [[4, 5]]                # rows 0, 1 and 6 are hidden
    assert chosen(2, 1, 5, high_first) == [[1, 4]]                # row 4 is the token's own block
    assert chosen(3, 1, 5, [-9] * 7) == [[1, 2, 3, 4]]


def test_the_lower_of_two_equal_blocks_is_read():
    assert chosen(2, 0, 7, [3, 1, 3, 3, 3, 0, 0]) == [[0, 1, 5, 6]]
    assert chosen(2, 0, 7, [0.4, 0, 0.6, 0, 0, 0, 0]) == [[2, 3, 5, 6]]          # rounded: 0 and 1
