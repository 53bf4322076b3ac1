"""Rotary position embedding (Su et al. 2021) with integer phases and our own tables.

A phase is an integer in units of 2**-32 turn, so any position and any negative shift has an exact phase. K is stored
rotated; a K-shift rotates the stored K by the difference. Two rotations, each rounded to the grid, may differ from a
single rotation: a cold run of a shifted sequence must shift as well.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np

from cachesim.model.function_tables import circle
from cachesim.model.grid import Positions, Values, frozen

STEPS = np.array([683565276, 216162320, 68356528, 21616232, 6835653, 2161623, 683565, 216162])
"""Phase per position of each pair, (8,): 2**32 * 10000**(-i/8) / (2 pi), rounded."""

_NEIGHBOURS = 256              # positions whose rotations are computed together


class Rotation(NamedTuple):
    """Cosine and sine of the rotation of each of n rows."""

    cos: Values               # (n, 1, 8)
    sin: Values               # (n, 1, 8)


def turns(positions: Positions) -> Rotation:
    """Return the rotation for each position; negative positions rotate back."""
    if len(positions) == 1:                         # a generated token: its neighbours come next
        block, at = divmod(int(positions[0]), _NEIGHBOURS)
        cos, sin = _block(block)
        return Rotation(cos[at : at + 1], sin[at : at + 1])
    return _turns(positions)


@cache
def _coarse_circle() -> tuple[Values, Values]:
    return circle(2048, Fraction(1, 2048))


@cache
def _fine_circle() -> tuple[Values, Values]:
    return circle(2048, Fraction(1, 2048**2))


@lru_cache(maxsize=64)
def _block(number: int) -> Rotation:
    first = number * _NEIGHBOURS
    turn = _turns(np.arange(first, first + _NEIGHBOURS))
    return Rotation(frozen(turn.cos), frozen(turn.sin))


def _turns(positions: Positions) -> Rotation:
    phase = (positions[:, None, None] * STEPS + 512) >> 10              # (n, 1, 8) in units of 2**-22 turn, nearest
    coarse, fine = (phase >> 11) & 2047, phase & 2047
    coarse_cos, coarse_sin = (table[coarse] for table in _coarse_circle())
    fine_cos, fine_sin = (table[fine] for table in _fine_circle())
    return Rotation(
        cos=coarse_cos * fine_cos - coarse_sin * fine_sin,
        sin=coarse_sin * fine_cos + coarse_cos * fine_sin,
    )


def rotate(x: Values, turn: Rotation, scale: float) -> Values:
    """Return (n, heads, 16) with the pairs (i, i + 8) rotated, multiplied by ``scale`` and rounded to the grid."""
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    out = np.empty_like(x)
    out[..., :half] = a * turn.cos - b * turn.sin
    out[..., half:] = b * turn.cos + a * turn.sin
    out *= scale
    return np.rint(out, out=out)
