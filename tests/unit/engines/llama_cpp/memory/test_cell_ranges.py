"""Known extents of sequences: updated with each change, forgotten where an update is hard."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.base.tokens import POS_INF
from cachesim.engines.llama_cpp.memory.cell_ranges import (
    SequenceExtents,
    as_array,
    as_range,
    concatenate_cells,
    index,
)
from cachesim.engines.llama_cpp.memory.cells import Cells
from cachesim.model.hash_mixing import Rng


def table(n_seq=2, size=16):
    """Positions 0 .. 5 of sequence 0 in cells 0 .. 5."""
    cells = Cells(size, n_seq)
    cells.place(range(6), range(6), 0)
    return cells


def known(cells, seq=0):
    return cells.extents.span[seq], cells.extents.stretch(seq)


def test_a_range_and_a_list_name_the_same_cells():
    assert (index(range(2, 5)), as_array(range(2, 5)).tolist()) == (slice(2, 5), [2, 3, 4])
    assert index(np.array([3, 1])).tolist() == as_array(np.array([3, 1])).tolist() == [3, 1]


@pytest.mark.parametrize("cells, pos, stretch", [
    (range(6, 8), range(6, 8), range(8)),                   # after the last cell and position
    (range(7, 9), range(6, 8), None),                       # a cell is left out
    (range(6, 8), range(7, 9), None),                       # a position is left out
    (np.array([6, 7]), range(6, 8), None),
])  # fmt: skip
def test_a_stretch_grows_where_cells_and_positions_go_on(cells, pos, stretch):
    mine = table()
    mine.place(cells, pos, 0)
    assert known(mine) == ((0, pos[-1]), stretch)
    mine.check()


@pytest.mark.parametrize("p0, p1, want", [
    (4, POS_INF, ((0, 3), range(4))), (0, 2, ((2, 5), range(2, 6))), (0, POS_INF, ((-1, -1), None)),
    (2, 4, ((0, 5), None)),
])  # fmt: skip
def test_a_stretch_shrinks_from_its_ends(p0, p1, want):
    mine = table()
    mine.remove(0, p0, p1)
    assert known(mine) == want
    mine.check()


def test_the_extent_is_unknown_after_another_sequence_takes_cells():
    mine = table()
    assert mine.place(range(1, 3), range(2), 1) == {0: 2}
    assert (known(mine), mine.span(0), known(mine, 1)) == ((None, None), (0, 5), ((0, 1), range(1, 3)))
    mine.check()


def test_the_end_follows_the_last_cell_that_is_used():
    mine = table()
    mine.head = 6
    assert (mine.end, mine.find(3, None)) == (6, range(6, 9))
    mine.remove(0, 4, POS_INF)
    assert (mine.end, mine.find(3, None)) == (4, range(4, 7))


@pytest.mark.parametrize("seed", range(12))
def test_known_extents_are_correct_after_random_changes(seed):
    rng, mine = Rng(seed, "cells"), table(3, 40)
    for _ in range(60):
        seq, at, n = rng.below(3), rng.below(8), 1 + rng.below(6)
        what = rng.below(6)
        found = mine.find(n, None)
        if what < 3 and found is not None:
            start = mine.span(seq)[1] + 1
            mine.place(found, range(start, start + n), seq)
            mine.head = int(found[-1]) + 1
        elif what == 3:
            mine.remove(seq - (rng.below(4) == 0), at, POS_INF if rng.chance(50) else at + n)
        elif what == 4 and mine.span((seq + 1) % 3)[0] < 0:
            mine.share(seq, (seq + 1) % 3, 0, POS_INF)
        elif what == 5 and rng.chance(20):
            saved = mine.save()
            mine.keep(seq)
            mine.restore(saved)
        mine.check()


@pytest.mark.parametrize("pos, want", [([4], range(4, 5)), ([4, 5, 6], range(4, 7)), ([4, 6], None), ([5, 4], None)])
def test_positions_that_increase_by_1_are_a_range(pos, want):
    found = as_range(np.array(pos))
    assert found == want if want else found.tolist() == pos


@pytest.mark.parametrize("cells, want", [
    ([range(2, 4)], range(2, 4)), ([range(2, 4), range(4, 5), range(5, 9)], range(2, 9)),
    ([range(2, 4), range(5, 6)], [2, 3, 5]), ([range(4, 6), range(2, 4)], [4, 5, 2, 3]),
    ([np.array([1, 2]), range(3, 5)], [1, 2, 3, 4]),
])  # fmt: skip
def test_adjacent_ranges_of_cells_are_a_range(cells, want):
    found = concatenate_cells(cells)
    assert (found if isinstance(found, range) else found.tolist()) == want


def extent(span=(-1, -1), first=-1):
    made = SequenceExtents(2)
    made.span[1], made.first[1] = span, first
    return made


@pytest.mark.parametrize("before, cells, pos, after", [
    (extent(), range(4, 7), range(10, 13), extent((10, 12), 4)),
    (extent(), np.array([4, 6]), range(10, 12), extent((10, 11), -1)),
    (extent((10, 12), 4), range(7, 9), range(13, 15), extent((10, 14), 4)),
    (extent((10, 12), 4), range(8, 9), range(13, 14), extent((10, 13), -1)),
    (extent((10, 12), 4), range(7, 9), range(14, 16), extent((10, 15), -1)),
    (extent((10, 12), 4), np.array([7]), range(13, 14), extent((10, 13), -1)),
    (extent((10, 12), 4), range(2, 4), range(5, 7), extent((5, 12), -1)),
    (extent((10, 12), 4), range(7, 8), np.array([13]), extent(None)),
    (extent(None), range(7, 8), range(13, 14), extent(None)),
    (extent((10, 12), -1), range(7, 8), range(13, 14), extent((10, 13), -1)),
    (extent((0, 2), 0), range(3, 4), range(3, 4), extent((0, 3), 0)),
])  # fmt: skip
def test_an_extent_grows(before, cells, pos, after):
    before.grow(1, cells, pos)
    assert (before.span, before.first) == (after.span, after.first)


@pytest.mark.parametrize("before, cells, after", [
    (extent((10, 14), 4), range(7, 9), extent((10, 12), 4)), (extent((10, 14), 4), range(4, 6), extent((12, 14), 6)),
    (extent((10, 14), 4), range(4, 9), extent()), (extent((10, 14), 4), range(5, 7), extent((10, 14), -1)),
    (extent((10, 14), 4), np.array([7, 8]), extent(None)), (extent((10, 14), -1), range(7, 9), extent(None)),
    (extent(None), range(7, 9), extent(None)), (extent((0, 4), 0), range(0, 1), extent((1, 4), 1)),
])  # fmt: skip
def test_an_extent_shrinks(before, cells, after):
    before.shrink(1, cells)
    assert (before.span, before.first) == (after.span, after.first)


@pytest.mark.parametrize("before, pos, after", [
    (extent((10, 14), 4), 10, extent((11, 14), -1)), (extent((10, 14), 4), 11, extent(None)),
    (extent(None), 10, extent(None)),
])  # fmt: skip
def test_an_extent_loses_its_first_position(before, pos, after):
    before.drop_first(1, pos)
    assert (before.span, before.first) == (after.span, after.first)


@pytest.mark.parametrize("seq, span, first", [(0, [None, (10, 14)], [-1, 4]), (-1, [None, None], [-1, -1])])
def test_an_extent_is_forgotten_of_a_sequence_or_of_all(seq, span, first):
    mine = extent((10, 14), 4)
    twin = mine.copy()
    mine.forget(seq)
    assert (mine.span, mine.first) == (span, first)
    assert (twin.span, twin.first) == ([(-1, -1), (10, 14)], [-1, 4])
    assert (twin.stretch(0), twin.stretch(1)) == (None, range(4, 9)) and extent((10, 14), 0).stretch(1) == range(5)
    assert extent(None, 4).stretch(1) is None


@pytest.mark.parametrize(("cells", "positions", "taken", "span"), [
    (range(6), range(6), [0], (1, 6)),                      # a ring goes on: the next cell has the next position
    (range(6), range(6), [5], None),                        # not the first position, and no cell after it
    (range(6), range(6), [2], None),
    (np.array([0, 1, 2]), np.array([0, 5, 6]), [0], None),  # the next cell has another position
    (np.array([0, 2, 1]), np.array([0, 1, 2]), [0], None),
    (range(6), range(6), [0, 1], None),
])  # fmt: skip
def test_the_extent_stays_known_if_the_next_cell_has_the_next_position(cells, positions, taken, span):
    """The new position 6 or 7 of the same sequence is in the cell of a lost one."""
    mine = Cells(16, 2)
    mine.place(cells, positions, 0)
    new = max(positions) + 1
    mine.place(np.array(taken), range(new, new + len(taken)), 0)
    assert mine.extents.span[0] == span and mine.extents.stretch(0) is None
    mine.check()


def test_a_successor_of_another_sequence_is_none():
    mine = Cells(16, 2)
    mine.place(range(1), range(1), 0), mine.place(range(1, 2), range(1, 2), 1), mine.place(range(2, 4), range(1, 3), 0)
    assert mine.place(range(1), range(3, 4), 0) == {0: 0}
    assert mine.extents.span == [None, (1, 1)] and mine.span(0) == (1, 3)


def test_the_last_cell_of_a_table_has_no_next_one():
    mine = Cells(6, 2)
    mine.place(range(6), range(6), 0)
    assert mine.place(range(5, 6), range(1), 1) == {0: 5}
    assert mine.extents.span == [None, (0, 0)] and mine.span(0) == (0, 4)
    mine.check()


def test_each_sequence_that_loses_a_cell_is_told_with_its_largest_position():
    mine = Cells(8, 3)
    mine.place(range(3), range(4, 7), 0), mine.place(range(3, 6), range(3), 1)
    assert mine.place(range(2, 5), range(3), 2) == {0: 6, 1: 1}
    assert (mine.span(0), mine.span(1), mine.span(2), mine.used) == ((4, 5), (2, 2), (0, 2), 6)
    mine.check()
