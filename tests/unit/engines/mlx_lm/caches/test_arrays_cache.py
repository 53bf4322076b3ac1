"""Tests of ArraysCache: masks, fresh batches, joining rows (specification 1.5, 7.2)."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.engines.mlx_lm.caches import (
    AT_0_32_2,
    AT_D78BF58E,
    AT_M1019,
    AT_M1072,
    AT_PR1253,
    AT_V0_31_3,
    ArraysCache,
)
from cachesim.engines.mlx_lm.caches.rule_table import AT_M1072_METAL
from cachesim.engines.mlx_lm.caches.rules_saved_state import join_both


def held(rows, *, rules=AT_D78BF58E, size=1):
    """Return a cache whose slots hold these rows, [B, 2]."""
    cache = ArraysCache(size, rules=rules)
    for slot in range(size):
        cache[slot] = np.array(rows, float) + slot
    return cache


def test_a_fresh_cache():
    cache = ArraysCache(2)
    assert (cache.empty(), cache.nbytes, cache.size(), cache.batch_size) == (True, 0, 0, 1)
    assert not cache.is_trimmable()
    assert not hasattr(cache, "trim")


def test_a_state_cannot_be_taken_out_of_an_empty_slot():
    with pytest.raises(TypeError):
        ArraysCache(2).extract(0)


def test_bytes_and_rows_are_those_of_the_slots():
    cache = held([[1, 2], [3, 4]], size=2)
    assert (cache.nbytes, cache.batch_size) == (64, 2)
    cache.filter([1])
    assert cache[0].tolist() == [[3, 4]]
    assert cache.extract(0)[1].tolist() == [[4, 5]]


@pytest.mark.parametrize(("rules", "row_of_one"), [(AT_0_32_2, [True, False, False]), (AT_D78BF58E, [True] * 3)])
def test_a_fresh_ragged_batch_folds_padding_where_the_lengths_are_ignored(rules, row_of_one):
    batch = ArraysCache.merge([ArraysCache(1, rules=rules) for _ in range(2)])
    batch.prepare(lengths=[1, 3], right_padding=[2, 0])
    assert batch.make_mask(3).tolist() == [row_of_one, [True, True, True]]


def test_before_1169_a_fresh_batch_is_clean_for_it_has_no_padding():
    batch = ArraysCache.merge([ArraysCache(1, rules=AT_M1072) for _ in range(2)])
    assert batch.left_padding is None
    batch.prepare(lengths=[1, 3])
    assert batch.make_mask(3).tolist() == [[True, False, False], [True, True, True]]


def test_a_step_uses_up_lengths_and_padding():
    cache = ArraysCache(1, left_padding=[2, 0], rules=AT_0_32_2)
    cache.prepare(lengths=[5, 4])
    cache.advance(3)
    assert (cache.left_padding.tolist(), cache.lengths.tolist()) == ([-1, -3], [2, 1])
    assert cache.make_mask(2).tolist() == [[True, True], [True, False]]
    cache.finalize()
    assert (cache.left_padding, cache.lengths, cache.make_mask(2)) == (None, None, None)


def test_left_padding_alone():
    assert ArraysCache(1, left_padding=[1, 0]).make_mask(2).tolist() == [[False, True], [True, True]]


def test_a_row_without_a_state_is_zeros():
    batch = ArraysCache.merge([held([[1, 2]]), ArraysCache(1), held([[5, 6]])])
    assert batch[0].tolist() == [[1, 2], [0, 0], [5, 6]]
    assert (batch.left_padding, batch.lengths) == (None, None)


@pytest.mark.parametrize("rules", [AT_D78BF58E, AT_0_32_2, AT_V0_31_3])
def test_joining_pads_the_side_without_states(rules):
    batch, more = held([[1, 2]], rules=rules), ArraysCache.merge([ArraysCache(1, rules=rules)] * 2)
    batch.extend(more)
    assert batch[0].tolist() == [[1, 2], [0, 0], [0, 0]]
    assert batch.left_padding.tolist() == [0, 0, 0]


@pytest.mark.parametrize(("rules", "joined"), [(AT_D78BF58E, [2, 1, 3]), (AT_0_32_2, [2, 1, 3])])
def test_joining_keeps_the_lengths_of_both_sides(rules, joined):
    batch, more = held([[1, 2]], rules=rules), held([[3, 4], [5, 6]], rules=rules)
    batch.prepare(lengths=[2])
    more.prepare(lengths=[1, 3])
    batch.extend(more)
    assert (batch.lengths.tolist(), batch.left_padding) == (joined, None)


def test_before_1169_joining_with_nothing_gives_too_few_rows():
    batch, more = held([[1, 2]], rules=AT_M1072), ArraysCache.merge([ArraysCache(1, rules=AT_M1072)] * 2)
    batch.extend(more)
    assert batch[0].tolist() == [[1, 2]]


def test_before_1072_joining_with_nothing_fails():
    with pytest.raises(TypeError):
        held([[1, 2]], rules=AT_M1019).extend(ArraysCache(1, rules=AT_M1019))


def test_filtering_takes_the_padding_along():
    cache = ArraysCache(1, left_padding=[3, 1, 2])
    cache.lengths = np.array([7, 8, 9], np.int32)
    cache.filter([2, 0])
    assert (cache.left_padding.tolist(), cache.lengths.tolist()) == ([2, 3], [9, 7])


def test_before_1177_filtering_forgets_the_padding():
    cache = ArraysCache(1, left_padding=[3, 1, 2], rules=AT_M1072)
    cache.filter([2, 0])
    assert cache.left_padding.tolist() == [3, 1, 2]


def test_states_are_joined_only_if_both_sides_have_some():
    a, b = np.array([[1], [2]]), np.array([[3]])
    assert join_both(a, b, 2, 1).tolist() == [[1], [2], [3]]
    for sides in ((None, b), (a, None), (None, None)):
        with pytest.raises(TypeError, match="empty on one side"):
            join_both(*sides, 2, 1)


def test_a_proposal_forgets_every_token_when_it_trims():
    cache = ArraysCache(2, rules=AT_PR1253)
    cache[0] = cache[1] = np.ones((1, 2))
    assert cache.is_trimmable() and cache.trim(0) == 0 and not cache.empty()
    assert cache.trim(3) == 3 and cache.cache == [None, None]


def test_the_lengths_of_rows_are_needed_and_advance():
    cache = ArraysCache(1)
    with pytest.raises(ValueError, match="lengths are needed"):
        cache.prepare(right_padding=[1])
    cache.prepare(lengths=[5, 3])
    cache.advance(2)
    assert cache.lengths.tolist() == [3, 1]
    cache.finalize()
    assert cache.lengths is None and cache.left_padding is None


def test_a_slot_that_only_some_rows_have_is_zeros_in_the_others():
    first, second = held([[1, 2]], size=2), held([[3, 4]], size=2)
    first[1] = None
    batch = ArraysCache.merge([first, second])
    assert batch[0].tolist() == [[1, 2], [3, 4]] and batch[1].tolist() == [[0, 0], [4, 5]]


def test_rows_taken_out_of_a_batch_share_its_memory_until_the_batch_changes():
    batch = held([[1, 2], [3, 4]])
    first, second = batch.extract(0), batch.extract(1)
    assert first.buffer is second.buffer is batch.buffer is not None
    assert vars(batch.buffer) == {"rows": 2, "columns": 1, "kept": 1}
    batch.extend(held([[5, 6]]))
    assert batch.buffer is None and first.buffer is not None
    third = batch.extract(2)
    assert third.buffer is batch.buffer is not first.buffer
    batch.filter([0, 2])
    assert batch.buffer is None and batch[0].tolist() == [[1, 2], [5, 6]]


@pytest.mark.parametrize("idx", [0, 1, 2])
def test_a_row_that_is_taken_out_is_alone(idx):
    row = held([[1, 2], [3, 4], [5, 6]], size=2).extract(idx)
    assert [slot.tolist() for slot in row.cache] == [[[2 * idx + 1, 2 * idx + 2]], [[2 * idx + 2, 2 * idx + 3]]]
    assert (row.batch_size, row.left_padding, row.lengths) == (1, None, None)


def test_on_metal_a_row_that_a_state_does_not_have_is_one_of_its_own():
    cache = held([[1, 2], [3, 4]], rules=AT_M1072_METAL)
    cache.filter([2, 3, 1])
    assert cache[0].tolist() == [[1, 2], [3, 4], [3, 4]]
    with pytest.raises(IndexError):
        held([[1, 2], [3, 4]], rules=AT_M1072).filter([2])


def test_a_row_that_is_taken_out_follows_the_rules_of_its_batch():
    for rules in (AT_M1019, AT_PR1253):
        assert held([[1, 2], [3, 4]], rules=rules).extract(1).rules is rules


def test_a_cache_without_lengths_and_padding_advances_neither():
    cache = ArraysCache(1)
    cache.advance(2)
    assert (cache.lengths, cache.left_padding) == (None, None)
