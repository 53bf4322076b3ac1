"""Operations that all parts of the server use: reports of slots that another slot's micro-batch overwrote."""

from __future__ import annotations

import pytest

from cachesim.engines.base import Answer
from tests.unit.engines.ik_llama.feature_conversations import Client, P, Q, R


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


@pytest.mark.parametrize(("n", "status", "numbers"), [
    (511, 200, {}), (512, 500, {"tokens": 512, "room": 512}), (600, 500, {"tokens": 600, "room": 512}),
])  # fmt: skip
def test_a_prompt_as_long_as_the_context_is_refused_with_both_numbers(n, status, numbers):
    client = Client("main-repaired", "A")
    client.ask(tuple(range(1000, 1000 + n)), 1)
    [answer] = client.answers
    assert (answer.status, dict(answer.error_numbers)) == (status, numbers)
    full = [event.value for event in client.log.events if getattr(event, "rule", "") == "IK-FULL"]
    assert full == ["error"] * bool(numbers)


@pytest.mark.parametrize(("spun", "queued", "stuck"), [(1, 0, False), (2, 0, True), (3, 0, True), (2, 1, False)])
def test_a_server_is_stuck_after_two_rounds_without_tokens(spun, queued, stuck):
    server = Client("main", "A").server
    server.core.spun = spun
    server.core.queue.extend([Answer(0)] * queued)
    assert server.stuck is stuck


def test_the_share_of_a_slot_that_a_prompt_keeps_is_logged_with_two_digits():
    client = Client("main", "A", cache_ram=1)
    client.ask(P, 1), client.ask((*P[:30], *Q), 1)
    shares = [(event.n_tokens, event.f_keep) for event in client.log.events if event.ev == "pc_info"]
    assert shares == [(0, 0.0), (80, 0.38)]


@pytest.mark.parametrize(("flags", "heads", "size"), [({}, 0, 37300), ({"spec_type": "mtp"}, 1, 38620)])
def test_a_head_that_makes_no_drafts_is_not_loaded(flags, heads, size):
    """It has rows in the cells and a header in a saved state: of ten tokens 10 * 128 and 40 bytes."""
    kind = Client("main", "GA+M", **flags).server.core.kind
    assert (int(kind.spec.mtp), kind.state_bytes(10, False), kind.spec.notation) == (heads, size, "GA" + "+M" * heads)
