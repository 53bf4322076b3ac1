"""Pull requests that repair a loss, as the bundled scenarios show it: proposed rule sets that change the rule which
loses tokens, and a scenario in which they evaluate fewer tokens than their base."""

from __future__ import annotations

import re
from typing import Iterable, Iterator, NamedTuple

from cachesim.engines.contract import Engine
from cachesim.engines.registry import BUILTIN, ENGINES
from cachesim.engines.shared.rule_set import Change
from cachesim.scenarios.corpus import corpus_files, shown_in
from cachesim.scenarios.load import load
from cachesim.scenarios.schema import Expect

_PULL = re.compile(r"\S*#\d+")


class KnownRepair(NamedTuple):
    """A pull request that repairs a loss and is not released. ``rule``: id of the rule that loses tokens; ``case``: id
    of a bundled scenario in which ``profile`` evaluates ``repaired`` instead of the ``evaluated`` prompt tokens of its
    ``base``."""

    rule: str
    pull: str
    profile: str
    base: str
    case: str
    evaluated: int
    repaired: int


def repair_of_rule(rule: str) -> KnownRepair | None:
    """Return the pull request that repairs the losses of a rule, that with the newest base first; None without one."""
    found = (one for engine in BUILTIN.values() for name in _newest_first(engine) for one in _repairs(engine, name))
    return next((one for one in found if one.rule == rule), None)


def repair_among(rule: str, profiles: Iterable[str]) -> KnownRepair | None:
    """Return the first of these rule sets, all of one engine, that is a pull request which repairs the losses of a
    rule; None if none of them is. Other engines are not imported."""
    for profile in profiles:
        engine = ENGINES.get(profile.partition("@")[0])
        found = _repairs(engine, profile) if engine is not None and profile in engine.beside else ()
        repair = next((one for one in found if one.rule == rule), None)
        if repair is not None:
            return repair
    return None


def repair_by(engine: Engine, profile: str) -> KnownRepair | None:
    """Return what a proposed rule set repairs, None if no bundled scenario shows it."""
    return next(_repairs(engine, profile), None) if profile in engine.beside else None


def _newest_first(engine: Engine) -> list[str]:
    """Return the proposed rule sets, newest base first."""
    places = {name: place for place, name in enumerate(engine.line)}
    return sorted(engine.beside, key=lambda name: -places.get(engine.beside[name], -1))


def _repairs(engine: Engine, profile: str) -> Iterator[KnownRepair]:
    """Yield what a proposed rule set repairs: each rule that it changes by a pull request and that the newest build
    still has."""
    base = engine.beside[profile]
    newest = engine.profiles[engine.newest or engine.line[-1]].fields()
    for change in engine.profiles[base].changes(engine.profiles[profile]):
        still_there = getattr(newest.get(change.field), "rule", "") == change.old
        pull = _pull(engine, profile, change.source)
        if still_there and pull and (case := _case(engine, profile, change)):
            yield KnownRepair(change.old, pull, profile, base, *case)


def _case(engine: Engine, profile: str, change: Change) -> tuple[str, int, int] | None:
    """Return a scenario in which a proposed rule set evaluates fewer prompt tokens than its base, with both numbers;
    one of the pull request if there is one."""
    files, number = corpus_files(), change.source.lstrip("#")
    shown = [name for name in shown_in().get(change.new, ()) if name in files]
    for name in sorted(shown, key=lambda one: f"-{number}-" not in one):
        expected = load(files[name]).expect
        before, after = (_evaluated(expected.get(one)) for one in (engine.beside[profile], profile))
        if before is not None and after is not None and after < before:
            return name, before, after
    return None


def _evaluated(expected: Expect | None) -> int | None:
    """Return the prompt tokens that a scenario expects to be evaluated, None if it does not state one number for each
    request, or if it expects an answer that is not correct."""
    if expected is None or expected.broken or expected.died or expected.undecided:
        return None
    counts = expected.prompt_n or ()
    exact = [count[0] for count in counts if len(count) == 1]
    return sum(exact) if counts and len(exact) == len(counts) else None


def _pull(engine: Engine, profile: str, number: str) -> str:
    """Return the number of a pull request with its repository, "" if the source of the rule set does not name it."""
    named = (found[0] for found in _PULL.finditer(engine.profiles[profile].source))
    return next((one for one in named if number and one.endswith(number)), "")
