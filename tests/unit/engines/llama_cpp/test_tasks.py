"""Infill and embedding tasks and their effect on the cache: read in the source only, not recorded."""

import pytest

from cachesim.engines.llama_cpp.server import fail_full_slot
from tests.unit.engines.llama_cpp.talk import Talk, word

A, B = word("A", 40), word("B", 30)


def test_an_infill_neither_uses_the_prompt_cache_nor_creates_checkpoints():
    talk = Talk("H", slot_prompt_similarity=0.0, cache_idle_slots=False)
    talk.ask(A, 1)
    answer = talk.ask(B, 1, kind="infill")
    assert talk.kinds(answer, "pc_begin", "pc_save", "ckpt_create") == []
    assert talk.entries() == []
    assert talk.held() == [30]
    assert talk.right(answer) is True
    assert talk.kinds(talk.ask(A, 1), "pc_begin") == ["pc_begin"]


def test_idle_slots_are_saved_for_every_task():
    talk = Talk("A", parallel=2, kv_unified=True, ctx_size=512)
    talk.ask(A, 1, id_slot=0)
    answer = talk.ask(B, 1, id_slot=1, kind="infill")
    assert talk.kinds(answer, "idle_save", "pc_save") == ["idle_save", "pc_save"]


def test_an_embedding_starts_from_nothing_and_generates_nothing():
    talk = Talk("A", ubatch_size=64)
    talk.ask(A, 1)
    answer = talk.ask(A, 1, kind="embedding")
    assert (answer.cache_n, answer.prompt_n, answer.tokens, answer.tokens_cached) == (0, 40, [], 40)
    assert [said.pos for said in answer.outputs] == [39]
    assert talk.right(answer) is True


@pytest.mark.parametrize(("kind", "reused"), [("completion", 40), ("embedding", 0), ("rerank", 0)])
def test_an_embedding_counts_no_token_of_the_slot_as_reused(kind, reused):
    talk = Talk("A", ubatch_size=64)
    talk.ask(A, 1)
    talk.ask(A + B[:9], 1, kind=kind)
    assert talk.server.core.slots[0].reused == reused


def test_an_embedding_larger_than_a_ubatch_is_refused():
    talk = Talk("A", ubatch_size=32)
    answer = talk.ask(A, 1, kind="embedding")
    assert answer.status == 500
    assert "too large to process" in answer.error


def test_an_embedding_leaves_checkpoints_of_other_tokens_in_force():
    """The erasure is skipped, too, so a later prompt can meet a checkpoint of the previous text."""
    talk = Talk("H", ubatch_size=64)
    talk.ask(A, 1)
    before = talk.lengths()
    talk.ask(B, 1, kind="embedding")
    assert talk.lengths() == before != []


def test_an_embedding_is_evaluated_in_the_round_in_which_it_begins():
    talk = Talk("A", ubatch_size=64)
    answer = talk.send(A, 1, kind="embedding")
    talk.server.iterate()
    assert (answer.done, answer.prompt_n) == (True, 40)


@pytest.mark.parametrize(("second", "begins"), [(24, True), (25, False)])
def test_an_embedding_that_does_not_fit_into_the_rest_of_a_batch_waits_for_the_next(second, begins):
    talk = Talk("A", parallel=2, ctx_size=512, batch_size=64, ubatch_size=64)
    answers = [talk.send(prompt, 1, kind="embedding", id_slot=number) for number, prompt in enumerate((A, B[:second]))]
    talk.server.iterate()
    assert [answer.prompt_n for answer in answers] == [40, second * begins]
    talk.work()
    assert [(answer.done, answer.prompt_n) for answer in answers] == [(True, 40), (True, second)]


@pytest.mark.parametrize(("n", "status"), [(0, 400), (1, 200), (2, 200), (3, 400)])
def test_a_request_has_as_many_completions_as_there_are_slots(n, status):
    talk = Talk("A", parallel=2)
    answer = talk.ask(A, 1, n_cmpl=n)
    error = "" if status == 200 else f"Value must be between 1 <= value <= 2, but got {n}"
    kind = "" if status == 200 else "completions-out-of-range"
    assert (answer.status, answer.error, answer.error_kind, answer.done) == (status, error, kind, True)
    assert len(answer.children) == max(0, n - 1) * (status == 200)


@pytest.mark.parametrize(("fields", "logged"), [
    ({"byte_pos": 7, "user_starts": (3, 9)}, [(7, 0, 9)]), ({"byte_pos": 0, "user_starts": (3,)}, [(0, 0, 3)]),
    ({"byte_pos": 7}, []), ({"user_starts": (3,)}, []),
])  # fmt: skip
def test_the_place_of_the_last_user_message_is_logged(fields, logged):
    talk = Talk("A")
    talk.ask(A, 1, **fields)
    found = [event for event in talk.log.events if event.ev == "user_pos"]
    assert [(event.byte_pos, event.media, event.n_before_user) for event in found] == logged


def test_a_full_slot_fails_where_contexts_are_not_shifted():
    talk = Talk("A", ctx_size=256)
    talk.send(A, 9)
    talk.server.iterate()
    core = talk.server.core
    slot = core.slots[0]
    for n, fails in ((254, False), (255, True)):
        slot.tokens = [*word("A", n)]
        fail_full_slot(core, slot)
        assert (slot.task is None) is fails
    assert (talk.answers[0].status, talk.answers[0].error) == (500, "context shift is disabled")
