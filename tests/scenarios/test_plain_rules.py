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
from tests.scenarios.whole import corpus

NEVER = {"VL-FREE-REFERENCE-GAP": "reference windows are not computed, so that no scenario has them",
         "VL-SIZE-ATTENTION-BLOCK": "scenarios have layers, not the sizes of a real model",
         "VL-SIZE-ATTENTION-BLOCK.ROWS": "scenarios have layers, not the sizes of a real model",
         "VL-LOOKUP-COUNT": "no scenario preempts a request before its first token",
         "VL-LOOKUP-COUNT.AGAIN": "no scenario preempts a request before its first token",
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


@pytest.mark.parametrize("engine, prefix", [("vllm", "VL-"), ("sglang", "SG-")])
def test_every_rule_is_asked(engine: str, prefix: str) -> None:
    asked: set[str] = set()
    scenarios = [scenario for scenario in corpus() if scenario.engine == engine]

    tables: dict[str, RuleSet] = {}

    def asked_by(scenario: Scenario, profile: str) -> set[str]:
        if profile not in tables:
            tables[profile] = watched(rules_of(profile), asked)
        play(scenario, profile, "provenance", table=tables[profile])
        return asked

    for scenario in scenarios:
        for profile in scenario.profiles:
            asked_by(scenario, profile)
    rules = {name for name in RULES if name.startswith(prefix)}
    builds = unnamed_builds(ENGINES[engine], {profile for scenario in scenarios for profile in scenario.profiles})
    assert rules and still_unasked(rules - asked - set(NEVER), builds, scenarios, asked_by) == set()
    assert not asked & set(NEVER)
