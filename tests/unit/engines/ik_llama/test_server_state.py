"""Operations that all parts of the server use: reports of slots that another slot's micro-batch overwrote."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cachesim.engines.base import Answer
from cachesim.engines.ik_llama.prefill_chunk import _compared
from cachesim.engines.ik_llama.prefix_reuse import _reused
from cachesim.engines.ik_llama.speculative_decoding import _reads_right_rows
from cachesim.events import Compared
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


def test_a_new_server_has_neither_work_nor_results():
    core = Client("main", "GA").server.core
    assert (core.image_failed, core.spun, core.dead, core.next_id, core.tick) == (False, 0, False, 1, 0)
    assert (core.system, core.later, core.overwritten, core.known_next, core.outputs) == ([], {}, {}, set(), {})
    context = core.context
    assert (context.per_step, context.image, context.mixed, context.evaluated) == (False, False, False, 0)
    assert (context.outputs, context.steps, context.matrices, context.graph) == ({}, {}, {}, None)


@pytest.mark.parametrize(("unset", "more"), [({(3, 1): 89}, True), ({(3, 1): 90}, False), ({(3, 1): 91}, False),
                                             ({(3, 0): 99}, True), ({}, True)])  # fmt: skip
def test_an_uninitialised_number_is_compared_as_the_run_assumes_it(unset, more):
    """The slot has 90 tokens; memory of which the run assumes nothing is zero."""
    client = Client("main", "GA")
    core = client.server.core
    core.rules = core.rules.changed({"unset": unset})
    facts = [SimpleNamespace(facts=SimpleNamespace(unset=(3, place))) for place in (0, 1)]
    slot = SimpleNamespace(id=0, tokens=[*range(90)], checkpoints=facts)
    assert _compared(core, slot) is more
    assert [event for event in client.log.events if isinstance(event, Compared)] == [Compared(0, (3, 1), 90)]


@pytest.mark.parametrize(("source", "system", "own", "reused"), [
    ("slot", [], None, {"slot": 5}), ("slot", [1, 2], None, {"slot": 7}), ("slot", [1, 2], [1, 2], {"slot": 5}),
    ("entry", [1, 2], None, {"entry": 5, "slot": 2}), ("entry", [1, 2], [1, 2], {"entry": 5}),
])  # fmt: skip
def test_the_system_prompt_of_an_earlier_request_counts_as_kept(source, system, own, reused):
    srv, slot = SimpleNamespace(system=system), SimpleNamespace(source=source, n_prompt=5)
    assert _reused(srv, slot, SimpleNamespace(system=own)) == reused


@pytest.mark.parametrize(("later", "right"), [([], True), ([20], True), ([25], True), ([19], False), ([5, 25], False),
                                              (None, True)])  # fmt: skip
def test_drafts_are_made_from_rows_before_which_none_was_made_too_late(later, right):
    """20 tokens are held. A request without such rows, and a server that does not look at them, draft as told."""
    core = Client("main-repaired", "A+M", spec_type="mtp", drafts_from_rows=True).server.core
    if later is not None:
        core.later[0] = later
    assert _reads_right_rows(core, core.slots[0], 20) is right
    told = Client("main-repaired", "A+M", spec_type="mtp").server.core
    told.later[0] = [5]
    assert _reads_right_rows(told, told.slots[0], 20) is True


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
