"""Every kind of decision in the corpus, with its value and the numbers behind it."""

from __future__ import annotations

from itertools import groupby

import pytest

from tests.unit.engines.rule_decisions import TakenDecision, decisions, read


def run_of(decision: TakenDecision) -> tuple[str, str]:
    return decision.scenario, decision.profile


RUNS = groupby(sorted(read("mlx_lm"), key=run_of), key=run_of)


@pytest.mark.part(2)
@pytest.mark.parametrize(
    ("run", "expected"), [pytest.param(run, {*group}, id="-".join(run)) for run, group in RUNS]
)  # fmt: skip
def test_a_rule_decides_as_the_file_shows(run: tuple[str, str], expected: set[TakenDecision]) -> None:
    assert expected <= {*decisions(*run)}
