"""Tests of BatchRotatingKVCache: merging wrapped rings, ragged steps, masks (specification 1.8, 7.9, 7.18)."""

from __future__ import annotations

import pytest

from cachesim.engines.mlx_lm.caches import (
    AT_0_30_2,
    AT_0_32_2,
    AT_D78BF58E,
    AT_M1019,
    AT_M1072,
    AT_PR999,
    BatchRotatingKVCache,
    RotatingKVCache,
)
from tests.unit.engines.mlx_lm.rows import both, feed, filled


def ring(first, last, *, size=4, rules=AT_D78BF58E):
    return filled(RotatingKVCache(size, rules=rules), first, last)


def columns(cache):
    return both(cache.keys_and_values())


def test_a_batch_holds_the_last_tokens_and_the_true_offsets():
    cache = RotatingKVCache.merge([ring(1, 6), ring(101, 102)])
    assert columns(cache) == [[3, 4, 5, 6], [0, 0, 101, 102]]
    assert (cache.offset.tolist(), cache.left_padding.tolist()) == ([6, 2], [0, 2])
    assert cache.size() == 4


def test_a_wrapped_ring_comes_in_temporal_order():
    one = ring(1, 4)
    feed(one, [5])
    assert columns(RotatingKVCache.merge([one])) == [2, 3, 4, 5]


def test_before_1093_a_long_buffer_does_not_fit():
    with pytest.raises(ValueError):
        RotatingKVCache.merge([ring(1, 6, rules=AT_M1072)])


def test_before_1072_a_wrapped_ring_does_not_fit():
    one = ring(1, 4, rules=AT_M1019)
    feed(one, [5])
    with pytest.raises(ValueError):
        RotatingKVCache.merge([one])


def test_rings_of_two_sizes_make_no_batch():
    with pytest.raises(ValueError):
        RotatingKVCache.merge([ring(1, 2), ring(1, 2, size=5)])


def test_kept_columns_are_lost_in_a_batch():
    one = filled(RotatingKVCache(4, keep=1), 1, 4)
    assert RotatingKVCache.merge([one]).extract(0).keep == 0


def test_wrapping_and_taking_out():
    cache = RotatingKVCache.merge([ring(1, 4), ring(101, 102)])
    feed(cache, [5], [103])
    assert columns(cache) == [[5, 2, 3, 4], [103, 0, 101, 102]]
    assert (cache.rotated, cache.left_padding.tolist()) == (True, [-1, 1])
    first, second = cache.extract(0), cache.extract(1)
    assert (both(first.pair()), first.offset) == ([2, 3, 4, 5], 5)
    assert (both(second.pair()), second.offset) == ([101, 102, 103], 3)


def test_before_the_clamp_a_negative_padding_counts_from_the_end():
    cache = RotatingKVCache.merge([ring(1, 4, rules=AT_M1072)])
    feed(cache, [5])
    assert both(cache.extract(0).pair()) == [5]


def test_padding_behind_a_row_pushes_nothing_out():
    cache = RotatingKVCache.merge([ring(1, 3), ring(101, 103)])
    cache.prepare(lengths=[1, 3], right_padding=[2, 0])
    feed(cache, [4, 0, 0], [104, 105, 106])
    cache.finalize()
    assert both(cache.extract(0).pair()) == [1, 2, 3, 4]
    assert both(cache.extract(1).pair()) == [101, 102, 103, 104, 105, 106]
    assert cache.offset.tolist() == [4, 6]


def test_one_token_before_finalize_is_refused():
    cache = RotatingKVCache.merge([ring(1, 3)])
    cache.prepare(lengths=[0], right_padding=[1])
    with pytest.raises(RuntimeError):
        feed(cache, [4])


