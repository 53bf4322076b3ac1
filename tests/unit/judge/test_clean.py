"""Which lengths of a restore point are clean? Every one of the span, seen by the next token, and none beyond it."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from cachesim.engines.view import Point, RowsPart, StatePart, Stored
from cachesim.judge.clean import clean_span
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


def span(*parts, held=None, lo=1, hi=N):
    return clean_span(Point(Stored("slot", 0, tuple(range(N)), hi, parts, held), lo, hi), Cold())


def read_by_next(window, length):
    """Positions that the token behind so many tokens reads, beside itself."""
    return range(max(0, length - window + 1) if window else 0, length)


def clean_lengths(window, foreign):
    return [n for n in range(1, N + 1) if not set(foreign) & set(read_by_next(window, n))]


@pytest.mark.parametrize("window", [0, WINDOW])
def test_nothing_that_is_read_in_the_span_is_foreign(window):
    for foreign in [(), *combinations(range(N), 1), *combinations(range(N), 2), *combinations(range(N), 3)]:
        lo, hi = span(part(window, foreign)) or (1, 0)
        assert set(range(lo, hi + 1)) <= set(clean_lengths(window, foreign))


@pytest.mark.parametrize("window", [0, WINDOW])
def test_the_span_is_the_longest_that_ends_highest(window):
    for foreign in [(), *combinations(range(N), 1)]:
        clean = clean_lengths(window, foreign)
        if not clean:
            assert span(part(window, foreign)) is None
            continue
        lo, hi = span(part(window, foreign))
        assert hi == max(clean) and (lo == 1 or lo - 1 not in clean)


@pytest.mark.parametrize(("at", "found"), [(12, (N, N)), (13, (1, 13)), (11, (19, N)), (0, (WINDOW, N))])
def test_a_row_that_has_left_the_window_does_no_harm(at, found):
    """Row 12 is out of sight for the token behind 20 tokens, row 13 is the first that it reads."""
    assert span(part(WINDOW, [at])) == found


def test_rows_beyond_the_point_are_not_looked_at():
    assert span(part(0, [15]), hi=15) == (1, 15)
    assert span(part(0, [14]), hi=15) == (1, 14)


def test_full_attention_and_window_are_both_cut():
    assert span(part(0, [17]), part(WINDOW, [2])) == (10, 17)
    assert span(part(0, [5]), part(WINDOW, [2])) == (1, 2)


@pytest.mark.parametrize(("kept", "found"), [
    (state(N), (N, N)), (state(N - 1), None), (state(N, taps=1), None), (None, None),
])  # fmt: skip
def test_a_state_is_clean_or_of_no_use(kept, found):
    assert span(part(0, []), held=StatePart(N - 1, {1: kept}), lo=N) == found
