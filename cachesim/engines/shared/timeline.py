"""Points on an engine's main branch: where its rule sets were recorded, and where each change landed.

A point is a number and a date. The number counts the commits on the main branch, which llama.cpp calls the build; the
date is the end of a day. ``composition`` puts the rules of any point together.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Callable, Iterable, Mapping, NamedTuple, Sequence

if TYPE_CHECKING:
    from cachesim.engines.shared.rule_set import Change

UNKNOWN = 0


class Commit(NamedTuple):
    """A point on the main branch: the number of commits up to it (``UNKNOWN`` = only the date is known), and its
    date."""

    number: int
    date: str

    def by(self, point: Commit) -> bool:
        """True if this point is at or before ``point``. A point without a number is the end of its day."""
        if self.number and point.number:
            return self.number <= point.number
        return self.date <= point.date


class DatedChange(NamedTuple):
    """A change between two recorded rule sets: from ``source`` on, a key of ``Timeline.landed``, ``field`` has this
    value. A field of a table or an entry of a mapping is written ``table.field``: ``defaults.ctx_size``."""

    field: str
    value: Any
    source: str


@dataclass(frozen=True)
class Timeline:
    """History of an engine's main branch. ``own``: the point at which each rule set was recorded, oldest first;
    ``landed``: points at which changes landed, by the parts of ``Change.source``; ``releases``: other names of points
    (versions, commits); ``builds``: True if points are named by their number (b9700); ``load_between``: returns the
    changes ``between`` two rule sets, which import rules."""

    own: Mapping[str, Commit] = field(default_factory=dict)
    landed: Mapping[str, Commit] = field(default_factory=dict)
    releases: Mapping[str, Commit] = field(default_factory=dict)
    builds: bool = False
    load_between: Callable[[], Sequence[DatedChange]] = tuple

    @cached_property
    def between(self) -> Sequence[DatedChange]:
        """Values that no recorded rule set has, or that began at another point than the rules say, in order."""
        return self.load_between()

    def last_landed(self, change: Change) -> Commit | None:
        """Return the point at which the last part of a change landed, None if it is unknown for a part."""
        return max(self.parts(change.source), default=None)

    def parts(self, source: str) -> list[Commit]:
        """Return the points of the changes in ``source`` ("#19924, #20279"); [] if one of them is unknown."""
        return _all_known(self.landed.get(part) for part in source.split(", "))

    def dated(self, point: Commit) -> Commit:
        """Return a point with its date, if a change landed there."""
        return point if point.date else next((at for at in self.landed.values() if at.number == point.number), point)

    def label(self, point: Commit) -> str:
        """Return the name of a point: a build or a date."""
        return f"b{point.number}" if self.builds and point.number else point.date


def _all_known(points: Iterable[Commit | None]) -> list[Commit]:
    """Return the points; [] if any point is unknown."""
    found = list(points)
    known = [point for point in found if point is not None]
    return known if len(known) == len(found) else []
