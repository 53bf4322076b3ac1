"""Known extents of sequences: updated with each change, forgotten where an update is hard."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.base.tokens import POS_INF
from cachesim.engines.llama_cpp.memory.cell_ranges import as_array, index
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
