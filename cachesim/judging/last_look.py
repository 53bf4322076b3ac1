"""What is new since the last look? So that a judge looks at nothing twice that cannot have changed."""

from __future__ import annotations

from typing import Any, Callable, Hashable, Sequence

from cachesim.base.tokens import common_prefix
from cachesim.engines.judge_view import Point, RowsPart, Shelf, StatePart
from cachesim.judging.clean_prefix import Span, clean_rows, clean_state, foreign_rows
from cachesim.judging.known_points import KnownPoint
from cachesim.judging.texts import Place, owner
from cachesim.oracle.cold_run import ColdRun

ENOUGH = 512             # states of which it is known whether they are clean


def differing(was: Sequence[Shelf], now: Sequence[Shelf]) -> tuple[list[Shelf], list[Shelf]]:
    """The shelves that are gone, and those that have come, in order."""
    if len(was) == len(now) and was[1:] == now[1:]:                 # the common case: one slot has gone on
        return ([], []) if was[:1] == now[:1] else (list(was[:1]), list(now[:1]))
    behind = common_prefix(was[::-1], now[::-1])
    was, now = was[: len(was) - behind], now[: len(now) - behind]
    before, after = set(was), set(now)
    return [one for one in was if one not in after], [one for one in now if one not in before]


class Remembered:
    """States that were compared with those of a cold run; the ones that were not asked about for long are forgotten.
    A state is immutable, and known by its identity as long as it is kept here."""

    def __init__(self) -> None:
        self.recent: dict[Hashable, tuple[list[Any], bool]] = {}
        self.older: dict[Hashable, tuple[list[Any], bool]] = {}

    def clean(self, state: StatePart, cold: ColdRun, place: Place) -> bool:
        """Are these the states after the tokens of a place? ``cold`` is a run that begins with them."""
        held = list(state.rows.values())
        key = (place.text.number, place.n, *map(id, held))
        found = self.recent.get(key) or self.older.get(key)
        if found is None:
            found = held, clean_state(state, cold, place.n)
        if len(self.recent) >= ENOUGH:
            self.older, self.recent = self.recent, {}
        self.recent[key] = found
        return found[1]


Seen = tuple[Point, list[KnownPoint]]
"""A point, and the lengths at which it could be used."""


class ShelfView:
    """What was seen on a shelf: the place of its tokens, a cold run that begins with them (None = there are no points),
    positions of rows of full attention that are not the cold run's, its own points, and, by identity, its copies."""

    __slots__ = ("cold", "copies", "foreign", "own", "place")

    def __init__(self, place: Place, cold: ColdRun | None, foreign: list[int]) -> None:
        self.place, self.cold, self.foreign = place, cold, foreign
        self.own: list[list[KnownPoint]] = []
        self.copies: dict[int, Seen] = {}

    @property
    def known(self) -> list[list[KnownPoint]]:
        """All that is usable, point by point."""
        return [*self.own, *(found for _, found in self.copies.values())] if self.copies else self.own


def seen(
    shelf: Shelf, was: ShelfView | None, place: Place, cold: ColdRun, states: Remembered,
    known: Callable[[Point, Place, Span], KnownPoint],
) -> ShelfView:
    """What is on a shelf, but for copies that are on the one that it goes on from, too. ``was``: what was seen on that
    one; ``known`` gives the restore point that is usable in a span of lengths."""
    n, rows = shelf.n, shelf.rows
    wrong: dict[int, list[int]] = {}
    view = ShelfView(place, cold, [])
    if rows is not None:
        if was is not None and was.foreign:
            view.foreign += [position for position in was.foreign if position < shelf.same]
        view.foreign += foreign_rows(rows, cold, n)
        wrong[id(rows)] = view.foreign

    def foreign(part: RowsPart) -> list[int]:
        if id(part) not in wrong:
            wrong[id(part)] = foreign_rows(part, cold, n)
        return wrong[id(part)]

    def usable(point: Point) -> list[KnownPoint]:
        stored, lo, hi, step = point
        m = len(stored.tokens) or n
        here = place if m == n else Place(*owner(place.text, m))
        state = stored.state
        if state is not None:
            end = here if hi == m else Place(*owner(place.text, hi))
            if not states.clean(state, cold, end):
                return []
        if step == 1 and not any(map(foreign, stored.rows)):
            return [known(point, here, (lo, hi))]
        return [known(point, here, span) for span in clean_rows(point, foreign)]

    view.own = [usable(point) for point in shelf.own]
    if shelf.copies and (shelf.before is None or shelf.copies is not shelf.before.copies):
        before = was.copies if was is not None else {}
        view.copies = {id(one): before.get(id(one)) or (one, usable(one)) for one in shelf.copies}
    return view
