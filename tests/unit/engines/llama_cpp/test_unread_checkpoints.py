"""Checkpoints whose state cannot be read: the server ends, or evaluates the whole prompt again."""

from __future__ import annotations

from tests.unit.engines.llama_cpp.feature_conversations import ACTIVE, SCALES, M, S, X
from tests.unit.engines.llama_cpp.talk import Talk, word

A, C, D = word("A", 40), word("C", 9), word("D", 4)


def test_an_embedding_has_no_rows_of_an_adapter_before_it():
    talk = Talk("AA", "b11549", lora_scaled=SCALES, ctx_size=512, batch_size=64)
    talk.ask(S[:9] + M + X, 2, extra=ACTIVE)
    [slot] = talk.server.core.slots
    assert slot.active == 8
    assert talk.ask(S[:3], kind="embedding").status == 200 and slot.active == -1
