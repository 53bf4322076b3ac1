"""Tests that scenarios ask every rule of the engines of which most rules write no line in the log."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import wraps
from typing import Any, Callable

import pytest

from cachesim.engines.registry import rules_of
from cachesim.engines.rule import RULES, about
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.scenarios.runner import play
from tests.scenarios.whole import corpus

NEVER = {"VL-FREE-REFERENCE-GAP": "reference windows are not computed, so that no scenario has them"}


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
            changed[one.name] = {kind: watch(fn) for kind, fn in value.items()}
    return replace(rules, **changed)


@pytest.mark.parametrize("engine, prefix", [("vllm", "V-"), ("sglang", "S-")])
def test_every_rule_is_asked(engine: str, prefix: str) -> None:
    asked: set[str] = set()
    for scenario in corpus():
        for profile in scenario.profiles if scenario.engine == engine else ():
            play(scenario, profile, "provenance", table=watched(rules_of(profile), asked))
    rules = {name for name in RULES if name.startswith(prefix)}
    assert rules - asked == set(NEVER) & rules
