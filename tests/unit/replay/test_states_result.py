"""Steps of a recording that state a result for every request."""

from __future__ import annotations

import pytest

from cachesim.engines.base import Request
from cachesim.replay.recorded_trace import TraceMember, TraceStep
from cachesim.replay.replay import states_result


def step(*responses, events=(), response=None, **more):
    members = tuple(TraceMember(Request((1, 2)), one) for one in responses)
    return TraceStep(0, members, response or {}, [*events], **more)


@pytest.mark.parametrize(("made", "states"), [
    (step({"cache_n": 0}), True), (step({}), False), (step({"cache_n": 0}, {}), False), (step({"content": "x"}), False),
    (step({"error": "no room"}), False), (step({"error": "no room", "status": 400}), True),
    (step({"error": "no room", "cache_n": 3}), False),
    (step({"cancelled": True}), False), (step({"cancelled": True}, events=[{"ev": "launch"}]), True),
    (step({"cache_n": 0}, {"cancelled": True}), False),
    (step({"cache_n": 0}, {"cancelled": True, "cache_n": 0}), False),
    (step({"cache_n": 0}, {"cancelled": True}, events=[{"ev": "launch"}]), True), (step({}, died=True), True),
    (step(response={"n_saved": 4}), True), (step(response={"other": 4}), False),
])  # fmt: skip
def test_a_step_states_its_result(made, states):
    assert states_result(made) is states
