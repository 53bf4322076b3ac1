"""Norms of vectors of zeros, and the sign of every number."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.model.norms import head_norm, rms_norm, unit, wide_norm

NORMS = ((rms_norm, (2, 32)), (head_norm, (2, 4, 16)), (wide_norm, (2, 64)), (lambda x, weight: unit(x), (2, 4, 16)))


@pytest.mark.parametrize("norm, shape", NORMS)
def test_zeros_stay_zeros(norm, shape):
    assert (norm(np.zeros(shape), np.ones(shape[-1])) == 0).all()


@pytest.mark.parametrize("norm, shape", NORMS)
def test_numbers_keep_their_sign_and_their_order(norm, shape):
    x = np.arange(1.0, np.prod(shape) + 1).reshape(shape) * 4096
    found, weight = norm(x.copy(), np.full(shape[-1], 4096.0)), np.full(shape[-1], 4096.0)
    assert (found > 0).all() and (np.diff(found, axis=-1) > 0).all()
    assert (norm(-x, weight) == -found).all()


def test_a_norm_is_the_root_mean_square_in_its_unit():
    """Vectors of 3 and 4 alternating have the root mean square 12.5 ** 0.5."""
    def vector(*shape):
        return np.resize([3.0, 4.0], shape) * 2**30

    near = np.resize([3.0, 4.0], 16) / 12.5**0.5
    weight = np.linspace(0.75, 1.25, 16)
    assert np.abs(rms_norm(vector(1, 32), np.full(32, 0.5))[0, :16] / 2**30 - near / 2).max() < 1e-5
    assert np.abs(head_norm(vector(1, 1, 16) / 2**10, weight)[0, 0] - near * weight).max() < 1e-5
    assert np.abs(wide_norm(vector(1, 64), np.full(64, 0.5))[0, :16] / 2**30 - near / 2).max() < 1e-5
    assert np.abs(unit(vector(1, 16))[0] / 2**16 - near / 4).max() < 1e-4
    assert (unit(vector(1, 16)) == np.rint(unit(vector(1, 16)))).all()


@pytest.mark.parametrize(("norm", "shape", "limit"), [(head_norm, (1, 2, 16), 2.0**28), (wide_norm, (1, 64), 2.0**40)])
def test_a_number_beyond_the_limit_counts_as_the_limit(norm, shape, limit):
    beyond, at = np.ones(shape), np.ones(shape)
    beyond[0, ..., 1], at[0, ..., 1] = limit * 8, limit
    beyond[0, ..., 2], at[0, ..., 2] = -limit * 8, -limit
    weight = np.full(shape[-1], 2.0)
    assert np.array_equal(norm(beyond, weight), norm(at.copy(), weight))
    at[0, ..., 1] /= 2
    assert not np.array_equal(norm(at, weight), norm(beyond, weight))


def test_small_numbers_are_kept_small():
    """EPS bounds the factor: a vector of 2**-20 grows by 2**8 at most."""
    assert np.abs(rms_norm(np.full((1, 32), 2.0**10), np.ones(32)) / 2**10 - 2**8).max() < 1
