"""What a judge may look at in any engine: stored copies of a sequence, and what the engine believes they are.

A ``Stored`` names an object (the live slot, a checkpoint, a stored conversation), the tokens that the engine believes
it to hold, the length at which evaluation would go on, and the copies themselves.
"""

from __future__ import annotations

from typing import Mapping, NamedTuple

import numpy as np

from cachesim.model import LayerState, Rows


class RowsPart(NamedTuple):
    """K/V rows of some layers: positions (n,) in no particular order, rows per layer. ``window`` 0 = full attention."""

    window: int
    pos: np.ndarray
    rows: Mapping[int, Rows]


class StatePart(NamedTuple):
    """Recurrent states per layer after the token at ``pos``; -1 = nothing was absorbed."""

    pos: int
    rows: Mapping[int, LayerState | None]


class Stored(NamedTuple):
    """One stored object. ``resume``: tokens that would not be evaluated again."""

    kind: str
    owner: int
    tokens: tuple[int, ...]
    resume: int
    rows: tuple[RowsPart, ...]
    state: StatePart | None


class Excess(NamedTuple):
    """A limit that is exceeded: ``held`` of ``what``, where ``most`` are allowed; ``holder`` in words, "slot 0 has"."""

    what: str
    held: int
    most: int
    holder: str = ""


class Point(NamedTuple):
    """A restore point: an object from which evaluation could go on after any of ``lo`` .. ``hi`` tokens of its
    tokens, as far as presence of rows and states goes. Whether they are clean is for the judge to say."""

    stored: Stored
    lo: int
    hi: int
