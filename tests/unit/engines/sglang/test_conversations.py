"""Reused, evaluated and generated tokens in whole conversations, and the restore points after them
(conversation_numbers.txt). Every answer is computed like that of a fresh server."""

from __future__ import annotations

import pytest

from cachesim.events import Gained, Lost
from cachesim.oracle.cold_run import cold
from tests.unit.engines.feature_numbers import read
from tests.unit.engines.sglang.conversations import CONVERSATIONS, FILE, line_of, run

EXPECTED = read(FILE)


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


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_a_conversation_is_computed_like_single_requests(name: str) -> None:
    srv = run(name)
    for req in srv.slots:
        answer = req.task.answer
        at = [output.pos for output in answer.outputs]
        cold_run = cold(srv.model, req.fill_ids[: max(at, default=-1) + 1], logits_at=at)
        assert [(one.pos, one.digest) for one in answer.outputs] == [(pos, int(cold_run.digests[pos])) for pos in at]
        first = req.num_input_tokens - 1
        assert at == [*range(first, first + len(at))] and len(at) >= len(answer.tokens)
