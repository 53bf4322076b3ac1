"""Tests of the list of scenarios that show a rule: complete and correct."""

from __future__ import annotations

from cachesim.judging.judged_run import run_judged
from cachesim.scenarios.corpus import corpus_files, shown_in
from tests.scenarios.shown_in import MOST, lines, ranks
from tests.scenarios.test_corpus import RUNS, SCENARIOS, shown


def _asked() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for name, profile in RUNS:
        for rule in shown(name, profile).decisions:
            found.setdefault(rule, set()).add(name)
    return found


def test_every_rule_that_the_corpus_asks_is_shown_by_scenarios_that_ask_it():
    """Where this fails: python -m tests.scenarios.shown_in"""
    asked, listed = _asked(), shown_in()
    assert set(listed) == set(asked)
    assert [rule for rule, names in listed.items() if not set(names) <= asked[rule]] == []
    assert {name for names in listed.values() for name in names} <= set(corpus_files())


def test_what_loses_tokens_shows_its_rule_best():
    scenario = SCENARIOS["llama-24143-entry-removed-dense"]
    run = run_judged(scenario, "llama_cpp@b10587", "provenance")
    found = ranks(run)
    assert found["LC-PC-LOAD.TAKE"] == 0 and found["LC-NPAST-ONE"] <= 1
    steps = len(scenario.steps)
    assert lines([("b", steps, {"R": 1}), ("a", steps, {"R": 0}), ("x-lesson-a", 9, {"R": 1})]) == ["R: a x-lesson-a b"]
    assert MOST == 3