def test_a_step_after_a_turn_hides_the_oldest_live_token_of_a_padded_row():
    cache = RotatingKVCache.merge([ring(1, 4), ring(101, 102)])
    feed(cache, [5], [103])
    mask = cache.make_mask(2)
    assert feed(cache, [6, 7], [104, 105]) == [[3, 4, 5, 6, 7], [101, 102, 103, 104, 105]]
    # 101 is column 0 and within the window of 104, yet hidden
    assert mask[1, 0, 0].tolist() == [False, True, True, True, False]
    assert mask[0, 0, 0].tolist() == [True, True, True, True, False]


def test_the_mask_of_one_token_turns_with_the_ring():
    cache = RotatingKVCache.merge([ring(1, 4), ring(101, 102)])
    # the next token goes to column 0; of row 1 columns 2 and 3 are live
    assert cache.make_mask(1)[1, 0, 0].tolist() == [True, False, True, True]


def test_joining_puts_both_sides_in_order():
    cache, more = RotatingKVCache.merge([ring(1, 4)]), RotatingKVCache.merge([ring(101, 102)])
    feed(cache, [5])
    cache.extend(more)
    assert columns(cache) == [[2, 3, 4, 5], [0, 0, 101, 102]]
    assert (cache.rotated, cache.left_padding.tolist()) == (False, [-1, 2])


def test_filtering_moves_no_columns():
    cache = RotatingKVCache.merge([ring(1, 4), ring(101, 102)])
    cache.filter([1])
    assert (columns(cache), cache.left_padding.tolist()) == ([0, 0, 101, 102], [2])


@pytest.mark.parametrize(("rules", "rotated"), [(AT_D78BF58E, True), (AT_0_32_2, False)])
def test_a_loaded_batch_ring_is_rotated_at_head_whatever_it_was(rules, rotated):
    cache = RotatingKVCache.merge([ring(1, 3, rules=rules)])
    meta = cache.meta_state if hasattr(cache, "meta_state") else None
    again = BatchRotatingKVCache.from_state(cache.state, meta, rules=rules)
    assert (cache.rotated, again.rotated) == (False, rotated)
    assert columns(again) == [1, 2, 3]


def test_pr999_takes_a_fresh_ring_out_of_an_empty_batch():
    assert BatchRotatingKVCache(4, [0, 0], rules=AT_PR999).extract(1).empty()
    with pytest.raises(TypeError):
        BatchRotatingKVCache(4, [0, 0]).extract(1)


def test_pr999_cuts_a_wrapped_batch():
    cache = RotatingKVCache.merge([ring(1, 4, rules=AT_PR999)])
    feed(cache, [5])
    assert cache.is_trimmable()
    assert cache.trim(1) == 1
    assert (columns(cache), cache.offset.tolist()) == ([2, 3, 4], [4])


def test_a_trim_moves_the_counters_of_a_batch_and_the_next_token_overwrites():
    cache = RotatingKVCache.merge([ring(1, 3), ring(101, 102)])
    assert cache.trim(1) == 1
    assert cache.offset.tolist() == [2, 1]
    feed(cache, [9], [109])
    assert columns(cache) == [[1, 2, 9], [0, 101, 109]]
    assert cache.trim(7) == 3 and cache.offset.tolist() == [0, -1]


def test_after_999_a_trim_cuts_a_turned_ring():
    cache = RotatingKVCache.merge([ring(1, 4, rules=AT_PR999)])
    feed(cache, [5])
    assert (cache.rotated, cache.trim(1), cache.rotated) == (True, 1, False)
    assert columns(cache) == [2, 3, 4]
    assert cache.offset.tolist() == [4]
    assert cache.trim(9) == 3 and cache.keys is None


def test_padding_before_rows_is_announced_to_an_empty_batch():
    cache = BatchRotatingKVCache(4, [0, 0])
    cache.prepare(left_padding=[1, 0])
    feed(cache, [0, 1], [101, 102])
    assert (cache.left_padding.tolist(), cache.offset.tolist()) == ([1, 0], [1, 2])
    assert both(cache.extract(0).pair()) == [1] and both(cache.extract(1).pair()) == [101, 102]


