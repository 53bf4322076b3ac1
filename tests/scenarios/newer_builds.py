"""Builds of the main branch that no scenario names yet, and the rules that began with them.

A scenario names rule sets that a person has looked at. A build newer than all of these needs none: the scenarios of its
engine are run under it until they have asked its new rules.
"""

from __future__ import annotations

from contextlib import suppress
from typing import AbstractSet, Callable, Iterable, Sequence

from cachesim.base.errors import NotInBuild
from cachesim.engines.contract import Engine
from cachesim.engines.rule_outcomes import graded_rules
from cachesim.scenarios.schema import Scenario


def unnamed_builds(engine: Engine, named: AbstractSet[str]) -> Sequence[str]:
    """Return the main-branch rule sets after the newest one among ``named``, oldest first."""
    last = max((at for at, name in enumerate(engine.line) if name in named), default=-1)
    return engine.line[last + 1 :]


def replaced_rules(engine: Engine, builds: Sequence[str]) -> dict[str, str]:
    """Return the ids of the rules that began with these builds of the main branch -> the rule of the build before, in
    the same field; "" for a new field."""
    found: dict[str, str] = {}
    for name in builds:
        at = engine.line.index(name)
        older = graded_rules(engine.profiles[engine.line[at - 1]]) if at else {}
        for field, rule in graded_rules(engine.profiles[name]).items():
            before = older.get(field)
            if rule is not before:
                found[rule.rule] = before.rule if before else ""      # type: ignore[attr-defined]
    return found


def still_unasked(
    rules: AbstractSet[str], builds: Sequence[str], scenarios: Iterable[Scenario],
    asked_by: Callable[[Scenario, str], AbstractSet[str]],
) -> set[str]:
    """Return the rules that are not asked although each scenario was run under these builds, as far as needed.
    ``asked_by`` returns the rules that a run of a scenario under a rule set asks."""
    left = set(rules)
    for scenario in scenarios if builds else ():
        for build in builds if left else ():
            with suppress(NotInBuild):
                left -= asked_by(scenario, build)
    return left
