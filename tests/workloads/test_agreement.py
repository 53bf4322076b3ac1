"""Test that scaled and unscaled runs agree for a session of sequential requests."""

from pathlib import Path

import pytest

from cachesim.tools.workload.workload_files import read_session
from tests.workloads.agreement import Agreement, agreement

AGENTS = Path(__file__).parent / "data/agents.json"


@pytest.mark.parametrize("profile", ["llama_cpp@b11549", "ik_llama@main", "mlx_lm@0.32.2"])
def test_the_same_rules_settle_scaled_and_unscaled_requests(profile):
    found = agreement(read_session(AGENTS), profile, "qwen3-next", {}, 64)
    assert (found.requests, found.agents) == (9, 2) and found.same >= 8
    assert abs(found.off) < 0.2           # in a short session rounding has a large share


@pytest.mark.parametrize(("scaled", "same", "holds"), [(1010, 99, True), (1011, 100, False), (990, 98, False)])
def test_one_per_cent_of_tokens_and_of_rules_may_differ(scaled, same, holds):
    assert Agreement("s", "p", 100, 0, 0, scaled, 1000, same).holds is holds
