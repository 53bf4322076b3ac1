"""Removal of the rows after a slot's tokens, before the next part of a prompt is evaluated."""

from __future__ import annotations

from tests.unit.engines.llama_cpp.talk import Talk, word

P = word("a", 40)


def test_a_slot_whose_rows_cannot_be_removed_is_cleared_and_its_prompt_evaluated():
    """The prompt is repeated, so that its last token is removed from a memory with states."""
    talk = Talk("H", "b7789", ctx_checkpoints=0)
    talk.ask(P)
    again = talk.ask(P)
    assert (again.reused, again.deciding, again.prompt_n, talk.held()) == ({}, "LC-TRIM.CLEAR", 40, [40])
    assert talk.events(again, "batch", "trim_refused", "slot_clear") == [
        {"ev": "batch", "n_tokens": 39, "p0": 39}, {"ev": "trim_refused", "p0": 39},
        {"ev": "slot_clear", "n_tokens": 39}]  # fmt: skip
    assert talk.right(again)


def test_a_slot_whose_rows_cannot_be_removed_ends_the_process():
    talk = Talk("H", "b7400", ctx_checkpoints=0)
    talk.ask(P)
    again = talk.ask(P)
    assert again.died and again.error == "failed to remove sequence 3 with p0=39, p1=-1"
    assert talk.kinds(again, "trim_refused", "slot_clear") == ["trim_refused"]


def told(talk, *kinds):
    """Return the logged events of these kinds."""
    return [event.record(True) for event in talk.log.events if event.ev in kinds]


def test_a_checkpoint_in_the_middle_of_a_prompt_is_told_with_the_last_one():
    """Batches of 16 tokens, and 30 between checkpoints. That of 48 exists once its batch is evaluated."""
    talk = Talk("H", "b9063", checkpoint_min_step=30, batch_size=16, ubatch_size=16)
    talk.ask(word("a", 100))
    assert told(talk, "ckpt_periodic") == [
        {"ev": "ckpt_periodic", "every": 30, "last": last, "n_tokens": n} for last, n in ((0, 48), (0, 64), (48, 84))]
    assert talk.lengths() == [48]


def test_checkpoints_of_other_tasks_that_are_too_close_are_erased():
    talk = Talk("H", "b10587", checkpoint_min_step=30, batch_size=16, ubatch_size=16)
    for n in (40, 60, 100):
        talk.ask(word("a", n))
    assert told(talk, "ckpt_too_close") == [
        {"ev": "ckpt_too_close", "pos_min": n - 1, "pos_max": n - 1, "n_tokens": n} for n in (36, 44)]  # fmt: skip


def test_the_start_of_the_last_message_of_the_user_is_told_with_its_byte():
    talk = Talk("H")
    talk.ask(word("a", 100), user_starts=(20, 50), byte_pos=7)
    talk.ask(word("a", 100), user_starts=(20, 50)), talk.ask(word("a", 100), byte_pos=7)
    assert told(talk, "user_pos") == [{"ev": "user_pos", "byte_pos": 7, "media": 0, "n_before_user": 50}]
