"""Scenarios of the corpus that depend on vLLM's scheduler and cache: their files say what happens by rule set."""

from __future__ import annotations

import pytest

from tests.unit.engines.corpus_runs import mismatches, names


@pytest.mark.parametrize("name", names("vllm"))
def test_a_scenario_meets_its_expectations(name: str) -> None:
    assert mismatches(name) == {}
