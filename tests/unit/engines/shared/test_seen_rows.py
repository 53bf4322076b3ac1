"""Which rows are found to be the same, and which are given out again?"""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cachesim.base.tokens import common_prefix
from cachesim.engines.shared.seen_rows import SeenRows, in_line
from cachesim.model import Rows

DIGESTS = st.lists(st.integers(0, 1), max_size=6)


def by_layer(*layers):
    n = min(map(len, layers))
    return n, {number: np.array(one[:n], np.uint64) for number, one in enumerate(layers)}


@given(st.lists(st.tuples(DIGESTS, DIGESTS), min_size=1, max_size=5))
def test_rows_are_the_same_up_to_the_first_that_differs_in_any_layer(looks):
    seen, before = SeenRows(), None
    for n, rows in (by_layer(*look) for look in looks):
        now = list(zip(*(one.tolist() for one in rows.values()), strict=True))
        same = seen.alike(n, rows)
        assert same == (0 if before is None else common_prefix(before, now))
        part = seen.take(same, n, rows)
        assert part.pos.tolist() == list(range(same, n))
        assert list(zip(*(one.digest.tolist() for one in part.rows.values()), strict=True)) == now[same:]
        before = now


def test_what_was_given_out_is_a_copy():
    seen, (n, rows) = SeenRows(), by_layer([1, 2, 3])
    part = seen.take(0, n, rows)
    rows[0][1] = 9
    assert part.rows[0].digest.tolist() == [1, 2, 3] and seen.alike(n, rows) == 1
    seen.take(1, n, rows)
    assert part.rows[0].digest.tolist() == [1, 2, 3]


def test_rows_of_other_layers_are_others():
    seen = SeenRows()
    seen.take(0, *by_layer([1, 2]))
    assert seen.alike(*by_layer([1, 2], [1, 2])) == 0


def lies(cells, pos):
    rows = {3: Rows(np.arange(10, 16).astype(np.uint64), None, None)}
    found = in_line(np.array(pos), np.array(cells, np.int64), rows)
    return None if found is None else found[3].tolist()


def test_rows_in_line_are_neighbours_in_order_from_position_0():
    pos = [-1, 0, 1, 2, 0, 2]
    assert lies([1, 2, 3], pos) == [11, 12, 13]
    assert lies([], pos) == []
    assert lies([2, 3], pos) is None                    # from position 1
    assert lies([1, 2, 5], pos) is None                 # not neighbours
    assert lies([4, 5], pos) is None                    # a hole between 0 and 2
    assert in_line(np.array(pos), range(1, 3), {}) == {}
