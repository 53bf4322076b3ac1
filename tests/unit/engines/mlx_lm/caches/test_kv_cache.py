"""Tests of KVCache and ConcatenateKVCache: growth, trim, bytes (specification 1.0 to 1.2, 7.8)."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from cachesim.engines.mlx_lm.caches import AT_0_30_2, AT_0_32_2, ConcatenateKVCache, KVCache
from tests.unit.engines.mlx_lm.rows import both, feed, filled, ids, numbers, told


def test_a_fresh_cache_is_empty_and_takes_no_bytes():
    cache = KVCache()
    assert (cache.empty(), cache.offset, cache.size(), cache.nbytes, cache.is_trimmable()) == (True, 0, 0, 0, True)


def test_three_tokens_take_a_whole_block():
    cache = KVCache()
    cache.update_and_fetch(numbers(1, 2, 3, 4), numbers(1, 2, 3, 4))
    assert cache.keys.shape == (1, 2, 256, 4)
    assert cache.nbytes == 2 * (2 * 256 * 4 * 4)
    assert cache.size() == 3


@pytest.mark.parametrize(("steps", "columns"), [
    ((256,), 256), ((257,), 512), ((255, 1), 256), ((256, 1), 512), ((3, 256), 259), ((3, 253), 256), ((200, 300), 712),
])  # fmt: skip
def test_growth_cuts_the_slack_and_adds_whole_blocks(steps, columns):
    cache = KVCache()
    for new in steps:
        cache.update_and_fetch(numbers(1, 1, new, 1), numbers(1, 1, new, 1))
    assert cache.keys.shape[2] == columns
    assert cache.offset == sum(steps)


def test_going_back_moves_a_counter_and_frees_nothing():
    cache = filled(KVCache(), 1, 5)
    before = cache.nbytes
    assert cache.trim(2) == 2
    assert (cache.offset, cache.nbytes) == (3, before)
    assert feed(cache, [9]) == [1, 2, 3, 9]


def test_no_more_than_all_goes_and_what_is_left_is_not_empty():
    cache = filled(KVCache(), 1, 3)
    assert cache.trim(7) == 3
    assert (cache.size(), cache.empty()) == (0, False)


def test_a_negative_trim_makes_the_cache_claim_more():
    cache = filled(KVCache(), 1, 3)
    assert cache.trim(-2) == -2
    assert cache.offset == 5
    assert both(cache.keys_and_values()) == [1, 2, 3, 0, 0]


def test_an_update_overwrites_nothing_that_was_handed_out():
    cache = filled(KVCache(), 1, 3)
    seen = cache.keys_and_values()[0]
    twin = copy.deepcopy(cache)
    cache.trim(3)
    feed(cache, [7, 8, 9])
    assert told(seen) == [1, 2, 3]
    assert both(twin.keys_and_values()) == [1, 2, 3]


def test_structured_rows_keep_their_contents():
    rows = ids(4)
    rows["k"] = np.arange(32).reshape(2, 16)
    cache = KVCache()
    keys, _ = cache.update_and_fetch(rows, rows)
    assert keys[0, 0, 0, 0] == rows[0, 0, 0, 0]


def test_concatenation_brings_back_what_was_trimmed():
    cache = ConcatenateKVCache()
    feed(cache, [1, 2, 3, 4, 5])
    assert cache.trim(3) == 3
    assert cache.offset == 2
    assert feed(cache, [6]) == [1, 2, 3, 4, 5, 6]
    assert (cache.offset, cache.size()) == (6, 0)


def test_masks_need_all_their_arguments():
    with pytest.raises(TypeError):
        KVCache().make_mask(3)


def test_masks_of_a_cache_that_holds_two():
    cache = filled(KVCache(rules=AT_0_32_2), 1, 2)
    assert cache.make_mask(1, return_array=False, window_size=None) is None
    assert cache.make_mask(2, return_array=False, window_size=None) == "causal"
    expected = [[True, True, True, False], [True, True, True, True]]
    assert cache.make_mask(2, return_array=True, window_size=None).tolist() == expected
    narrow = [[False, True, True, False], [False, False, True, True]]
    assert cache.make_mask(2, return_array=False, window_size=2).tolist() == narrow


@pytest.mark.parametrize(("queries", "as_array", "mask"), [
    (1, False, None), (1, True, None), (2, False, "causal"),
    (2, True, [[False, True, True, False], [False, False, True, True]]),
])  # fmt: skip
def test_in_0_30_2_only_a_mask_of_several_queries_that_is_an_array_has_the_window(queries, as_array, mask):
    cache = filled(KVCache(rules=AT_0_30_2), 1, 2)
    made = cache.make_mask(queries, return_array=as_array, window_size=2)
    assert (made.tolist() if isinstance(made, np.ndarray) else made) == mask


def test_the_saved_form_of_a_cache_without_room_restores_all_columns():
    cache = filled(ConcatenateKVCache(), 1, 3)
    for state in (cache.whole_state(), cache.cut_state()):
        again = ConcatenateKVCache()
        again.set_whole_state(state)
        assert (both(again.keys_and_values()), again.offset) == ([1, 2, 3], 3)
