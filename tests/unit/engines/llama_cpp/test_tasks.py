"""Infill and embedding tasks and their effect on the cache: read in the source only, not recorded."""

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
