"""Buffers of rows: room, rotation and selection, compared with NumPy's own operations."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.engines.mlx_lm.caches.array_ops import (
    INDEX,
    blank,
    causal_ranges,
    chosen,
    columns,
    counters,
    create_attention_mask,
    joined,
    rolled,
    rotated,
    stored,
    with_room,
    written,
)

ROWS = np.arange(2 * 1 * 5 * 2).reshape(2, 1, 5, 2)


@pytest.mark.parametrize("axis", [0, 2, -1])
@pytest.mark.parametrize("by", [-7, -1, 0, 1, 3, 5, 12])
def test_an_axis_is_rotated_like_numpy_does(by, axis):
    assert (rotated(ROWS, by, axis) == np.roll(ROWS, by, axis)).all()
    assert rotated(ROWS[:, :, :0], by, 2).shape == (2, 1, 0, 2)


def test_each_row_of_a_batch_is_rotated_by_its_own_number():
    found = rolled(ROWS, np.array([1, 3]))
    assert (found[0] == np.roll(ROWS[0], 1, 1)).all() and (found[1] == np.roll(ROWS[1], 3, 1)).all()


def test_shifts_for_another_number_of_rows_are_refused():
    with pytest.raises(ValueError, match="3 shifts for 2 rows"):
        rolled(ROWS, np.array([1, 2, 3]))
    assert (rolled(ROWS, np.array([1])) == np.roll(ROWS, 1, 2)).all()
    assert (rolled(ROWS[:1], np.array([1, 2])) == rolled(np.repeat(ROWS[:1], 2, axis=0), np.array([1, 2]))).all()


@pytest.mark.parametrize("held, new, step, width", [
    (5, 1, 4, 9), (3, 2, 4, 5), (3, 3, 4, 7), (4, 2, 2, 7), (0, 6, 4, 13),
])  # fmt: skip
def test_a_buffer_grows_by_whole_blocks(held, new, step, width):
    found = with_room(ROWS, held, ROWS[:, :, :1].repeat(new, axis=2), step)
    assert columns(found) == width and (found[:, :, :held] == ROWS[:, :, :held]).all()
    assert (found is ROWS) is (held + new <= 5)


def test_a_new_buffer_has_as_many_blocks_as_its_rows_need():
    assert [columns(with_room(None, 0, ROWS[:, :, :n], 4)) for n in (1, 4, 5)] == [4, 4, 8]
    assert not with_room(None, 0, ROWS, 4).any()


def test_rows_are_written_into_a_copy():
    found = written(ROWS, 1, ROWS[:, :, 3:])
    assert (found[:, :, 1:3] == ROWS[:, :, 3:]).all() and (found[:, :, 3:] == ROWS[:, :, 3:]).all()
    assert (np.arange(20).reshape(ROWS.shape) == ROWS).all()
    assert (joined(ROWS, found)[:, :, 5:] == found).all() and (chosen(ROWS, [1, 0, 1]) == ROWS[[1, 0, 1]]).all()


def test_empty_buffers_have_the_other_axes_and_counters_are_small_integers():
    assert blank(ROWS, 3).shape == (2, 1, 3, 2) and blank(ROWS, 3, rows=4, dtype=bool).shape == (4, 1, 3, 2)
    assert (blank(ROWS, 3).dtype, blank(ROWS, 3, dtype=bool).dtype) == (ROWS.dtype, np.dtype(bool))
    assert counters([1, 2]).dtype == INDEX and stored(ROWS) is ROWS
    with pytest.raises(TypeError, match="no buffer yet"):
        stored(None)


@pytest.mark.parametrize("window, left, right, seen", [
    (None, None, None, [[1, 1, 1, 0], [1, 1, 1, 1]]), (2, None, None, [[0, 1, 1, 0], [0, 0, 1, 1]]),
    (None, [1], None, [[0, 1, 1, 0], [0, 1, 1, 1]]), (None, None, [1], [[1, 1, 1, 0], [1, 1, 1, 0]]),
])  # fmt: skip
def test_a_query_sees_the_keys_before_it_in_its_window_and_outside_the_padding(window, left, right, seen):
    paddings = [None if one is None else np.array(one) for one in (right, left)]
    ranges = causal_ranges(2, 2, window, *paddings)
    assert np.asarray(ranges).reshape(2, 4).astype(int).tolist() == seen
    assert (ranges.width, ranges.batch) == (4, left is not None or right is not None)


def test_a_mask_is_an_array_only_if_one_is_needed():
    assert (create_attention_mask(1, 3, True, None), create_attention_mask(2, 3, False, None)) == (None, "causal")
    assert create_attention_mask(2, 3, True, None).shape == (2, 5)
    assert create_attention_mask(1, 3, False, 2).tolist() == [[False, False, True, True]]


def test_no_rows_can_be_chosen():
    assert chosen(ROWS, []).shape == (0, 1, 5, 2)
