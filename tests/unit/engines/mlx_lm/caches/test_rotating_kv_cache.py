"""Tests of RotatingKVCache: wrap, order, trim, masks (specification 1.3, 1.9, 4.5, 5.9)."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from cachesim.engines.mlx_lm.caches import AT_0_25_1, AT_PR999, RotatingKVCache
from tests.unit.engines.mlx_lm.rows import VALUE, both, feed, filled, told


def test_single_tokens_overwrite_the_oldest():
    ring = RotatingKVCache(4)
    seen = [feed(ring, [token]) for token in range(1, 7)]
    assert seen == [[1], [1, 2], [1, 2, 3], [1, 2, 3, 4], [5, 2, 3, 4], [5, 6, 3, 4]]
    assert (ring.offset, ring.size()) == (6, 4)


def test_kept_columns_are_never_overwritten():
    ring = RotatingKVCache(4, keep=1)
    seen = [feed(ring, [token]) for token in range(1, 9)]
    assert seen[4:] == [[1, 5, 3, 4], [1, 5, 6, 4], [1, 5, 6, 7], [1, 8, 6, 7]]


def test_a_first_step_is_kept_whole_and_cut_by_the_next():
    ring = filled(RotatingKVCache(4), 1, 6)
    assert (ring.offset, ring.size()) == (6, 4)
    assert feed(ring, [7, 8]) == [4, 5, 6, 7, 8]          # 4 - 1 old and the new
    assert feed(ring, [9]) == [9, 6, 7, 8]


def test_several_tokens_after_a_wrap_come_in_temporal_order():
    ring = filled(RotatingKVCache(4), 1, 4)
    feed(ring, [5])
    assert feed(ring, [6, 7]) == [3, 4, 5, 6, 7]


def test_until_487_a_full_ring_keeps_every_column_before_several_tokens():
    ring = filled(RotatingKVCache(4, rules=AT_0_25_1), 1, 6)
    assert np.asarray(ring.make_mask(2)).shape[-1] == 6
    assert feed(ring, [7, 8]) == [3, 4, 5, 6, 7, 8]
    assert feed(ring, [9]) == [9, 6, 7, 8]
    assert ring.meta_state == ("0", "4", "256", "9", "1")


def test_kept_columns_stay_when_several_tokens_come():
    ring = filled(RotatingKVCache(4, keep=1), 1, 4)
    assert feed(ring, [5, 6]) == [1, 3, 4, 5, 6]


@pytest.mark.parametrize(("tokens", "trimmable"), [(0, True), (3, True), (4, False), (9, False)])
def test_a_ring_goes_back_only_before_it_is_full(tokens, trimmable):
    ring = RotatingKVCache(4)
    for token in range(tokens):
        feed(ring, [token])
    assert ring.is_trimmable() is trimmable


def test_going_back_before_the_wrap():
    ring = filled(RotatingKVCache(8), 1, 5)
    assert ring.trim(2) == 2
    assert ring.offset == 3
    assert feed(ring, [9]) == [1, 2, 3, 9]


def test_growth_by_blocks_up_to_the_ring():
    ring = RotatingKVCache(300)
    feed(ring, [1])
    assert ring.keys.shape[2] == 256
    for token in range(256):
        feed(ring, [token])
    assert ring.keys.shape[2] == 300


def test_masks():
    ring = filled(RotatingKVCache(4), 1, 3)
    assert ring.make_mask(1) is None
    assert ring.make_mask(2, return_array=True).shape == (2, 5)
    assert ring.make_mask(2)[1].tolist() == [False, True, True, True, True]
    feed(ring, [4])
    # three tokens are visible, token 1 was overwritten: the mask is rotated like the ring
    assert ring.make_mask(1, window_size=3).tolist() == [True, False, True, True]


def test_a_ring_cannot_be_quantized():
    with pytest.raises(NotImplementedError):
        RotatingKVCache(4).to_quantized()


def wrapped_999():
    """Window 8, 20 tokens at once and 12 singly: the ring holds 24..31."""
    ring = RotatingKVCache(8, rules=AT_PR999)
    feed(ring, range(20))
    for token in range(20, 32):
        feed(ring, [token])
    return ring


@pytest.mark.parametrize(("n", "held"), [(1, [*range(24, 31)]), (2, [*range(24, 30)]), (7, [24])])
def test_pr999_loses_what_the_ring_had_dropped(n, held):
    ring = wrapped_999()
    assert ring.is_trimmable()
    assert ring.trim(n) == n
    assert both(ring.keys_and_values()) == held
    assert (ring.offset, ring.size()) == (32 - n, 8 - n)


def test_pr999_drops_the_buffer_when_all_goes():
    ring = wrapped_999()
    assert ring.trim(20) == 8
    assert (ring.empty(), ring.offset) == (True, 24)


def test_pr999_keeps_the_first_columns_after_a_long_step():
    ring = RotatingKVCache(8, rules=AT_PR999)
    feed(ring, range(20))
    assert ring.trim(1) == 1
    assert both(ring.keys_and_values()) == [0, 1, 2, 3, 4, 5, 6]
    assert ring.offset == 19
    assert ring.meta_state == ("0", "8", "19", "7", "7")


@pytest.mark.parametrize("keep", [0, 1, 2])
def test_any_order_of_steps_leaves_the_first_and_the_last_tokens_in_order(keep):
    """Compared with a list of all tokens: a step of several tokens keeps one column less of the older ones."""
    for steps in product((1, 2, 5), repeat=4):
        ring, tokens, seen = RotatingKVCache(4, keep=keep), [], []
        for n in steps:
            new = [*range(len(tokens) + 1, len(tokens) + n + 1)]
            old = seen[:keep] + seen[keep:][-(4 - keep - 1):] if len(seen) >= 4 else seen
            seen = old + new
            tokens += new
            feed(ring, new)
            held = told(ring.temporal(ring.keys_and_values()[0]))
            assert held == seen and (ring.offset, ring.size()) == (len(tokens), min(len(tokens), 4))


def test_unused_columns_are_no_part_of_the_order():
    ring = RotatingKVCache(600)
    feed(ring, [1])
    feed(ring, [2])
    assert told(ring.temporal(ring.pair()[0])) == [1, 2]
    assert told(ring.temporal(ring.pair()[1])) == [VALUE + 1, VALUE + 2]


@pytest.mark.parametrize(("tokens", "window", "mask"), [
    (1, 2, None), (2, 2, [0, 1, 1]), (3, 2, [0, 0, 1, 1]), (5, 2, [0, 0, 0, 0, 1, 1]), (5, 5, [0, 1, 1, 1, 1, 1]),
    (5, None, None), (5, 8, None), (7, 3, [0, 0, 0, 0, 0, 1, 1, 1]), (8, 3, [1, 0, 0, 0, 0, 0, 1, 1]),
    (9, 3, [1, 1, 0, 0, 0, 0, 0, 1]),
])  # fmt: skip
def test_a_token_with_a_smaller_window_sees_the_last_columns_and_its_own(tokens, window, mask):
    """The ring has eight columns, and the next token goes to column ``tokens``, after the last one to column 0."""
    cache = RotatingKVCache(8)
    for token in range(tokens):
        feed(cache, [token])
    found = cache.make_mask(1, window)
    assert found is None if mask is None else found.astype(int).tolist() == mask


def test_a_ring_without_tokens_begins_at_its_first_column():
    ring = RotatingKVCache(4, keep=1)
    assert (ring.offset, ring.size()) == (0, 0)
    assert ring.whole_state() == (None, None, 0, 1, 4, 0)


def test_a_mask_that_a_kernel_applies_itself_is_an_array_only_if_asked_for():
    cache = RotatingKVCache(8)
    assert isinstance(cache.make_mask(3), str) and cache.make_mask(3) == "causal"
    assert cache.make_mask(3, return_array=True).tolist() == [[True, False, False], [True, True, False], [True] * 3]


def test_a_ring_that_is_cut_has_no_columns_behind_its_tokens():
    cache = filled(RotatingKVCache(4, rules=AT_PR999), 1, 4)
    feed(cache, [5])
    assert cache.trim(1) == 1 and cache.keys.shape[2] == 3
    assert both(cache.keys_and_values()) == [2, 3, 4]


def test_a_mask_is_an_array_only_beyond_the_window():
    cache = filled(RotatingKVCache(4), 1, 2)
    assert isinstance(cache.make_mask(2), str) and not isinstance(cache.make_mask(3), str)
    feed(cache, [3]), feed(cache, [4])
    assert cache.make_mask(1, window_size=4) is None and cache.make_mask(1, window_size=5) is None
    assert cache.make_mask(1, window_size=3).tolist() == [True, False, True, True]
