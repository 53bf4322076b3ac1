"""Exact arithmetic: units, rounding, and the primitives of all layers.

Values are float64 holding integers, in units of a power of two (``UNIT`` for activations). A sum of products of such
numbers is exact while every partial sum stays below 2**53 units, so it does not depend on order, blocking, batch or
BLAS. ``require`` checks the bounds once, when a model is built. Element-wise formulas use only + - * / sqrt rint and
comparisons, which IEEE 754 rounds the same way everywhere, and neither exp, cos nor FMA.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from cachesim.base.errors import Crash

# Types of the model's arrays: digests, positions, numbers.

Digests = npt.NDArray[np.uint64]
Positions = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]
AnyArray = TypeVar("AnyArray", bound=npt.NDArray[Any])


UNIT = 2.0**-30               # activations: residual stream, projections, V rows, logits
ROPE_UNIT = 2.0**-20          # rotated q and K rows
WEIGHT_UNIT = 2.0**-10        # all weights
DELTA_UNIT = 2.0**-20         # recurrent matrix of G
KEY_UNIT = 2.0**-16           # normalised q and k of G, and its transition matrix
SSM_UNIT = 2.0**-16           # recurrent matrix of S
READ_UNIT = 2.0**-10          # C of S, which reads the state

EXACT = 2.0**53               # float64 represents all integers up to here
LIMIT = 2.0**13               # saturation limit of the residual stream
NORM_BOUND = 7.5              # 2-norm of a normed x: sqrt(32) * 1.25, with room for the rounding of x
EPS = 2.0**-16


def require(bound: float, what: str) -> None:
    """Raise Crash unless integers up to ``bound`` are exact."""
    if not bound < EXACT:
        raise Crash(f"{what}: weights of the simulated model too large: sums may reach {bound:.3g}, the limit is 2**53")


def frozen(values: AnyArray) -> AnyArray:
    """Make the array immutable and return it."""
    values.flags.writeable = False
    return values


def project(u: Values, weight: Values) -> Values:
    """Apply a linear map, rounded to the grid: (n, out) <- (n, in) @ (in, out)."""
    y: Values = u @ weight
    np.rint(y, out=y)
    return y


def saturate(x: Values, limit: float) -> Values:
    """Clip every element to -limit .. limit, in place; return the array."""
    np.minimum(x, limit, out=x)
    np.maximum(x, -limit, out=x)
    return x


def add_residual(x: Values, out: Values) -> Values:
    """Return the residual stream after a layer, (n, d)."""
    return saturate(x + out, LIMIT / UNIT)
