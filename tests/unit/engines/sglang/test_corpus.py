"""Scenarios of the corpus that depend on SGLang's server: their files say what happens under each rule set."""

from __future__ import annotations

import pytest

from tests.unit.engines.corpus_runs import mismatches, names


@pytest.mark.parametrize("name", names("sglang"))
def test_a_scenario_meets_its_expectations(name: str) -> None:
    assert mismatches(name) == {}
