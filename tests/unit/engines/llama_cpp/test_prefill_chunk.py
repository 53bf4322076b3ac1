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
    assert talk.kinds(again, "trim_refused", "slot_clear") == []
