"""A slot's tokens before the next part of its prompt."""

from __future__ import annotations

import pytest

from tests.unit.engines.ik_llama.feature_conversations import Client, P, R, words


@pytest.mark.parametrize(("n_keep", "n_discard", "places"), [
    (0, 0, [208, 224, 240, 24, 40]), (0, 1000, [208, 224, 240, 0, 16]), (4, 148, [208, 224, 240, 8, 24]),
])  # fmt: skip
def test_a_slot_that_is_full_before_its_prompt_ends_goes_on_after_what_the_shift_counts(n_keep, n_discard, places):
    """208 tokens have the text of 104 of the prompt, so that 48 of its other 80 fill the context. The shift discards
    the 232 tokens of half the prompt, or more than all: then it leaves the list as it is, and none is counted."""
    client = Client("main", "llama", context_shift=True, ctx_size=256, batch_size=16)
    client.ask(words("Ba", "n") * 104)
    before = len(client.log.events)
    client.ask((*words("Ban") * 104, *P), 3, n_keep=n_keep, n_discard=n_discard)
    assert [event.p0 for event in client.log.events[before:] if event.ev == "batch"] == places
    assert len(client.server.core.slots[0].tokens) == places[-1] + 16 + 2


WIPED = "MTP companion ctx out-of-sync at p0=90; wiping companion only, primary cache preserved"


@pytest.mark.parametrize(("version", "warnings", "removed", "places"), [
    ("pr1889", [WIPED], [0], [90]), ("1889-base", [], [0, 0, 64, 64], [0, 64]),
])  # fmt: skip
def test_a_draft_context_that_refuses_is_wiped_alone_or_with_the_slot(version, warnings, removed, places):
    client = Client(version, "A+M", spec_type="mtp", companion_recurrent=True)
    client.ask(P, 20, draft_else=2)
    before = len(client.log.events)
    client.ask((*P, *client.answers[0].tokens[:10], *R))
    events = client.log.events[before:]
    removals = [(event.p0, event.ok) for event in events if event.ev == "seq_rm"]
    assert removals == [(90, True), (90, False), *((place, True) for place in removed)]
    assert [event.text for event in events if event.ev == "warn"] == warnings
    assert [event.p0 for event in events if event.ev == "batch"] == places
    assert client.answers[1].cache_n == places[0]
