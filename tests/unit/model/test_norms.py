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
