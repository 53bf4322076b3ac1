"""States kept after each token of a draft: the one after the last accepted token is that of a cold run, or not."""

from __future__ import annotations

import pytest

from cachesim.engines.base import Draft, Request
from cachesim.judging.compare_answer import Judge
from tests.unit.engines.ik_llama.feature_conversations import Client, P, Q

PLACES, POSITIONS = [0, 1, 2, 3], [(0, position) for position in range(30, 37)]


@pytest.mark.parametrize(("version", "n_ubatch", "places", "equals_cold"), [
    ("main", 2, PLACES[:2], False), ("main", 16, PLACES, True), ("main-repaired", 2, POSITIONS, True),
    ("main-repaired", 16, POSITIONS, True),
])  # fmt: skip
@pytest.mark.parametrize("mode", ["per-step", "auto"])
def test_a_round_of_several_micro_batches_needs_states_by_position(version, n_ubatch, places, equals_cold, mode):
    client = Client(version, "GGA+M", spec_type="mtp", spec_draft_n_max=3, spec_ckpt_mode=mode, ubatch_size=n_ubatch)
    core = client.server.core
    request = Request(P[:30], 9, forced=Q[:9], drafts=(Draft(30, 3, 1), Draft(33, 3, 3)))
    answer = client.server.submit(request)
    client.work()
    found = Judge(core.context.model).judge(request, answer, client.server.inspection.live(0))
    assert (answer.draft_n, answer.draft_n_accepted, found.equal_cold) == (6, 4, equals_cold)
    assert [*core.context.steps] == places
