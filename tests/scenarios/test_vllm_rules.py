"""Tests that the scenarios of vLLM ask every rule of its tables, most of which write no line in the log."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import wraps
from typing import Any, Callable

from cachesim.engines.rule import RULES, about
from cachesim.engines.vllm.profiles import PROFILES, Rules
from cachesim.scenarios.runner import play
from tests.scenarios.whole import corpus

NEVER = {"V-FREE-2": "reference windows are not computed, so that no scenario has them"}


def watched(rules: Rules, asked: set[str]) -> Rules:
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


def test_every_rule_is_asked() -> None:
    asked: set[str] = set()
    for scenario in corpus():
        for profile in scenario.profiles if scenario.engine == "vllm" else ():
            play(scenario, profile, "provenance", table=watched(PROFILES[profile], asked))
    assert {name for name in RULES if name.startswith("V-")} - asked == set(NEVER)
