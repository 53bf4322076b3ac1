"""Tests of the clean lengths of a restore point."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest

from cachesim.engines.inspection import RestorePoint, RowsPart, StatePart, StoredContent, StoredObject
from cachesim.judging.clean_ranges import clean_spans, foreign_positions, foreign_rows
from cachesim.model import KVRows, LayerState

N, WINDOW = 20, 8


def state(n, taps=0):
    """A recurrent state with this hash and these inputs of its convolution."""
    return LayerState(np.full(2, taps, np.uint64), n, None, None)


class Cold:
    """A cold run whose row at position p has the digest p, and whose state after n tokens the hash n."""

    def __init__(self, n=N):
        self.n = n

    def rows(self, layer):
        return KVRows(np.arange(self.n, dtype=np.uint64), None, None)

    def state_at(self, layer, n):
        return state(n)


def part(window, foreign):
    """Rows 0 .. N-1 of a layer; those at these positions differ from a cold run."""
    digest = np.arange(N, dtype=np.uint64)
    digest[list(foreign)] += 1000
    return RowsPart(window, np.arange(N), {0: KVRows(digest, None, None)})


def spans(*parts, held=None, lo=1, hi=N, step=1, inherited=None):
    """Return the clean spans of a restore point with these rows and this state; ``inherited`` foreign rows are in no
    part."""
    tokens = tuple(range(N))
    foreign = {window: list(positions) for window, positions in (inherited or {}).items()}
    for one in parts:
        foreign.setdefault(one.window, []).extend(foreign_rows(one, Cold(), N))
    point = RestorePoint(("slot", 0, 0), N, tokens, 0, None, lo, hi, step)
    return clean_spans(point, StoredObject("slot", 0, tokens, hi, parts, held), foreign, Cold())


def read_by_next(window, length):
    """Return the positions that the token after so many tokens reads, besides itself."""
    return range(max(0, length - window + 1) if window else 0, length)


def clean_lengths(window, foreign):
    return [n for n in range(1, N + 1) if not set(foreign) & set(read_by_next(window, n))]


@pytest.mark.parametrize("window", [0, WINDOW, 1])
def test_the_spans_are_all_clean_lengths_and_no_others(window):
    for foreign in [(), *combinations(range(N), 1), *combinations(range(N), 2), *combinations(range(N), 3)]:
        found = spans(part(window, foreign))
        assert [n for lo, hi in found for n in range(lo, hi + 1)] == clean_lengths(window, foreign)
        assert all(hi + 1 < lo for (_, hi), (lo, _) in pairwise(found)), "neighbours are one span"


@pytest.mark.parametrize(("at", "found"), [
    (12, ((1, 12), (N, N))), (13, ((1, 13),)), (11, ((1, 11), (19, N))), (0, ((WINDOW, N),)),
])  # fmt: skip
def test_a_row_that_has_left_the_window_does_no_harm(at, found):
    """Row 12 is out of sight for the token behind 20 tokens, row 13 is the first that it reads."""
    assert spans(part(WINDOW, [at])) == found


def test_two_foreign_rows_leave_what_lies_between_their_windows():
    assert spans(part(WINDOW, [2, 14])) == ((1, 2), (10, 14))


def test_rows_beyond_the_point_are_not_looked_at():
    assert spans(part(0, [15]), hi=15) == ((1, 15),)
    assert spans(part(0, [14]), hi=15) == ((1, 14),)
    assert spans(part(WINDOW, [17]), hi=15) == spans(part(WINDOW, [15]), hi=15) == ((1, 15),)


def test_rows_of_other_objects_count_like_rows_of_its_own():
    """The rows before ``start`` belong to another restore point. Its foreign rows are known by position only."""
    assert spans(part(0, [17]), inherited={0: [12]}) == ((1, 12),)
    assert spans(part(0, [17]), inherited={WINDOW: [2]}) == ((1, 2), (10, 17))
    assert spans(inherited={0: [12]}) == ((1, 12),)


def test_a_point_without_a_usable_length_has_no_clean_span():
    assert spans(part(0, []), lo=9, hi=9) == ((9, 9),)
    assert spans(part(0, []), lo=10, hi=9) == ()
    assert spans(part(0, [3]), lo=10, hi=9) == ()


def test_full_attention_and_window_are_both_cut():
    assert spans(part(0, [17]), part(WINDOW, [2])) == ((1, 2), (10, 17))
    assert spans(part(0, [5]), part(WINDOW, [2])) == ((1, 2),)
    assert spans(part(0, [2]), part(WINDOW, [5])) == ((1, 2),)


@pytest.mark.parametrize(("kept", "found"), [
    (state(N), ((N, N),)), (state(N - 1), ()), (state(N, taps=1), ()), (None, ()),
])  # fmt: skip
def test_a_state_is_clean_or_of_no_use(kept, found):
    assert spans(part(0, []), held=StatePart(N - 1, {1: kept}), lo=N) == found


@pytest.mark.parametrize(("kept", "found"), [(15, ((15, 15),)), (14, ()), (N, ())])
def test_a_state_belongs_to_the_length_of_the_point(kept, found):
    """The tokens continue after it."""
    assert spans(part(0, []), held=StatePart(14, {1: state(kept)}), lo=15, hi=15) == found


@pytest.mark.parametrize("step", [2, 3, 4])
@pytest.mark.parametrize("window", [0, WINDOW])
def test_of_a_point_with_a_step_only_its_own_lengths_count(window, step):
    """Stored in blocks: lengths inside a block are not usable."""
    lengths = range(step, N + 1, step)
    for foreign in [(), *combinations(range(N), 1), *combinations(range(N), 2)]:
        found = spans(part(window, foreign), lo=step, hi=lengths[-1], step=step)
        told = [n for lo, hi in found for n in range(lo, hi + 1, step)]
        assert told == [n for n in clean_lengths(window, foreign) if n in lengths]
        assert all(end in lengths for span in found for end in span) and all(lo <= hi for lo, hi in found)


def rows_at(positions, *foreign):
    """Rows at these positions of a layer for each set of foreign positions."""
    at = np.array(positions, np.int64)
    layers = {}
    for layer, wrong in enumerate(foreign):
        digest = at.astype(np.uint64)
        digest[np.isin(at, list(wrong))] += 1000
        layers[layer] = KVRows(digest, None, None)
    return RowsPart(0, at, layers)


BACKWARDS = range(N)[::-1]


@pytest.mark.parametrize("positions", [
    range(N), range(5, N), [*range(8), *range(10, N)], BACKWARDS, [*range(7, N), *range(7)], [0, 2, 1, 3],
], ids=["all", "from 5 on", "with a hole", "backwards", "turned", "two swapped"])  # fmt: skip
def test_foreign_rows_are_found_in_every_layer_and_order(positions):
    for wrong in [(), (3,), (7, 12), (0, 11, N - 1)]:
        want = sorted({3, *wrong} & set(positions))
        assert foreign_rows(rows_at(positions, wrong, (3,)), Cold(), N) == want
        assert foreign_rows(rows_at(positions, (3,), wrong), Cold(), N) == want
        assert foreign_rows(rows_at(positions, wrong), Cold(), N) == sorted(set(wrong) & set(positions))


@pytest.mark.parametrize("positions", [range(N), BACKWARDS], ids=["ascending", "backwards"])
def test_rows_behind_the_tokens_are_not_compared(positions):
    """The cold run may end where the tokens end: it has no rows for later tokens."""
    for n in (12, 13):
        assert foreign_rows(rows_at(positions, [4, 12, 15]), Cold(n), n) == ([4] if n == 12 else [4, 12])
        assert foreign_rows(rows_at(range(n + 1), [4, n]), Cold(n), n) == [4]


def test_a_layer_without_rows_has_no_foreign_ones():
    assert foreign_rows(rows_at([], [3]), Cold(), N) == []
    assert foreign_rows(rows_at([3], [3]), Cold(), N) == [3] and foreign_rows(rows_at([3], []), Cold(), N) == []


@pytest.mark.parametrize(("earlier", "foreign", "found"), [
    ({}, (), {}),
    ({}, (3, 12), {WINDOW: [3, 12]}),
    ({0: [2, 10, 15]}, (12,), {0: [2], WINDOW: [12]}),        # rows from the start of the point on are its own
    ({WINDOW: [2]}, (), {}),                              # the window's rows were inspected again
])  # fmt: skip
def test_earlier_foreign_rows_stay_foreign_before_the_rows_of_the_point(earlier, foreign, found):
    point = RestorePoint(("slot", 0, 0), N, (), 10, ("slot", 0, 0), 1, N)
    assert foreign_positions(point, StoredContent((part(WINDOW, foreign),), None), Cold(), earlier) == found


def test_earlier_foreign_rows_are_kept_beside_those_of_the_point():
    point = RestorePoint(("slot", 0, 0), N, (), 10, ("slot", 0, 0), 1, N)
    rows = rows_at(range(10, N), (12,))
    found = foreign_positions(point, StoredContent((rows,), None), Cold(), {rows.window: [2, 15]})
    assert found == {rows.window: [2, 12]}
    none, compressed = rows_at([], ()), rows_at(range(2), ())._replace(every=4)
    for part_ in (none, compressed):                      # neither begins at a position of its own
        assert foreign_positions(point, StoredContent((part_,), None), Cold(), {0: [2, 5, 15]}) == {0: [2, 5]}
    longer = rows_at(range(6, N), (12,))                  # the rows of a window may begin before the point does
    found = foreign_positions(point, StoredContent((longer,), None), Cold(), {rows.window: [5, 6, 9]})
    assert found == {rows.window: [5, 12]}
