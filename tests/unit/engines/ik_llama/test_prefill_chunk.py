"""A slot's tokens before the next part of its prompt."""

from __future__ import annotations

import pytest

from tests.unit.engines.ik_llama.feature_conversations import Client, P, words


@pytest.mark.parametrize(("n_discard", "places"), [(0, [208, 224, 240, 24, 40]), (1000, [208, 224, 240, 0, 16])])
def test_a_slot_that_is_full_before_its_prompt_ends_goes_on_after_what_the_shift_counts(n_discard, places):
    """208 tokens have the text of 104 of the prompt, so that 48 of its other 80 fill the context. The shift discards
    the 232 tokens of half the prompt, or more than all: then it leaves the list as it is, and none is counted."""
    client = Client("main", "llama", context_shift=True, ctx_size=256, batch_size=16)
    client.ask(words("Ba", "n") * 104)
    before = len(client.log.events)
    client.ask((*words("Ban") * 104, *P), 3, n_discard=n_discard)
    assert [event.p0 for event in client.log.events[before:] if event.ev == "batch"] == places
    assert len(client.server.core.slots[0].tokens) == places[-1] + 16 + 2
