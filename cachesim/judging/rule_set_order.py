"""Order in which the other rule sets of an engine are tried in place of a run's rule set."""

from __future__ import annotations

from typing import Sequence

from cachesim.engines.registry import engine_of, rules_of
from cachesim.engines.shared.rule_set import RuleSet


def place_of(profile: str, rules: RuleSet) -> int:
    """Return the place of a rule set in the line of its engine: its own, that of its base, or of the rule set that it
    differs least from."""
    engine = engine_of(profile)
    base = profile if profile in engine.line else engine.beside.get(profile, "")
    if base not in engine.line:
        base = min(engine.line, key=lambda name: len(engine.profiles[name].changes(rules)), default="")
    return list(engine.line).index(base) if base else 0


def search_order(profile: str, rules: RuleSet) -> list[str]:
    """Return the other rule sets of the engine in the order in which their variants are tried."""
    engine, at = engine_of(profile), place_of(profile, rules)
    beside = sorted(engine.beside, key=lambda name: not name.endswith("-repaired"))
    first = [*_later_commits(profile, list(engine.beside)), *engine.line[at + 1 :]]
    order = [*first, *beside, *reversed(engine.line)]
    return [name for name in dict.fromkeys(order) if name != profile]


def _later_commits(profile: str, beside: Sequence[str]) -> list[str]:
    """Return the proposals that correct a proposal: its repaired form, and later commits of the same pull request."""
    thread = rules_of(profile).thread if profile in beside else ""
    after = beside[beside.index(profile) + 1 :] if thread else []
    return [name for name in after if name == f"{profile}-repaired" or rules_of(name).thread == thread]


def newer_rule_sets(profile: str, rules: RuleSet) -> list[str]:
    """Return the rule sets of ``search_order`` that are later than the run's, and the repaired and proposed ones whose
    base is not older."""
    engine, at = engine_of(profile), place_of(profile, rules)
    later = engine.line[at + 1 :]
    beside = [name for name, base in engine.beside.items() if base in engine.line[at:]]
    return [name for name in search_order(profile, rules) if name in later or name in beside]


def changed_here(profile: str, rules: RuleSet, name: str, field: str) -> bool:
    """True if the rule set ``name`` changed a field itself: its neighbour on the side of ``profile``, or the
    base of a proposal, has another rule."""
    engine = engine_of(profile)
    near = engine.beside.get(name, profile)
    if name in engine.line:
        at = list(engine.line).index(name)
        near = engine.line[at - 1 if at > place_of(profile, rules) else min(at + 1, len(engine.line) - 1)]
    sets = engine.profiles
    return near not in sets or sets[near].fields()[field] != sets[name].fields()[field]
