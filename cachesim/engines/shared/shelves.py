"""The restore points of a server as they were at the last look, so that what has not changed is the same object again.

Nothing is believed: a slot is copied and compared at every look; only a stored conversation, which nobody can change,
is known by its identity.
"""

from __future__ import annotations

from typing import Any, Callable, Generic, Iterable, NamedTuple, Sequence, TypeVar

import numpy as np

from cachesim.engines.judge_view import Point, RowsPart, Shelf, StatePart, Stored
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
    """A slot at the last look."""

    tokens: Tokens
    rows: tuple[RowsPart, ...]
    state: StatePart | None
    cuts: list[Cut]
    shelf: Shelf


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
    """What was seen at the last look: restore points of slots and entries, stored objects of both."""

    def __init__(self) -> None:
        self.slots: dict[int, _Slot] = {}
        self.entries: Entries[Shelf] = Entries()
        self.copies: dict[int, tuple[Tokens, list[tuple[Any, Stored]]]] = {}
        self.stored: Entries[list[Stored]] = Entries()

    def of_slot(
        self, number: int, tokens: Tokens, rows: tuple[RowsPart, ...], state: StatePart | None,
        checkpoints: Sequence[Any], cut: Callable[[Any, Tokens], Cut],
        points: Callable[[Sequence[Cut]], Iterable[Point]],
    ) -> Shelf:
        """The points of a slot that holds these tokens, rows and states. ``cut`` makes the Cut of a checkpoint,
        ``points`` the points of all."""
        old = self.slots.get(number)
        known: dict[int, Cut] = {}
        if old is not None:
            same = common_prefix(old.tokens, tokens)
            if same == len(tokens) == len(old.tokens) and _same(old, rows, state, checkpoints):
                return old.shelf
            short = len(old.tokens) if len(old.tokens) < len(tokens) else -1     # it may have been cut off there
            known = {id(one.ckpt): one for one in old.cuts if short != len(one.tokens) <= same}
        cuts = [known.get(id(one)) or cut(one, tokens) for one in checkpoints]
        shelf = Shelf(tokens, tuple(points(cuts)))
        self.slots[number] = _Slot(tokens, rows, state, cuts, shelf)
        return shelf

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


def _same(old: _Slot, rows: Sequence[RowsPart], state: StatePart | None, checkpoints: Sequence[Any]) -> bool:
    """Is it what was seen before? Rows by provenance, states by identity: they are never overwritten."""
    if len(old.cuts) != len(checkpoints) or len(old.rows) != len(rows):
        return False
    if any(one.ckpt is not ckpt for one, ckpt in zip(old.cuts, checkpoints, strict=True)):
        return False
    if (old.state is None) != (state is None) or (
        old.state is not None and state is not None and not _same_state(old.state, state)
    ):
        return False
    return all(_same_rows(mine, theirs) for mine, theirs in zip(old.rows, rows, strict=True))


def _same_state(one: StatePart, other: StatePart) -> bool:
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
