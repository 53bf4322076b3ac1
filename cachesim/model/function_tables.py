"""Tables of exp, sigmoid, softplus, cos and sin, identical on every machine.

Constants and powers are computed with Python integers (fixed point, 128 bits), then rounded to float64 once. Further
steps use only correctly rounded element-wise operations. At run time a function is a lookup at the nearest grid point
of its table. A table is built on its first use, because most commands need no numbers.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from math import factorial

import numpy as np

from cachesim.model.grid import UNIT, Values, frozen

_ONE = 1 << 128
_PI = Fraction(314159265358979323846264338327950288419716939937510582097494, 10**59)


def lookup(table: Values, x: Values, step: float) -> Values:
    """Return the table's value nearest to each x (in units of the grid). Arguments beyond the table get its end values.
    The table has an odd length, its middle stands for 0, and neighbours are ``step`` apart."""
    place = x * (UNIT / step)
    place += len(table) // 2 + 0.5
    return table.take(place.astype(np.intp), mode="clip")


def exp_negative(t: Values) -> Values:
    """Return exp(-t) for 0 <= t < 64, to about 1e-10, from a table of step 1/64 and four terms of the series. Used to
    build tables."""
    whole = np.rint(t * 64.0)
    rest = t - whole / 64.0
    tail = 1.0 - rest * (1.0 - rest * (0.5 - rest / 6.0))
    return _exp_table()[whole.astype(np.intp)] * tail


def log1p_unit(s: Values) -> Values:
    """Return log(1 + s) for 0 <= s <= 1, as 2 artanh(s / (2 + s)). Used to build tables."""
    z = s / (2.0 + s)
    square, total = z * z, np.zeros_like(z)
    for odd in range(31, 0, -2):
        total = total * square + 1.0 / odd
    return 2.0 * z * total


@cache
def _exp_table() -> Values:
    """Return exp(-i/64) for i = 0 .. 4096."""
    ratio = int(sum(Fraction((-1) ** n, 64**n * factorial(n)) for n in range(24)) * _ONE)
    value, out = _ONE, []
    for _ in range(64 * 64 + 1):
        out.append(value / _ONE)
        value = value * ratio >> 128
    return frozen(np.array(out))


def circle(n: int, turn: Fraction) -> tuple[Values, Values]:
    """Return cosine and sine of 0, 1, ... n-1 times ``turn`` (1 = full circle, at most 1/64), (n,) each."""
    angle = 2 * _PI * turn
    step_cos = int(sum((-1) ** i * angle ** (2 * i) / factorial(2 * i) for i in range(12)) * _ONE)
    step_sin = int(sum((-1) ** i * angle ** (2 * i + 1) / factorial(2 * i + 1) for i in range(12)) * _ONE)
    c = _ONE
    s = 0
    out = []
    for _ in range(n):
        out.append((c / _ONE, s / _ONE))
        c, s = (c * step_cos - s * step_sin) >> 128, (s * step_cos + c * step_sin) >> 128
    pairs = np.array(out)
    return frozen(pairs[:, 0].copy()), frozen(pairs[:, 1].copy())


SIGMOID_STEP = 2.0**-10
GATE_STEP = 2.0**-7
GATE_RANGE = 16.0             # gates lie within -16 .. 16
WEIGHT_STEP = 2.0**-10        # smallest difference of two scores that softmax distinguishes
WEIGHT_ONE = 2.0**16          # weight of the best key


SIGMOID_COUNT = 2 * 16 * 1024 + 1      # length of ``sigmoid_table``
SOFTPLUS_COUNT = 2 * 16 * 128 + 1      # length of ``softplus_table``
WEIGHT_COUNT = 12_289         # length of ``weight_table``; its end stands for hidden keys and those far below the best


@cache
def sigmoid_table() -> Values:
    """Return 1 / (1 + exp(-x)) for x = -16 .. 16 in steps of ``SIGMOID_STEP``, (SIGMOID_COUNT,)."""
    x = (np.arange(SIGMOID_COUNT, dtype=np.float64) - SIGMOID_COUNT // 2) * SIGMOID_STEP
    exponential = exp_negative(np.abs(x))
    return frozen(np.where(x >= 0, 1.0, exponential) / (1.0 + exponential))


@cache
def softplus_table() -> Values:
    """Return log(1 + exp(x)) for x = -16 .. 16 in steps of ``GATE_STEP``, (SOFTPLUS_COUNT,)."""
    x = (np.arange(SOFTPLUS_COUNT, dtype=np.float64) - SOFTPLUS_COUNT // 2) * GATE_STEP
    return frozen(np.maximum(x, 0.0) + log1p_unit(exp_negative(np.abs(x))))


@cache
def weight_table() -> Values:
    """Return the softmax weight of a key for each difference from the best score, (WEIGHT_COUNT,): whole numbers, 0 at
    the end."""
    weights = np.rint(exp_negative(np.arange(WEIGHT_COUNT, dtype=np.float64) * WEIGHT_STEP) * WEIGHT_ONE)
    weights[-1] = 0.0
    return frozen(weights)


def decays(rate: float, most: float) -> Values:
    """Return exp(-rate * softplus(gate)), at most ``most``: (SOFTPLUS_COUNT,), indexed as ``softplus_table``."""
    return frozen(np.minimum(exp_negative(softplus_table() * rate), most))
