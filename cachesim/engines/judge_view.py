"""What a judge may look at in any engine: stored copies of a sequence, and what the engine believes they are.

A ``Stored`` names an object (the live slot, a checkpoint, a stored conversation), the tokens that the engine believes
it to hold, the length at which evaluation would go on, and the copies themselves. What several conversations share (a
block, a node of a tree) is one object too: it holds what belongs to a stretch of its tokens, from ``start`` on.
"""

from __future__ import annotations

from typing import Mapping, NamedTuple, Sequence

import numpy as np

from cachesim.base.tokens import Tokens
from cachesim.engines.shared.held_tokens import Moment
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


class Excess(NamedTuple):
    """A limit that is exceeded: ``held`` of ``what``, where ``most`` are allowed; ``holder`` in words, "slot 0 has"."""

    what: str
    held: int
    most: int
    holder: str = ""


class Point(NamedTuple):
    """A restore point: an object from which evaluation could go on after ``lo``, ``lo + step``, .. ``hi`` tokens of
    its tokens, as far as presence of rows and states goes. Whether they are clean is for the judge to say. What is
    kept in blocks has their size as its step."""

    stored: Stored
    lo: int
    hi: int
    step: int = 1

    def of(self, tokens: Tokens) -> Point:
        """The same with these tokens."""
        return self._replace(stored=self.stored._replace(tokens=tokens))


class Shelf:
    """The restore points of one conversation: the same object as long as none of them, and nothing in them, has
    changed. ``tokens`` is what the engine believes the conversation to be, ``n`` how many they are: those of every
    point are its beginning.

    ``before``: what was here at the last look, None = it is not known. Its first ``same`` tokens, and all rows of them,
    are still the same; a point that is the same object, too, is usable at no more tokens than these, and the others
    have only the rows from position ``same`` on. ``rows`` are those rows, of full attention; None = see the points.
    ``own`` are points of the conversation itself, whose stored objects list no tokens if they have all of them;
    ``copies`` those of kept copies, the same tuple as before if they are the same. The tokens of a slot are to be asked
    for before the server goes on."""

    __slots__ = ("_tokens", "before", "copies", "n", "own", "rows", "same")

    def __init__(
        self, tokens: Tokens | Moment, own: Sequence[Point], before: Shelf | None = None, same: int = 0,
        rows: RowsPart | None = None, copies: tuple[Point, ...] = (),
    ) -> None:
        self._tokens, self.n, self.own, self.copies = tokens, len(tokens), tuple(own), copies
        self.before, self.same, self.rows = before, same, rows

    @property
    def tokens(self) -> Tokens:
        """All tokens."""
        return self._tokens[:]

    def after(self, n: int) -> Tokens:
        """The tokens from position ``n`` on."""
        return self._tokens[n:]

    @property
    def points(self) -> tuple[Point, ...]:
        """All points, each with its tokens."""
        return (*(one if one.stored.tokens else one.of(self.tokens) for one in self.own), *self.copies)

    @property
    def empty(self) -> bool:
        """Is there no point?"""
        return not (self.own or self.copies)
