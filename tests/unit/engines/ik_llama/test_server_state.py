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


@pytest.mark.parametrize(("version", "kept"), [
    ("main", ["", "place", "place", "place", "", ""]), ("main-repaired", ["position"] * 6)])
def test_rows_are_kept_for_micro_batches_as_long_as_a_draft_and_its_token(version, kept):
    """Drafts have up to three tokens."""
    core = Client(version, "GA+M", spec_type="mtp", spec_draft_n_max=3).server.core
    assert [core.context.rules.keeps(n) for n in range(1, 7)] == kept


@pytest.mark.parametrize(("model", "tokens"), [("GGGA", 1), ("A", 4)])
def test_a_hybrid_evaluates_several_sequences_token_by_token_if_one_has_several_tokens(model, tokens):
    rules = Client("main", model).server.core.context.rules
    assert [rules.split(seqs) for seqs in ([0, 1, 0, 1], [0, 1, 2, 3], [0, 0, 0, 0])] == [tokens, 4, 4]
    assert [rules.zeroes(pos, 1) for pos in (0, 1)] == [True, False]
