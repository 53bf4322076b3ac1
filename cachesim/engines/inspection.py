"""What a judge may look at in any engine: restore points, and what they consist of.

A ``Point`` says from where evaluation could go on; the engine reports when it comes and when it goes. A ``Stored`` is
what it consists of: the tokens that the engine believes it to hold, the length at which evaluation would go on, rows
and states. What several conversations share (a block, a node of a tree) is one object too: it holds what belongs to a
stretch of its tokens, from ``start`` on.
"""

from __future__ import annotations

from typing import Mapping, NamedTuple

import numpy as np

from cachesim.base.tokens import Tokens
from cachesim.engines.shared.kv_rows import copy_rows
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
    """One stored object. ``owner``: its slot, or the number of a stored conversation (-1: it is to be counted).
    ``resume``: tokens that would not be evaluated again. ``start``: rows before this position are those of other
    objects, and not looked at; ``tokens`` are then those of any conversation that goes through the object, so that
    objects of one conversation can be compared with one cold run."""

    kind: str
    owner: int
    tokens: tuple[int, ...]
    resume: int
    rows: tuple[RowsPart, ...]
    state: StatePart | None
    start: int = 0

    def copy(self) -> Stored:
        """A copy that stays as it is when the memory does not."""
        rows = tuple(one._replace(pos=one.pos.copy(), rows={k: copy_rows(x) for k, x in one.rows.items()})
                     for one in self.rows)  # fmt: skip
        state = None if self.state is None else self.state._replace(rows=dict(self.state.rows))
        return self._replace(rows=rows, state=state)


class Excess(NamedTuple):
    """A limit that is exceeded: ``held`` of ``what``, where ``most`` are allowed; ``holder`` in words, "slot 0 has"."""

    what: str
    held: int
    most: int
    holder: str = ""


Key = tuple[str, int, int]
"""Names a restore point as long as it is there: the engine's noun for what it is ("slot", "checkpoint", "entry",
"block"), its slot or the number of what it belongs to (-1 = to nothing), and a number among its like."""


class Point(NamedTuple):
    """A restore point: what has this ``key`` stands for ``n`` tokens, and evaluation could go on after ``lo``,
    ``lo + step``, .. ``hi`` of them (``lo`` > ``hi``: after none), as far as presence of rows and states goes. Whether
    they are clean is for the judge to say.

    ``tokens`` are those from position ``start`` on. Those before, and rows of full attention of those before, are what
    ``after`` has: another point, or this one as it was before; None = there are none."""

    key: Key
    n: int
    tokens: Tokens
    start: int
    after: Key | None
    lo: int
    hi: int
    step: int = 1
