"""A recording refutes an answer by a verdict only if our verdicts are the recorded ones without any change."""

from __future__ import annotations

from pathlib import Path

import pytest

from cachesim.engines.rule_outcomes import Outcome
from tests.evidence.survey import VERDICT, disagrees, judged_alike

OFFLOAD = Path(__file__).parents[1] / "data" / "vllm_offload"
PREDICTED = OFFLOAD / "state-load-full-memory.json"
SAME = Outcome("VL-OFF-KEPT", "yes"), "VL-OFF-KEPT.OFTEN"
"""An answer that changes nothing where every chunk is stored at its first offer."""


@pytest.mark.parametrize("mode", ["none", "provenance"])
def test_a_predicted_wrong_answer_refutes_nothing(mode):
    assert not judged_alike(PREDICTED)
    assert disagrees(PREDICTED, *SAME, mode) is None


def test_another_decision_of_the_same_recording_refutes():
    step, what = disagrees(PREDICTED, Outcome("VL-OFF-END", "some"), "VL-OFF-END.STATE", "provenance")
    assert step > 0 and what != VERDICT
