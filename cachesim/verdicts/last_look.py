"""What is new since the last look? So that a judge looks at nothing twice that cannot have changed."""

from __future__ import annotations

from typing import Any, Callable, Hashable, Iterator, NamedTuple, Sequence

from cachesim.engines.judge_view import Point, RowsPart, Shelf, StatePart
from cachesim.oracle import ColdRun
from cachesim.tokens import common_prefix
from cachesim.verdicts.clean_prefix import Span, clean_rows, clean_state, foreign_rows
from cachesim.verdicts.known_points import Known
from cachesim.verdicts.texts import Place, owner

ENOUGH = 512             # states of which it is known whether they are clean


def differing(was: Sequence[Shelf], now: Sequence[Shelf]) -> tuple[list[Shelf], list[Shelf]]:
    """The shelves that are gone, and those that have come, in order."""
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


class View(NamedTuple):
    """What was seen on a shelf: the place of its tokens, a cold run that begins with them (None = there are no points),
    positions of rows of full attention that are not the cold run's, and each point, by its identity, with the lengths
    at which it could be used."""

    place: Place
    cold: ColdRun | None
    foreign: list[int]
    points: dict[int, tuple[Point, list[Known]]]

    def known(self) -> Iterator[Known]:
        """All that is usable."""
        return (known for _, found in self.points.values() for known in found)


def seen(
    shelf: Shelf, was: View | None, place: Place, cold: ColdRun, states: Remembered,
    known: Callable[[Point, Place, Span], Known],
) -> View:
    """What is on a shelf. ``was``: what was on the one that it goes on from; ``known`` gives the restore point that is
    usable in a span of lengths."""
    n = len(shelf.tokens)
    foreign: dict[int, list[int]] = {}
    view = View(place, cold, [], {})
    if shelf.rows is not None:
        view.foreign.extend(position for position in (was.foreign if was else ()) if position < shelf.same)
        view.foreign.extend(foreign_rows(shelf.rows, cold, n))
        foreign[id(shelf.rows)] = view.foreign

    def wrong(part: RowsPart) -> list[int]:
        if id(part) not in foreign:
            foreign[id(part)] = foreign_rows(part, cold, n)
        return foreign[id(part)]

    def usable(point: Point) -> Iterator[Known]:
        state = point.stored.state
        if state is None or states.clean(state, cold, Place(*owner(place.text, point.hi))):
            here = Place(*owner(place.text, len(point.stored.tokens)))
            yield from (known(point, here, span) for span in clean_rows(point, wrong))

    for point in shelf.points:
        same = was.points.get(id(point)) if was else None
        view.points[id(point)] = same or (point, list(usable(point)))
    return view
