"""Which rules were in force at a build, at a commit, on a date?

A rule set is recorded at one build. Between two of them the changes came one by one: where it is known with which build
each of them came, the rules at any build are those of the older rule set with the changes that had come by then.

A point is a number and a date. The number counts commits on the main branch, which is what llama.cpp calls a build; the
date is a day, at its end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Iterable, Mapping, NamedTuple, Sequence

from cachesim.engines.shared.rule_set import Change, RuleSet

UNKNOWN = 0


class Landed(NamedTuple):
    """A point on the main branch: the number of commits up to it (``UNKNOWN`` = only the date is), and its date."""

    number: int
    date: str

    def by(self, point: Landed) -> bool:
        """Had this come when that point was reached? A point without a number is the end of its day."""
        if self.number and point.number:
            return self.number <= point.number
        return self.date <= point.date


@dataclass(frozen=True)
class Timeline:
    """``own``: the point at which each rule set of the main branch was recorded, oldest first; ``landed``: when changes
    came, by what ``Change.source`` calls them; ``releases``: other names of points (versions, commits). ``builds``: is
    a point called by its number (b9700)?"""

    own: Mapping[str, Landed] = field(default_factory=dict)
    landed: Mapping[str, Landed] = field(default_factory=dict)
    releases: Mapping[str, Landed] = field(default_factory=dict)
    builds: bool = False

    def came(self, change: Change) -> Landed | None:
        """When a change was complete, None if that is not known of one of its parts."""
        return max(self._parts(change), default=None)

    def began(self, change: Change) -> Landed | None:
        """When the first part of a change came, None if that is not known."""
        return min(self._parts(change), default=None)

    def _parts(self, change: Change) -> list[Landed]:
        return _all_known(self.landed.get(part) for part in change.source.split(", "))

    def told(self, point: Landed) -> str:
        """What a point is called."""
        return f"b{point.number}" if self.builds and point.number else point.date


def _all_known(points: Iterable[Landed | None]) -> list[Landed]:
    """The points; [] if one of them is not known."""
    found = list(points)
    return [] if None in found else [one for one in found if one is not None]


class InForce(NamedTuple):
    """The rules at a point. ``base`` is the recorded rule set that they are, or that ``changes`` have been made to;
    ``unsure`` are changes of which it is not known whether they had come."""

    rules: RuleSet
    base: RuleSet
    changes: tuple[Change, ...]
    unsure: tuple[Change, ...]


def rules_at(line: Sequence[RuleSet], when: Timeline, point: Landed) -> InForce:
    """The rules in force at a point that is not before the oldest of them."""
    rules = base = line[0]
    made: list[Change] = []
    unsure: list[Change] = []
    for older, newer in pairwise(line):
        changes, whole = older.changes(newer), when.own[newer.name].by(point)
        come = [one for one in changes if whole or _by(when.came(one), point) is True]
        if when.own[older.name].by(point) and when.own[older.name].number != point.number:
            unsure = [one for one in changes if one not in come and _by(when.began(one), point) is not False]
        if not (made or base.changes(older)) and (whole or (changes and len(come) == len(changes))):
            rules = base = newer
        elif come:
            rules = rules.mixed(newer, [one.field for one in come])
            made += come
    return InForce(rules, base, tuple(made), tuple(unsure))


def _by(day: Landed | None, point: Landed) -> bool | None:
    return None if day is None else day.by(point)


class RuleSetPeriod(NamedTuple):
    """From when to when a rule set was in force: the point before ``until`` is its last one. ``until`` None = it is not
    known when the next change came; it was in force at ``own`` anyway."""

    first: Landed
    own: Landed
    until: Landed | None


def rule_set_period(line: Sequence[RuleSet], when: Timeline, name: str) -> RuleSetPeriod:
    """When the rules of a rule set of the main branch were in force."""
    number = [one.name for one in line].index(name)
    own = when.own[name]
    first = when.own[line[0].name]
    for older, newer in reversed(list(pairwise(line[: number + 1]))):
        if changes := older.changes(newer):
            first = max(_all_known(map(when.came, changes)), default=when.own[newer.name])
            break
    for older, newer in pairwise(line[number:]):
        if changes := older.changes(newer):
            return RuleSetPeriod(first, own, min(_all_known(map(when.began, changes)), default=None))
    return RuleSetPeriod(first, own, None)


def format_period(found: RuleSetPeriod, when: Timeline) -> str:
    """A span as it is printed: ``b9509..b9573``, ``2026-07-10..2026-07-30``; ``+`` = it may have lasted longer."""
    first, own = when.told(found.first), when.told(found.own)
    if found.until is None:
        return f"{own}+" if found.first == found.own else f"{first}..{own}+"
    last = f"b{found.until.number - 1}" if when.builds and found.until.number else when.told(found.until)
    return f"{first}..{last}"
