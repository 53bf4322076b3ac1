"""With which build did it become better, and by which change? What lies between two recorded rule sets is known one by
one: each change is put into the older one by itself, or as few as are needed together.
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

from cachesim.base.errors import NotInBuild
from cachesim.engines.contract import Engine
from cachesim.engines.shared.rule_set import Change, RuleSet
from cachesim.judging.judged_run import run_judged
from cachesim.tools.advise.changes import Setup
from cachesim.tools.advise.outcome import MODE, TrialOutcome, outcome_of


class Since(NamedTuple):
    """A change that does it, ``alone`` or only together with the others: the rule (or number) ``new`` in place of
    ``old``, the pull request, and the build and date with which it came ("" = not known)."""

    field: str
    old: str
    new: str
    source: str
    build: str
    date: str
    alone: bool


def since(case: Setup, profile: str, want: TrialOutcome, engine: Engine) -> list[Since]:
    """The changes that give the outcome of a later rule set to the one before it: each that does so alone, or as few as
    do together; [] where nothing is before it."""
    line = list(engine.line)
    if profile not in line[1:]:
        return []
    older, newer = engine.rules(line[line.index(profile) - 1]), engine.rules(profile)
    changes = older.changes(newer)

    def enough(some: Sequence[Change]) -> bool:
        return _same(case, older, older.mixed(newer, [one.field for one in some]), want)

    if alone := [one for one in changes if enough([one])]:
        return [_told(one, engine, alone=True) for one in alone]
    left = list(changes)
    for one in changes:
        if enough(fewer := [other for other in left if other is not one]):
            left = fewer
    return [_told(one, engine, alone=False) for one in left] if len(left) < len(changes) else []


def _same(case: Setup, older: RuleSet, table: RuleSet, want: TrialOutcome) -> bool:
    try:
        mine = outcome_of(run_judged(case.scenario, older.name, MODE, table=table, bills=False))
    except NotInBuild:
        return False
    return (mine.evaluated, mine.wrong, mine.failed) == (want.evaluated, want.wrong, want.failed)


def _told(change: Change, engine: Engine, alone: bool) -> Since:
    point = engine.when.came(change)
    build, date = (engine.when.told(point), point.date) if point else ("", "")
    return Since(change.field, change.old, change.new, change.source, build, date, alone)
