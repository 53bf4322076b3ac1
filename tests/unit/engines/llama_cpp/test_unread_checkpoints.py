"""Checkpoints whose state finds too few free cells: the server ends, or evaluates the whole prompt again."""

from __future__ import annotations

import pytest

from cachesim.engines.llama_cpp.rules.checkpoint_restore import unread_resets
from tests.unit.engines.llama_cpp.talk import Talk, word

A, ANSWER = word("A", 230), word("r", 12)


@pytest.mark.parametrize(("rules", "died", "evaluated", "held"), [
    ({}, True, 0, [212, 210, 241]), ({"ckpt_unread": unread_resets}, False, 237, [229, 229, 237]),
])  # fmt: skip
def test_a_conversation_continues_while_two_others_hold_the_cells_of_its_checkpoint(rules, died, evaluated, held):
    """A fills the shared window cache, then B and C need windows. The checkpoint of A has 210 cells."""
    talk = Talk("gemma3", "b9231", "none", rules, ctx_size=1024, ubatch_size=16, parallel=3, kv_unified=True)
    talk.send(A, 12, forced=ANSWER)
    for rounds, prompt in ((5, word("B", 200)), (1, word("C", 200))):
        for _ in range(rounds):
            talk.server.iterate()
        talk.send(prompt, 30)
    for _ in range(6):
        talk.server.iterate()
    answer = talk.send((*A, *ANSWER[:2], *word("x", 5)), 1)
    talk.work()
    assert (answer.died, answer.cache_n, answer.prompt_n, talk.held()) == (died, 0, evaluated, held)
    assert answer.error_kind == ("checkpoint-unreadable" if died else "")
