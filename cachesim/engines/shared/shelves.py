"""The restore points of a server as they were at the last look, so that what has not changed is the same object again.

Nothing is believed but two things: tokens that nobody has touched (``HeldTokens``), and a stored conversation, which
nobody can change and which is known by its identity. Rows are compared at every look with a copy of what was there, and
states, which are never overwritten, by identity.
"""

from __future__ import annotations

from typing import Any, Callable, Generic, Iterable, Mapping, NamedTuple, Sequence, TypeVar

import numpy as np

from cachesim.engines.judge_view import Point, RowsPart, Shelf, StatePart, Stored
from cachesim.engines.shared.held_tokens import HeldTokens
from cachesim.engines.shared.seen_rows import ByLayer, SeenRows
from cachesim.tokens import Tokens, common_prefix

T = TypeVar("T")


class Cut(NamedTuple):
    """A checkpoint of a slot, and what depends on nothing but itself and these tokens of the slot: the lengths ``lo``
    .. ``hi`` at which it could be used, its rows of windows, its states."""

    ckpt: Any
    tokens: Tokens
    lo: int
    hi: int
    rows: tuple[RowsPart, ...]
    state: StatePart | None


class _Slot(NamedTuple):
    """A slot at the last look. ``held``: the very list of its tokens; ``made``: the points of its cuts, by identity."""

    tokens: Tokens
    rows: tuple[RowsPart, ...]
    state: StatePart | None
    cuts: list[Cut]
    shelf: Shelf
    held: Sequence[int] = ()
    seen: SeenRows | None = None
    made: Mapping[int, Point] = {}


NOTHING = _Slot((), (), None, [], Shelf((), ()))
"""A slot that was not looked at."""


class Entries(Generic[T]):
    """What was made of each stored conversation; those are compared by identity."""

    def __init__(self) -> None:
        self.entries: list[Any] = []
        self.made: list[T] = []

    def each(self, entries: Sequence[Any], make: Callable[[Any], T]) -> list[T]:
        """What is made of each of them, made once."""
        if entries != self.entries:
            known = {id(entry): made for entry, made in zip(self.entries, self.made, strict=True)}
            self.made = [known[id(entry)] if id(entry) in known else make(entry) for entry in entries]
            self.entries = list(entries)
        return self.made


