"""Rules in force at a build, a commit or a date.

Each rule set is recorded at a single build. Between two recorded builds the changes landed separately. Where the build
of each change is known, the rules at any build are those of the older rule set with the changes that had landed by
then.

A point is a number and a date. The number counts the commits on the main branch, which llama.cpp calls the build; the
date is the end of a day.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Iterable, Mapping, NamedTuple, Sequence

from cachesim.engines.shared.rule_set import Change, RuleSet

UNKNOWN = 0


class Landed(NamedTuple):
    """A point on the main branch: the number of commits up to it (``UNKNOWN`` = only the date is known), and its
    date."""

    number: int
    date: str

    def by(self, point: Landed) -> bool:
        """Return whether this point is at or before ``point``. A point without a number is the end of its day."""
        if self.number and point.number:
            return self.number <= point.number
        return self.date <= point.date


@dataclass(frozen=True)
class Timeline:
    """History of an engine's main branch. ``own``: the point at which each rule set was recorded, oldest first;
    ``landed``: points at which changes landed, by the parts of ``Change.source``; ``releases``: other names of points
    (versions, commits); ``builds``: True if points are named by their number (b9700)."""

    own: Mapping[str, Landed] = field(default_factory=dict)
    landed: Mapping[str, Landed] = field(default_factory=dict)
    releases: Mapping[str, Landed] = field(default_factory=dict)
    builds: bool = False

    def last_landed(self, change: Change) -> Landed | None:
        """Return the point at which the last part of a change landed, None if it is unknown for a part."""
        return max(self._parts(change), default=None)

    def first_landed(self, change: Change) -> Landed | None:
        """Return the point at which the first part of a change landed, None if unknown."""
        return min(self._parts(change), default=None)

    def _parts(self, change: Change) -> list[Landed]:
        return _all_known(self.landed.get(part) for part in change.source.split(", "))

    def label(self, point: Landed) -> str:
        """Return the name of a point: a build or a date."""
        return f"b{point.number}" if self.builds and point.number else point.date


def _all_known(points: Iterable[Landed | None]) -> list[Landed]:
    """Return the points; [] if any point is unknown."""
    found = list(points)
    return [] if None in found else [point for point in found if point is not None]


class InForce(NamedTuple):
    """The rules at a point. ``base``: the recorded rule set that they equal, or to which ``changes`` were made;
    ``unsure``: changes that may have landed by then."""

    rules: RuleSet
    base: RuleSet
    changes: tuple[Change, ...]
    unsure: tuple[Change, ...]


def rules_at(line: Sequence[RuleSet], when: Timeline, point: Landed) -> InForce:
    """Return the rules in force at a point that is not before the oldest rule set."""
    rules = base = line[0]
    made: list[Change] = []
    unsure: list[Change] = []
    for older, newer in pairwise(line):
        changes, whole = older.changes(newer), when.own[newer.name].by(point)
        come = [change for change in changes if whole or _by(when.last_landed(change), point) is True]
        if when.own[older.name].by(point) and when.own[older.name].number != point.number:
            rest = [change for change in changes if change not in come]
            unsure = [change for change in rest if _by(when.first_landed(change), point) is not False]
        if not (made or base.changes(older)) and (whole or (changes and len(come) == len(changes))):
            rules = base = newer
        elif come:
            rules = rules.mixed(newer, [change.field for change in come])
            made += come
    return InForce(rules, base, tuple(made), tuple(unsure))


def _by(day: Landed | None, point: Landed) -> bool | None:
    return None if day is None else day.by(point)


class RuleSetPeriod(NamedTuple):
    """Period in which a rule set was in force; the point before ``until`` is its last. ``own``: the point of the
    recording. ``until`` None = the point of the next change is unknown."""

    first: Landed
    own: Landed
    until: Landed | None


def rule_set_period(line: Sequence[RuleSet], when: Timeline, name: str) -> RuleSetPeriod:
    """Return the period in which a main-branch rule set was in force."""
    number = [rules.name for rules in line].index(name)
    own = when.own[name]
    first = when.own[line[0].name]
    for older, newer in reversed(list(pairwise(line[: number + 1]))):
        if changes := older.changes(newer):
            first = max(_all_known(map(when.last_landed, changes)), default=when.own[newer.name])
            break
    for older, newer in pairwise(line[number:]):
        if changes := older.changes(newer):
            return RuleSetPeriod(first, own, min(_all_known(map(when.first_landed, changes)), default=None))
    return RuleSetPeriod(first, own, None)


def format_period(found: RuleSetPeriod, when: Timeline) -> str:
    """Return the printed form of a period: ``b9509..b9573``, ``2026-07-10..2026-07-30``; ``+`` = it may have lasted
    longer."""
    first, own = when.label(found.first), when.label(found.own)
    if found.until is None:
        return f"{own}+" if found.first == found.own else f"{first}..{own}+"
    last = f"b{found.until.number - 1}" if when.builds and found.until.number else when.label(found.until)
    return f"{first}..{last}"
