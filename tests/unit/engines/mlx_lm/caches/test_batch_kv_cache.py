"""Tests of BatchKVCache: paddings, joining, extraction (specification 1.7, 7.13, 7.15)."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.engines.mlx_lm.caches import AT_0_30_2, AT_0_32_2, AT_D78BF58E, AT_M1072, BatchKVCache, KVCache
from tests.unit.engines.mlx_lm.rows import batch, both, feed, filled, numbers


def merged(*lengths, rules=AT_D78BF58E):
    """Return rows 1.., 101.., 201.. of these lengths in a batch."""
    caches = []
    for i, length in enumerate(lengths):
        cache = KVCache(rules=rules)
        caches.append(filled(cache, 100 * i + 1, 100 * i + length) if length else cache)
    return KVCache.merge(caches)


def columns(cache):
    return both(cache.keys_and_values())


def test_rows_are_moved_to_the_right():
    cache = merged(2, 4, 0)
    assert columns(cache) == [[0, 0, 1, 2], [101, 102, 103, 104], [0, 0, 0, 0]]
    assert (cache.left_padding.tolist(), cache.offset.tolist()) == ([2, 0, 4], [2, 4, 0])
    assert cache.size() == 4


def test_a_batch_of_fresh_caches_is_fresh():
    cache = merged(0, 0)
    assert (cache.empty(), cache.left_padding.tolist(), cache.size()) == (True, [0, 0], 0)


def test_padding_behind_the_rows_goes_to_their_front():
    cache = merged(2, 3)
    cache.prepare(lengths=[1, 2], right_padding=[1, 0])
    feed(cache, [3, 0], [104, 105])
    cache.finalize()
    # the buffer had 3 columns and got a block; the row's first column comes from the slack behind it
    assert columns(cache) == [[0, 0, 1, 2, 3], [101, 102, 103, 104, 105]]
    assert (cache.left_padding.tolist(), cache.offset.tolist()) == ([2, 0], [3, 5])


def test_no_padding_means_nothing_to_finalize():
    cache = merged(2, 3)
    cache.prepare(lengths=[2, 2], right_padding=[0, 0])
    feed(cache, [3, 4], [104, 105])
    cache.finalize()
    assert cache.left_padding.tolist() == [1, 0]


def test_padding_at_the_left_belongs_before_the_first_token():
    cache = BatchKVCache([0, 1])
    cache.prepare(left_padding=[2, 0])
    assert (cache.left_padding.tolist(), cache.offset.tolist()) == ([2, 1], [-2, -1])
    with pytest.raises(ValueError):
        merged(2, 3).prepare(left_padding=[1, 0])


def test_the_mask_hides_padding_and_the_future():
    mask = np.asarray(merged(1, 2).make_mask(2))
    assert mask.shape == (2, 1, 2, 4)
    assert mask[0, 0].tolist() == [[False, True, True, False], [False, True, True, True]]
    assert mask[1, 0].tolist() == [[True, True, True, False], [True, True, True, True]]


def test_filtering_drops_common_padding():
    cache = merged(2, 4, 3)
    cache.filter([0, 2])
    assert columns(cache) == [[0, 1, 2], [201, 202, 203]]
    assert cache.left_padding.tolist() == [1, 0]


def test_filtering_an_empty_padded_batch_drops_common_padding():
    cache = BatchKVCache([2, 3])
    cache.filter([0, 1])
    assert cache.left_padding.tolist() == [0, 1]


def test_joining_lets_all_rows_end_in_one_column():
    cache, more = merged(2), merged(4)
    cache.extend(more)
    assert columns(cache) == [[0, 0, 1, 2], [1, 2, 3, 4]]
    assert (cache.left_padding.tolist(), cache.offset.tolist()) == ([2, 0], [2, 4])


def test_joining_two_empty_batches_joins_their_counters():
    cache = BatchKVCache([1])
    cache.extend(BatchKVCache([0, 2]))
    assert (cache.empty(), cache.left_padding.tolist(), cache.offset.tolist()) == (True, [1, 0, 2], [-1, 0, -2])


@pytest.mark.parametrize(("rules", "dtype"), [(AT_D78BF58E, "float32"), (AT_0_32_2, "float16")])
def test_an_empty_side_costs_half_precision_at_head(rules, dtype):
    cache = BatchKVCache([0], rules=rules)
    cache.update_and_fetch(numbers(1, 1, 2, 3, dtype="f2"), numbers(1, 1, 2, 3, dtype="f2"))
    cache.extend(BatchKVCache([0, 0], rules=rules))
    assert cache.keys.dtype == dtype
    assert cache.keys.shape[0] == 3
    assert cache.left_padding.tolist() == [0, 2, 2]


def test_before_1141_an_empty_side_brings_as_many_rows_as_the_other():
    cache = merged(2, rules=AT_M1072)
    cache.extend(BatchKVCache([0, 0], rules=AT_M1072))
    assert (cache.keys.shape[0], len(cache.offset)) == (2, 3)


def test_structured_rows_survive_an_empty_side():
    cache = merged(2)
    cache.extend(BatchKVCache([0]))
    assert columns(cache) == [[1, 2], [0, 0]]


def test_a_row_comes_out_without_padding_and_slack():
    cache = merged(2, 4)
    feed(cache, [3], [105])
    row = cache.extract(0)
    assert (both(row.pair()), row.offset) == ([1, 2, 3], 3)
    assert row.nbytes == 2 * 3 * batch([1]).nbytes


def test_a_row_that_is_taken_out_follows_the_rules_of_its_batch():
    for rules in (AT_0_30_2, AT_M1072, AT_0_32_2):
        assert merged(2, 4, rules=rules).extract(1).rules is rules
        assert merged(0, 0, rules=rules).rules is rules


def test_going_back_moves_all_rows():
    cache = merged(2, 4)
    assert cache.trim(3) == 3
    assert (cache.size(), cache.offset.tolist(), cache.left_padding.tolist()) == (1, [-1, 1], [2, 0])


def test_a_batch_can_be_trimmed_and_empty_ones_make_an_empty_batch():
    assert merged(2, 4).is_trimmable()
    empty = merged(0, 0)
    assert (empty.keys, empty.left_padding.tolist(), empty.offset.tolist()) == (None, [0, 0], [0, 0])


def test_rows_without_padding_keep_their_columns_when_others_leave():
    cache = merged(2, 4, 3)
    cache.filter([0, 1])
    assert (cache.left_padding.tolist(), columns(cache)) == ([2, 0], [[0, 0, 1, 2], [101, 102, 103, 104]])
    cache.filter([0])
    assert (cache.left_padding.tolist(), columns(cache)) == ([0], [1, 2])


@pytest.mark.parametrize("rows", [[0, 1, 2], [2, 0], [1]])
def test_rows_that_stay_keep_their_counters(rows):
    cache = merged(2, 4, 3)
    cache.filter(rows)
    lengths = [[2, 4, 3][row] for row in rows]
    assert cache.offset.tolist() == lengths
    assert cache.left_padding.tolist() == [max(lengths) - n for n in lengths]
    assert [both(cache.extract(at).pair()) for at in range(len(rows))] == [
        [*range(100 * row + 1, 100 * row + 1 + n)] for row, n in zip(rows, lengths, strict=True)]


def test_the_keys_of_a_batch_without_rows_yet_have_the_dtype_of_the_others():
    full, fresh, empty = (BatchKVCache([0], rules=AT_0_32_2) for _ in range(3))
    full.update_and_fetch(numbers(1, 1, 2, 3, dtype="f2"), numbers(1, 1, 2, 5, dtype="f4"))
    for one, other in ((full, fresh), (empty, full)):
        one.extend(other)
        assert one.keys.dtype == "f2" and one.values.dtype == "f4"


def test_the_older_saved_form_of_a_batch_has_its_counters():
    cache = merged(2, 4)
    again = BatchKVCache([0])
    again.set_cut_state(cache.cut_state())
    assert (again.offset.tolist(), again.left_padding.tolist()) == ([2, 4], [2, 0])
    assert columns(again) == columns(cache)


def test_before_755_a_cache_without_tokens_joins_no_batch():
    assert columns(merged(2, 1, rules=AT_0_30_2)) == [[1, 2], [0, 101]]
    with pytest.raises(TypeError, match="'NoneType' object is not subscriptable"):
        merged(2, 0, rules=AT_0_30_2)


@pytest.mark.parametrize(("first", "second"), [(1, 3), (3, 1), (2, 2)])
def test_the_slack_of_a_batch_stays_behind_its_rows_when_batches_are_joined(first, second):
    cache, more = merged(first), merged(second)
    for one in (cache, more):
        feed(one, [9])                                      # buffers grow by blocks of 256 columns
    slack = max(cache.keys.shape[2], more.keys.shape[2])
    cache.extend(more)
    length = max(first, second) + 1
    assert columns(cache) == [[0] * (length - n - 1) + [*range(1, n + 1), 9] for n in (first, second)]
    assert (cache.keys.shape[2], cache.size(), cache.offset.tolist()) == (slack, length, [first + 1, second + 1])


def test_no_padding_is_announced_to_an_empty_batch():
    cache = BatchKVCache([0, 0])
    cache.prepare(lengths=[0, 0], right_padding=[0, 0])
    cache.finalize()
    assert (cache.keys, cache.offset.tolist(), cache.left_padding.tolist()) == (None, [0, 0], [0, 0])