class Shelves:
    """What was seen at the last look: restore points of slots and entries, stored objects of both. It is for one who
    looks again and again; a copy of a server has been looked at by nobody."""

    def __init__(self) -> None:
        self.slots: dict[int, _Slot] = {}
        self.entries: Entries[Shelf] = Entries()
        self.copies: dict[int, tuple[Tokens, list[tuple[Any, Stored]]]] = {}
        self.stored: Entries[list[Stored]] = Entries()

    def __deepcopy__(self, memo: Mapping[int, Any]) -> Shelves:
        return Shelves()

    def only(self, numbers: Iterable[int]) -> None:
        """These slots have tokens; what the others had is forgotten, for a judge forgets it, too."""
        self.slots = {number: self.slots[number] for number in numbers if number in self.slots}

    def of_slot(
        self, number: int, tokens: Tokens, rows: tuple[RowsPart, ...], state: StatePart | None,
        checkpoints: Sequence[Any], cut: Callable[[Any, Tokens], Cut],
        points: Callable[[Sequence[Cut]], Iterable[Point]],
    ) -> Shelf:
        """The points of a slot that holds these tokens, rows and states. ``cut`` makes the Cut of a checkpoint,
        ``points`` the points of all."""
        old = self.slots.get(number, NOTHING)
        same = common_prefix(old.tokens, tokens)
        if same == len(tokens) == len(old.tokens) and _same(old, rows, state, checkpoints):
            return old.shelf
        cuts = _cuts(old, same, tokens, checkpoints, cut)
        shelf = Shelf(tokens, tuple(points(cuts)))
        self.slots[number] = _Slot(tokens, rows, state, cuts, shelf)
        return shelf

    def of_slot_in_line(
        self, number: int, held: Sequence[int], n_rows: int, rows: ByLayer | None, state: StatePart | None,
        checkpoints: Sequence[Any], cut: Callable[[Any, Tokens], Cut], bounds: Callable[[Tokens], tuple[int, int]],
    ) -> Shelf:
        """The same for a slot without windows: ``held`` is the list of its tokens, ``rows`` those of positions 0 ..
        ``n_rows`` - 1, None where the model has no such layers. ``bounds``: the lengths at which its state could be
        used."""
        old, n = self.slots.get(number, NOTHING), len(held)
        agree, now = self._agreeing(old, held), rows or {}
        alike = old.seen.alike(n_rows, now) if old.seen is not None else 0
        still = agree == n == len(old.tokens)
        if still and old.seen is not None and alike == n_rows == old.seen.n and _same_cuts(old, checkpoints) \
                and _same_states(old.state, state):
            return old.shelf
        tokens = old.tokens if still else held.look(self) if isinstance(held, HeldTokens) else tuple(held)
        seen, same = old.seen or SeenRows(), min(agree, alike) if old.shelf.points else 0
        part = seen.take(same, n_rows, now)
        full = () if rows is None else (part,)
        cuts = _cuts(old, agree, tokens, checkpoints, cut)

        def point(kind: str, one: Cut, known: Point | None) -> Point | None:
            hi = min(one.hi, n_rows)
            if known is not None and known.hi == hi <= same:
                return known
            if one.lo > hi:
                return None
            return Point(Stored(kind, number, one.tokens, hi, full, one.state, same), one.lo, hi)

        live = point("slot", Cut(None, tokens, *bounds(tokens), (), state), None)
        made = {id(one): found for one in cuts if (found := point("checkpoint", one, old.made.get(id(one))))}
        before = old.shelf if same else None
        old.shelf.before = None                         # or all that there ever were would be kept
        points = (*([live] if live else ()), *made.values())
        shelf = Shelf(tokens, points, before, same, None if rows is None else part)
        self.slots[number] = _Slot(tokens, (), state, cuts, shelf, held, seen, made)
        return shelf

    def _agreeing(self, old: _Slot, held: Sequence[int]) -> int:
        """How many of the first tokens are those of the last look?"""
        kept = held.kept(self) if isinstance(held, HeldTokens) and held is old.held else None
        return common_prefix(old.tokens, tuple(held)) if kept is None else min(kept, len(held), len(old.tokens))

    def copies_of(
        self, number: int, tokens: Tokens, checkpoints: Sequence[Any], make: Callable[[Any, Tokens], Stored]
    ) -> list[Stored]:
        """The checkpoints of a slot that holds these tokens."""
        before, old = self.copies.get(number, ((), []))
        same = common_prefix(before, tokens) if old and checkpoints else 0
        short = len(before) if len(before) < len(tokens) else -1                    # it may have been cut off there
        known = {id(ckpt): one for ckpt, one in old if short != len(one.tokens) <= same}
        made = [(ckpt, known.get(id(ckpt)) or make(ckpt, tokens)) for ckpt in checkpoints]
        self.copies[number] = tokens, made
        return [one for _, one in made]

    def stored_of(self, entries: Sequence[Any], make: Callable[[Any], list[Stored]]) -> list[Stored]:
        """What each entry stores, with the number that it has now as the owner."""
        every = self.stored.each(entries, make)
        for number, found in enumerate(every):
            if found and found[0].owner != number:
                every[number] = [one._replace(owner=number) for one in found]
        return [one for found in every for one in found]


def _cuts(
    old: _Slot, same: int, tokens: Tokens, checkpoints: Sequence[Any], cut: Callable[[Any, Tokens], Cut]
) -> list[Cut]:
    """The Cut of each checkpoint: that of the last look, where its tokens are among the first ``same``."""
    short = len(old.tokens) if len(old.tokens) < len(tokens) else -1         # it may have been cut off there
    known = {id(one.ckpt): one for one in old.cuts if short != len(one.tokens) <= same}
    return [known.get(id(one)) or cut(one, tokens) for one in checkpoints]


def _same(old: _Slot, rows: Sequence[RowsPart], state: StatePart | None, checkpoints: Sequence[Any]) -> bool:
    """Is it what was seen before? Rows by provenance."""
    return len(old.rows) == len(rows) and _same_cuts(old, checkpoints) and _same_states(old.state, state) and all(
        _same_rows(mine, theirs) for mine, theirs in zip(old.rows, rows, strict=True)
    )


def _same_cuts(old: _Slot, checkpoints: Sequence[Any]) -> bool:
    return len(old.cuts) == len(checkpoints) and all(
        one.ckpt is ckpt for one, ckpt in zip(old.cuts, checkpoints, strict=True)
    )


def _same_states(one: StatePart | None, other: StatePart | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.pos == other.pos and len(one.rows) == len(other.rows) and all(
        state is other.rows.get(layer) for layer, state in one.rows.items()
    )


def _same_rows(one: RowsPart, other: RowsPart) -> bool:
    return one.window == other.window and np.array_equal(one.pos, other.pos) and one.rows.keys() == other.rows.keys() \
        and all(np.array_equal(rows.digest, other.rows[layer].digest) for layer, rows in one.rows.items())


def unbroken(pos: np.ndarray) -> int:
    """Number of rows present from position 0 on without a hole. ``pos``: (n,) positions in any order."""
    n = len(pos)
    if n and pos[0] == 0 and pos[-1] == n - 1 and bool((pos[1:] - pos[:-1] == 1).all()):
        return n
    present = np.unique(pos)
    gaps = np.flatnonzero(present != np.arange(len(present)))
    return int(gaps[0]) if len(gaps) else len(present)
