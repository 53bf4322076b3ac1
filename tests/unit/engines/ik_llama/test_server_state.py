"""Operations that all parts of the server use: reports of slots that another slot's micro-batch overwrote."""

from __future__ import annotations

import pytest

from tests.unit.engines.ik_llama.feature_conversations import Client, P, R


@pytest.mark.parametrize(("version", "reported"), [
    ("1889-base", [(0, "overwritten", "IK-GRAPH.SHAPE"), (1, "evaluated", "IK-CKPT-CREATE.TOKENS")]),
    ("main", [(1, "evaluated", "IK-CKPT-CREATE.TOKENS")]),
])  # fmt: skip
def test_a_graph_that_is_used_again_overwrites_the_state_of_an_idle_slot(version, reported):
    """The prompt of a token has a micro-batch of the shape of the last one, which was another slot's."""
    client = Client(version, "GA", parallel=2, heard=True)
    client.ask(P[:20], 3, id_slot=0)
    before = len(client.log.events)
    client.ask(R[:1], 1, id_slot=1)
    events = [event for event in client.log.events[before:] if event.ev == "advanced"]
    assert [(event.slot, event.cause, event.rule) for event in events] == reported
    assert client.server.core.overwritten == {}
