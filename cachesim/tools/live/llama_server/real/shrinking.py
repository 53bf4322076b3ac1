"""Shrinking with few attempts: requests are removed and words shortened while a failure stays.

Every attempt starts a real server, so there is no delta debugging: each element is tried once.
"""

from __future__ import annotations

from typing import Callable, Iterator, Sequence

from cachesim.base.errors import BadInput
from cachesim.scenarios.notation.shrink_vector import ShrinkCase, ShrinkVector, reduced, whole
from cachesim.tools.search.drawn_conversation import DrawnConversation

FIELDS = ("steps", "options", "flags", "rare", "pieces", "words")


def shrink(case: DrawnConversation, fails: Callable[[DrawnConversation], bool], stop: Callable[[], bool]) -> None:
    """Call ``fails`` with ever smaller conversations; it returns True for one that shows the failure, which is the base
    of the next. Ends when nothing smaller fails, or ``stop`` holds."""
    start = ShrinkCase(case.line, tuple(case.given()))
    row = whole(start)
    for field, place in _places(row):
        for value in _less(getattr(row, field)[place], field):
            if stop():
                return
            values = list(getattr(row, field))
            values[place] = value
            tried = row._replace(**{field: tuple(values)})
            smaller = _reduced(case, start, tried)
            if smaller is not None and fails(smaller):
                row = tried
                break


def _reduced(case: DrawnConversation, start: ShrinkCase, row: ShrinkVector) -> DrawnConversation | None:
    """Return the conversation reduced to what the vector keeps, None if nothing valid is left."""
    try:
        smaller = case.reduced_to(reduced(start, row))
    except BadInput:
        return None
    return smaller if smaller.asked else None


def _places(row: ShrinkVector) -> Iterator[tuple[str, int]]:
    """Yield the elements in the order of the attempts, the last request first."""
    for field in FIELDS:
        yield from ((field, place) for place in reversed(range(len(getattr(row, field)))))


def _less(value: int, field: str) -> Sequence[int]:
    """Return smaller candidates for a value, the smallest first."""
    if not value:
        return ()
    return (0,) if field != "words" else [n for n in (0, 1, 4, value // 2, value - 1) if n < value]
