"""Which lengths of a restore point are clean? All of the spans, and none beside them."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest

from cachesim.engines.judge_view import Point, RowsPart, StatePart, Stored
from cachesim.judging.clean_prefix import clean_spans
from cachesim.model import LayerState, Rows

N, WINDOW = 20, 8


def state(n, taps=0):
    """A recurrent state with this hash and these inputs of its convolution."""
    return LayerState(np.full(2, taps, np.uint64), n, None, None)


class Cold:
    """A cold run whose row at position p has the digest p, and whose state after n tokens the hash n."""

    def rows(self, layer):
        return Rows(np.arange(N, dtype=np.uint64), None, None)

    def state_at(self, layer, n):
        return state(n)


def part(window, foreign):
    """Rows 0 .. N-1 of one layer, those at these positions not a cold run's."""
    digest = np.arange(N, dtype=np.uint64)
    digest[list(foreign)] += 1000
    return RowsPart(window, np.arange(N), {0: Rows(digest, None, None)})


def spans(*parts, held=None, lo=1, hi=N):
    return clean_spans(Point(Stored("slot", 0, tuple(range(N)), hi, parts, held), lo, hi), Cold())


def read_by_next(window, length):
    """Positions that the token behind so many tokens reads, beside itself."""
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


def test_full_attention_and_window_are_both_cut():
    assert spans(part(0, [17]), part(WINDOW, [2])) == ((1, 2), (10, 17))
    assert spans(part(0, [5]), part(WINDOW, [2])) == ((1, 2),)


@pytest.mark.parametrize(("kept", "found"), [
    (state(N), ((N, N),)), (state(N - 1), ()), (state(N, taps=1), ()), (None, ()),
])  # fmt: skip
def test_a_state_is_clean_or_of_no_use(kept, found):
    assert spans(part(0, []), held=StatePart(N - 1, {1: kept}), lo=N) == found


@pytest.mark.parametrize("step", [2, 3, 4])
@pytest.mark.parametrize("window", [0, WINDOW])
def test_of_a_point_with_a_step_only_its_own_lengths_count(window, step):
    """Kept in blocks: lengths between their ends are none that anybody could go on from."""
    lengths = range(step, N + 1, step)
    for foreign in [(), *combinations(range(N), 1), *combinations(range(N), 2)]:
        found = clean_spans(
            Point(Stored("block", 0, tuple(range(N)), N, (part(window, foreign),), None), step, lengths[-1], step),
            Cold(),
        )
        told = [n for lo, hi in found for n in range(lo, hi + 1, step)]
        assert told == [n for n in clean_lengths(window, foreign) if n in lengths]
        assert all(end in lengths for span in found for end in span)
