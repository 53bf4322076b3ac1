"""Rows that a sequence chooses: the choice in plain Python, and the numbers that are kept beside the rows."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.model import function_tables, grid, make_model
from cachesim.model.chosen_rows import ChoosingWeights
from cachesim.model.store import index_of
from cachesim.oracle.cold_run import cold
from cachesim.oracle.whole_chosen import best_of, chosen_digests, index_numbers, read_chosen, scores_of

TOKENS = tuple(range(100, 140))


@pytest.mark.parametrize("kind, keys, values", [
    ("I6", (40, 1, 16), (40, 1, 0)), ("P8", (40, 1, 16), (40, 1, 0)), ("B2", (40, 1, 16), (40, 1, 0)),
    ("D4.8.3", (10, 3, 16), (10, 2, 16)), ("D4.8", (10, 3, 16), (10, 2, 16)), ("D3.5", (13, 3, 16), (13, 2, 16)),
])  # fmt: skip
def test_numbers_beside_the_rows_have_the_shape_of_their_kind(kind, keys, values):
    whole = cold(make_model(kind, True), TOKENS, logits_at=[])
    rows = whole.rows(index_of(0))
    assert (rows.k.shape, rows.v.shape) == (keys, values)


@pytest.mark.parametrize("scores, count, chosen", [
    ([5, 1, 9, 9, 0], 2, [2, 3]), ([5, 9, 1, 9, 9], 2, [1, 3]), ([1, 1, 1], 2, [0, 1]), ([1, 2], 5, [0, 1]),
    ([3, 2, 1], 0, []), ([-1, -3, -2], 1, [0])])  # fmt: skip
def test_the_largest_scores_are_chosen_and_the_first_of_equal_ones(scores, count, chosen):
    assert best_of(np.array(scores, float), count) == chosen


def test_a_score_is_the_sum_of_the_positive_products_of_both_queries():
    keys, queries = np.zeros((3, 16)), np.zeros((2, 16))
    keys[:, 0], keys[:, 1] = (1, 2, -3), (4, -5, 6)
    queries[0, 0], queries[1, 1] = 2, 1.25
    assert scores_of(queries, keys).tolist() == [2 + 5, 4, 8]


def test_each_head_reads_the_rows_of_its_group():
    """Equal scores: the mean of the values, rounded to a whole number of units."""
    k, v = np.zeros((4, 2, 16)), np.arange(4 * 2 * 16, dtype=float).reshape(4, 2, 16)
    out = read_chosen(np.zeros((2, 4, 16)), k, v, lambda i: [[0], [1, 2]] if i == 0 else [[0, 3], [3]])
    found = out.reshape(2, 4, 16)
    expected = [[v[0, 0]] * 2 + [(v[1, 1] + v[2, 1]) / 2] * 2, [(v[0, 0] + v[3, 0]) / 2] * 2 + [v[3, 1]] * 2]
    assert np.array_equal(found, np.array(expected))


@pytest.mark.parametrize("place", [0, 1, 100, function_tables.WEIGHT_COUNT, 10**6])
def test_a_row_of_a_smaller_score_weighs_less(place):
    """Its weight is the entry of the table that is as many steps below the largest score; beyond the table its last."""
    q, k, v = np.zeros((1, 4, 16)), np.zeros((2, 2, 16)), np.zeros((2, 2, 16))
    q[:, :, 0], k[0, :, 0], v[1] = 2.0**20, place * 4 * function_tables.WEIGHT_STEP * 2.0**20, 2.0**50
    out = read_chosen(q, k, v, lambda i: [[0, 1]] * 2)
    weights = function_tables.weight_table()
    first, other = weights[0], weights[min(place, len(weights) - 1)]
    assert np.array_equal(out, np.full((1, 64), np.rint(2.0**50 * other / (first + other))))


@pytest.mark.parametrize("count, read", [(2, [0, 0, 6, 10]), (1, [0, 3, 6, 10]), (4, [0] * 4), (9, [0] * 4)])
def test_a_token_reads_all_index_rows_up_to_itself_if_it_has_to_choose(count, read):
    layer = make_model(f"I{count}", False).spec.layers[0]
    rows = np.array([1, 2, 3, 4], np.uint64)
    found = chosen_digests(rows, rows, layer, rows)
    assert (found.second.tolist(), found.read.tolist(), found.ring) == ([1, 2, 3, 4], read, 0)


def test_the_product_of_an_index_query_and_a_key_is_in_steps_of_the_softmax_table():
    """Queries with the weights of the key are multiples of it: by the units of both, over the root of 16."""
    key = np.random.default_rng(5).normal(size=(32, 16)).round(2)
    weights = ChoosingWeights(key, key, np.hstack([key, key, key]))
    found = index_numbers(np.full((2, 32), 2.0**28), weights, None)
    step = grid.ROPE_UNIT**2 / 4 / function_tables.WEIGHT_STEP
    assert found.k.any(axis=1).all() and found.q.shape == (2, 2, 16)
    assert np.array_equal(found.q, np.stack([found.k * step] * 2, axis=1))
