"""Every kind of decision in the corpus has its sentence, with the numbers of the run (decision_sentences.txt).

``python -m tests.unit.engines.decision_sentences`` rewrites the file."""

from __future__ import annotations

from itertools import groupby

import pytest

from tests.unit.engines.decision_sentences import Spoken, read, spoken

ENGINE = "llama_cpp"


def run_of(decision: Spoken) -> tuple[str, str]:
    return decision.scenario, decision.profile


RUNS = groupby(sorted(read(ENGINE), key=run_of), key=run_of)


@pytest.mark.parametrize(
    ("run", "expected"), [pytest.param(run, {*group}, id="-".join(run)) for run, group in RUNS]
)  # fmt: skip
def test_a_decision_is_said_with_its_numbers(run: tuple[str, str], expected: set[Spoken]) -> None:
    assert expected <= {*spoken(*run)}
