"""Tests that scenarios ask every rule of the engines of which most rules write no line in the log."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import wraps
from typing import Any, Callable

import pytest

from cachesim.engines.registry import ENGINES, rules_of
from cachesim.engines.rule import RULES, about
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.scenarios.runner import play
from cachesim.scenarios.schema import Scenario
from tests.scenarios.newer_builds import still_unasked, unnamed_builds
from tests.scenarios.test_corpus import NAMED, NEWER
from tests.scenarios.whole import corpus

NEVER = {"VL-FREE-REFERENCE-GAP": "reference windows are not computed, so that no scenario has them",
         "VL-SIZE-ATTENTION-BLOCK": "scenarios have layers, not the sizes of a real model",
         "VL-SIZE-ATTENTION-BLOCK.ROWS": "scenarios have layers, not the sizes of a real model",
         "VL-SCHED-STALE.DRAFTS": "no scenario resets the cache while a step is in flight",
         "VL-SCHED-STALE.DRAFTS.BACK": "no scenario resets the cache while a step is in flight",
         "VL-SCHED-PAD.CLIP.KEEP": "what the worker computes for drafts with too few rows is not modelled",
         "VL-SIZE-PAGE-BLOCK": "scenarios have layers, not the sizes of a real model"}


def watched(rules: RuleSet, asked: set[str]) -> RuleSet:
    """Return a rule set whose rules note that they were asked."""

    def watch(fn: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(fn)
        def noting(*args: Any) -> Any:
            asked.add(about(fn).id)
            return fn(*args)

        return noting

    changed: dict[str, Any] = {}
    for one in fields(rules):
        value = getattr(rules, one.name)
        if callable(value):
            changed[one.name] = watch(value)
        elif isinstance(value, dict) and value:
            changed[one.name] = {kind: watch(fn) if callable(fn) else fn for kind, fn in value.items()}
    return replace(rules, **changed)


class Asked:
    """The scenarios of an engine, and the rules that their runs have asked so far."""

    def __init__(self, engine: str) -> None:
        self.scenarios = [scenario for scenario in corpus() if scenario.engine == engine]
        self.rules: set[str] = set()
        self.tables: dict[str, RuleSet] = {}

    def by(self, scenario: Scenario, profile: str) -> set[str]:
        """Run a scenario; return the rules that were asked so far."""
        if profile not in self.tables:
            self.tables[profile] = watched(rules_of(profile), self.rules)
        play(scenario, profile, "provenance", table=self.tables[profile])
        return self.rules


PREFIXES = {"vllm": "VL-", "sglang": "SG-"}


def demanded(engine: str) -> set[str]:
    """Return the rules of an engine that a run of a scenario as in its file has to ask."""
    return {name for name in RULES if name.startswith(PREFIXES[engine])} - set(NEVER) - NEWER[engine].keys()


@pytest.mark.parametrize("engine", PREFIXES)
def test_every_rule_is_asked(engine: str) -> None:
    asked = Asked(engine)
    for scenario in asked.scenarios:
        for profile in scenario.profiles:
            asked.by(scenario, profile)
    assert demanded(engine) and demanded(engine) - asked.rules == set()
    assert not asked.rules & set(NEVER)


@pytest.mark.parametrize("engine", PREFIXES)
def test_rules_of_builds_that_no_scenario_names_are_asked_there(engine: str) -> None:
    """``tests/new_build`` runs this with such builds."""
    asked = Asked(engine)
    builds = unnamed_builds(ENGINES[engine], NAMED)
    assert still_unasked(NEWER[engine].keys() - set(NEVER), builds, asked.scenarios, asked.by) == set()
