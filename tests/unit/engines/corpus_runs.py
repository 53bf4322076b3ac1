"""Scenarios of an engine in the corpus: what their files expect under each of their rule sets."""

from __future__ import annotations

from functools import cache

from cachesim.engines.registry import profiles
from cachesim.judging.judged_run import ExpectationMismatch, run_judged
from cachesim.scenarios.corpus import corpus_files
from cachesim.scenarios.load import load
from cachesim.scenarios.schema import Scenario


def names(engine: str) -> list[str]:
    """Return the ids of the scenarios of an engine."""
    return sorted(name for name, path in corpus_files().items() if engine in path.parts)


@cache
def _scenario(name: str) -> Scenario:
    return load(corpus_files()[name], {*profiles()})


def mismatches(name: str) -> dict[str, list[ExpectationMismatch]]:
    """Return the differences from the expectations of a scenario by rule set, without rule sets that have none."""
    scenario = _scenario(name)
    found = {profile: run_judged(scenario, profile, "provenance").wrong for profile in scenario.expect}
    return {profile: wrong for profile, wrong in found.items() if wrong}