def test_padding_after_rows_needs_the_lengths():
    cache = RotatingKVCache.merge([ring(1, 3)])
    with pytest.raises(ValueError, match="lengths are needed"):
        cache.prepare(right_padding=[1])
    cache.prepare(right_padding=[0])                      # no padding


def test_empty_rings_make_an_empty_batch_and_one_of_them_a_row_of_padding():
    empty = RotatingKVCache.merge([RotatingKVCache(4), RotatingKVCache(4)])
    assert (empty.keys, empty.max_size, empty.left_padding.tolist()) == (None, 4, [0, 0])
    cache = RotatingKVCache.merge([ring(1, 2), RotatingKVCache(4)])
    assert columns(cache) == [[1, 2], [0, 0]] and cache.left_padding.tolist() == [0, 2]
    with pytest.raises(TypeError, match="a cache without a buffer"):
        RotatingKVCache.merge([ring(1, 2, rules=AT_0_30_2), RotatingKVCache(4, rules=AT_0_30_2)])


def test_a_long_buffer_is_cut_before_a_single_token_is_stored():
    cache = RotatingKVCache.merge([ring(1, 3), ring(101, 102)])
    feed(cache, [4, 5, 6], [104, 105, 106])
    assert columns(cache) == [[1, 2, 3, 4, 5, 6], [0, 101, 102, 104, 105, 106]]
    feed(cache, [7], [107])
    assert columns(cache) == [[7, 4, 5, 6], [107, 104, 105, 106]]
    assert (cache.rotated, cache.offset.tolist()) == (True, [7, 6])
    assert both(cache.extract(1).pair()) == [104, 105, 106, 107]


def test_a_row_that_is_taken_out_follows_the_rules_of_its_batch():
    for rules in (AT_M1072, AT_PR999, AT_0_32_2):
        assert RotatingKVCache.merge([ring(1, 3, rules=rules)]).extract(0).rules is rules


def test_padding_behind_rows_is_moved_once():
    cache = RotatingKVCache.merge([ring(1, 3), ring(101, 103)])
    cache.prepare(lengths=[1, 3], right_padding=[2, 0])
    feed(cache, [4, 0, 0], [104, 105, 106])
    for _ in range(2):
        cache.finalize()
        assert [both(cache.extract(row).pair()) for row in (0, 1)] == [[1, 2, 3, 4], [101, 102, 103, 104, 105, 106]]
    feed(cache, [5], [107])
    cache.finalize()
    assert (both(cache.extract(0).pair())[-1], cache.offset.tolist()) == (5, [5, 7])


def turned(first, steps):
    """Return a batch of a ring of four tokens after this many steps of a token."""
    cache = RotatingKVCache.merge([ring(first, first + 3)])
    for n in range(steps):
        feed(cache, [first + 4 + n])
    return cache


@pytest.mark.parametrize(("steps", "joined", "rotated"), [
    ((2, 2), [[5, 6, 3, 4], [105, 106, 103, 104]], True),                   # equal rings stay as they are
    ((1, 2), [[2, 3, 4, 5], [103, 104, 105, 106]], False),
    ((2, 1), [[3, 4, 5, 6], [102, 103, 104, 105]], False),
    ((0, 4), [[1, 2, 3, 4], [105, 106, 107, 108]], False),                  # only one of them has turned
    ((4, 0), [[5, 6, 7, 8], [101, 102, 103, 104]], False),
])  # fmt: skip
def test_rings_that_differ_are_put_in_order_before_they_are_joined(steps, joined, rotated):
    cache, more = turned(1, steps[0]), turned(101, steps[1])
    cache.extend(more)
    assert (columns(cache), cache.rotated) == (joined, rotated)
    assert cache.offset.tolist() == [4 + n for n in steps]


