"""Rules of rings, chunks and batches, at the lengths at which they change their answer."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.engines.mlx_lm.caches import rules_arrays, rules_saved_state
from cachesim.engines.mlx_lm.caches import rules_kv_cache as rules
from cachesim.engines.mlx_lm.caches.rules_kv_cache import MergedRow, RemainingColumns, RingTrim


@pytest.mark.parametrize(("held", "before_wrap"), [(7, True), (8, False), (9, False)])
def test_a_ring_can_be_trimmed_until_it_is_full(held, before_wrap):
    assert rules.trimmable_before_wrap(held, 8) is before_wrap and rules.trimmable_always(held, 8) is True


@pytest.mark.parametrize(("held", "n", "counters", "cut"), [
    (6, 2, 2, (2, 4)), (6, 9, 6, (6, 0)), (12, 2, 2, (2, 6)), (12, 9, 9, (8, 0)), (8, 8, 8, (8, 0)), (0, 1, 0, (0, 0)),
])  # fmt: skip
def test_a_trim_moves_the_counters_or_cuts_the_ring(held, n, counters, cut):
    assert rules.trim_counters(held, 8, n) == RingTrim(counters, None)
    assert rules.trim_cut(held, 8, n) == RingTrim(*cut)


def test_a_ring_takes_its_size_or_its_place_in_a_batch():
    assert [rule(5, 3) for rule in (rules.merge_last, rules.merge_all_in_size, rules.merge_all_in_idx,
                                    rules.merge_all_in_offset)] == [
        MergedRow(5, 5), MergedRow(5, None), MergedRow(3, None), MergedRow(5, None)]  # fmt: skip


def test_a_row_starts_after_its_padding_unless_that_was_overwritten():
    assert [rules.row_start_clamped(padding) for padding in (-3, 0, 2)] == [0, 0, 2]
    assert [rules.row_start_if_padded(padding) for padding in (-3, 0, 2)] == [0, 0, 2]
    assert [rules.row_start_plain(padding) for padding in (-3, 2)] == [-3, 2]


def test_an_extracted_row_counts_its_tokens_or_its_columns_and_ends_at_the_write_position():
    assert (rules.extracted_counts_offset(9, 4), rules.extracted_counts_length(9, 4)) == (9, 4)
    assert rules.extract_cut(5, 8, 0) == 5
    assert [rules.extract_cut_if_padded(5, 8, padding) for padding in (-1, 0, 1)] == [8, 8, 5]


def test_an_empty_batch_has_a_fresh_row_or_none():
    assert rules.extract_fresh(True) is rules.extract_needs_buffer(True) is True and rules.extract_fresh(False) is False
    with pytest.raises(TypeError):
        rules.extract_needs_buffer(False)


@pytest.mark.parametrize(("valid", "allocated", "by_valid", "by_allocation"), [
    (8, 16, None, (8, 16)), (9, 16, (1, 9), (8, 16)), (3, 7, None, None), (3, 8, None, (0, 8)),
    (20, 32, (12, 20), (24, 32)),
])  # fmt: skip
def test_the_front_of_a_chunk_is_cut_by_its_tokens_or_by_its_columns(valid, allocated, by_valid, by_allocation):
    assert rules.front_by_valid(valid, allocated, 8) == (by_valid and RemainingColumns(*by_valid))
    assert rules.front_by_allocation(valid, allocated, 8) == (by_allocation and RemainingColumns(*by_allocation))


def test_an_empty_side_of_a_batch_gets_zeros_of_a_type():
    assert rules.empty_side_alike(2, 3, np.float16) == (2, np.float16)
    assert rules.empty_side_float32(2, 3, np.float16) == (2, np.float32)
    assert rules.empty_side_other_rows(2, 3, np.float16) == (3, np.float32)
    assert rules.empty_side_float32(2, 3, np.uint64) == (2, np.uint64)


def test_a_batch_may_need_a_buffer_in_every_row():
    assert rules.merge_skips_empty([True, False]) is True
    assert [rules.merge_needs_buffers(full) for full in ([True, True], [True, False], [])] == [True, False, True]
    assert rules.mask_written(3, 8, True, 2) == 3


def test_recurrent_slots_are_trimmed_advanced_and_kept_by_version():
    assert (rules_arrays.trim_refused(), rules_arrays.trim_resets()) == (False, True)
    assert (rules_arrays.advance_by_step(), rules_arrays.advance_never()) == (True, False)
    assert [rules_arrays.keep_copied(gated) for gated in (True, False)] == [False, True]
    assert [rules_arrays.keep_view(gated) for gated in (True, False)] == [True, True]
    assert [rules_arrays.row_asked(5, 3), rules_arrays.row_wrapped(5, 3), rules_arrays.row_wrapped(2, 3)] == [5, 2, 2]


def test_padding_of_two_sides_is_joined_by_version():
    def told(array):
        return None if array is None else array.tolist()

    one, two = np.array([1]), np.array([2, 3])
    for rule, left, right in ((rules_saved_state.join_other_side, [2, 3], [1]),
                              (rules_saved_state.join_with_zeros, [0, 2, 3], [1, 0, 0])):  # fmt: skip
        assert told(rule(one, two, 1, 2)) == [1, 2, 3] and rule(None, None, 1, 2) is None
        assert (told(rule(None, two, 1, 2)), told(rule(one, None, 1, 2))) == (left, right)
    assert told(rules_saved_state.join_both(one, two, 1, 2)) == [1, 2, 3]
    for sides in ((None, two), (one, None)):
        with pytest.raises(TypeError, match="a slot is empty on one side"):
            rules_saved_state.join_both(*sides, 1, 2)
    assert rules_saved_state.padding_own(one, two, 1, 2) is one
    assert rules_saved_state.merged_without_padding(2) is None
    assert rules_saved_state.merged_with_zeros(2).tolist() == [0, 0]


def test_a_mask_hides_padding_before_a_row_and_columns_after_it():
    padding, lengths = np.array([1, 0]), np.array([3, 2])
    before, after = [[False, True, True], [True, True, True]], [[True, True, True], [True, True, False]]
    assert rules_saved_state.mask_both(3, padding, None).tolist() == before
    assert rules_saved_state.mask_both(3, None, lengths).tolist() == after
    assert rules_saved_state.mask_both(3, padding, lengths).tolist() == [[False, True, True], [True, True, False]]
    assert rules_saved_state.mask_both(3, None, None) is None
    assert rules_saved_state.mask_padding_only(3, padding, lengths).tolist() == before
    assert rules_saved_state.mask_padding_only(3, None, lengths).tolist() == after
