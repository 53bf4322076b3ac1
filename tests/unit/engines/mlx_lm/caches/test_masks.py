"""Tests that a mask given as ranges equals the full mask."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from cachesim.engines.mlx_lm.caches.array_ops import causal_ranges, create_causal_mask, rotated


def by_hand(n, offset, window, right, left):
    """Compute the mask key by key."""
    rows = len(left or right or [0])
    seen = np.array([
        [[key <= query and (window is None or query - key < window) and (not left or key >= left[row])
          and (not right or key < offset + n - right[row]) for key in range(offset + n)]
         for query in range(offset, offset + n)] for row in range(rows)
    ], bool).reshape(rows, n, offset + n)  # fmt: skip
    return seen[:, None] if left or right else seen[0]


@pytest.mark.parametrize(("n", "offset", "window"), list(product((1, 2, 5), (0, 3), (None, 1, 2, 4))))
@pytest.mark.parametrize(("right", "left"), [
    (None, None), (None, [0, 2]), ([1, 0], None), ([0, 3], [2, 0]), (None, [-1, 9]), (None, [1]),
])  # fmt: skip
def test_every_key_is_seen_or_not_as_it_says(n, offset, window, right, left):
    padding = {name: None if one is None else np.array(one) for name, one in
               (("right_padding", right), ("left_padding", left))}  # fmt: skip
    mask = create_causal_mask(n, offset, window, **padding)
    expected = by_hand(n, offset, window, right, left)
    assert mask.shape == expected.shape and mask.dtype == bool
    assert (mask == expected).all()


def test_ranges_of_a_long_prompt_are_small():
    ranges = causal_ranges(2048, 1_000_000, left_padding=np.array([0, 5]))
    assert ranges.lo.shape == ranges.hi.shape == (2, 2048)
    assert (ranges.lo[:, 0].tolist(), ranges.hi[:, -1].tolist(), ranges.width) == ([0, 5], [1_002_048] * 2, 1_002_048)


def test_without_padding_the_ranges_of_a_row_stand_for_all():
    ranges = causal_ranges(3, 4, window_size=2)
    assert (ranges.lo.tolist(), ranges.hi.tolist(), ranges.width, ranges.batch) == (
        [[3, 4, 5]], [[5, 6, 7]], 7, False)


@pytest.mark.parametrize("shape", [(1, 1, 5, 1), (2, 1, 1, 3), (1, 1, 0, 1)])
@pytest.mark.parametrize("by", [-7, -1, 0, 2, 5, 11])
def test_an_axis_rotates_like_roll(shape, by):
    array = np.arange(np.prod(shape)).reshape(shape)
    for axis in (2, -1):
        assert rotated(array, by, axis).tolist() == np.roll(array, by, axis).tolist()


def test_the_first_tokens_of_all_see_those_before_them():
    assert create_causal_mask(2).tolist() == [[True, False], [True, True]]
    ranges = causal_ranges(2)
    assert (ranges.lo.tolist(), ranges.hi.tolist(), ranges.width) == ([[0, 0]], [[1, 2]], 2)


@pytest.mark.parametrize(("offset", "width"), [(-3, 0), (-2, 0), (-1, 1), (0, 2)])
def test_a_mask_of_columns_below_zero_has_no_width(offset, width):
    """A batch that was filtered before its first token counts its columns below zero."""
    assert causal_ranges(2, offset, left_padding=np.array([0, 1])).width == width
