"""Tokens that a slot keeps: after an entry that could not be loaded, after an answer that reached its limit, and those
that it has in common with a prompt.
"""

from __future__ import annotations

import pytest

from cachesim.engines.ik_llama.prompt_cache import PromptComparison
from cachesim.engines.ik_llama.rules.common_prefix import CommonLength
from cachesim.engines.ik_llama.rules.prompt_cache import EntryFacts
from cachesim.engines.shared.vocab import PIECES
from tests.unit.engines.ik_llama.feature_conversations import Client, P, words


@pytest.mark.parametrize(("version", "held"), [("1698", 83), ("1679", 83), ("1673", 84), ("1398", 84), ("1346", 83)])
def test_a_token_that_was_not_evaluated_may_be_held(version, held):
    client = Client(version, "A")
    client.ask(P, 4)
    [answer], [slot] = client.answers, client.server.core.slots
    assert (len(slot.tokens), len(answer.slot_tokens), answer.tokens_cached) == (held, 83, held)
    assert answer.slot_tokens == tuple(slot.tokens[:83])


def test_texts_are_compared_or_token_ids():
    held, prompt = words("Ban", "x"), words("Ba", "n", "x")
    found = [PromptComparison(PIECES.__getitem__, None, prompt, text).common(held, prompt) for text in (True, False)]
    assert found == [CommonLength(2, 3), CommonLength(0, 0)]
    compare = PromptComparison(PIECES.__getitem__, None, prompt, text=False)
    assert compare.facts(prompt, 0, 0) == EntryFacts(3, 3, 3, 3)
