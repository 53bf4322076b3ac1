"""Every kind of decision in the corpus has its sentence, with the numbers of the run."""

from __future__ import annotations

from itertools import groupby

import pytest

from tests.unit.engines.decision_sentences import Spoken, read, spoken

ENGINE = "vllm"


def run_of(decision: Spoken) -> tuple[str, str]:
    return decision.scenario, decision.profile


RUNS = groupby(sorted(read(ENGINE), key=run_of), key=run_of)


@pytest.mark.parametrize(
    ("run", "expected"), [pytest.param(run, {*group}, id="-".join(run)) for run, group in RUNS]
)  # fmt: skip
def test_a_decision_is_said_with_its_numbers(run: tuple[str, str], expected: set[Spoken]) -> None:
    assert expected <= {*spoken(*run)}


def test_a_chunk_that_is_shortened_to_nothing_says_what_is_missing() -> None:
    said = {decision.sentence for decision in spoken("vllm-mtp-modules-never-go-on-hybrid", "vllm@0.33.0")}
    assert ("the request waits: 3 of 5 tokens are there, a chunk of 1 leaves 1, the drafter reads 2 ahead: 1 missing"
            in said)
