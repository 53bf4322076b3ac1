"""Tokens that a slot keeps: after an entry that could not be loaded, after an answer that reached its limit, and those
that it has in common with a prompt.
"""

from __future__ import annotations

import pytest

from cachesim.engines.ik_llama.prompt_cache import PromptComparison
from cachesim.engines.ik_llama.rules.common_prefix import CommonLength
from cachesim.engines.ik_llama.rules.prompt_cache import EntryFacts
from cachesim.engines.rule import Decision
from cachesim.engines.shared.vocab import PIECES
from tests.unit.engines.ik_llama.feature_conversations import Client, P, Q, words


@pytest.mark.parametrize(("version", "held", "told"), [
    ("main", 41, []), ("main-repaired", 0, [("cleared", "IK-PC-FAILED.CLEARS")]),
])  # fmt: skip
def test_an_entry_that_finds_no_cells_is_not_loaded(monkeypatch, version, held, told):
    client = Client(version, "A", cache_ram=100, cache_ram_n_min=0)
    client.ask(P, 2), client.ask(Q, 2)
    [slot], cache, changes = client.server.core.slots, client.server.core.cache, []
    assert [len(entry.tokens) for entry in cache.entries] == [81] and len(slot.tokens) == 41
    slot.checkpoints = ["one"]
    monkeypatch.setattr(cache.memory, "set", lambda seq, blob: False)
    monkeypatch.setattr(cache.points, "changed", lambda slot, cause, rule: changes.append((cause, rule)))
    cache._restore(slot, Decision(0, {"f_keep": 0.5, "f_sim": 0.25}, "IK-PC-LOAD"))
    assert (len(slot.tokens), slot.checkpoints, changes) == (held, ["one"] if held else [], told)
    assert len(cache.entries) == 1
    assert [event.ev for event in client.log.events if event.logged][-3:] == [
        "pc_load", "pc_load_failed", "pc_load_failed"]


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
