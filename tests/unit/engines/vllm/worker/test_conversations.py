"""Requests of whole conversations are evaluated like those of a fresh server."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cachesim.engines.vllm.server import Server
from cachesim.events import Decoded
from cachesim.oracle.cold_run import cold
from tests.unit.engines.vllm import conversations

UNCOMPUTED = {"references"}             # reference windows are not computed


def outputs(srv: Server, number: int) -> list[tuple[int, int]]:
    """Return place and digest of each output of a cold run of a request where its answer has one."""
    request = srv.slots[number]
    at = [output.pos for output in request.task.answer.outputs]
    run = cold(srv.model, request.text.full()[: max(at, default=-1) + 1], logits_at=at)
    return [(pos, int(run.digests[pos])) for pos in at]


@pytest.mark.parametrize("conversation", [one for one in conversations.CONVERSATIONS if one.__name__ not in UNCOMPUTED])
def test_a_conversation_is_computed_like_single_requests(
    conversation: Callable[[], Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    start = conversations.server
    monkeypatch.setattr(conversations, "server", lambda model="A", **flags: start(model, "provenance", **flags))
    srv = conversation()
    for number, request in enumerate(srv.slots):
        found = [(output.pos, output.digest) for output in request.task.answer.outputs]
        assert found == outputs(srv, number)
        first = request.num_prompt_tokens - 1
        assert [pos for pos, _ in found] == [*range(first, first + len(request.task.answer.tokens))]
    steps = [event.n_tokens for event in srv.log.events if isinstance(event, Decoded)]
    assert (srv.log.spent, srv.log.passes) == (sum(steps), len(steps))
    srv.inspection.check()
