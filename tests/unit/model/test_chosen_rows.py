"""Tests of attention to chosen rows: scores, the choice, and the mean of the rows that are read."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.base.errors import BadInput
from cachesim.model import KVRows
from cachesim.model.attention import SCORE, attend
from cachesim.model.attention_mask import View, VisibleRows
from cachesim.model.chosen_rows import (
    SeenRows,
    attend_chosen,
    best,
    best_rows,
    index_scores,
    index_sums,
    seen_rows,
    visible_rows,
)
from cachesim.model.grid import ROPE_UNIT, UNIT
from cachesim.model.layer_kinds import KINDS

F, T = False, True


def some(n, heads, unit, seed):
    return np.rint(np.random.default_rng(seed).standard_normal((n, heads, 16)) / unit)


def rows_of(n):
    return KVRows(np.zeros(n, np.uint64), some(n, 2, ROPE_UNIT, 1), some(n, 2, UNIT, 2))


def keys(*firsts):
    """Index keys of one head that differ in their first two numbers."""
    found = np.zeros((len(firsts), 16))
    found[:, :2] = firsts
    return found


SEEN = SeenRows(np.array([0, 1, 2]), np.array([2, 4, 4]), np.array([5, 6, 7, 9]))


def test_a_token_sees_the_rows_of_its_range():
    assert visible_rows(SEEN).tolist() == [[T, T, F, F], [F, T, T, T], [F, F, T, T]]


def test_rows_that_are_seen_have_positions():
    found = seen_rows(View(np.array([0, 1, 4, 5]), np.array([4, 5])), np.array([4, 5]), 2)
    assert [part.tolist() for part in found] == [[2, 2], [3, 4], [0, 1, 4, 5]]


def test_the_best_are_visible_and_the_first_of_equals():
    scores = np.array([[3.0, 5.0, 5.0, 9.0], [2.0, 2.0, 2.0, 2.0], [1.0, 2.0, 3.0, 4.0], [0.0, -1.0, 0.0, 0.0]])
    visible = np.array([[T, T, T, F], [F, T, T, T], [F, F, F, F], [T, T, F, F]])
    assert best(scores, visible, 1).tolist() == [[F, T, F, F], [F, T, F, F], [F] * 4, [T, F, F, F]]
    assert best(scores, visible, 2).tolist() == [[F, T, T, F], [F, T, T, F], [F] * 4, [T, T, F, F]]
    assert best(scores, visible, 9).tolist() == visible.tolist()


def test_a_score_is_the_sum_of_the_positive_products():
    q = np.zeros((1, 2, 16))
    q[0, 0, 0], q[0, 1, 1] = 1.0, 0.6
    assert index_scores(q, keys((2, 3), (-2, 3), (2, -3), (-2, -3))).tolist() == [[4.0, 2.0, 2.0, 0.0]]


def test_the_best_rows_are_chosen_among_the_visible_ones():
    q = np.zeros((3, 2, 16))
    q[:, 0, 0] = 1.0
    found = best_rows(q, keys((9, 0), (1, 0), (2, 0), (2, 0))[:, None], SEEN, 1)
    assert found.tolist() == [[T, F, F, F], [F, F, T, F], [F, F, T, F]]


def test_digests_count_where_a_token_has_to_choose():
    digest = np.array([1, 10, 100, 2**64 - 5], np.uint64)
    assert index_sums(digest, SEEN, 1).tolist() == [11, 105, 95]
    assert index_sums(digest, SEEN, 2).tolist() == [0, 105, 0]
    assert index_sums(digest, SEEN, 3).tolist() == [0, 0, 0]


def test_reading_all_visible_rows_is_attention():
    q, rows = some(30, 4, ROPE_UNIT, 3) * SCORE, rows_of(40)
    lo, hi = np.maximum(np.arange(30) - 6, 0), np.arange(30) + 5
    chosen = visible_rows(SeenRows(lo, hi, np.arange(40)))
    wanted = attend(q, rows, VisibleRows(lo, hi))
    assert np.array_equal(attend_chosen(q, rows, chosen), wanted)
    assert np.array_equal(attend_chosen(q, rows, np.stack((chosen, chosen), axis=1)), wanted)


def test_each_head_may_read_rows_of_its_own():
    q, rows = some(2, 4, ROPE_UNIT, 3) * SCORE, rows_of(3)
    found = attend_chosen(q, rows, np.array([[[T, F, F], [F, F, T]], [[F, F, F], [F, T, F]]])).reshape(2, 4, 16)
    assert np.array_equal(found[0], rows.v[[0, 0, 2, 2], [0, 0, 1, 1]])
    assert np.array_equal(found[1, 2:], rows.v[[1, 1], [1, 1]]) and not found[1, :2].any()


def test_a_store_without_rows_gives_zeros_and_one_without_numbers_is_refused():
    q = some(2, 4, ROPE_UNIT, 3)
    empty = KVRows(np.zeros(0, np.uint64), np.zeros((0, 2, 16)), np.zeros((0, 2, 16)))
    assert not attend_chosen(q, empty, np.zeros((2, 0), bool)).any()
    with pytest.raises(BadInput, match="keeps K and V"):
        attend_chosen(q, KVRows(np.zeros(2, np.uint64), None, None), np.ones((2, 2), bool))


@pytest.mark.parametrize("letter", [letter for letter, kind in KINDS.items()
                                    if kind.attention and kind.attention.chooser])
def test_a_chooser_names_its_part_of_the_memory(letter):
    assert KINDS[letter].attention.chooser.part == "idx"
    assert KINDS[letter].attention.chooser.rotated == (letter != "P")
