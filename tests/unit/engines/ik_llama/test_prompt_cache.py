"""Entries of the prompt cache: those that are stored already, and those that a longer one replaces."""

from __future__ import annotations

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
