"""Reused, evaluated and generated tokens in whole conversations, and the prefixes that can be found after them
(conversation_numbers.txt). Every answer is computed like that of a fresh server."""

from __future__ import annotations

import pytest

from cachesim.engines.vllm.server import Server
from cachesim.events import Decoded, Gained, Lost
from cachesim.oracle.cold_run import cold
from tests.unit.engines.feature_numbers import read
from tests.unit.engines.vllm.conversations import CONVERSATIONS, FILE, line_of, run

EXPECTED = read(FILE)
SINGLE = [name for name in CONVERSATIONS if not name.startswith("crowd ") and name != "references"]
"""Conversations without a known defect of the releases. Reference windows are not computed."""


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_a_conversation_has_the_numbers_of_the_file(name: str) -> None:
    assert line_of(name) == EXPECTED[name]


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_the_points_that_are_left_are_those_gained_and_not_lost(name: str) -> None:
    srv, left = run(name), set()
    for event in srv.log.events:
        if isinstance(event, Gained):
            left.add(event.point.key)
        elif isinstance(event, Lost):
            left.remove(event.key)
    assert {*srv.inspection.kept()} == left
    srv.inspection.check()


def outputs(srv: Server, number: int) -> list[tuple[int, int]]:
    """Return place and digest of each output of a cold run of a request where its answer has one."""
    request = srv.slots[number]
    at = [output.pos for output in request.task.answer.outputs]
    cold_run = cold(srv.model, request.text.full()[: max(at, default=-1) + 1], logits_at=at)
    return [(pos, int(cold_run.digests[pos])) for pos in at]


@pytest.mark.parametrize("name", SINGLE)
def test_a_conversation_is_computed_like_single_requests(name: str) -> None:
    srv = run(name)
    for number, request in enumerate(srv.slots):
        found = [(output.pos, output.digest) for output in request.task.answer.outputs]
        assert found == outputs(srv, number)
        first = request.num_prompt_tokens - 1
        assert [pos for pos, _ in found] == [*range(first, first + len(request.task.answer.tokens))]
    steps = [event.n_tokens for event in srv.log.events if isinstance(event, Decoded)]
    assert (srv.log.spent, srv.log.passes) == (sum(steps), len(steps))
