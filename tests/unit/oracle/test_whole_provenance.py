"""Sums over visible rows, and shifted digests, written out for small numbers."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.model.hash_mixing import MASK, STEP, TAPS
from cachesim.oracle.whole_provenance import _older, _scan, _shifted, _visible_sums

X = np.array([1, 2, 4, 8, 16], np.uint64)


@pytest.mark.parametrize(("window", "sums"), [
    (0, [1, 3, 7, 15, 31]), (1, [1, 2, 4, 8, 16]), (2, [1, 3, 6, 12, 24]), (5, [1, 3, 7, 15, 31]),
    (9, [1, 3, 7, 15, 31]), (-2, [1, 3, 4, 12, 16]), (-1, [1, 2, 4, 8, 16]), (-9, [1, 3, 7, 15, 31]),
])  # fmt: skip
def test_a_token_reads_its_window_or_its_chunk(window, sums):
    with np.errstate(all="raise"):              # without a window nothing is divided by it
        assert _visible_sums(X, window).tolist() == sums


@pytest.mark.parametrize(("back", "found"), [(0, [1, 2, 4, 8, 16]), (2, [0, 0, 1, 2, 4]), (4, [0, 0, 0, 0, 1]),
                                             (5, [0] * 5), (7, [0] * 5)])  # fmt: skip
def test_a_shift_brings_zeros_from_before_the_start(back, found):
    assert _shifted(X, back).tolist() == found


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_a_rolling_hash_is_that_of_one_term_after_another(n):
    h, found = 0, []
    for term in X[:n].tolist():
        h = (h * int(STEP) + term) & MASK
        found.append(h)
    assert _scan(X[:n]).tolist() == found


@pytest.mark.parametrize("taps", [1, 2, 3])
def test_a_convolution_adds_the_inputs_before_each_one(taps):
    padded = np.concatenate((np.zeros(taps - 1, np.uint64), X))
    expected = [sum(int(X[i - back]) * int(TAPS[back - 1]) for back in range(1, taps) if i >= back) & MASK
                for i in range(5)]  # fmt: skip
    assert _older(padded, taps).tolist() == expected