@pytest.mark.parametrize("is_empty_first", [False, True])
def test_a_batch_without_tokens_joins_as_rows_of_padding(is_empty_first):
    empty, held = BatchRotatingKVCache(4, [0, 0]), turned(1, 1)
    cache, more = (empty, held) if is_empty_first else (held, empty)
    cache.extend(more)
    rows, padding = ([[0] * 4, [0] * 4], [4, 4]), ([[2, 3, 4, 5]], [-1])
    first, second = (rows, padding) if is_empty_first else (padding, rows)
    assert columns(cache) == first[0] + second[0] and cache.left_padding.tolist() == first[1] + second[1]
    assert cache.rotated is False


def test_batches_without_tokens_are_joined_by_their_counters():
    cache = BatchRotatingKVCache(4, [1, 0])
    cache.extend(BatchRotatingKVCache(4, [2]))
    assert cache.keys is None
    assert (cache.left_padding.tolist(), cache.offset.tolist()) == ([1, 0, 2], [-1, 0, -2])


def test_padding_behind_a_row_is_moved_before_its_next_columns_too():
    """The first row has one further token, the second one four, in two steps of two columns. A small ring forgets the
    oldest column with the second step: padding of the first row."""
    for size, oldest in ((8, 101), (4, 102)):
        cache = BatchRotatingKVCache.merge([ring(1, 2, size=size), ring(101, 102, size=size)])
        cache.prepare(lengths=[1, 4], right_padding=[3, 0])
        feed(cache, [3, 0], [103, 104])
        feed(cache, [0, 0], [105, 106])
        cache.finalize()
        assert [both(cache.extract(row).pair()) for row in (0, 1)] == [[1, 2, 3], [*range(oldest, 107)]]
        assert cache.offset.tolist() == [3, 6]


def test_the_mask_of_several_tokens_leaves_out_the_oldest_column_of_a_full_ring():
    cache = RotatingKVCache.merge([ring(1, 4), ring(101, 102)])
    mask = cache.make_mask(2)
    assert mask[:, 0].tolist() == [
        [[True, True, True, True, False], [False, True, True, True, True]],
        [[False, True, True, True, False], [False, True, True, True, True]]]
    assert feed(cache, [5, 6], [103, 104]) == [[2, 3, 4, 5, 6], [0, 101, 102, 103, 104]]


def test_a_turned_ring_that_lost_every_token_is_filled_from_its_first_column():
    cache = RotatingKVCache.merge([ring(1, 4, rules=AT_PR999)])
    feed(cache, [5])
    assert cache.trim(4) == 4 and cache.rotated is False
    assert [feed(cache, [token]) for token in (6, 7)] == [[6], [6, 7]]


def test_before_755_rings_with_tokens_make_a_batch():
    cache = RotatingKVCache.merge([ring(1, 2, rules=AT_0_30_2), ring(101, 101, rules=AT_0_30_2)])
    assert columns(cache) == [[1, 2], [0, 101]]


def test_a_row_that_is_taken_out_of_a_ring_with_room_has_no_unused_columns():
    cache = RotatingKVCache.merge([ring(1, 3, size=8), ring(101, 102, size=8)])
    feed(cache, [4], [103])
    assert cache.keys.shape[2] == 8
    for idx, tokens in enumerate(([1, 2, 3, 4], [101, 102, 103])):
        row = cache.extract(idx)
        assert (both(row.pair()), row.offset) == (tokens, len(tokens))


def test_a_token_behind_a_ring_that_is_too_long_moves_the_padding_with_the_columns():
    cache = RotatingKVCache.merge([ring(1, 4), ring(101, 102)])
    feed(cache, [5, 6], [103, 104])
    assert cache.left_padding.tolist() == [-1, 1]
    feed(cache, [7], [105])
    assert (columns(cache), cache.left_padding.tolist()) == ([[7, 4, 5, 6], [105, 102, 103, 104]], [-3, -1])
