"""The restore points of a server as they were at the last look, so that what has not changed is the same object again.

Nothing is believed but three things: tokens that nobody has touched (``HeldTokens``), cells that nobody has written
(``Writes``), and a stored conversation, which nobody can change and which is known by its identity. Rows that may have
been written are compared with a copy of what was there, and states, which are never overwritten, by identity.
"""

from __future__ import annotations

from operator import is_
from typing import Any, Callable, Generic, Iterable, Iterator, Mapping, NamedTuple, Sequence, TypeVar

import numpy as np

from cachesim.base.tokens import Tokens, common_prefix
from cachesim.engines.judge_view import Point, RowsPart, Shelf, StatePart, Stored
from cachesim.engines.shared.held_tokens import HeldTokens, Moment
from cachesim.engines.shared.seen_rows import ByLayer, SeenRows
from cachesim.engines.shared.writes import EntryRange, still

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
    """A slot at the last look. ``held``: the very list of its tokens; ``made``: the points of its cuts, by identity;
    ``first``: the cell of its first row; ``top``: no cut has more tokens, or reaches further."""

    tokens: Tokens | Moment
    rows: tuple[RowsPart, ...]
    state: StatePart | None
    cuts: list[Cut]
    shelf: Shelf
    held: Sequence[int] = ()
    seen: SeenRows | None = None
    made: Mapping[int, Point] = {}
    ckpts: Sequence[Any] = ()
    first: int = 0
    top: int = 0


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
    looks again and again; a copy of a server has been looked at by nobody. ``once``: it is for one look, of which
    nobody else notices anything."""

    def __init__(self, once: bool = False) -> None:
        self.reader = None if once else self
        self.slots: dict[int, _Slot] = {}
        self.entries: Entries[Shelf] = Entries()
        self.copies: dict[int, tuple[Tokens, list[tuple[Any, Stored]]]] = {}
        self.stored: Entries[list[Stored]] = Entries()

    def __deepcopy__(self, memo: Mapping[int, Any]) -> Shelves:
        return Shelves()

    def only(self, numbers: Iterable[int]) -> None:
        """These slots have tokens; what the others had is forgotten, for a judge forgets it, too."""
        if self.slots.keys() != set(numbers):
            self.slots = {number: self.slots[number] for number in numbers if number in self.slots}

    def rows_kept(self, number: int, written: EntryRange, first: int) -> int:
        """How many of the rows of a slot that were seen at the last look, from cell ``first`` on, are surely still the
        same, in the same cells?"""
        old = self.slots.get(number, NOTHING)
        return still(written, first, old.seen.n) if old.seen is not None and old.first == first else 0

    def unchanged(
        self, number: int, held: Sequence[int], state: StatePart | None, checkpoints: Sequence[Any]
    ) -> Shelf | None:
        """The shelf of a slot in whose memory nothing was written, if the rest of it is the same too."""
        old, n = self.slots.get(number, NOTHING), len(held)
        kept = held.kept(self.reader) if held is old.held and isinstance(held, HeldTokens) else None
        if not n == len(old.tokens) == kept:
            return None
        return old.shelf if _same_each(checkpoints, old.ckpts) and _same_states(old.state, state) else None

    def of_slot(
        self, number: int, held: Sequence[int], rows: tuple[RowsPart, ...], state: StatePart | None,
        checkpoints: Sequence[Any], cut: Callable[[Any, Tokens | Moment], Cut],
        points: Callable[[Tokens, Sequence[Cut]], Iterable[Point]],
    ) -> Shelf:
        """The points of a slot that holds these tokens, rows and states. ``cut`` makes the Cut of a checkpoint,
        ``points`` the points of all."""
        old, tokens = self.slots.get(number, NOTHING), self._look(held)[:]
        before = self._before(old)
        same = common_prefix(before, tokens)
        if same == len(tokens) == len(before) and _same(old, rows, state, checkpoints):
            shelf, cuts = old.shelf, old.cuts
        else:
            cuts = _cuts(old, same, tokens, checkpoints, cut)
            shelf = Shelf(tokens, tuple(points(tokens, cuts)))
        self.slots[number] = _Slot(tokens, rows, state, cuts, shelf, held, ckpts=tuple(checkpoints))
        return shelf

    def of_slot_in_line(
        self, number: int, held: Sequence[int], n_rows: int, rows: ByLayer | None, state: StatePart | None,
        checkpoints: Sequence[Any], cut: Callable[[Any, Tokens | Moment], Cut], bounds: tuple[int, int],
        known: int = 0, first: int = 0,
    ) -> Shelf:
        """The same for a slot without windows: ``held`` is the list of its tokens, ``rows`` those of positions 0 ..
        ``n_rows`` - 1, None where the model has no such layers. ``bounds``: the lengths at which its state could be
        used. ``first``: the cell of the first row; ``known`` of the rows seen at the last look are surely the same."""
        old, n = self.slots.get(number, NOTHING), len(held)
        agree, now = self._agreeing(old, held), rows or {}
        alike = old.seen.alike(n_rows, now, known) if old.seen is not None else 0
        like = _same_each(checkpoints, old.ckpts)
        if like and agree == n == len(old.tokens) and old.seen is not None and alike == n_rows == old.seen.n \
                and _same_states(old.state, state):
            self.slots[number] = old._replace(first=first, tokens=self._look(held), held=held)
            return old.shelf
        tokens = self._look(held)
        seen, same = old.seen or SeenRows(), 0 if old.shelf.empty else min(agree, alike)
        part = seen.take(same, n_rows, now)
        full = () if rows is None else (part,)
        before, top = old.shelf if same else None, old.top
        if like and before is not None and top <= same and top < len(old.tokens) == agree:
            cuts, made, copies = old.cuts, old.made, old.shelf.copies
        else:
            cuts = _cuts(old, agree, tokens, checkpoints, cut)
            made = dict(_made(old, cuts, number, n_rows, full, same))
            copies = tuple(made.values())
            if before is not None and _same_each(copies, before.copies):
                copies = before.copies
            top = max((max(one.hi, len(one.tokens)) for one in cuts), default=0)
        lo, hi = bounds[0], min(bounds[1], n_rows)
        own = (Point(Stored("slot", number, (), hi, full, state, same), lo, hi),) if lo <= hi else ()
        old.shelf.before = None                         # or all that there ever were would be kept
        shelf = Shelf(tokens, own, before, same, None if rows is None else part, copies)
        self.slots[number] = _Slot(tokens, (), state, cuts, shelf, held, seen, made, tuple(checkpoints), first, top)
        return shelf

    def _look(self, held: Sequence[int]) -> Tokens | Moment:
        return held.look(self.reader) if isinstance(held, HeldTokens) else tuple(held)

    def _before(self, old: _Slot) -> Tokens:
        """The tokens of the last look, as far as they are known."""
        return old.tokens if isinstance(old.tokens, tuple) else old.tokens.left(self.reader)

    def _agreeing(self, old: _Slot, held: Sequence[int]) -> int:
        """How many of the first tokens are those of the last look?"""
        kept = held.kept(self.reader) if isinstance(held, HeldTokens) and held is old.held else None
        if kept is None:
            return common_prefix(self._before(old), tuple(held)) if len(old.tokens) else 0
        return min(kept, len(held), len(old.tokens))

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
        """What each entry stores. The owner is -1: the number of an entry changes whenever one before it goes."""
        return [one for found in self.stored.each(entries, make) for one in found]


def _cuts(
    old: _Slot, same: int, tokens: Tokens | Moment, checkpoints: Sequence[Any],
    cut: Callable[[Any, Tokens | Moment], Cut],
) -> list[Cut]:
    """The Cut of each checkpoint: that of the last look, where its tokens are among the first ``same``."""
    known = {id(one.ckpt): one for one in old.cuts if len(one.tokens) <= same}
    short = len(old.tokens) if len(old.tokens) < len(tokens) else -1         # it may have been cut off there
    out = []
    for one in checkpoints:
        was = known.get(id(one))
        if was is None or len(was.tokens) == short:
            now = cut(one, tokens)
            was = now if was is None or len(now.tokens) != short else was
        out.append(was)
    return out


def _made(
    old: _Slot, cuts: Iterable[Cut], number: int, n_rows: int, full: tuple[RowsPart, ...], same: int
) -> Iterator[tuple[int, Point]]:
    """The points of the cuts of a slot, by their identity: those of the last look where they are usable at no more than
    the first ``same`` tokens. ``full``: the rows from there on."""
    for one in cuts:
        hi, was = min(one.hi, n_rows), old.made.get(id(one))
        if was is not None and was.hi == hi <= same:
            yield id(one), was
        elif one.lo <= hi:
            yield id(one), Point(Stored("checkpoint", number, one.tokens, hi, full, one.state, same), one.lo, hi)


def _same(old: _Slot, rows: Sequence[RowsPart], state: StatePart | None, checkpoints: Sequence[Any]) -> bool:
    """Is it what was seen before? Rows by provenance."""
    return len(old.rows) == len(rows) and _same_each(checkpoints, old.ckpts) and _same_states(old.state, state) and all(
        _same_rows(mine, theirs) for mine, theirs in zip(old.rows, rows, strict=True)
    )


def _same_each(some: Sequence[Any], others: Sequence[Any]) -> bool:
    """Are these the very same objects?"""
    return len(some) == len(others) and all(map(is_, some, others))


def _same_by_layer(one: Mapping[int, Any], other: Mapping[int, Any]) -> bool:
    return one.keys() == other.keys() and all(map(is_, one.values(), map(other.get, one)))


def _same_states(one: StatePart | None, other: StatePart | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.pos == other.pos and _same_by_layer(one.rows, other.rows)


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
