"""How is arithmetic made exact? Units, rounding, and the few primitives that every layer is built from.

Values are float64 holding integers, in units of a power of two (``UNIT`` for activations). A sum of products
of such numbers is exact while every partial sum stays below 2**53 units, so it does not depend on order,
blocking, batch or BLAS; ``require`` holds the bounds, once, where a model is built. Element-wise formulas use
only + - * / sqrt rint and comparisons, which IEEE 754 rounds in one way everywhere; no exp, no cos, no FMA.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from cachesim.base.errors import Crash

# What the arrays of the model are called: digests, positions, numbers.

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
READ_UNIT = 2.0**-10          # C of S, by which the state is read

EXACT = 2.0**53               # integers up to here are float64
LIMIT = 2.0**13               # the residual stream saturates here
NORM_BOUND = 7.5              # 2-norm of a normed x: sqrt(32) * 1.25 and some room for the rounding of x
EPS = 2.0**-16


def require(bound: float, what: str) -> None:
    """Raise Crash unless integers up to ``bound`` are exact."""
    if not bound < EXACT:
        raise Crash(f"{what}: partial sums may reach {bound:.3g} units, exact arithmetic ends at 2**53")


def frozen(values: AnyArray) -> AnyArray:
    """The same array, from now on immutable."""
    values.flags.writeable = False
    return values


def project(u: Values, weight: Values) -> Values:
    """(n, out) <- (n, in) @ (in, out): one linear map, rounded to the grid."""
    y: Values = u @ weight
    np.rint(y, out=y)
    return y


def saturate(x: Values, limit: float) -> Values:
    """The same array with every element moved into -limit .. limit."""
    np.minimum(x, limit, out=x)
    np.maximum(x, -limit, out=x)
    return x


def add_residual(x: Values, out: Values) -> Values:
    """(n, d) the residual stream after a layer."""
    return saturate(x + out, LIMIT / UNIT)
