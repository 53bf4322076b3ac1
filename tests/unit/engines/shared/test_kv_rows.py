"""Rows in memory cells: growing tables, copies, views, and positions without a gap."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.engines.shared.kv_rows import (
    FIRST,
    contiguous_length,
    copy_rows,
    empty_rows,
    extend_array,
    grown_size,
    read_rows,
    replace_rows,
    sort_by_position,
    write_rows,
    zero_rows,
)
from cachesim.model import KVRows


def rows(*digests, numbers=False):
    """Rows with these digests; with numbers, k is the digest and v twice the digest."""
    column = np.array(digests, float).reshape(-1, 1)
    return KVRows(np.array(digests, np.uint64), column if numbers else None, 2 * column if numbers else None)


def written(*digests, cells=None, numbers=False):
    """A table of layer 0 with these rows in cells 0, 1, .. or in other cells."""
    table = empty_rows([0])
    write_rows(table, 0, np.arange(len(digests)) if cells is None else cells, rows(*digests, numbers=numbers))
    return table


@pytest.mark.parametrize(("has", "need", "most", "size"), [
    (0, 1, None, FIRST), (0, FIRST, None, FIRST), (0, FIRST + 1, None, 2 * FIRST), (FIRST, FIRST, None, FIRST),
    (300, 301, None, 600), (FIRST, 1025, None, 2048), (FIRST, 257, 400, 400), (700, 300, None, 700),
    (700, 300, 400, 700),
])  # fmt: skip
def test_a_table_doubles_until_it_is_large_enough(has, need, most, size):
    assert grown_size(has, need, most) == size


def test_an_array_is_extended_along_an_axis():
    array = np.array([[1, 2], [3, 4]])
    assert extend_array(array, 3).tolist() == [[1, 2], [3, 4], [0, 0]]
    assert extend_array(array, 3, axis=1, fill=9).tolist() == [[1, 2, 9], [3, 4, 9]]


def test_rows_are_written_to_scattered_cells_and_read_back_in_any_order():
    table = written(7, 8, 9, cells=np.array([4, 0, 2]))
    assert len(table[0].digest) == FIRST
    assert read_rows(table[0], np.array([2, 4, 1])).digest.tolist() == [9, 7, 0]
    assert read_rows(table[0], slice(0, 5)).digest.tolist() == [8, 0, 9, 0, 7]


def test_rows_of_a_slice_are_a_view_and_a_table_grows_for_them():
    table = written(*range(1, FIRST + 1))
    write_rows(table, 0, slice(FIRST, FIRST + 2), rows(5, 6))
    assert len(table[0].digest) == 2 * FIRST
    seen = read_rows(table[0], slice(FIRST - 1, FIRST + 2))
    assert seen.digest.tolist() == [FIRST, 5, 6]
    write_rows(table, 0, np.array([FIRST]), rows(50))
    assert seen.digest.tolist() == [FIRST, 50, 6]


def test_rows_up_to_the_end_of_a_table_are_a_view_that_later_writes_change():
    table = written(*range(1, FIRST + 1))
    seen = read_rows(table[0], slice(FIRST - 2, FIRST))
    write_rows(table, 0, slice(FIRST - 1, FIRST), rows(50))
    assert seen.digest.tolist() == [FIRST - 1, 50] and len(table[0].digest) == FIRST


def test_a_copy_does_not_change_with_its_rows():
    kept = rows(1, 2, numbers=True)
    copied = copy_rows(kept)
    for array in kept:
        array[0] = 77
    assert (copied.digest.tolist(), copied.k.tolist(), copied.v.tolist()) == ([1, 2], [[1], [2]], [[2], [4]])
    assert copy_rows(rows(3)).k is None and copy_rows(rows(3)).v is None


def test_a_write_beyond_the_end_keeps_what_is_there():
    table = written(1, 2, 3, numbers=True)
    write_rows(table, 0, np.array([FIRST + 9]), rows(4, numbers=True))
    found = read_rows(table[0], np.array([0, 2, FIRST + 9]))
    assert (found.digest.tolist(), found.k.tolist()) == ([1, 3, 4], [[1], [3], [4]])
    assert found.v.tolist() == [[2], [6], [8]]


@pytest.mark.parametrize("cells", [slice(FIRST - 1, FIRST + 2), np.array([FIRST - 1, FIRST, FIRST + 1])])
def test_cells_that_were_never_written_are_zero_and_reading_does_not_grow_the_table(cells):
    table = written(*range(1, FIRST + 1))
    assert read_rows(table[0], cells).digest.tolist() == [FIRST, 0, 0]
    assert len(table[0].digest) == FIRST


def test_numbers_get_arrays_when_the_first_of_them_arrive():
    table = written(1, 2)
    assert table[0].k is None and table[0].v is None
    write_rows(table, 0, np.array([1]), rows(3, numbers=True))
    assert (table[0].k[:3].tolist(), table[0].v[:3].tolist()) == ([[0], [3], [0]], [[0], [6], [0]])
    write_rows(table, 0, np.array([0]), rows(4, numbers=True))
    assert table[0].k[:2].tolist() == [[4], [3]]


def test_zeroing_leaves_other_cells_and_cells_beyond_the_end():
    table = written(1, 2, 3, numbers=True)
    zero_rows(table[0], np.array([0, 2, FIRST, FIRST + 5]))
    assert table[0].digest[:4].tolist() == [0, 2, 0, 0]
    assert table[0].k[:3].tolist() == [[0], [2], [0]] and table[0].v[:3].tolist() == [[0], [4], [0]]


def test_replacing_copies_the_rows_and_keeps_arrays_of_numbers():
    table, other = written(1, 2, 3, numbers=True), rows(8, 9, numbers=True)
    replace_rows(table, 0, other)
    other.digest[0], other.k[0] = 77, 77
    assert (table[0].digest.tolist(), table[0].k.tolist(), table[0].v.tolist()) == ([8, 9], [[8], [9]], [[16], [18]])
    replace_rows(table, 0, rows(5))
    assert (table[0].digest.tolist(), table[0].k.tolist(), table[0].v.tolist()) == ([5], [[0]], [[0]])
    replace_rows(plain := written(1), 0, rows(5, 6))
    assert plain[0].k is None and plain[0].digest.tolist() == [5, 6]


@pytest.mark.parametrize(("cells", "pos", "positions", "order"), [
    ([3, 4, 5], [0, 1, 2], [0, 1, 2], slice(3, 6)), ([3, 5, 7], [0, 1, 2], [0, 1, 2], [3, 5, 7]),
    ([3, 4, 5], [2, 0, 1], [0, 1, 2], [4, 5, 3]), ([9], [6], [6], slice(9, 10)), ([], [], [], []),
    ([4, 5], [1, 1], [1, 1], slice(4, 6)), ([5, 6], [1, 0], [0, 1], [6, 5]),
])  # fmt: skip
def test_cells_are_sorted_by_position_and_contiguous_ones_become_a_slice(cells, pos, positions, order):
    found, where = sort_by_position(np.array(cells, int), np.array(pos, int))
    assert found.tolist() == positions
    assert (where if isinstance(where, slice) else where.tolist()) == order


@pytest.mark.parametrize(("pos", "length"), [
    ([], 0), ([0], 1), ([0, 1, 2], 3), ([1, 2], 0), ([0, 1, 3], 2), ([2, 0, 1], 3), ([0, 0, 1], 2), ([0, 2, 1, 4], 3),
    ([0, 0, 2], 1), ([0, 2, 1, 3], 4),
])  # fmt: skip
def test_rows_count_up_to_the_first_gap(pos, length):
    assert contiguous_length(np.array(pos, int)) == length


def test_cells_with_equal_positions_keep_their_order():
    pos = np.array([1] * 40 + [0] * 40)
    found, where = sort_by_position(np.arange(80), pos)
    assert found.tolist() == [0] * 40 + [1] * 40 and where.tolist() == [*range(40, 80), *range(40)]
