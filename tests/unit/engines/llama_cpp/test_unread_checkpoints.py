"""Checkpoints whose state cannot be read: the server ends, or evaluates the whole prompt again."""

from __future__ import annotations

import pytest

from cachesim.engines.llama_cpp.memory.saved_state import StateReadError
from cachesim.engines.llama_cpp.rules.checkpoint_restore import unread_resets
from cachesim.events import Advanced
from tests.unit.engines.llama_cpp.feature_conversations import ACTIVE, SCALES, M, S, X
from tests.unit.engines.llama_cpp.talk import Talk, word

A, C, D = word("A", 40), word("C", 9), word("D", 4)


def restoring(monkeypatch, build, **rules):
    """Ask for a checkpoint that cannot be read; return the conversation, the answer, and the later events."""
    monkeypatch.setattr(Talk, "is_heard", True)
    talk = Talk("H", build, checkpoint_min_step=0, rules=rules)
    talk.ask(A + C, 2)
    assert talk.lengths() == [45]
    before = len(talk.log.events)

    def read(seq, blob):
        raise StateReadError("cannot read")

    monkeypatch.setattr(talk.server.core.memory, "state_read", read)
    return talk, talk.ask(A + C[:7] + D, 2), talk.log.events[before:]


@pytest.mark.parametrize(("build", "error"), [
    ("b11549", "failed to restore context checkpoint"), ("b10587", "checkpoint size mismatch"),
])  # fmt: skip
def test_the_process_ends_with_its_last_words(monkeypatch, build, error):
    _, answer, events = restoring(monkeypatch, build)
    assert (answer.died, answer.error, answer.error_kind) == (True, error, "checkpoint-unreadable")
    assert [event.text for event in events if event.ev == "error"][:2] == [
        "cannot read", "state_seq_set_data: error loading state: failed to restore kv cache"]


def test_a_server_that_goes_on_has_a_changed_state_and_starts_anew(monkeypatch):
    talk, answer, events = restoring(monkeypatch, "b11549", ckpt_unread=unread_resets)
    assert (answer.status, dict(answer.reused), answer.deciding) == (200, {"slot": 0}, "LC-CKPT-RESET")
    changes = [(event.cause, event.rule, event.point.n) for event in events if isinstance(event, Advanced)]
    assert changes[:2] == [("overwritten", unread_resets.rule, 50), ("erased", "LC-CKPT-ERASE.ER2", 50)]
    assert [event.ev for event in events if event.logged and event.ev.startswith(("ckpt", "full"))] == [
        "ckpt_search", "ckpt_check", "full_reprocess", "ckpt_invalidate", "ckpt_create"]
    assert talk.lengths() == [47]


def test_an_embedding_has_no_rows_of_an_adapter_before_it():
    talk = Talk("AA", "b11549", lora_scaled=SCALES, ctx_size=512, batch_size=64)
    talk.ask(S[:9] + M + X, 2, extra=ACTIVE)
    [slot] = talk.server.core.slots
    assert slot.active == 8
    assert talk.ask(S[:3], kind="embedding").status == 200 and slot.active == -1
