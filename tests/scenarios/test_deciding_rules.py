"""Tests that the rule that decided really decides: its exchange alone removes the failure, and no rule is skipped.

``make test`` checks a part of the corpus, stratified by engine and symptom, and a drawn failure; ``make long`` checks
more of them. Tests marked slow check every wrong answer and loss of the corpus, and 2,000 drawn failures.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Iterator

import pytest

from cachesim.base.errors import BadInput
from cachesim.base.progress_bar import progress
from cachesim.engines.registry import ENGINES
from cachesim.judging.deciding_rule import failure_of
from cachesim.judging.judged_run import run_judged
from cachesim.scenarios.schema import Scenario
from cachesim.tools.search.drawn_conversation import draw_conversation
from tests.scenarios.exchange_checks import false_about_stored, false_statements
from tests.scenarios.whole import corpus

RUNS = [(scenario, profile) for scenario in corpus() for profile in scenario.profiles]
BROKEN = [(scenario, profile) for scenario, profile in RUNS if scenario.expect[profile].broken]
EACH = 1                 # run of each engine and symptom whose memory is read
FAILURES = 2000


def stratified(runs: list[tuple[Scenario, str]], each: int) -> list[tuple[Scenario, str]]:
    """Return so many runs of each engine and folder."""
    groups: dict[tuple[str, str], list[tuple[Scenario, str]]] = defaultdict(list)
    for scenario, profile in runs:
        groups[profile.partition("@")[0], scenario.file.split("/")[-2]].append((scenario, profile))
    return [run for group in groups.values() for run in group[:: max(1, len(group) // each)][:each]]


def named(runs: list[tuple[Scenario, str]]) -> list[object]:
    """Return the runs as parameters."""
    return [pytest.param(scenario, profile, id=f"{scenario.id}-{profile}") for scenario, profile in runs]


@pytest.mark.parametrize(("scenario", "profile"), named(stratified(BROKEN, 1)))
@pytest.mark.part(3)
def test_the_rule_that_is_named_decides(scenario, profile):
    assert list(false_statements(scenario, profile, list(scenario.expect[profile].broken[:1]))) == []


@pytest.mark.parametrize(("scenario", "profile"), named(stratified(RUNS, EACH)))
def test_objects_that_are_called_stored_are_stored(scenario, profile):
    assert list(false_about_stored(scenario, profile)) == []


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(("scenario", "profile"), named(RUNS))
def test_every_object_that_is_called_stored_is_stored(scenario, profile):
    assert list(false_about_stored(scenario, profile)) == []


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(("scenario", "profile"), named(RUNS))
def test_every_rule_that_is_named_decides(scenario, profile):
    assert list(false_statements(scenario, profile)) == []


def drawn_failures(seed: int, most: int) -> Iterator[tuple[Scenario, str, int]]:
    """Yield failures of drawn conversations under main-line rule sets in turn, ``most`` altogether."""
    engines, number, found = list(ENGINES.values())[:3], seed << 32, 0
    while found < most:
        number += 1
        engine = engines[number % len(engines)]
        profile = engine.line[number // len(engines) % len(engine.line)]
        try:
            scenario = draw_conversation(number, engine.name).scenario(profile)
            run = run_judged(scenario, profile, "provenance")
        except BadInput:            # an option that this version does not have
            continue
        failing = [i for i in range(len(run.requests)) if failure_of(run, i) is not None][:1]
        for at in failing:
            found += 1
            yield scenario, profile, at


@pytest.mark.parametrize("drawn", [1, pytest.param(3, marks=pytest.mark.long)])
def test_rules_named_for_drawn_failures_decide(drawn):
    wrong = [text for scenario, profile, at in drawn_failures(33, drawn)
             for text in (*false_statements(scenario, profile, [at]), *false_about_stored(scenario, profile))]
    assert wrong == []


@pytest.mark.long
@pytest.mark.slow
def test_rules_named_for_two_thousand_drawn_failures_decide():
    cases = progress(drawn_failures(34, FAILURES), FAILURES, "drawn failures")
    wrong = [text for scenario, profile, at in cases
             for text in (*false_statements(scenario, profile, [at]), *false_about_stored(scenario, profile))]
    assert wrong == []
