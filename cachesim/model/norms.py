"""Norms of all layers: an exact sum of squares, then a single sqrt, division and rint.

Before squaring, values are rounded to a coarser grid on which the sum of squares stays below 2**53 units. Each function
states its bound. The vector itself keeps its fine grid.
"""

from __future__ import annotations

import numpy as np

from cachesim.model.grid import DELTA_UNIT, EPS, KEY_UNIT, UNIT, Values, saturate


def rms_norm(x: Values, weight: Values) -> Values:
    """Return x (n, d) divided by its root mean square and weighted (Zhang, Sennrich 2019). Squares: (2**13 * 2**10)**2
    * 32 = 2**51."""
    square = x * (UNIT * 2.0**10)
    np.rint(square, out=square)
    square *= square
    mean = np.add.reduce(square, axis=-1, keepdims=True)                                       # (n, 1)
    mean *= 2.0**-20 / x.shape[-1]
    mean += EPS
    u: Values = x * (1.0 / np.sqrt(mean))
    u *= weight
    np.rint(u, out=u)
    return u


def unit(x: Values) -> Values:
    """Return vectors of length 1 in KEY_UNIT, (..., 16). Squares: (12 * 2**18)**2 * 16 < 2**48."""
    square = np.rint(x * (UNIT * 2.0**18))
    square *= square
    length = np.add.reduce(square, axis=-1, keepdims=True)
    length += 2.0**16                                                                          # in units of 2**-36
    np.sqrt(length, out=length)
    y: Values = x * (UNIT / KEY_UNIT * 2.0**18)
    y /= length
    return np.rint(y, out=y)


def head_norm(o: Values, weight: Values) -> Values:
    """Return each head's output divided by its root mean square, as real numbers (t, 4, 16). Overwrites ``o``. Squares:
    (2**8 * 2**16)**2 * 16 = 2**52."""
    saturate(o, 2.0**8 / DELTA_UNIT)
    square = np.rint(o * (DELTA_UNIT * 2.0**16))
    square *= square
    mean = np.add.reduce(square, axis=-1, keepdims=True)                                       # in units of 2**-36
    mean += EPS * 2.0**36
    y: Values = o * (DELTA_UNIT * 2.0**18 / np.sqrt(mean, out=mean))
    y *= weight
    return y


def wide_norm(y: Values, weight: Values) -> Values:
    """Return y (t, 64) divided by the root mean square over all heads, rounded to the grid. Overwrites ``y``. Squares:
    (2**10 * 2**13)**2 * 64 = 2**52."""
    saturate(y, 2.0**10 / UNIT)
    square = np.rint(y * (UNIT * 2.0**13))
    square *= square
    mean = np.add.reduce(square, axis=-1, keepdims=True) * (2.0**-26 / y.shape[-1])
    y *= 1.0 / np.sqrt(mean + EPS)
    y *= weight
    return np.rint(y)
