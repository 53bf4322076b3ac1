"""Tests of attention to pools of four rows: complete pools are chosen, later rows are always read."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.model.chosen_rows import SeenRows
from cachesim.model.hash_mixing import mix_int
from cachesim.model.pooled_index import best_pools, pool_sums

DIGEST = np.array([1, 2, 3, 4, 10, 20, 30, 40, 7], np.uint64)
MIXED = [mix_int(10), mix_int(100)]


def seen(*hi, n=9):
    return SeenRows(np.zeros(len(hi), np.int64), np.array(hi), np.arange(n))


@pytest.mark.parametrize(("count", "sums"), [
    (0, [0, MIXED[0], MIXED[0], sum(MIXED) % 2**64]), (4, [0, 0, 0, sum(MIXED) % 2**64]), (8, [0, 0, 0, 0]),
])  # fmt: skip
def test_the_complete_pools_count_if_there_are_more_than_may_be_chosen(count, sums):
    assert pool_sums(DIGEST, seen(3, 4, 7, 9), count).tolist() == sums


def test_no_rows_have_no_pools():
    assert pool_sums(DIGEST[:0], seen(0, n=0), 4).tolist() == [0]


def keys(*firsts):
    found = np.zeros((len(firsts), 1, 16))
    found[:, 0, 0] = firsts
    return found


def test_the_best_complete_pools_and_the_rows_after_the_last_are_read():
    q = np.zeros((5, 2, 16))
    q[:, 0, 0] = 1.0
    index = keys(1, 1, 1, 1, 0, 0, 0, 5, 9, 9)                    # sums of the pools: 4, 5; 2 rows are in none
    found = best_pools(q, index, seen(3, 5, 8, 9, 10, n=10), 4)
    rows = [np.flatnonzero(one).tolist() for one in found]
    assert rows == [[0, 1, 2], [0, 1, 2, 3, 4], [4, 5, 6, 7], [4, 5, 6, 7, 8], [4, 5, 6, 7, 8, 9]]
    both = best_pools(q, index, seen(10, 4, 4, 4, 4, n=10), 8)
    assert np.flatnonzero(both[0]).tolist() == list(range(10))
