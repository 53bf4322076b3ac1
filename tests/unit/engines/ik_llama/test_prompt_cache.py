"""Entries of the prompt cache: those that are stored already, and those that a longer one replaces."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cachesim.engines.ik_llama.rules.prompt_cache import EntryFacts
from tests.unit.engines.ik_llama.feature_conversations import Client, P, Q, R


def test_an_entry_is_stored_once_and_replaced_by_a_longer_one():
    """Under #1877 an entry stays when it is loaded, so that the slot may hold the conversation of an entry."""
    client = Client("pr1877", "A", cache_ram=1, cache_ram_n_min=0)
    told = []
    for prompt in (P[:40], Q, P[:40], Q, P[:40] + R, Q):
        before = len(client.log.events)
        client.ask(prompt)
        told.append([(event.ev, getattr(event, "n_tokens", 0)) for event in client.log.events[before:]
                     if event.ev in ("pc_save", "pc_already", "pc_obsolete")])  # fmt: skip
    assert told == [[], [("pc_save", 40)], [("pc_save", 40)], [("pc_save", 40), ("pc_already", 0)],
                    [("pc_save", 40), ("pc_already", 0)], [("pc_save", 52), ("pc_obsolete", 40)]]
    assert [len(entry.tokens) for entry in client.server.core.cache.entries] == [40, 52]


@pytest.mark.parametrize(("model", "common", "reach"), [
    ("A", 7, 7), ("A", 20, 20), ("GA", 20, 20), ("GA", 19, 10), ("GA", 11, 10), ("GA", 10, 5), ("GA", 6, 5),
    ("GA", 5, 0), ("GA", 0, 0),
])  # fmt: skip
def test_an_entry_serves_its_whole_length_or_the_last_checkpoint_before_the_prompt_leaves_it(model, common, reach):
    """The entry has 20 tokens, and checkpoints after 5 and 10. Without states every length is served."""
    ends = [SimpleNamespace(facts=SimpleNamespace(pos_max=end - 1)) for end in (5, 10)]
    entry = SimpleNamespace(tokens=[*range(20)], checkpoints=ends)
    cache = Client("main", model, cache_ram=1).server.core.cache
    facts = EntryFacts(20, 30, common, common)
    assert cache._reach(entry, facts) == facts._replace(reach=reach)
