"""Notes of a rule set on checkpoints, and clients that disconnect before their request has begun."""

from __future__ import annotations

import pytest

from cachesim.engines.base import BEFORE_ITS_PROMPT
from cachesim.engines.llama_cpp.decode import cancelled_slots
from cachesim.engines.llama_cpp.rules.checkpoint_facts import MADE, USED
from cachesim.engines.llama_cpp.slot import State
from cachesim.engines.rule import Decision
from tests.unit.engines.llama_cpp.talk import Talk, word

A, B = word("A", 40), word("B", 30)


@pytest.mark.parametrize("noted", [True, False])
def test_a_note_stays_on_a_checkpoint_and_is_a_decision(noted):
    """It is asked for when a checkpoint is created, and when a prompt continues from it."""
    asked = []

    def note(ckpt, use):
        asked.append((use.what, ckpt.note))
        return Decision(len(asked) if noted else None, {}, rule="NOTE")

    talk = Talk("H", checkpoint_min_step=0, rules={"ckpt_note": note})
    talk.ask(A, 1)
    talk.ask((*A[:38], *B), 1)
    decided = [event.value for event in talk.log.events if event.ev == "decided" and event.rule == "NOTE"]
    assert decided == ([1, 2, 3] if noted else [])
    assert asked == [(MADE, None), (USED, 1 if noted else None), (MADE, None)]
    notes = [ckpt.facts.note for ckpt in talk.server.core.slots[0].checkpoints]
    assert notes == ([2, 3] if noted else [None, None])


@pytest.mark.parametrize(("state", "due"), [
    (State.STARTED, False), (State.WAITING, False), (State.PROMPT, True), (State.GENERATING, True)])
@pytest.mark.parametrize(("cancel_at", "reached"), [(39, True), (40, True), (41, False), (None, False)])
def test_a_client_leaves_when_its_request_holds_so_many_tokens(state, due, cancel_at, reached):
    """Before it begins, the slot holds the conversation of an earlier request."""
    talk = Talk("A")
    talk.ask(A, 1)
    talk.send(B, 9, cancel_at=cancel_at)
    talk.server.take_tasks()
    slot = talk.server.core.slots[0]
    assert (slot.state, len(slot.tokens)) == (State.STARTED, 40)
    slot.state = state
    assert [found.id for found in cancelled_slots(talk.server.core)] == [0] * (due and reached)


@pytest.mark.parametrize(("sibling", "evaluated"), [(None, 0), (30, 30)])
def test_a_prompt_that_must_not_begin_is_cancelled_with_its_siblings_or_at_once(sibling, evaluated):
    """As in a request with several prompts of which one fails, on the real b7376 and b9713."""
    talk = Talk("A", parallel=2, kv_unified=False, batch_size=30)
    unbegun = talk.send(A, 9, cancel_at=BEFORE_ITS_PROMPT)
    begun = talk.send(B, 9, cancel_at=sibling) if sibling else None          # its prompt fills the batch
    while not unbegun.done:
        talk.server.iterate()
    assert unbegun.cancelled and unbegun.prompt_n == 0
    assert begun is None or (begun.cancelled and begun.prompt_n == evaluated)
